//! The Secrets that the operator writes for an Instance: they are made only where there is none of that name, and changed
//! only where they belong to the Instance and stand as they were read.
//!
//! What a generated login holds, so that no crash loses the password that the server has:
//!
//! | key | |
//! |---|---|
//! | `password` | what to log in with. Whoever puts another one there has it set on the server. |
//! | `current` | what the server is known to have: the same, but for the time that an edit needs |
//! | `pending` | what the operator is setting on the server: it becomes `password` and `current` when the service has said that it is done |
//! | `previous` | what was `current` before |
//! | `username` | the login's account, once the server has told it |

pub(super) mod connection;

use crate::api::conditions::Reason;
use crate::api::names::{BINDING, MANAGER, ROTATED_AT, SECRET_ROLE, SETTLED_FROM};
use crate::api::{Instance, PASSWORD, SecretKeyRef};
use crate::cloud::{Login, password};
use crate::instance::connection::told_account;
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::login::LoginFact;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::SecretStep;
use crate::runtime::KubeError;
use crate::runtime::kubernetes::{call, patch_params};
use crate::runtime::watch::ObjectKey;
use crate::session;
use crate::session::{Content, SecretProblem};
use data_encoding::BASE64;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PostParams};
use kube::{Api, ResourceExt};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use std::sync::Mutex;
use zeroize::Zeroize;

/// What a Secret of ours is for.
pub(super) const LOGIN: &str = "login";
/// What a Secret of ours is for.
pub(super) const CONNECTION: &str = "connection";
const CURRENT: &str = "current";
const PENDING: &str = "pending";
const PREVIOUS: &str = "previous";
const USERNAME: &str = "username";

/// Whether a Secret belongs to the object with this UID, and is not for something else.
pub(super) fn is_ours(content: &Content, uid: &str, role: &str) -> bool {
    let role_there = content.labels.get(SECRET_ROLE);
    let owner = content.controller.as_ref();
    owner.is_some_and(|owner| owner.uid == uid) && role_there.is_none_or(|there| there == role)
}

/// Whether a Secret was left behind by a former Instance of this name, with which it goes.
pub(super) fn is_of_former(content: &Content, name: &str, uid: &str) -> bool {
    let owner = content.controller.as_ref();
    owner.is_some_and(|owner| owner.kind == "Instance" && owner.name == name && owner.uid != uid)
}

/// What stands in the way of a Secret that is somebody else's.
pub(super) fn not_ours(name: &str) -> String {
    format!(
        "Secret {name} exists and does not belong to this Instance, so it is neither used nor changed"
    )
}

/// The key of the password that the server is to have: the one that waits, unless somebody has edited the other since.
pub(super) fn wanted_key(content: &Content) -> &'static str {
    let is_edited = content.text(PASSWORD) != content.text(CURRENT);
    match content.text(PENDING) {
        Some(_) if !is_edited => PENDING,
        _ => PASSWORD,
    }
}

/// Whether nothing waits to be set, or to be told as set.
pub(super) fn is_settled(content: &Content) -> bool {
    content.text(PENDING).is_none() && content.text(PASSWORD) == content.text(CURRENT)
}

/// The version (UID and resourceVersion) that a Secret was settled from.
pub(super) fn settled_from(content: &Content) -> Option<String> {
    let from = content.annotations.get(SETTLED_FROM)?;
    Some(format!("{}/{from}", content.uid))
}

/// Reads since when the password of the login Secret is in force, from its metadata alone, and remembers it. Gives the
/// version that says so.
pub(super) async fn since_when(
    context: &Context,
    facts: &Facts,
    memory: &mut Memory,
) -> Option<String> {
    let reference = facts.login_secret()?;
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let read = call("read metadata of Secret", api.get_metadata(&reference.name)).await;
    let meta = read.ok()?.metadata;
    let version = super::login::named_version(
        &reference,
        &format!("{}/{}", meta.uid?, meta.resource_version?),
    );
    let stamp = meta.annotations.unwrap_or_default().remove(ROTATED_AT);
    let stamp = stamp.and_then(|text| text.parse().ok());
    memory.secrets.rotation = Some(Box::new((version.clone(), stamp)));
    Some(version)
}

/// Writes the Secret that a plan asks for.
pub(super) async fn write(
    context: &Context,
    observed: &Observation,
    step: &SecretStep,
    memory: &Mutex<Memory>,
) -> Outcome {
    let written = match step {
        SecretStep::Connect => return connection::write(context, observed, memory).await,
        SecretStep::Generate => generate(context, observed).await,
        SecretStep::Renew { version } => renew(context, observed, version).await,
        SecretStep::Settle { version } => settle(context, observed, version).await,
    };
    match written {
        Ok(()) => {
            // Whoever waits for this to go on looks at the server once more.
            open(memory).observations.observed_at = None;
            Outcome::Written
        }
        Err(NotWritten::Stale) => Outcome::Stale,
        Err(NotWritten::Unsafe(words)) => Outcome::stalled(Reason::SecretNotWritable, words),
        Err(NotWritten::Failed(error)) if error.category() == "forbidden" => {
            Outcome::stalled(Reason::SecretNotWritable, refused(&error))
        }
        Err(NotWritten::Failed(error)) => Outcome::not_written(&error),
    }
}

