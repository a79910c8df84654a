//! The client of the service: each method makes one call and returns a value or an [`Error`].

use std::fmt;
use std::sync::Arc;

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tracing::Instrument;

use super::answer::{Answer, Reading, bears_bad_code};
use super::bounds::Bounds;
use super::budget::{NoMemory, RowMemory};
use super::call::{Call, Caller, Observer, Permit};
use super::cloud_call::CloudCall;
use super::decode::{Unfit, skip};
use super::error::{BuildError, Error, Fault};
use super::health::Health;
use super::http::Http;
use super::ids::{ServerId, TaskId};
use super::paths::Paths;
use super::rate_limiter::{CallPriority, Passage, RateLimiter};
use super::wire::{
    CreateAccepted, CreateRequest, Detail, PasswordRequest, ReinstallRequest, TaskState, receipt,
    task_id,
};
use crate::api::default_missing_codes;
use crate::runtime::traces;

/// Rows requested per page: the maximum that the service returns (field note 7).
pub(crate) const PAGE_SIZE: u32 = 50;

/// A client of the service for one endpoint and token. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    caller: Arc<Caller>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.caller.endpoint.as_str())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client with the default codes for "no such thing" and without an observer.
    ///
    /// # Errors
    /// The endpoint or the proxy is malformed or not allowed, the TLS settings cannot be used, or the token does not fit in a
    /// header.
    pub fn new(
        http: Http,
        endpoint: &str,
        token: SecretString,
        paths: Paths,
        limiter: RateLimiter,
    ) -> Result<Self, BuildError> {
        let endpoint = http.endpoint(endpoint)?;
        let mut header =
            HeaderValue::from_str(token.expose_secret()).map_err(|_| BuildError::Token)?;
        if header.is_empty() {
            return Err(BuildError::Token);
        }
        header.set_sensitive(true);
        let caller = Caller {
            share: http.budget().share(""),
            http: http.open(&endpoint)?,
            endpoint,
            token,
            header,
            paths,
            limiter,
            health: Health::default(),
            missing_codes: default_missing_codes(),
            observer: None,
            whole_rows: false,
        };
        Ok(Self {
            caller: Arc::new(caller),
        })
    }

    /// Counts the memory of its answers towards this namespace. By default they count towards no namespace.
    #[must_use]
    pub fn with_namespace(self, namespace: &str) -> Self {
        self.with(|caller| caller.share = caller.share.for_namespace(namespace))
    }

    /// Reports each call to an observer.
    #[must_use]
    pub fn with_observer(self, observer: Observer) -> Self {
        self.with(|caller| caller.observer = Some(observer))
    }

    /// Keeps every field of the rows of lists, so that they can be shown.
    #[must_use]
    pub fn with_whole_rows(self) -> Self {
        self.with(|caller| caller.whole_rows = true)
    }

    /// Replaces the fragments of error codes that mean "no such thing" (field note 20). Case does not matter.
    #[must_use]
    pub fn with_missing_codes(self, mut fragments: Vec<String>) -> Self {
        // An empty fragment would match every code.
        fragments.retain(|fragment| !fragment.is_empty());
        self.with(|caller| caller.missing_codes = fragments)
    }

    fn with(self, change: impl FnOnce(&mut Caller)) -> Self {
        let mut caller = Arc::unwrap_or_clone(self.caller);
        change(&mut caller);
        Self {
            caller: Arc::new(caller),
        }
    }

    /// The URL of the service.
    pub fn endpoint(&self) -> &str {
        self.caller.endpoint.as_str().trim_end_matches('/')
    }

    /// The rate limiter that the calls of this client pass.
    pub fn limiter(&self) -> &RateLimiter {
        &self.caller.limiter
    }

    /// The health of the service, as the calls of this client show it.
    pub fn health(&self) -> &Health {
        &self.caller.health
    }

    /// Takes memory for a row of this many bytes from this client's share of the memory for listings.
    ///
    /// # Errors
    /// Too little memory is free.
    pub fn charge(&self, bytes: usize) -> Result<RowMemory, NoMemory> {
        self.caller.share.charge(bytes)
    }

    /// Waits for a permit for one mutating call. The call takes the permit by value: a caller waits for the rate limiter and for
    /// memory before it records the intent, so that no wait comes between the record and the call.
    pub async fn permit(&self, priority: CallPriority) -> Permit {
        let waits = traces::wait_for_permit(priority.as_str());
        let passage = self.caller.limiter.pass(priority).instrument(waits).await;
        let memory = self.caller.share.reserve(Bounds::short().memory()).await;
        Permit {
            _passage: passage,
            memory: Some(memory),
        }
    }

    /// Section 4.3: details of one instance.
    ///
    /// # Errors
    /// See [`Error`]. A success without an `instance` of exactly this id is an error that proves nothing.
    pub async fn detail(&self, priority: CallPriority, id: &ServerId) -> Result<Detail, Error> {
        let query = [("ecsResourceUUID", id.as_str())];
        let call = self.read(priority, CloudCall::Detail, &query).await;
        self.caller
            .run(call, &mut no_rows, |mut answer, reading| {
                let detail = Detail::read(&mut answer.body)
                    .filter(|detail| detail.id == *id)
                    .map(|detail| detail.without_secrets(reading.secrets));
                answer.result(detail, "it carries no such instance", reading)
            })
            .await
    }

    /// Field note 5: the result of a task.
    ///
    /// # Errors
    /// See [`Error`]. A failed *task* is a state, not an error.
    pub async fn task(&self, priority: CallPriority, id: &TaskId) -> Result<TaskState, Error> {
        let query = [("asyncTaskUUID", id.as_str())];
        let call = self.read(priority, CloudCall::Task, &query).await;
        self.caller
            .run(call, &mut no_rows, |mut answer, reading| {
                let state = TaskState::read(&answer.body, reading.secrets);
                if matches!(state, Some(TaskState::Failed { .. })) {
                    // The envelope of a failed task may deny success as well. This concerns the task, not the query.
                    answer.body.remove("success");
                    answer.body.remove("httpStatus");
                }
                answer.result(state, "it carries no task", reading)
            })
            .await
    }

    /// Section 4.7, for one row: the cheapest call that every account may make. It shows only whether the service answers and
    /// accepts the token. It may exceed the limit on concurrent calls, since these calls may all be waiting for a service that does
    /// not answer.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn probe(&self, priority: CallPriority) -> Result<(), Error> {
        let query = [("page", "1"), ("pageSize", "1")];
        let passage = self.caller.limiter.pass_beyond_limit(priority).await;
        let call = Call {
            bounds: Bounds::of_probe(),
            ..read_call(CloudCall::Keys, &query, passage)
        };
        let answered = |answer: Answer, reading: &Reading<'_>| {
            let answered = answer.listed.then_some(());
            answer.result(answered, "it carries no key pairs", reading)
        };
        self.caller.run(call, &mut skip, answered).await
    }

    /// Section 4.1: create an instance. The client never repeats this call.
    ///
    /// # Errors
    /// See [`Error`]. A success without both identifiers is an unknown outcome.
    pub async fn create(
        &self,
        permit: Permit,
        request: &CreateRequest,
    ) -> Result<CreateAccepted, Error> {
        let secret = request.login.password();
        let call = mutation(CloudCall::Create, request.body(), secret, permit);
        let accepted = |answer: Answer, reading: &Reading<'_>| {
            let receipt = receipt(&answer.body);
            answer.result(receipt, "it names no instance and task", reading)
        };
        self.caller.run(call, &mut no_rows, accepted).await
    }

    /// Field note 1: release an instance.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn release(&self, permit: Permit, id: &ServerId) -> Result<Option<TaskId>, Error> {
        let body = json!({ "ecsResourceUUID": id });
        self.plain(CloudCall::Release, permit, body).await
    }

    /// Field note 3: start an instance.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn start(&self, permit: Permit, id: &ServerId) -> Result<Option<TaskId>, Error> {
        let body = json!({ "ecsResourceUUID": id });
        self.plain(CloudCall::Start, permit, body).await
    }

    /// Field note 2: stop an instance, by force or not.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn stop(
        &self,
        permit: Permit,
        id: &ServerId,
        force: bool,
    ) -> Result<Option<TaskId>, Error> {
        let body = json!({ "ecsResourceUUID": id, "forceStop": force });
        self.plain(CloudCall::Stop, permit, body).await
    }

    /// Field note 4: restart an instance.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn restart(&self, permit: Permit, id: &ServerId) -> Result<Option<TaskId>, Error> {
        let body = json!({ "ecsResourceUUID": id });
        self.plain(CloudCall::Restart, permit, body).await
    }

    /// Section 4.4: reinstall the operating system.
    ///
    /// # Errors
    /// See [`Error`]. A success without a task is an unknown outcome.
    pub async fn reinstall(
        &self,
        permit: Permit,
        request: &ReinstallRequest,
    ) -> Result<TaskId, Error> {
        let secret = request.login.password();
        let call = mutation(CloudCall::Reinstall, request.body(), secret, permit);
        self.caller.run(call, &mut no_rows, task_answer).await
    }

    /// Section 4.2: set the password of the login account.
    ///
    /// # Errors
    /// See [`Error`]. A success without a task is an unknown outcome.
    pub async fn modify_password(
        &self,
        permit: Permit,
        request: &PasswordRequest,
    ) -> Result<TaskId, Error> {
        let secret = Some(request.password.expose_secret());
        let call = mutation(CloudCall::ModifyPassword, request.body(), secret, permit);
        self.caller.run(call, &mut no_rows, task_answer).await
    }

    /// A call about one instance whose answer may lack the task: the caller then follows the call by the state of the server.
    async fn plain(
        &self,
        operation: CloudCall,
        permit: Permit,
        body: Value,
    ) -> Result<Option<TaskId>, Error> {
        let accepted = |answer: Answer, reading: &Reading<'_>| {
            let task = task_id(&answer.body);
            let is_denied = answer.body.get("success") == Some(&Value::Bool(false));
            // A field of the envelope shows that the answer comes from the service and is not an arbitrary object.
            let is_of_service =
                answer.body.contains_key("httpStatus") && !bears_bad_code(&answer.body);
            let is_accepted = task.is_some() || (is_of_service && !is_denied);
            let accepted = is_accepted.then_some(task);
            answer.result(accepted, "it does not show acceptance", reading)
        };
        let call = mutation(operation, body, None, permit);
        self.caller.run(call, &mut no_rows, accepted).await
    }

    async fn read<'a>(
        &self,
        priority: CallPriority,
        operation: CloudCall,
        query: &'a [(&'a str, &'a str)],
    ) -> Call<'a> {
        read_call(operation, query, self.caller.limiter.pass(priority).await)
    }
}

fn read_call<'a>(
    operation: CloudCall,
    query: &'a [(&'a str, &'a str)],
    passage: Passage,
) -> Call<'a> {
    Call {
        operation,
        bounds: Bounds::of(operation),
        query,
        body: None,
        secret: None,
        permit: Permit {
            _passage: passage,
            memory: None,
        },
    }
}

/// Receives the rows of an answer without a list.
fn no_rows(_: &[u8]) -> Result<(), Unfit> {
    Ok(())
}

fn mutation(operation: CloudCall, body: Value, secret: Option<&str>, permit: Permit) -> Call<'_> {
    Call {
        operation,
        bounds: Bounds::of(operation),
        query: &[],
        body: Some(body),
        secret,
        permit,
    }
}

fn task_answer(answer: Answer, reading: &Reading<'_>) -> Result<TaskId, Fault> {
    let task = task_id(&answer.body);
    answer.result(task, "it names no task", reading)
}

mod lists;
#[cfg(test)]
mod tests;
