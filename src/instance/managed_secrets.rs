//! The Secrets that the operator writes for an Instance. It creates a Secret only if none of that name exists, and changes one
//! only if it belongs to the Instance and is still in the version that was read.
//!
//! The keys of a generated login Secret, which make sure that no crash loses the password that the server has:
//!
//! | key | |
//! |---|---|
//! | `password` | the password to log in with. If a user puts another one there, the operator sets it on the server. |
//! | `current` | the password that the server is known to have: the same, except while an edit is being carried out |
//! | `pending` | the password being set on the server. It becomes `password` and `current` once the service reports it as set |
//! | `previous` | the former value of `current` |
//! | `username` | the login's account, once the server has reported it |

pub(super) mod connection;
pub(super) mod ownership;
mod writing;

use crate::api::names::{ROTATED_AT, SETTLED_FROM};
use crate::api::{PASSWORD, SecretKeyRef};
use crate::cloud::{ServerLogin, password};
use crate::instance::connection::told_account;
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::login::LoginFact;
use crate::instance::memory::kinds::LoginMetadata;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::SecretStep;
use crate::runtime::kubernetes::call;
use crate::runtime::watch::ObjectKey;
use crate::session;
use crate::session::{Content, SecretProblem};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use ownership::{Managed, Ownership};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Mutex;
use writing::{Change, NotWritten, create, patch};

const CURRENT: &str = "current";
const PENDING: &str = "pending";
const PREVIOUS: &str = "previous";
const USERNAME: &str = "username";

/// The key of the password that the server should have: the pending one, unless a user has edited `password` since.
pub(super) fn wanted_key(content: &Content) -> &'static str {
    let is_edited = content.text(PASSWORD) != content.text(CURRENT);
    match content.text(PENDING) {
        Some(_) if !is_edited => PENDING,
        _ => PASSWORD,
    }
}

/// Whether no password is pending, neither to be set nor to be marked as set.
pub(super) fn is_settled(content: &Content) -> bool {
    content.text(PENDING).is_none() && content.text(PASSWORD) == content.text(CURRENT)
}

/// The version (UID and resourceVersion) that a Secret was settled from.
pub(super) fn settled_from(content: &Content) -> Option<String> {
    let from = content.annotations.get(SETTLED_FROM)?;
    Some(format!("{}/{from}", content.uid))
}

/// Reads the metadata of the login Secret and remembers it. Returns the version with that metadata.
pub(super) async fn metadata(
    context: &Context,
    facts: &Facts,
    memory: &mut Memory,
) -> Option<String> {
    let (managed, reference) = Managed::login(facts)?;
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let read = call("read metadata of Secret", api.get_metadata(&managed.name)).await;
    let meta = read.ok()?.metadata;
    let version = super::login::named_version(
        &reference,
        &format!("{}/{}", meta.uid?, meta.resource_version?),
    );
    let (labels, annotations) = (
        meta.labels.unwrap_or_default(),
        meta.annotations.unwrap_or_default(),
    );
    let stamp = annotations.get(ROTATED_AT);
    let template = managed.template;
    memory.secrets.login = Some(Box::new(LoginMetadata {
        version: version.clone(),
        rotated_at: stamp.and_then(|text| text.parse().ok()),
        template: template
            .filter(|template| template.is_met(&labels, &annotations))
            .cloned(),
    }));
    Some(version)
}

/// Writes the Secret that a plan requests.
pub(super) async fn write(
    context: &Context,
    observed: &Observation,
    step: &SecretStep,
    memory: &Mutex<Memory>,
) -> Outcome {
    if matches!(step, SecretStep::Connect) {
        return connection::write(context, observed, memory).await;
    }
    let Some((managed, reference)) = Managed::login(&observed.facts) else {
        return Outcome::Stale;
    };
    let login = LoginSecret {
        context,
        observed,
        managed: &managed,
        reference: &reference,
    };
    let written = match step {
        SecretStep::Connect => return Outcome::Stale,
        SecretStep::Generate => login.generate().await,
        SecretStep::Renew { version } => login.renew(version).await,
        SecretStep::Settle { version } => login.settle(version).await,
        SecretStep::Keep { version } => login.keep(version, memory).await,
    };
    match written {
        Ok(()) => {
            // The plan that waits for this write reads the server's detail again.
            open(memory).observations.look.at = None;
            Outcome::Written
        }
        Err(why) => why.outcome(&managed.name),
    }
}

