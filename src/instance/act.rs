//! Carries the one step out, and never leaves without an outcome.

use super::facts::Facts;
use super::memory::{Memory, Post, ReleaseCall, open};
use super::observe::Observation;
use super::plan::{Plan, ReleaseReason, Step};
use super::record::Recorded;
use super::{Context, pace};
use crate::api::conditions::{Reason, Verdict};
use crate::api::names::{BINDING, FINALIZER};
use crate::api::{Binding, Instance};
use crate::cloud::{CreateAccepted, CreateRequest, Error, Lane, Permit, Place, ServerId};
use crate::runtime::KubeError;
use crate::runtime::events::News;
use crate::runtime::kubernetes::{call, json_patch, patch_params, pointer};
use crate::runtime::watch::ObjectKey;
use crate::session::Seat;
use kube::Api;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A mutating call and its receipt need this much of the turn: 60 s and 15 s.
const CALL: Duration = Duration::from_secs(75);
/// Times a receipt is tried before the turn gives up; the process remembers it and tries again in the next turn.
const RECEIPTS: u32 = 3;

/// What became of the step.
#[derive(Debug)]
pub enum Outcome {
    /// There was nothing to do.
    Rested,
    /// The service took the create; the receipt may or may not be on record.
    Created {
        /// The server.
        id: ServerId,
        /// Whether the record names it.
        recorded: bool,
    },
    /// The service refused the create, or it never left: nothing was bought.
    CreateRefused {
        /// The service's words.
        message: String,
        /// What that means for the conditions.
        reason: Reason,
        /// How long the service wants us to wait.
        after: Option<Duration>,
    },
    /// The create may have happened.
    CreateUnknown(String),
    /// The record was written.
    Written,
    /// The service took the release, or says that there is no such server, or did neither.
    Released {
        /// Which server.
        id: ServerId,
        /// Why.
        why: ReleaseReason,
        /// What stood in the way.
        trouble: Option<String>,
    },
    /// The finalizer is gone and with it the object.
    Finished,
    /// The object changed: look again.
    Stale,
    /// It did not come to the step. With what is to be said about it, if somebody has to do something.
    NotDone(String, Option<Verdict>),
}

/// Waits for the service's request limit before an intent is recorded: nothing may stand between record and call.
///
/// # Errors
/// The limit left no room in good time.
pub async fn admit(plan: &Plan, seat: Option<&Seat>) -> Result<Option<Permit>, NoRoom> {
    match (&plan.step, seat) {
        (Step::Create { .. }, Some(seat)) => room(seat).await.map(Some),
        _ => Ok(None),
    }
}

/// The request limit is used up by others.
#[derive(Debug)]
pub struct NoRoom;

async fn room(seat: &Seat) -> Result<Permit, NoRoom> {
    let permit = seat.session.client.permit(Lane::Urgent);
    tokio::time::timeout(pace::ADMISSION, permit)
        .await
        .map_err(|_| NoRoom)
}

/// Carries out what was recorded. At most one mutating call to the service.
pub async fn act(
    context: &Context,
    seen: &Observation,
    recorded: Recorded,
    permit: Option<Permit>,
    seat: Option<&Seat>,
    memory: &Mutex<Memory>,
    turn_ends: Instant,
) -> Outcome {
    let attempt = Attempt {
        context,
        facts: &seen.facts,
        account: &seen.account_key,
        memory,
        turn_ends,
    };
    match (recorded, permit, seat) {
        (Recorded::Rest, ..) => Outcome::Rested,
        (Recorded::Written, ..) => Outcome::Written,
        (Recorded::Stale, ..) => Outcome::Stale,
        (Recorded::Failed(error), ..) => not_written(&error),
        (Recorded::Unconfirmed(why), ..) => Outcome::NotDone(why, None),
        (Recorded::NotOurs(why), ..) => {
            let verdict = Verdict::stalled(Reason::BindingInvalid, why.clone());
            Outcome::NotDone(why, Some(verdict))
        }
        (Recorded::Finish, _, seat) => attempt.finish(seat).await,
        (
            Recorded::Create {
                binding,
                text,
                request,
            },
            Some(permit),
            Some(seat),
        ) => {
            attempt
                .create(*binding, &text, &request, permit, seat)
                .await
        }
        (Recorded::Release { id, why }, _, Some(seat)) => attempt.release(seat, id, why).await,
        (Recorded::Create { .. } | Recorded::Release { .. }, _, _) => {
            Outcome::NotDone("no request was admitted".to_owned(), None)
        }
    }
}

/// One turn's call.
struct Attempt<'a> {
    context: &'a Context,
    facts: &'a Facts,
    account: &'a ObjectKey,
    memory: &'a Mutex<Memory>,
    turn_ends: Instant,
}

