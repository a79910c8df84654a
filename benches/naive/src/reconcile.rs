//! The reconcile of one Instance: buys a server, follows the task, reads the server, begins an operation for a difference,
//! releases the server.

use crate::service::{Service, ServiceError, Task};
use cloud_server_operator::api::names::{FINALIZER, server_name};
use cloud_server_operator::api::{
    Account, Addresses, Applied, Before, Instance, InstanceStatus, Marker, Operation, PowerState,
    SecretKeyRef, Verb,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::{Client, Resource, ResourceExt};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Time between two polls of a task.
const POLL: Duration = Duration::from_secs(2);
/// Time between two reads of an idle server, which may have been changed externally.
const RESYNC: Duration = Duration::from_secs(30);
/// Wait after an error.
const RETRY: Duration = Duration::from_secs(5);
/// How long an Account and its token are cached, so that a read of a server costs the apiserver nothing.
const ACCOUNT_AGE: Duration = Duration::from_secs(60);

/// State that all reconciles share.
pub struct Context {
    client: Client,
    http: reqwest::Client,
    services: Mutex<HashMap<(String, String), (Instant, Service)>>,
}

/// The reason why a reconcile did not complete.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// A call to the apiserver failed.
    #[error("a call to the apiserver failed")]
    Kubernetes(#[from] kube::Error),
    /// A call to the service failed.
    #[error("a call to the service failed")]
    Service(#[from] ServiceError),
    /// The finalizer was not added or removed.
    #[error("the finalizer could not be changed")]
    Finalizer(#[source] Box<finalizer::Error<ReconcileError>>),
    /// A Secret lacks the required key.
    #[error("Secret {name} has no text in key {key}")]
    Secret { name: String, key: String },
    /// A feature that this controller does not support.
    #[error("{0} is needed: selectors and generated passwords are not supported")]
    Unsupported(&'static str),
    /// A status without a JSON form.
    #[error("the status has no JSON form")]
    Unwritable(#[from] serde_json::Error),
}

type Result<T> = std::result::Result<T, ReconcileError>;

/// Takes one step for an Instance.
pub async fn reconcile(instance: Arc<Instance>, context: Arc<Context>) -> Result<Action> {
    let namespace = instance.namespace().unwrap_or_default();
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &namespace);
    let is_deleted = instance.meta().deletion_timestamp.is_some();
    if is_deleted && !is_released(&instance, &context, &api).await? {
        return Ok(Action::requeue(POLL));
    }
    let done = finalizer(&api, FINALIZER, instance, async |event| match event {
        Event::Apply(instance) => apply(&instance, &context, &api).await,
        Event::Cleanup(_) => Ok(Action::await_change()),
    });
    done.await.map_err(|error| match error {
        finalizer::Error::ApplyFailed(error) | finalizer::Error::CleanupFailed(error) => error,
        error => ReconcileError::Finalizer(Box::new(error)),
    })
}

/// Retries after every error.
pub fn retry(_: Arc<Instance>, _: &ReconcileError, _: Arc<Context>) -> Action {
    Action::requeue(RETRY)
}

async fn apply(instance: &Instance, context: &Context, api: &Api<Instance>) -> Result<Action> {
    let mut status = instance.status.clone().unwrap_or_default();
    let Some(id) = status.id.clone() else {
        return buy(&instance.name_any(), context, api).await;
    };
    let service = context.service(instance, ACCOUNT_AGE).await?;
    if is_running(&service, &status).await? {
        return Ok(Action::requeue(POLL));
    }
    status.operation = None;
    let Some(detail) = service.detail(&id).await? else {
        set_ready(&mut status, instance, false, "ServerMissing");
        report(instance, status, api).await?;
        return Ok(Action::requeue(RESYNC));
    };
    let text = |key: &str| detail.get(key).and_then(Value::as_str).unwrap_or_default();
    if !["", "NONE"].contains(&text("ecsPendingStatus")) {
        return Ok(Action::requeue(POLL));
    }
    let spec = &instance.spec;
    let image = given(spec.image.id.as_ref(), "spec.image.id")?;
    let next = match (spec.power_state, text("ecsStatus")) {
        _ if text("imageResourceUUID") != image => Some(Verb::Reinstall),
        (PowerState::Running, "STOPPED") => Some(Verb::Start),
        (PowerState::Stopped, "STARTED") => Some(Verb::Stop),
        _ => None,
    };
    if let Some(verb) = next {
        let mut body = json!({ "ecsResourceUUID": id });
        let (path, reason) = match verb {
            Verb::Reinstall => {
                body["imageResourceUUID"] = json!(image);
                body["regionCode"] = json!(spec.region);
                context
                    .log_in(instance, &mut body, "sshKeyResourceUUID")
                    .await?;
                ("/instance/reinstallSystem", "Reinstalling")
            }
            Verb::Start => ("/instance/start", "Starting"),
            _ => ("/instance/stop", "Stopping"),
        };
        let task = service.begin(path, &body).await?;
        begin(&mut status, instance, verb, task, reason);
        report(instance, status, api).await?;
        return Ok(Action::requeue(POLL));
    }
    let (is_ready, reason) = match (spec.power_state, text("ecsStatus")) {
        (PowerState::Running, "STARTED") | (PowerState::Stopped, "STOPPED") => (true, "Available"),
        (PowerState::Unmanaged, _) => (true, "Available"),
        _ => (false, "PowerStateDiffers"),
    };
    let address = |key| Some(text(key).to_owned()).filter(|address| !address.is_empty());
    status.addresses = Some(Addresses {
        public: address("publicIpAddress"),
        internal: address("internalIpAddress"),
    });
    status.detail = detail;
    set_ready(&mut status, instance, is_ready, reason);
    report(instance, status, api).await?;
    Ok(Action::requeue(RESYNC))
}

async fn buy(name: &str, context: &Context, api: &Api<Instance>) -> Result<Action> {
    // The cache may be older than our own last write. If it lacks the identifier, a second server would be bought.
    let instance = &api.get(name).await?;
    let mut status = instance.status.clone().unwrap_or_default();
    if status.id.is_some() || instance.meta().deletion_timestamp.is_some() {
        return Ok(Action::requeue(POLL));
    }
    let spec = &instance.spec;
    let package = given(spec.package.code.as_ref(), "spec.package.code")?;
    let marker = Marker::of_uid(&instance.uid().unwrap_or_default());
    let mut body = json!({
        "packageCode": package,
        "regionCode": spec.region,
        "zoneCode": spec.zone,
        "instanceName": server_name(name, &marker),
        "imageResourceUUID": given(spec.image.id.as_ref(), "spec.image.id")?,
        "firewallUUID": given(spec.firewall.as_ref().and_then(|named| named.id.as_ref()), "spec.firewall.id")?,
    });
    context.log_in(instance, &mut body, "sshKeyUUID").await?;
    let service = context.service(instance, Duration::ZERO).await?;
    let (id, task) = service.create(body).await?;
    status.id = Some(id);
    status.package = Some(package.to_owned());
    begin(&mut status, instance, Verb::Create, task, "Creating");
    report(instance, status, api).await?;
    Ok(Action::requeue(POLL))
}

/// Continues the release of a deleted Instance's server; returns whether it is gone.
async fn is_released(seen: &Instance, context: &Context, api: &Api<Instance>) -> Result<bool> {
    let mut fresh = None;
    if seen
        .status
        .as_ref()
        .is_none_or(|status| status.id.is_none())
    {
        // As in `buy`: if the cache lacks the identifier, the server would be left behind.
        fresh = api.get_opt(&seen.name_any()).await?;
    }
    let instance = fresh.as_ref().unwrap_or(seen);
    let mut status = instance.status.clone().unwrap_or_default();
    let Some(id) = status.id.clone() else {
        return Ok(true);
    };
    let service = context.service(instance, ACCOUNT_AGE).await?;
    if is_running(&service, &status).await? {
        return Ok(false);
    }
    if service.detail(&id).await?.is_none() {
        return Ok(true);
    }
    let body = json!({ "ecsResourceUUID": id });
    let task = service.begin("/instance/release", &body).await?;
    begin(&mut status, instance, Verb::Release, task, "Releasing");
    report(instance, status, api).await?;
    Ok(false)
}

/// Whether the last operation is still in progress. After a failure, the next reconcile that finds a difference begins another
/// one.
async fn is_running(service: &Service, status: &InstanceStatus) -> Result<bool> {
    let Some(operation) = &status.operation else {
        return Ok(false);
    };
    let Some(task) = &operation.task_id else {
        return Ok(false);
    };
    let verb = operation.verb;
    match service.task(task).await? {
        Task::Running => return Ok(true),
        Task::Succeeded => {}
        Task::Failed(reason) => tracing::warn!(task, %verb, reason, "an operation failed"),
    }
    Ok(false)
}

impl Context {
    /// A context with empty caches.
    pub fn new(client: Client, http: reqwest::Client) -> Self {
        Self {
            client,
            http,
            services: Mutex::default(),
        }
    }

    /// The service of an Instance's Account, read at most this long ago.
    async fn service(&self, instance: &Instance, age: Duration) -> Result<Service> {
        let namespace = instance.namespace().unwrap_or_default();
        let key = (namespace, instance.spec.account_ref.name.clone());
        let services = || self.services.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, service)) = services().get(&key)
            && read.elapsed() < age
        {
            return Ok(service.clone());
        }
        let accounts: Api<Account> = Api::namespaced(self.client.clone(), &key.0);
        let account = accounts.get(&key.1).await?.spec;
        let token = self.secret(&key.0, &account.token_secret_ref).await?;
        let service = Service::new(self.http.clone(), &account.endpoint, token);
        services().insert(key, (Instant::now(), service.clone()));
        Ok(service)
    }

    /// Writes the login into a request. Create and reinstall use different names for the key.
    async fn log_in(&self, instance: &Instance, body: &mut Value, key_field: &str) -> Result<()> {
        let login = &instance.spec.login;
        body[key_field] = Value::Null;
        if let Some(reference) = &login.password_secret_ref {
            let namespace = instance.namespace().unwrap_or_default();
            body["password"] = self.secret(&namespace, reference).await?.into();
        } else {
            let key = login.ssh_key.as_ref().and_then(|key| key.id.as_ref());
            body[key_field] = given(key, "spec.login.sshKey.id")?.into();
        }
        Ok(())
    }

    async fn secret(&self, namespace: &str, reference: &SecretKeyRef) -> Result<String> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let data = api.get(&reference.name).await?.data.unwrap_or_default();
        let text = data.get(&reference.key).map(|bytes| bytes.0.clone());
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| ReconcileError::Secret {
            name: reference.name.clone(),
            key: reference.key.clone(),
        })
    }
}

