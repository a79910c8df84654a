//! One open operation and the server it is for.

use crate::api::{EndReason, Operation, Verb};
use crate::cloud::ServerId;
use crate::instance::memory::kinds::Attempt;
use crate::instance::observation::Observation;

/// One open operation and the server it is for.
pub(super) struct Open<'a> {
    pub(super) observed: &'a Observation,
    pub(super) operation: &'a Operation,
    pub(super) id: &'a ServerId,
}

/// How an operation ended.
pub(super) enum End {
    /// It is done.
    Well,
    /// Nothing tells that it was done, and nothing destructive follows: it counts as done, but for the password that it was to
    /// bring, which is set anew.
    Assumed,
    /// It was not done, in these words: see [`EndReason`].
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

    pub(super) fn call(&self) -> Option<&Attempt> {
        self.observed.memory.call(self.operation)
    }
}
