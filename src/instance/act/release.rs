//! Releases a server, and removes the finalizer at the end.

use super::attempt::{Attempt, room};
use crate::api::PurchaseRecord;
use crate::api::names::{BINDING, FINALIZER};
use crate::cloud::{CallPriority, Error, ServerId};
use crate::instance::memory::kinds::ReleaseCall;
use crate::instance::memory::{Memory, open};
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::ReleaseReason;
use crate::instance::{journal, times};
use crate::runtime::KubeError;
use crate::runtime::events::EventNote;
use crate::runtime::kubernetes::pointer;
use crate::session::AccountSession;
use serde_json::{Value, json};
use tokio::time::Instant;

impl Attempt<'_> {
    /// Releases a server that a fresh read confirmed. May be repeated until the server is gone.
    pub(super) async fn release(
        &self,
        session: &AccountSession,
        id: ServerId,
        why: ReleaseReason,
    ) -> Outcome {
        let Ok(permit) = room(session, CallPriority::Urgent).await else {
            return Outcome::not_done("the request limit left no room for a release");
        };
        if let Err(late) = self.has_time() {
            return late;
        }
        let answer = session.shared.client.release(permit, &id).await;
        let now = Instant::now();
        let mut memory = open(self.memory);
        let former = memory.calls.releases.get(&id).cloned();
        let is_first = !former.as_ref().is_some_and(|call| call.accepted);
        let call = match answer {
            Ok(accepted) => {
                // A new task with its own poll schedule.
                memory.observations.poll = None;
                ReleaseCall {
                    at: now,
                    task: accepted.task,
                    accepted: true,
                    trouble: None,
                    is_unknown: false,
                    not_before: None,
                }
            }
            Err(error) => self.not_released(&error, former, &mut memory, now),
        };
        let is_unknown = call.is_unknown;
        let trouble = call.trouble.clone();
        if why == ReleaseReason::Surplus && trouble.is_none() {
            self.context.metrics.surplus_released();
        }
        memory.calls.releases.insert(id.clone(), call);
        memory.observations.observed_at = None;
        Outcome::Released {
            id,
            why,
            is_first,
            trouble,
            is_unknown,
        }
    }

    /// The service refused the release, or the outcome is unknown.
    fn not_released(
        &self,
        error: &Error,
        former: Option<ReleaseCall>,
        memory: &mut Memory,
        now: Instant,
    ) -> ReleaseCall {
        let wait = memory
            .pace
            .backoff
            .fail()
            .max(error.retry_after().unwrap_or_default());
        let wait = if error.is_retryable() {
            wait.min(times::DEPENDENCY_RETRY_MAX)
        } else {
            wait
        };
        if error.is_unauthorized() {
            (self.context.doubt_account)(self.account);
        }
        // An earlier call that was accepted remains valid, regardless of the result of its repetition.
        let taken = former.filter(|call| call.accepted);
        ReleaseCall {
            at: now,
            accepted: taken.is_some(),
            task: taken.and_then(|call| call.task),
            trouble: Some(error.to_string()),
            is_unknown: error.may_have_happened(),
            not_before: Some(now + wait),
        }
    }

    /// Sets a tombstone for the marker, so that a server that shows up late is released. Then removes the finalizer, if record
    /// and UID are still the ones that the proof was made for.
    pub(super) async fn finish(&self, session: Option<&AccountSession>) -> Outcome {
        let facts = self.facts;
        if let Some(session) = session {
            self.context.sessions.add_tombstone(
                self.account,
                session,
                &facts.marker,
                facts.places.clone(),
            );
        }
        // Publish the Event first: afterwards the object that it refers to is gone.
        let released = self.observed.own_id().map(|id| {
            let note = format!(
                "server {id} is released and confirmed gone, since this Instance was deleted"
            );
            EventNote::normal("Released", note)
        });
        let event = released.or_else(|| self.left_behind());
        self.take_finalizer(event, Vec::new()).await
    }

    /// The Event for a server that is in status but no longer on record, because a user removed the record, and that has a
    /// foreign name. The operator does not release it, and the user must not believe that it did.
    fn left_behind(&self) -> Option<EventNote> {
        if self.facts.id().is_some() {
            // The server is on record, and another Instance has the better right to it.
            return None;
        }
        let id = ServerId::from(self.facts.status.id.as_deref()?);
        let (row, _) = self.observed.listing.as_ref()?.row(&id)?;
        let name = row.name.as_deref().unwrap_or("without a name");
        let note = format!(
            "server {id} ({name}) is not on record any more and does not bear the name of this Instance, so it was not \
             released: if it is yours, it goes on being billed"
        );
        Some(EventNote::warning("ServerNotReleased", note))
    }

    /// Removes the finalizer and keeps the server, if the spec that requests this is still current. Sets no tombstone, so that a
    /// server that shows up late is kept, too.
    pub(super) async fn let_go(&self, event: Option<EventNote>) -> Outcome {
        let generation = self.facts.generation;
        let is_wanted = json!({"op": "test", "path": "/metadata/generation", "value": generation});
        self.take_finalizer(event, vec![is_wanted]).await
    }

    /// The patch that removes the finalizer, with these additional tests.
    async fn take_finalizer(&self, event: Option<EventNote>, tests: Vec<Value>) -> Outcome {
        let facts = self.facts;
        let kept: Vec<&String> = facts
            .finalizers
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .collect();
        let mut patch = vec![
            json!({"op": "test", "path": "/metadata/uid", "value": facts.uid}),
            json!({"op": "test", "path": "/metadata/finalizers", "value": facts.finalizers}),
        ];
        patch.extend(tests);
        match &facts.annotation {
            Some(text) if PurchaseRecord::is_testable(text) => {
                let path = pointer(&["metadata", "annotations", BINDING]);
                patch.push(json!({"op": "test", "path": path, "value": text}));
            }
            Some(_) => {
                let version = &facts.resource_version;
                patch.push(
                    json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}),
                );
            }
            None => {}
        }
        patch.push(json!({"op": "replace", "path": "/metadata/finalizers", "value": kept}));
        if let Some(event) = &event {
            let server = facts.status_id();
            journal::told(facts, server.as_ref().map(ServerId::as_str), event);
            self.context.events.publish(&facts.reference, event).await;
        }
        let written = self
            .patch("remove the finalizer", Value::Array(patch))
            .await;
        let result = written.as_ref().map_or_else(KubeError::category, |()| "ok");
        self.context.metrics.kube_write("finalizer", result);
        match written {
            Ok(()) => {
                open(self.memory).origin.is_finished = true;
                Outcome::Finished
            }
            Err(error) if error.is_not_found() => {
                open(self.memory).origin.is_finished = true;
                Outcome::Finished
            }
            Err(error) if error.is_overtaken() => Outcome::Stale,
            Err(error) => Outcome::not_written(&error),
        }
    }
}
