//! An open operation and its server.

use crate::api::{EndReason, Operation, Verb};
use crate::cloud::ServerId;
use crate::instance::memory::call::Call;
use crate::instance::observation::Observation;

pub(super) struct Open<'a> {
    pub(super) observed: &'a Observation,
    pub(super) operation: &'a Operation,
    pub(super) id: &'a ServerId,
}

pub(super) enum End {
    Well,
    /// Nothing shows that it succeeded, and nothing destructive may follow. It counts as done, except for its password, which is
    /// set again.
    Assumed,
    /// It failed, with a message: see [`EndReason`].
    Badly(EndReason, String),
}

impl End {
    pub(super) fn failed(words: impl Into<String>) -> Self {
        Self::Badly(EndReason::Failed, words.into())
    }

    pub(super) fn lost(words: impl Into<String>) -> Self {
        Self::Badly(EndReason::AnswerLost, words.into())
    }

    pub(super) fn refused(words: impl Into<String>) -> Self {
        Self::Badly(EndReason::Refused, words.into())
    }

    pub(super) fn superseded(words: impl Into<String>) -> Self {
        Self::Badly(EndReason::Superseded, words.into())
    }
}

impl Open<'_> {
    pub(super) fn verb(&self) -> Verb {
        self.operation.verb
    }

    pub(super) fn call(&self) -> Option<&Call> {
        self.observed.memory.call_of(self.operation)
    }
}