/// The Secret with the generated login.
struct LoginSecret<'a> {
    context: &'a Context,
    observed: &'a Observation,
    managed: &'a Managed<'a>,
    reference: &'a SecretKeyRef,
}

/// A first password. A new server is bought with it. An existing server keeps another password until this one is set, which
/// [`settle`] records.
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

impl LoginSecret<'_> {
    /// Creates the Secret with a first password; fails if the Secret exists.
    async fn generate(&self) -> Result<(), NotWritten> {
        let facts = &self.observed.facts;
        let mut change = first(&password::generate(), facts.id().is_some());
        name_account(&mut change, facts);
        change.annotations.push((ROTATED_AT, self.now()));
        create(self.context, facts, self.managed, &change).await
    }

    /// Adds another password next to the one in force, or keeps one that is pending, since the server may have it already. Either
    /// way the Secret gets a new version, which triggers setting the password.
    async fn renew(&self, version: &str) -> Result<(), NotWritten> {
        let content = self.read(version).await?;
        let mut change = Change::default();
        if is_settled(&content) {
            let fresh = password::generate();
            change.put(PENDING, fresh.expose_secret());
        }
        change.annotations.push((ROTATED_AT, self.now()));
        self.patch(&content, &change).await
    }

    /// The password of this version is in force: from now on it is the one to log in with.
    async fn settle(&self, version: &str) -> Result<(), NotWritten> {
        let content = self.read(version).await?;
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
        name_account(&mut change, &self.observed.facts);
        change.annotations.push((ROTATED_AT, self.now()));
        let from = content.resource_version.clone();
        change.annotations.push((SETTLED_FROM, from));
        self.patch(&content, &change).await
    }

    /// Restores owner, labels and annotations. The values stay, so a password that was in force in the former version is in force
    /// in the new one.
    async fn keep(&self, version: &str, memory: &Mutex<Memory>) -> Result<(), NotWritten> {
        let content = self.read(version).await?;
        let mut change = Change::default();
        if is_settled(&content) {
            let from = content.resource_version.clone();
            change.annotations.push((SETTLED_FROM, from));
        }
        self.patch(&content, &change).await?;
        let key = ObjectKey::new(&self.observed.facts.key.namespace, &self.managed.name);
        let written = self.context.secrets.of(&key);
        // The operator does not fight a policy that changes its write: it checks again only after another writer's version.
        if let (Some(known), Some(written)) = (&mut open(memory).secrets.login, written) {
            known.version = super::login::named_version(self.reference, &written);
            known.template = self.managed.template.cloned();
        }
        Ok(())
    }

    fn now(&self) -> String {
        self.observed.wall_clock.to_string()
    }

    async fn patch(&self, content: &Content, change: &Change) -> Result<(), NotWritten> {
        let facts = &self.observed.facts;
        patch(self.context, facts, self.managed, content, change).await
    }

    /// The current Secret, if it belongs to the Instance and has the version that the plan is based on.
    async fn read(&self, version: &str) -> Result<Content, NotWritten> {
        let facts = &self.observed.facts;
        let namespace = &facts.key.namespace;
        match session::read(&self.context.client, namespace, &self.managed.name).await {
            Ok(content)
                if matches!(
                    self.managed.ownership(&content, facts),
                    Ownership::Ours | Ownership::Unowned
                ) && super::login::named_version(self.reference, &content.version())
                    == version =>
            {
                Ok(content)
            }
            Err(SecretProblem::Unread { source, .. }) => Err(NotWritten::Failed(source)),
            Ok(_) | Err(_) => Err(NotWritten::Stale),
        }
    }
}

fn name_account(change: &mut Change, facts: &Facts) {
    if let Some(name) = told_account(&facts.status.detail) {
        change.put(USERNAME, name);
    }
}

/// The password that this reconcile read, if it is from this version and not pending.
fn password_of<'a>(observed: &'a Observation, version: &str) -> Option<&'a SecretString> {
    let LoginFact::Ready(credentials) = &observed.login else {
        return None;
    };
    let mut generated = credentials.generated.iter();
    let is_it = credentials.secret.as_deref() == Some(version);
    match &credentials.login {
        ServerLogin::Password(password) if is_it && generated.all(|it| it.is_settled) => {
            Some(password)
        }
        ServerLogin::Password(_) | ServerLogin::Key { .. } => None,
    }
}

#[cfg(test)]
mod tests;