fn given<'a>(value: Option<&'a String>, field: &'static str) -> Result<&'a str> {
    let value = value.map(String::as_str);
    value.ok_or(ReconcileError::Unsupported(field))
}

/// Records an operation that the service accepted.
fn begin(
    status: &mut InstanceStatus,
    instance: &Instance,
    verb: Verb,
    task_id: Option<String>,
    reason: &str,
) {
    status.attempt += 1;
    status.operation = Some(Operation {
        verb,
        attempt: status.attempt,
        nonce: String::new(),
        generation: instance.meta().generation.unwrap_or_default(),
        cause: None,
        stage: None,
        power_cut: false,
        target: Applied::default(),
        waiting_password: false,
        before: Before::default(),
        accepted: true,
        task_id,
        started_at: Time(Timestamp::now()),
        end: None,
    });
    set_ready(status, instance, false, reason);
}

fn set_ready(status: &mut InstanceStatus, instance: &Instance, is_ready: bool, reason: &str) {
    let generation = instance.meta().generation.unwrap_or_default();
    let value = if is_ready { "True" } else { "False" };
    let before = status.conditions.pop();
    let before = before.filter(|before| before.status == value);
    status.observed_generation = generation;
    status.conditions = vec![Condition {
        type_: "Ready".to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: Some(generation),
        last_transition_time: before.map_or_else(
            || Time(Timestamp::now()),
            |before| before.last_transition_time,
        ),
    }];
}

/// Writes the status if it changed.
async fn report(instance: &Instance, status: InstanceStatus, api: &Api<Instance>) -> Result<()> {
    let before = serde_json::to_value(&instance.status)?;
    let Some(change) = difference(&before, &serde_json::to_value(status)?) else {
        return Ok(());
    };
    let patch = Patch::Merge(json!({ "status": change }));
    let params = PatchParams::default();
    api.patch_status(&instance.name_any(), &params, &patch)
        .await?;
    Ok(())
}

/// The merge patch between two values; none if they are equal.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (before, after) = match (before, after) {
        (Value::Object(before), Value::Object(after)) => (before, after),
        // The service sends 0.0, and the apiserver stores 0.
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => {
            return None;
        }
        _ => return (before != after).then(|| after.clone()),
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in after {
        let change = difference(before.get(key).unwrap_or(&Value::Null), value);
        patch.extend(change.map(|change| (key.clone(), change)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
