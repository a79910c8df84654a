//! Carries the one step out, and never leaves without an outcome.

use super::facts::Facts;
use super::memory::{Memory, Post, ReleaseCall, open};
use super::plan::ReleaseReason;
use super::record::Recorded;
use super::{Context, pace};
use crate::api::conditions::Reason;
use crate::api::names::{BINDING, FINALIZER};
use crate::api::{Binding, Instance};
use crate::cloud::{CreateAccepted, CreateRequest, Error, Lane, Permit, ServerId, TaskId};
use crate::runtime::KubeError;
use crate::runtime::events::News;
use crate::runtime::kubernetes::{call, patch_params};
use crate::session::Seat;
use kube::Api;
use kube::api::Patch;
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
        /// Its task.
        task: TaskId,
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
        /// How long the service wants us to wait.
        after: Option<Duration>,
    },
    /// The finalizer is gone and with it the object.
    Finished,
    /// The object changed: look again.
    Stale,
    /// It did not come to the step.
    NotDone(String),
}

/// Waits for the service's request limit, before anything is recorded: nothing may stand between record and call.
/// None: no call is planned. Err: the limit left no room in good time.
pub async fn admit(plan: &super::plan::Plan, seat: Option<&Seat>) -> Result<Option<Permit>, ()> {
    use super::plan::Step;
    let (Step::Create { .. } | Step::Release { .. }, Some(seat)) = (&plan.step, seat) else {
        return Ok(None);
    };
    match tokio::time::timeout(pace::ADMISSION, seat.session.client.permit(Lane::Urgent)).await {
        Ok(permit) => Ok(Some(permit)),
        Err(_) => Err(()),
    }
}

/// Carries out what was recorded. At most one mutating call to the service.
pub async fn act(
    context: &Context,
    facts: &Facts,
    recorded: Recorded,
    permit: Option<Permit>,
    seat: Option<&Seat>,
    memory: &Mutex<Memory>,
    turn_ends: Instant,
) -> Outcome {
    match (recorded, permit, seat) {
        (Recorded::Rest, ..) => Outcome::Rested,
        (Recorded::Written, ..) => Outcome::Written,
        (Recorded::Stale, ..) => Outcome::Stale,
        (Recorded::Failed(error), ..) => Outcome::NotDone(error.to_string()),
        (Recorded::Unconfirmed(why), ..) => Outcome::NotDone(why),
        (Recorded::Finish, _, seat) => finish(context, facts, seat).await,
        (Recorded::Create { .. } | Recorded::Release { .. }, _, _)
            if !context.term.allows(turn_ends, CALL) =>
        {
            Outcome::NotDone("the turn has no time left for a call".to_owned())
        }
        (
            Recorded::Create {
                binding,
                text,
                request,
            },
            Some(permit),
            Some(seat),
        ) => {
            create(
                context, facts, *binding, &text, &request, permit, seat, memory,
            )
            .await
        }
        (Recorded::Release { id, why }, Some(permit), Some(seat)) => {
            release(seat, id, why, permit, memory).await
        }
        (Recorded::Create { .. } | Recorded::Release { .. }, _, _) => {
            Outcome::NotDone("no request was admitted".to_owned())
        }
    }
}