/// What to do where the operator may not write Secrets.
fn refused(error: &KubeError) -> String {
    format!(
        "{error}: apply deploy/secret-writer, which allows it (for one namespace: deploy/one-namespace/secret-writer, a line of \
         deploy/namespaced/kustomization.yaml)"
    )
}

/// Why a Secret was not written.
#[derive(Debug)]
enum NotWritten {
    /// It is not what the plan was made from.
    Stale,
    /// The operator may write more Secrets than it should, so it makes none: why, and what to do.
    Unsafe(String),
    /// The apiserver did not do it, or nobody knows.
    Failed(KubeError),
}

/// Values and annotations of one write.
#[derive(Debug, Default)]
struct Change {
    values: Vec<(&'static str, SecretString)>,
    removed: Vec<&'static str>,
    annotations: Vec<(&'static str, String)>,
}

impl Change {
    fn put(&mut self, key: &'static str, value: &str) {
        self.values.push((key, SecretString::from(value)));
    }

    /// The field `data` of a Secret, or of a merge patch of one.
    fn data(&self) -> Map<String, Value> {
        let values = self.values.iter().map(|(key, value)| {
            let text = BASE64.encode(value.expose_secret().as_bytes());
            ((*key).to_owned(), Value::from(text))
        });
        let removed = self
            .removed
            .iter()
            .map(|key| ((*key).to_owned(), Value::Null));
        values.chain(removed).collect()
    }

    fn annotations(&self) -> Map<String, Value> {
        let all = self.annotations.iter();
        all.map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str())))
            .collect()
    }

    /// An error whose words do not hold what was to be written, should an admission webhook quote it.
    fn without_values(&self, error: KubeError) -> KubeError {
        error.hiding(self.values.iter().map(|(_, value)| value.expose_secret()))
    }
}

/// A first password. A server is bought with it; one that is there already has another one until this is set, which
/// [`settle`] tells.
fn first(fresh: &SecretString, has_server: bool) -> Change {
    let mut change = Change::default();
    let keys: &[_] = match has_server {
        true => &[PENDING],
        false => &[PASSWORD, CURRENT],
    };
    for &key in keys {
        change.put(key, fresh.expose_secret());
    }
    change
}

/// A first password, in a Secret that must not exist.
async fn generate(context: &Context, observed: &Observation) -> Result<(), NotWritten> {
    let facts = &observed.facts;
    let reference = facts.login_secret().ok_or(NotWritten::Stale)?;
    let mut change = first(&password::generate(), facts.id().is_some());
    name_account(&mut change, facts);
    change
        .annotations
        .push((ROTATED_AT, observed.wall_clock.to_string()));
    create(context, facts, &reference.name, LOGIN, &change).await
}

/// Another password beside the one in force. One that waits already is kept: the server may have it. Either way the Secret
/// has another version then, which asks for it to be set.
async fn renew(context: &Context, observed: &Observation, version: &str) -> Result<(), NotWritten> {
    let (content, reference) = stands(context, observed, version).await?;
    let mut change = Change::default();
    if is_settled(&content) {
        let fresh = password::generate();
        change.put(PENDING, fresh.expose_secret());
    }
    change
        .annotations
        .push((ROTATED_AT, observed.wall_clock.to_string()));
    patch(context, &observed.facts, &reference.name, &content, &change).await
}

/// The password of this version is in force: it is the one to log in with from now on.
async fn settle(
    context: &Context,
    observed: &Observation,
    version: &str,
) -> Result<(), NotWritten> {
    let (content, reference) = stands(context, observed, version).await?;
    let mut change = Change::default();
    let in_force = content
        .text(wanted_key(&content))
        .ok_or(NotWritten::Stale)?;
    change.put(PASSWORD, in_force);
    change.put(CURRENT, in_force);
    if let Some(former) = content.text(CURRENT).filter(|former| *former != in_force) {
        change.put(PREVIOUS, former);
    }
    change.removed.push(PENDING);
    name_account(&mut change, &observed.facts);
    change
        .annotations
        .push((ROTATED_AT, observed.wall_clock.to_string()));
    let from = content.resource_version.clone();
    change.annotations.push((SETTLED_FROM, from));
    patch(context, &observed.facts, &reference.name, &content, &change).await
}

fn name_account(change: &mut Change, facts: &Facts) {
    if let Some(name) = told_account(&facts.status.detail) {
        change.put(USERNAME, name);
    }
}

/// The login Secret as it is now, if it is ours and in the version that a plan was made from.
async fn stands(
    context: &Context,
    observed: &Observation,
    version: &str,
) -> Result<(Content, SecretKeyRef), NotWritten> {
    let facts = &observed.facts;
    let reference = facts.login_secret().ok_or(NotWritten::Stale)?;
    match session::read(&context.client, &facts.key.namespace, &reference.name).await {
        Ok(content)
            if is_ours(&content, &facts.uid, LOGIN)
                && super::login::named_version(&reference, &content.version()) == version =>
        {
            Ok((content, reference))
        }
        Err(SecretProblem::Unread { source, .. }) => Err(NotWritten::Failed(source)),
        Ok(_) | Err(_) => Err(NotWritten::Stale),
    }
}

