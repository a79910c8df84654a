//! The error of a failed call to the kube-apiserver. [`super::obstacle`] classifies its refusals.

use super::requests::Malformed;
use data_encoding::BASE64;
use std::time::Duration;
use thiserror::Error;

/// The reason why a write was not sent.
#[derive(Debug, Error)]
#[error("this process is not the active one")]
pub(super) struct NotActive;

/// A failed call.
#[derive(Debug, Error)]
pub enum KubeError {
    /// The apiserver answered with a Status.
    #[error("{operation}: the apiserver refused: {} ({})", .status.message, .status.code)]
    Refused {
        /// The attempted operation.
        operation: &'static str,
        /// The apiserver's answer.
        status: Box<kube::core::Status>,
    },
    /// No answer in time.
    #[error("{operation}: no answer from the apiserver within {} s", .deadline.as_secs_f32())]
    Timeout {
        /// The attempted operation.
        operation: &'static str,
        /// The deadline.
        deadline: Duration,
    },
    /// Nothing was sent, since another process may be the active one.
    #[error("{operation}: this process is not the active one")]
    NotActive {
        /// The attempted operation.
        operation: &'static str,
    },
    /// Nothing was sent, since an invalid name would have changed the target of the request, or the object has no JSON form.
    #[error("{operation}: it was not sent: {why}")]
    Malformed {
        /// The attempted operation.
        operation: &'static str,
        why: String,
    },
    /// No answer arrived, mostly for lack of a connection, or the answer was malformed.
    #[error("{operation}: no usable answer from the apiserver")]
    Transport {
        /// The attempted operation.
        operation: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
}

impl KubeError {
    pub(super) fn of(operation: &'static str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused { operation, status },
            kube::Error::Service(error) if error.is::<NotActive>() => Self::NotActive { operation },
            kube::Error::Service(error) if error.is::<Malformed>() => Self::Malformed {
                operation,
                why: error.to_string(),
            },
            source => Self::Transport {
                operation,
                source: Box::new(source),
            },
        }
    }

    /// The object to be written has no JSON form, which is a defect of the caller.
    pub fn unwritable(operation: &'static str) -> Self {
        let why = "the object has no JSON form".to_owned();
        Self::Malformed { operation, why }
    }

    /// The object does not exist (any more).
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 404 && !self.is_denied())
    }

    /// A resourceVersion or UID is out of date, or the object to be created exists already.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 409 && !self.is_denied())
    }

    /// A compare-and-swap failed: the object changed, exists already, or is gone.
    pub fn is_swap_lost(&self) -> bool {
        self.is_conflict() || self.is_not_found()
    }

    /// A precondition of a JSON patch failed: the object changed (409), or a `test` failed (422). A watch event will show the
    /// change. A patch whose result is invalid also gets 422, and no event follows it.
    pub fn is_overtaken(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if matches!(status.code, 409 | 422) && !self.is_denied())
    }

    /// Whether the write may have been applied although its answer is missing or an error.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Refused { status, .. } => status.code >= 500,
            Self::Timeout { .. } | Self::Transport { .. } => true,
            Self::NotActive { .. } | Self::Malformed { .. } => false,
        }
    }

    /// The same error without these values, plain or in base64: an admission webhook may quote the object to be written.
    #[must_use]
    pub fn hiding<'a>(mut self, values: impl IntoIterator<Item = &'a str>) -> Self {
        if let Self::Refused { status, .. } = &mut self {
            for value in values.into_iter().filter(|value| !value.is_empty()) {
                let encoded = BASE64.encode(value.as_bytes());
                for form in [value, encoded.as_str()] {
                    status.message = status.message.replace(form, "[hidden]");
                }
            }
        }
        self
    }

    /// The label in metrics: from a bounded set, without names.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Refused { status, .. } => match status.code {
                404 => "not_found",
                409 => "conflict",
                422 => "invalid",
                401 | 403 => "forbidden",
                429 => "throttled",
                500.. => "server",
                _ => "refused",
            },
            Self::Timeout { .. } => "timeout",
            Self::Transport { .. } => "transport",
            Self::NotActive { .. } => "not_active",
            Self::Malformed { .. } => "malformed",
        }
    }
}