/// The one POST of an attempt, and its receipt.
#[expect(
    clippy::too_many_arguments,
    reason = "what an attempt needs, each of its own kind"
)]
async fn create(
    context: &Context,
    facts: &Facts,
    binding: Binding,
    text: &str,
    request: &CreateRequest,
    permit: Permit,
    seat: &Seat,
    memory: &Mutex<Memory>,
) -> Outcome {
    let attempt = binding.attempt;
    // From here on, until an answer says otherwise, it may have happened: also when this turn is cut short.
    set_post(memory, attempt, Post::Unknown);
    let answer = seat.session.client.create(permit, request).await;
    match answer {
        Ok(CreateAccepted { id, task }) => {
            set_post(
                memory,
                attempt,
                Post::Accepted {
                    id: id.clone(),
                    task: task.clone(),
                },
            );
            let receipt = Binding {
                id: Some(id.to_string()),
                task: Some(task.to_string()),
                ..binding
            };
            let recorded = give_receipt(context, facts, text, &receipt, seat, &id).await;
            Outcome::Created { id, task, recorded }
        }
        Err(error) if error.may_have_happened() => {
            set_post(memory, attempt, Post::Unknown);
            Outcome::CreateUnknown(error.to_string())
        }
        Err(error) => {
            let (message, reason) = (error.to_string(), reason_of(&error));
            if reason == Reason::TokenRefused {
                (context.doubt_account)(&facts.account());
            }
            set_post(
                memory,
                attempt,
                Post::Refused {
                    message: message.clone(),
                    reason,
                },
            );
            Outcome::CreateRefused {
                message,
                reason,
                after: error.retry_after(),
            }
        }
    }
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

fn set_post(memory: &Mutex<Memory>, attempt: u32, post: Post) {
    if let Some(attempt) = open(memory).attempts.get_mut(&attempt) {
        attempt.post = post;
        attempt.since = Instant::now();
    }
}

/// Writes the receipt, conditional on the object's UID and on the intent as it was written. Tells whether it stands.
///
/// An object that is gone leaves a server without a home: it is released here, and should that fail, its marker is buried,
/// so that whoever sees it in a listing releases it.
async fn give_receipt(
    context: &Context,
    facts: &Facts,
    intent: &str,
    receipt: &Binding,
    seat: &Seat,
    id: &ServerId,
) -> bool {
    let mut tries = 0;
    loop {
        tries += 1;
        let written = replace_record(context, facts, intent, &receipt.to_text()).await;
        context.metrics.kube_write(
            "receipt",
            written.as_ref().map_or_else(KubeError::category, |()| "ok"),
        );
        match written {
            Ok(()) => return true,
            Err(error) if error.is_not_found() || is_other_object(context, facts).await => {
                tracing::warn!(server = %id, object = %facts.key.name, "the Instance is gone: releasing the server just bought for it");
                release_homeless(seat, receipt, id).await;
                return false;
            }
            // Somebody changed the record between intent and receipt, or the first answer was lost: the next turn sees.
            Err(error) if error.is_stale() => return false,
            Err(error) if tries < RECEIPTS => {
                tracing::warn!(%error, "the receipt was not written, trying again")
            }
            Err(error) => {
                tracing::error!(%error, server = %id, "the receipt was not written; it is remembered");
                return false;
            }
        }
    }
}

async fn is_other_object(context: &Context, facts: &Facts) -> bool {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    match call("read the Instance", api.get_metadata(&facts.key.name)).await {
        Ok(object) => object.metadata.uid.as_deref() != Some(facts.uid.as_str()),
        Err(error) => error.is_not_found(),
    }
}

async fn release_homeless(seat: &Seat, receipt: &Binding, id: &ServerId) {
    let places = receipt
        .places
        .iter()
        .filter_map(|p| p.split_once('/'))
        .map(|(r, z)| crate::cloud::Place::new(r, z));
    seat.session
        .inventory
        .bury(receipt.marker.clone(), places.collect());
    let permit = seat.session.client.permit(Lane::Urgent).await;
    if let Err(error) = seat.session.client.release(permit, id).await {
        tracing::error!(server = %id, %error, "a server without an Instance was not released; it is looked for in the listings");
    }
}

/// JSON patch of the main resource: test UID and record, replace the record.
async fn replace_record(
    context: &Context,
    facts: &Facts,
    old: &str,
    new: &str,
) -> Result<(), KubeError> {
    let path = format!(
        "/metadata/annotations/{}",
        BINDING.replace('~', "~0").replace('/', "~1")
    );
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": facts.uid},
        {"op": "test", "path": path, "value": old},
        {"op": "replace", "path": path, "value": new},
    ]);
    json_patch(context, facts, "write the receipt", patch).await
}

async fn json_patch(
    context: &Context,
    facts: &Facts,
    what: &'static str,
    patch: Value,
) -> Result<(), KubeError> {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let patch = serde_json::from_value(patch)
        .map(Patch::<()>::Json)
        .map_err(|error| KubeError::Transport {
            operation: what,
            source: Box::new(kube::Error::SerdeError(error)),
        })?;
    let params = patch_params();
    call(what, api.patch_metadata(&facts.key.name, &params, &patch))
        .await
        .map(|_| ())
}

/// Calls the release of a server that a fresh read confirmed. May be repeated until it is gone.
async fn release(
    seat: &Seat,
    id: ServerId,
    why: ReleaseReason,
    permit: Permit,
    memory: &Mutex<Memory>,
) -> Outcome {
    let answer = seat.session.client.release(permit, &id).await;
    let (task, accepted, trouble, after) = match answer {
        Ok(accepted) => (accepted.task, true, None, None),
        Err(error) => (None, false, Some(error.to_string()), error.retry_after()),
    };
    let mut memory = open(memory);
    let calls = memory.releases.get(&id).map_or(0, |call| call.calls) + 1;
    let call = ReleaseCall {
        at: Instant::now(),
        task,
        calls,
        accepted,
        trouble: trouble.clone(),
    };
    memory.releases.insert(id.clone(), call);
    memory.looked = None;
    Outcome::Released {
        id,
        why,
        trouble,
        after,
    }
}

/// Takes the finalizer away, if record and UID are still the ones that the proof was made for, and remembers the marker: a
/// server that turns up late is released.
async fn finish(context: &Context, facts: &Facts, seat: Option<&Seat>) -> Outcome {
    if let Some(seat) = seat {
        seat.session
            .inventory
            .bury(facts.marker.clone(), facts.places.clone());
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
        let path = format!(
            "/metadata/annotations/{}",
            BINDING.replace('~', "~0").replace('/', "~1")
        );
        patch.push(json!({"op": "test", "path": path, "value": text}));
    }
    patch.push(json!({"op": "replace", "path": "/metadata/finalizers", "value": kept}));
    // The Event first: afterwards there is nothing left to tell it about.
    if let Some(id) = facts.id() {
        let news = News::normal(
            "Released",
            format!("server {id} is released and confirmed gone"),
        );
        context.events.tell(&facts.reference, &news).await;
    }
    let written = json_patch(context, facts, "remove the finalizer", Value::Array(patch)).await;
    context.metrics.kube_write(
        "finalizer",
        written.as_ref().map_or_else(KubeError::category, |()| "ok"),
    );
    match written {
        Ok(()) => Outcome::Finished,
        Err(error) if error.is_not_found() => Outcome::Finished,
        Err(error) if error.is_stale() => Outcome::Stale,
        Err(error) => Outcome::NotDone(error.to_string()),
    }
}