impl Attempt<'_> {
    /// Right before a call: whether this turn may still make it.
    fn has_time(&self) -> Result<(), Outcome> {
        let late = || Outcome::NotDone("the turn has no time left for a call".to_owned(), None);
        self.context
            .term
            .allows(self.turn_ends, CALL)
            .then_some(())
            .ok_or_else(late)
    }

    /// The one POST of an attempt, and its receipt.
    async fn create(
        &self,
        binding: Binding,
        text: &str,
        request: &CreateRequest,
        permit: Permit,
        seat: &Seat,
    ) -> Outcome {
        if let Err(late) = self.has_time() {
            return late;
        }
        // From here on, until an answer says otherwise, it may have happened: also when this turn is cut short.
        self.set_post(binding.attempt, Post::Unknown);
        match seat.session.client.create(permit, request).await {
            Ok(CreateAccepted { id, task }) => {
                let post = Post::Accepted {
                    id: id.clone(),
                    task: task.clone(),
                };
                self.set_post(binding.attempt, post);
                let receipt = Binding {
                    id: Some(id.to_string()),
                    task: Some(task.to_string()),
                    ..binding
                };
                let recorded = self.give_receipt(text, &receipt, seat, &id).await;
                Outcome::Created { id, recorded }
            }
            Err(error) if error.may_have_happened() => {
                self.set_post(binding.attempt, Post::Unknown);
                Outcome::CreateUnknown(error.to_string())
            }
            Err(error) => {
                let reason = reason_of(&error);
                let mut message = error.to_string();
                if reason == Reason::TokenRefused {
                    message = format!(
                        "Account {}: {message}: put a valid token into its Secret",
                        self.account.name
                    );
                    (self.context.doubt_account)(self.account);
                }
                let post = Post::Refused {
                    message: message.clone(),
                    reason,
                };
                self.set_post(binding.attempt, post);
                Outcome::CreateRefused {
                    message,
                    reason,
                    after: error.retry_after(),
                }
            }
        }
    }

    fn set_post(&self, attempt: u32, post: Post) {
        if let Some(attempt) = open(self.memory).attempts.get_mut(&attempt) {
            attempt.post = post;
            attempt.since = Instant::now();
        }
    }

    /// Writes the receipt, conditional on the object's UID and on the intent as it was written. Tells whether it stands.
    ///
    /// An object that is gone leaves a server without a home: it is released here, and should that fail, its marker is
    /// buried, so that whoever sees it in a listing releases it.
    async fn give_receipt(
        &self,
        intent: &str,
        receipt: &Binding,
        seat: &Seat,
        id: &ServerId,
    ) -> bool {
        let mut tries = 0;
        loop {
            tries += 1;
            let written = self.replace_record(intent, &receipt.to_text()).await;
            let result = written.as_ref().map_or_else(KubeError::category, |()| "ok");
            self.context.metrics.kube_write("receipt", result);
            match written {
                Ok(()) => return true,
                Err(error) if error.is_not_found() || self.is_other_object().await => {
                    tracing::warn!(server = %id, name = self.facts.key.name, "the Instance is gone: releasing its new server");
                    self.release_homeless(seat, receipt, id).await;
                    return false;
                }
                // Somebody changed the record between intent and receipt, or our own first answer was lost: the next turn
                // sees which.
                Err(error) if error.is_stale() => return false,
                Err(error) if tries < RECEIPTS => {
                    tracing::warn!(%error, "the receipt was not written, trying again");
                }
                Err(error) => {
                    tracing::error!(%error, server = %id, "the receipt was not written; it is remembered");
                    return false;
                }
            }
        }
    }

    async fn is_other_object(&self) -> bool {
        let api: Api<Instance> = self.api();
        match call("read the Instance", api.get_metadata(&self.facts.key.name)).await {
            Ok(object) => object.metadata.uid.as_deref() != Some(self.facts.uid.as_str()),
            Err(error) => error.is_not_found(),
        }
    }

    async fn release_homeless(&self, seat: &Seat, receipt: &Binding, id: &ServerId) {
        let places = receipt
            .places
            .iter()
            .filter_map(|place| place.split_once('/'));
        let places = places
            .map(|(region, zone)| Place::new(region, zone))
            .collect();
        self.context
            .sessions
            .bury(self.account, seat, &receipt.marker, places);
        let permit = seat.session.client.permit(Lane::Urgent).await;
        if let Err(error) = seat.session.client.release(permit, id).await {
            tracing::error!(server = %id, %error, "a server without an Instance was not released; listings look out for it");
        }
    }

    /// JSON patch of the main resource: test UID and record, replace the record.
    async fn replace_record(&self, old: &str, new: &str) -> Result<(), KubeError> {
        let path = pointer(&["metadata", "annotations", BINDING]);
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": self.facts.uid},
            {"op": "test", "path": path, "value": old},
            {"op": "replace", "path": path, "value": new},
        ]);
        self.patch("write the receipt", patch).await
    }

    async fn patch(&self, what: &'static str, patch: Value) -> Result<(), KubeError> {
        let patch = json_patch(what, patch)?;
        let params = patch_params();
        let written = call(
            what,
            self.api()
                .patch_metadata(&self.facts.key.name, &params, &patch),
        )
        .await?;
        open(self.memory).wrote(written.metadata.resource_version.as_deref(), Instant::now());
        Ok(())
    }

    fn api(&self) -> Api<Instance> {
        Api::namespaced(self.context.client.clone(), &self.facts.key.namespace)
    }

    /// Calls the release of a server that a fresh read confirmed. May be repeated until it is gone.
    async fn release(&self, seat: &Seat, id: ServerId, why: ReleaseReason) -> Outcome {
        let Ok(permit) = room(seat).await else {
            return Outcome::NotDone(
                "the request limit left no room for a release".to_owned(),
                None,
            );
        };
        if let Err(late) = self.has_time() {
            return late;
        }
        let answer = seat.session.client.release(permit, &id).await;
        let now = Instant::now();
        let mut memory = open(self.memory);
        let former = memory.releases.get(&id).cloned();
        let call = match answer {
            Ok(accepted) => {
                // A new operation: asked for at its own pace.
                memory.poll = None;
                ReleaseCall {
                    at: now,
                    task: accepted.task,
                    accepted: true,
                    trouble: None,
                    not_before: None,
                }
            }
            Err(error) => {
                let wait = memory
                    .backoff
                    .fail()
                    .max(error.retry_after().unwrap_or_default());
                let wait = if error.is_retryable() {
                    wait.min(pace::DEPENDENCY)
                } else {
                    wait
                };
                if error.is_unauthorized() {
                    (self.context.doubt_account)(self.account);
                }
                // A call that was taken before goes on, whatever became of its repetition.
                let taken = former.filter(|call| call.accepted);
                ReleaseCall {
                    at: now,
                    accepted: taken.is_some(),
                    task: taken.and_then(|call| call.task),
                    trouble: Some(error.to_string()),
                    not_before: Some(now + wait),
                }
            }
        };
        let trouble = call.trouble.clone();
        if why == ReleaseReason::Surplus && trouble.is_none() {
            self.context.metrics.surplus_released();
        }
        memory.releases.insert(id.clone(), call);
        memory.looked = None;
        Outcome::Released { id, why, trouble }
    }

    /// Takes the finalizer away, if record and UID are still the ones that the proof was made for, and remembers the
    /// marker: a server that turns up late is released.
    async fn finish(&self, seat: Option<&Seat>) -> Outcome {
        let facts = self.facts;
        if let Some(seat) = seat {
            self.context
                .sessions
                .bury(self.account, seat, &facts.marker, facts.places.clone());
        }
        let kept: Vec<&String> = facts
            .finalizers
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .collect();
        let mut patch = vec![
            json!({"op": "test", "path": "/metadata/uid", "value": facts.uid}),
            json!({"op": "test", "path": "/metadata/finalizers", "value": facts.finalizers}),
        ];
        if let Some(text) = &facts.annotation {
            let path = pointer(&["metadata", "annotations", BINDING]);
            patch.push(json!({"op": "test", "path": path, "value": text}));
        }
        patch.push(json!({"op": "replace", "path": "/metadata/finalizers", "value": kept}));
        // The Event first: afterwards there is nothing left to tell it about.
        if let Some(id) = facts.id() {
            let news = News::normal(
                "Released",
                format!("server {id} is released and confirmed gone"),
            );
            self.context.events.tell(&facts.reference, &news).await;
        }
        let written = self
            .patch("remove the finalizer", Value::Array(patch))
            .await;
        let result = written.as_ref().map_or_else(KubeError::category, |()| "ok");
        self.context.metrics.kube_write("finalizer", result);
        match written {
            Ok(()) => Outcome::Finished,
            Err(error) if error.is_not_found() => Outcome::Finished,
            Err(error) if error.is_stale() && !error.is_denied() => Outcome::Stale,
            Err(error) => not_written(&error),
        }
    }
}

/// A write of the object failed. A refusal is somebody's doing and is told.
fn not_written(error: &KubeError) -> Outcome {
    let refused = || Verdict::stalled(Reason::WriteRefused, error.to_string());
    Outcome::NotDone(error.to_string(), error.is_refusal().then(refused))
}

/// What a refusal means for the conditions: only a refusal of what was asked for is one that waiting cannot help.
fn reason_of(error: &Error) -> Reason {
    if error.is_unauthorized() {
        Reason::TokenRefused
    } else if error.is_account_not_normal() {
        Reason::AccountNotNormal
    } else if error.is_rate_limited() {
        Reason::RateLimited
    } else if error.is_retryable() {
        Reason::ServiceUnreachable
    } else {
        Reason::CreateRefused
    }
}
