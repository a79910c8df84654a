//! Lets go: of a server, and in the end of the object.

use super::{Attempt, Outcome, not_written, room};
use crate::api::names::{BINDING, FINALIZER};
use crate::cloud::ServerId;
use crate::instance::memory::{ReleaseCall, open};
use crate::instance::pace;
use crate::instance::plan::ReleaseReason;
use crate::runtime::KubeError;
use crate::runtime::events::News;
use crate::runtime::kubernetes::pointer;
use crate::session::Seat;
use serde_json::{Value, json};
use tokio::time::Instant;

impl Attempt<'_> {
    /// Calls the release of a server that a fresh read confirmed. May be repeated until it is gone.
    pub(super) async fn release(&self, seat: &Seat, id: ServerId, why: ReleaseReason) -> Outcome {
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
    pub(super) async fn finish(&self, seat: Option<&Seat>) -> Outcome {
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
