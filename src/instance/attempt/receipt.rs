//! Writes down the service's answer at once: in memory, and on the object, if the intent there is unchanged.

use super::write::{PatchedPart, record_path, replace, test_op};
use super::{Attempt, ServerAndTask, ServiceCall, permit, refusal};
use crate::api::conditions::Reason;
use crate::api::{Operation, PurchaseRecord, Refusal, Verb};
use crate::cloud::{CallPriority, Error, ServerId, TaskId};
use crate::instance::facts::{self, Facts};
use crate::instance::memory::call::{CallState, Gone};
use crate::instance::memory::lock;
use crate::instance::outcome::Outcome;
use crate::runtime::KubeError;
use crate::session::AccountSession;
use serde_json::Value;
use std::sync::Arc;

/// How often the write of a receipt or a refusal is tried. After that, the process only remembers the answer; a receipt is written
/// again by the report or the next reconcile.
const RECEIPTS: u32 = 3;

impl Attempt<'_> {
    pub(super) async fn receipt(
        &mut self,
        call: ServiceCall,
        answer: Result<ServerAndTask, Error>,
        session: &AccountSession,
    ) -> Outcome {
        match (call, answer) {
            (ServiceCall::Create(mut record), Ok((id, task))) => {
                self.was_accepted(&id, task.as_ref());
                record.id = Some(id.to_string());
                record.task = task.as_ref().map(ToString::to_string);
                let recorded = self.give_receipt(&record, session, &id).await;
                Outcome::Accepted { id, task, recorded }
            }
            (ServiceCall::Operate(mut operation), Ok((id, task))) => {
                self.was_accepted(&id, task.as_ref());
                operation.accepted = true;
                operation.task_id = task.as_ref().map(ToString::to_string);
                let recorded = self.give_operation_receipt(*operation).await;
                Outcome::Accepted { id, task, recorded }
            }
            (ServiceCall::Create(record), Err(error)) => {
                let outcome = self.was_not_confirmed(Verb::Create, &error);
                if let Outcome::Refused {
                    message, reason, ..
                } = &outcome
                    && reason.is_lasting_refusal()
                {
                    self.record_refusal(&record, *reason, message).await;
                }
                outcome
            }
            (ServiceCall::Operate(operation), Err(error)) => {
                self.was_not_confirmed(operation.call(), &error)
            }
            (ServiceCall::Release(id, why), answer) => self.release(id, why, answer),
        }
    }

    fn was_accepted(&self, id: &ServerId, task: Option<&TaskId>) {
        let (id, task) = (id.clone(), task.cloned());
        lock(self.memory).call_is(CallState::Accepted { id, task });
    }

    /// The service refused the call, or no answer shows its outcome.
    fn was_not_confirmed(&self, verb: Verb, error: &Error) -> Outcome {
        let outcome = match error.may_have_happened() {
            true => Outcome::Unknown(error.category()),
            false => {
                self.context
                    .note_failure(&self.observed.account_key, error.is_unauthorized());
                refusal::refused(error, verb, self.observed)
            }
        };
        let mut memory = lock(self.memory);
        match &outcome {
            Outcome::Refused {
                message, reason, ..
            } => {
                let (message, reason) = (message.clone(), *reason);
                memory.call_is(CallState::Refused { message, reason });
            }
            _ => memory.call_in_doubt(error),
        }
        // Either way the server's state is read again: it may show the outcome, or it differs from the observed one.
        memory.observations.look.at = None;
        outcome
    }

    /// Writes the receipt of a create, conditional on the object's UID and on the exact intent. Returns whether this process
    /// knows that the receipt is on record. If not, the process remembers it, and the next reconcile writes it.
    ///
    /// If the object is gone, no Instance owns the new server, so it is released, unless the spec keeps it.
    async fn give_receipt(
        &mut self,
        receipt: &PurchaseRecord,
        session: &AccountSession,
        id: &ServerId,
    ) -> bool {
        let Err(error) = self.replace_record("receipt", receipt).await else {
            return true;
        };
        if !error.is_not_found() && !matches!(self.fresh().await, Err(Outcome::Stale)) {
            tracing::warn!(%error, server = %id, "the receipt may not be on record; it is remembered");
        } else if !self.observed.facts.spec.keeps_its_server() {
            // Otherwise the spec retains the server, and it is reported as left behind.
            self.release_ownerless(session, receipt, id).await;
        }
        false
    }

    /// Writes the receipt of an operation into status, conditional on the object's UID and on the nonce of the intent. Returns
    /// whether this process knows that it is there. If not, the report or the next reconcile writes it.
    async fn give_operation_receipt(&mut self, operation: Operation) -> bool {
        let operations = vec![
            test_op("/status/operation/nonce", &operation.nonce),
            replace("/status/operation", &operation),
        ];
        let written = self
            .write_receipt("receipt", PatchedPart::Status, operations)
            .await;
        if written.is_ok() {
            let status = Arc::make_mut(&mut self.observed.facts.status);
            status.operation = Some(operation);
        }
        written.is_ok()
    }

    /// Writes a receipt or a refusal. Tries again unless the object or the intent is another one.
    async fn write_receipt(
        &self,
        kind: &'static str,
        part: PatchedPart,
        operations: Vec<Value>,
    ) -> Result<(), KubeError> {
        for _ in 1..RECEIPTS {
            match self.patch(kind, part, operations.clone()).await {
                Err(error) if !error.is_not_found() && !error.is_overtaken() => {
                    tracing::warn!(%error, "the write of the service's answer failed, trying again");
                }
                written => return written,
            }
        }
        self.patch(kind, part, operations).await
    }

    /// Records that the service refused the create, conditional on the exact intent. A later process then does not mistake it for
    /// a lost answer. If the write fails, this process still knows about the refusal.
    async fn record_refusal(&mut self, record: &PurchaseRecord, reason: Reason, message: &str) {
        let refused = Some(Refusal {
            reason: reason.as_str().to_owned(),
            message: message.to_owned(),
        });
        let closed = PurchaseRecord {
            refused,
            ..record.clone()
        };
        if let Err(error) = self.replace_record("refusal", &closed).await {
            let Facts { key, .. } = &self.observed.facts;
            tracing::warn!(namespace = key.namespace, name = key.name, %error, "the refusal of a create was not recorded");
        }
    }

    /// Replaces the exact text of the intent.
    async fn replace_record(
        &mut self,
        kind: &'static str,
        record: &PurchaseRecord,
    ) -> Result<(), KubeError> {
        let (path, text) = (record_path(), record.to_text());
        let intent = &self.observed.facts.annotation;
        let operations = vec![test_op(&path, intent), replace(&path, &text)];
        self.write_receipt(kind, PatchedPart::Object, operations)
            .await?;
        self.observed.facts.annotation = Some(text); // the status that follows tests it
        Ok(())
    }

    /// Releases a server whose Instance is gone. Its marker also gets a tombstone: if the call fails, the Account controller
    /// releases the server once a listing shows it.
    async fn release_ownerless(
        &self,
        session: &AccountSession,
        receipt: &PurchaseRecord,
        id: &ServerId,
    ) {
        let Facts {
            key, generation, ..
        } = &self.observed.facts;
        let (namespace, name) = (&key.namespace, &key.name);
        tracing::warn!(namespace, name, generation, server = %id, "the Instance is gone: releasing its new server");
        let places = receipt.places.iter().filter_map(|text| facts::place(text));
        let (sessions, account) = (&self.context.sessions, &self.observed.account_key);
        let places: Vec<_> = places.collect();
        sessions.add_tombstone(account, session, &receipt.marker, &places);
        let why = match permit(session, CallPriority::Urgent).await {
            None => "the rate limiter gave no permit in time",
            // If this process was suspended after its call, another process may have become the leader and adopted the server for
            // an object that was restored with the same marker.
            Some(_) if self.may_call().is_err() => "no time or no term is left",
            Some(permit) => match session.shared.client.release(permit, id).await {
                Ok(_) => return lock(self.memory).found_gone(id.clone(), Gone::Released),
                // Not the error, which may quote the service: a log may reach more readers.
                Err(error) => error.category(),
            },
        };
        tracing::error!(server = %id, why, "a server without an Instance was not released");
    }
}
