//! Removes the finalizer, so that the object can go.

use super::Attempt;
use super::write::{PatchedPart, record_test_op, replace, test_op};
use crate::api::names::FINALIZER;
use crate::cloud::ServerId;
use crate::instance::journal;
use crate::instance::outcome::Outcome;
use crate::runtime::events::EventNote;
use serde_json::Value;

impl Attempt<'_> {
    /// Sets a tombstone for the marker if there is an account session, so that a server that shows up late is released. Then
    /// removes the finalizer, if record and UID are still the ones that the proof was made for.
    pub(super) async fn finish(&self) -> Outcome {
        let facts = &self.observed.facts;
        if let Some(session) = self.session {
            self.context.sessions.add_tombstone(
                &self.observed.account_key,
                session,
                &facts.marker,
                &facts.places,
            );
        }
        let released = self.observed.own_id().map(|id| {
            let note = format!(
                "server {id} is released and confirmed gone, since this Instance was deleted"
            );
            EventNote::normal("Released", note)
        });
        let event = released.or_else(|| self.left_behind());
        self.remove_finalizer(event, Vec::new()).await
    }

    /// The Event for a server that is in status but no longer on record, because a user removed the record, and that has a
    /// foreign name. The operator does not release it, and the user must not believe that it did.
    fn left_behind(&self) -> Option<EventNote> {
        let facts = &self.observed.facts;
        if facts.id().is_some() {
            // The server is on record, and another Instance has the better right to it.
            return None;
        }
        let id = ServerId::from(facts.status.id.as_deref()?);
        let (row, _) = self.observed.listing.as_ref()?.row(&id)?;
        let name = row.name.as_deref().unwrap_or("without a name");
        let note = format!(
            "server {id} ({name}) is no longer on record and does not bear the name of this Instance, so it was not \
             released: if it is yours, it is still billed"
        );
        Some(EventNote::warning("ServerNotReleased", note))
    }

    /// Removes the finalizer and keeps the server, if the spec that requests this is still current. Sets no tombstone, so that a
    /// server that shows up late is kept, too.
    pub(super) async fn retain(&self, event: Option<EventNote>) -> Outcome {
        let is_wanted = test_op("/metadata/generation", self.observed.facts.generation);
        self.remove_finalizer(event, vec![is_wanted]).await
    }

    /// Publishes the Event first: afterwards the object that it refers to is gone.
    async fn remove_finalizer(&self, event: Option<EventNote>, tests: Vec<Value>) -> Outcome {
        let facts = &self.observed.facts;
        let others = facts.finalizers.iter().filter(|held| *held != FINALIZER);
        let others: Vec<&String> = others.collect();
        let mut patch = tests;
        patch.push(test_op("/metadata/finalizers", &facts.finalizers));
        patch.extend(record_test_op(facts));
        patch.push(replace("/metadata/finalizers", others));
        if let Some(event) = &event {
            let server = facts.status_id();
            journal::planned(facts, server.as_ref().map(ServerId::as_str), event);
            self.context.events.publish(&facts.reference, event).await;
        }
        // The watch may show that the object is gone before the patch is answered.
        let owners = self.context.sessions.owners();
        owners.set_detached(&facts.uid, true);
        let patched = self.patch("finalizer", PatchedPart::Object, patch).await;
        let is_kept = patched
            .as_ref()
            .is_err_and(|error| !error.is_not_found() && !error.may_have_happened());
        owners.set_detached(&facts.uid, !is_kept);
        match patched {
            Err(error) if error.is_overtaken() => Outcome::Stale,
            Err(error) if !error.is_not_found() => Outcome::not_written(&error),
            Ok(()) | Err(_) => Outcome::Finished,
        }
    }
}
