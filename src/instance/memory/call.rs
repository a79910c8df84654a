//! The newest call of an attempt, and the releases of servers.

use crate::api::conditions::Reason;
use crate::api::{Operation, PurchaseRecord, Verb, attempt_number};
use crate::cloud::{ServerId, TaskId};
use crate::instance::outcome::ReleaseFailure;
use crate::runtime::compressed::Compressed;
use crate::runtime::strings::shared;
use std::sync::Arc;
use tokio::time::Instant;

/// The newest attempt, as far as this process knows it.
#[derive(Clone, Debug)]
pub struct NewestCall {
    /// The number of the attempt.
    pub number: u32,
    /// The nonce of its intent.
    pub nonce: String,
    /// The nonce of another intent with the same number that status may show: this process sent nothing under it, or the service
    /// refused the call.
    pub unsent: Option<String>,
    /// The Account of the attempt.
    pub account: Arc<str>,
    /// The verb of the call.
    pub verb: Verb,
    /// The intent as it was announced, to be written again if the object loses it.
    pub intent: Intent,
    /// This process wrote the intent, or will write the next one since status shows a refusal.
    pub is_own: bool,
    /// For a purchase: certainly no operation has followed it, since this process saw it begin or run, and status has not shown its
    /// end.
    pub is_newest: bool,
    /// How often this process made the call.
    pub tries: u32,
    /// The service was busy with the server after the last call of this process.
    pub was_busy_after_call: bool,
    /// When this term first saw the attempt, when this process last made the call or got its answer, or when the operation ended,
    /// whichever is latest. The settling time counts from here.
    pub since: Instant,
    /// The error that left the outcome of the call unknown, if this process made the call.
    pub doubt: Option<Box<str>>,
    /// The outcome of the call, as far as this process, the record or status shows it.
    pub state: CallState,
}

/// An intent as it was announced.
#[derive(Clone, Debug)]
pub enum Intent {
    /// The intent is never written again: it is known from the object alone, or its operation has ended.
    Unneeded,
    /// The record of a purchase, compressed because it is hardly ever read.
    Purchase(Compressed),
    /// The operation in progress on the server, as this process announced it or status last showed it.
    Operation(Box<Operation>),
}

/// The outcome of the newest call of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallState {
    /// Nothing is in flight: this process wrote the intent and sent nothing, or status shows that the service refused the call,
    /// whichever process made it.
    NotSent,
    /// The service refused the call, or it was never sent: it had no effect.
    Refused {
        /// The service's message.
        message: String,
        reason: Reason,
    },
    /// The call may have taken effect.
    Unknown,
    Accepted {
        id: ServerId,
        /// Its task; some answers name none.
        task: Option<TaskId>,
    },
}

impl CallState {
    /// Whether the call certainly had no effect.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::NotSent | Self::Refused { .. })
    }

    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted { .. })
    }
}

impl NewestCall {
    /// The attempt of a record: of an intent that this process has just written (`NotSent`), or of any other record.
    pub fn of_purchase(record: &PurchaseRecord, state: CallState, now: Instant) -> Self {
        let is_own = state == CallState::NotSent;
        Self {
            number: record.attempt,
            nonce: record.nonce.clone(),
            unsent: None,
            account: shared(&record.account),
            verb: Verb::Create,
            intent: match is_own {
                true => Intent::Purchase(Compressed::of(&record.to_text())),
                false => Intent::Unneeded,
            },
            is_own,
            is_newest: is_own,
            tries: 0,
            was_busy_after_call: false,
            since: now,
            doubt: None,
            state,
        }
    }

    /// The attempt of an operation on the server in this record.
    pub fn of_operation(
        operation: &Operation,
        record: &PurchaseRecord,
        state: CallState,
        now: Instant,
    ) -> Self {
        Self {
            number: number_of(operation),
            nonce: operation.nonce.clone(),
            verb: operation.call(),
            intent: Intent::Operation(Box::new(operation.clone())),
            is_own: state == CallState::NotSent,
            state,
            ..Self::of_purchase(record, CallState::Unknown, now)
        }
    }

    /// The record of a purchase, as this process announced it.
    pub fn purchase(&self) -> Option<PurchaseRecord> {
        match &self.intent {
            Intent::Purchase(text) => PurchaseRecord::parse(&text.text().ok()?).ok(),
            Intent::Unneeded | Intent::Operation(_) => None,
        }
    }

    /// The nonce of this intent if this process wrote it and its call certainly had no effect, or else [`Self::unsent`].
    pub(super) fn without_effect(self) -> Option<String> {
        // The nonce `refused` identifies no intent.
        if self.is_own && self.state.is_harmless() && self.nonce != Operation::REFUSED {
            Some(self.nonce)
        } else {
            self.unsent
        }
    }

    pub(super) fn is_of(&self, number: u32, nonce: &str) -> bool {
        self.number == number && self.nonce == nonce
    }
}

pub(super) fn number_of(operation: &Operation) -> u32 {
    attempt_number(operation.attempt).unwrap_or_default()
}

/// The release of a server.
#[derive(Clone, Debug)]
pub enum Release {
    /// This process called for it.
    Asked(ReleaseCall),
    /// The server is gone, and since when this is known.
    Gone(Gone, Instant),
}

impl Release {
    /// Why and since when the server is known to be gone.
    pub fn gone(&self) -> Option<(Gone, Instant)> {
        match self {
            Self::Gone(how, since) => Some((*how, *since)),
            Self::Asked(_) => None,
        }
    }
}

/// Why a server counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The task of its release succeeded, or the service accepted the release of a new server whose Instance is gone.
    Released,
    /// The service does not know it.
    NotFound,
}

/// A release call of this process.
#[derive(Clone, Debug)]
pub struct ReleaseCall {
    /// When the last call was answered, or failed.
    pub at: Instant,
    /// The task, if the answer named one.
    pub task: Option<TaskId>,
    /// The service accepted a call: the last one, or an earlier one.
    pub accepted: bool,
    /// Why the service did not accept the last call.
    pub failure: Option<ReleaseFailure>,
    /// The earliest time for the next call.
    pub not_before: Option<Instant>,
}