/// Whether the Instance is there and stays, with the record that the plan was made from. A Secret of one that is gone is removed
/// at once by Kubernetes, and would be made again and again until a late watch tells of it; a server that a late watch does not
/// show yet has another password than the first one of a new Secret.
async fn stays(context: &Context, facts: &Facts) -> Result<(), NotWritten> {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    match call("read the Instance", api.get_metadata(&facts.key.name)).await {
        Ok(object)
            if object.metadata.uid.as_deref() == Some(facts.uid.as_str())
                && object.metadata.deletion_timestamp.is_none()
                && object.annotations().get(BINDING) == facts.annotation.as_ref() =>
        {
            Ok(())
        }
        Ok(_) => Err(NotWritten::Stale),
        Err(error) if error.is_not_found() => Err(NotWritten::Stale),
        Err(error) => Err(NotWritten::Failed(error)),
    }
}

/// Makes a Secret that belongs to the Instance; one that exists is left alone.
async fn create(
    context: &Context,
    facts: &Facts,
    name: &str,
    role: &str,
    change: &Change,
) -> Result<(), NotWritten> {
    // Rights without the policy that confines them are not made use of: nobody is to get used to them.
    if let Some(words) = context.rights.unsafe_words() {
        return Err(NotWritten::Unsafe(format!("no Secret is made: {words}")));
    }
    stays(context, facts).await?;
    let owner = &facts.reference;
    // A key that is to be removed would be made, with nothing under it.
    let mut data = change.data();
    data.retain(|_, value| !value.is_null());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": MANAGER, SECRET_ROLE: role},
            "annotations": change.annotations(),
            "ownerReferences": [{
                "apiVersion": owner.api_version, "kind": owner.kind, "name": facts.key.name, "uid": facts.uid,
                "controller": true,
            }],
        },
        "data": data,
    });
    let what = "create a Secret";
    let secret: Secret = serde_json::from_value(secret).map_err(|source| {
        NotWritten::Failed(KubeError::Unwritable {
            operation: what,
            source,
        })
    })?;
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let written = call(what, api.create(&params, &secret)).await;
    wipe(secret);
    let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
    context.metrics.kube_write("secret", result);
    match written {
        Ok(mut made) => {
            let meta = std::mem::take(&mut made.metadata);
            wipe(made);
            // A login is waited for: the watch brings it, and with it the next reconcile.
            if role != LOGIN {
                note(context, facts, name, meta.uid, meta.resource_version);
            }
            Ok(())
        }
        // It is there, by an older write of ours whose answer was lost, or by somebody else: to be looked at.
        Err(error) if error.is_conflict() => Err(NotWritten::Stale),
        Err(error) => Err(NotWritten::Failed(change.without_values(error))),
    }
}

/// Changes a Secret of ours, in the very version that was read.
async fn patch(
    context: &Context,
    facts: &Facts,
    name: &str,
    content: &Content,
    change: &Change,
) -> Result<(), NotWritten> {
    let patch = json!({
        "metadata": {
            "uid": content.uid,
            "resourceVersion": content.resource_version,
            "annotations": change.annotations(),
        },
        "data": change.data(),
    });
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let (params, patch) = (patch_params(), Patch::Merge(&patch));
    // Its metadata is the whole answer: the values do not come back.
    let written = api.patch_metadata(name, &params, &patch);
    let written = call("change a Secret", written).await;
    let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
    context.metrics.kube_write("secret", result);
    match written {
        Ok(object) => {
            let meta = object.metadata;
            note(context, facts, name, meta.uid, meta.resource_version);
            Ok(())
        }
        Err(error) if error.is_conflict() || error.is_not_found() => Err(NotWritten::Stale),
        Err(error) => Err(NotWritten::Failed(change.without_values(error))),
    }
}

/// Takes in the version that a write of ours was answered with.
fn note(
    context: &Context,
    facts: &Facts,
    name: &str,
    uid: Option<String>,
    version: Option<String>,
) {
    let secret = ObjectKey::new(&facts.key.namespace, name);
    if let (Some(uid), Some(version)) = (uid, version) {
        context.secrets.wrote(secret, &uid, &version);
    }
}

fn wipe(mut secret: Secret) {
    for (_, mut value) in secret.data.take().unwrap_or_default() {
        value.0.zeroize();
    }
}

/// The password that was read in this turn, if it is the one of this version and does not wait to be set.
fn password_of<'a>(observed: &'a Observation, version: &str) -> Option<&'a SecretString> {
    let LoginFact::Ready(credentials) = &observed.login else {
        return None;
    };
    let mut generated = credentials.generated.iter();
    let is_it = credentials.secret.as_deref() == Some(version);
    match &credentials.login {
        Login::Password(password) if is_it && generated.all(|it| it.is_settled) => Some(password),
        Login::Password(_) | Login::Key { .. } => None,
    }
}

#[cfg(test)]
mod tests;
