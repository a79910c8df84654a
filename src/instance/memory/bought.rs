//! The servers that this process bought.

use crate::api::{PurchaseRecord, Verb};
use crate::cloud::{ServerId, TaskId};
use crate::instance::memory::Memory;
use crate::instance::memory::kinds::{Attempt, CallState};
use std::sync::Arc;
use tokio::time::Instant;

impl Memory {
    /// Whether certainly no server was bought under a record, because this process knows the outcome of each call.
    pub fn nothing_bought(&self, record: &PurchaseRecord) -> bool {
        let harmless = |attempt: &Attempt| {
            attempt.is_own
                && matches!(
                    attempt.call_state,
                    CallState::NotSent | CallState::Refused { .. }
                )
        };
        let unbought = record.id.is_none() && record.lost == 0 && record.failed == 0;
        unbought
            && self.in_doubt_since(record).is_none()
            && self.attempt(record).is_some_and(harmless)
    }

    /// The newest server that the service gave this process and that is not known to be gone.
    pub fn given(&self) -> Option<(u32, &ServerId, Option<&TaskId>)> {
        self.calls
            .attempts
            .iter()
            .rev()
            .filter(|(_, attempt)| attempt.verb == Verb::Create)
            .find_map(|(number, attempt)| match &attempt.call_state {
                CallState::Accepted { id, task } if !self.calls.gone.contains_key(id) => {
                    Some((*number, id, task.as_ref()))
                }
                _ => None,
            })
    }

    /// When this process made its newest purchase after the recorded one whose call may have taken effect. There can be one if
    /// the cluster's state went back to before it.
    pub fn in_doubt_since(&self, record: &PurchaseRecord) -> Option<Instant> {
        let is_later = |number: u32, attempt: &Attempt| {
            number > record.attempt
                && attempt.verb == Verb::Create
                && attempt.call_state == CallState::Unknown
        };
        let attempts = self.calls.attempts.iter();
        let later = attempts.filter(|(number, attempt)| is_later(**number, attempt));
        later.map(|(_, attempt)| attempt.since).max()
    }

    /// The Account of an attempt that may have bought a server, for use when no record names it any more.
    pub fn account_in_doubt(&self) -> Option<&Arc<str>> {
        let newest = self.calls.attempts.last()?.1;
        let harmless = matches!(
            newest.call_state,
            CallState::NotSent | CallState::Refused { .. }
        );
        (!harmless).then_some(&newest.account)
    }
}
