//! Errors of calls to the service, on two axes: is a retry worthwhile, and may the call have taken effect?

mod build;
mod flaw;
mod obstacle;

use super::address::Refused;
pub use build::BuildError;
pub(super) use obstacle::TransportError;
use obstacle::{beneath, obstacle};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::cloud_call::CloudCall;
use super::decode::Unfit;
use super::password;

/// A failed call.
///
/// `Display` names the call and its path once, and states what the operator does next if that is certain. It never contains a
/// token, a password or a whole body. Causes are in the source chain.
#[derive(Debug)]
pub struct Error {
    pub(super) operation: CloudCall,
    pub(super) path: Arc<str>,
    pub(super) fault: Fault,
}

/// The fault of a call, without its operation and path.
#[derive(Debug)]
pub(super) enum Fault {
    /// No connection was opened: name resolution, TCP, the proxy or TLS failed, the request could not be built, or there was no
    /// memory for the answer.
    NotSent(TransportError),
    /// The deadline passed.
    Timeout(TransportError),
    /// The connection broke after it had opened, so that the request may have been sent, or the answer was truncated.
    Broken(TransportError),
    /// The service answered without a success status, or refused in a 2xx.
    Answered {
        status: u16,
        refusal: Option<Envelope>,
        retry_after: Option<Duration>,
    },
    /// The service answered with a success status and something that cannot be used.
    Unfit { status: u16, unfit: Unfit },
}

/// A readable error envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    /// The envelope's own `httpStatus`, if present.
    pub status: Option<u16>,
    pub code: Option<String>,
    pub message: Option<String>,
    /// Whether the code is one of those that mean "no such thing".
    pub missing: bool,
}

/// Whether a status with a readable envelope proves that nothing was done. A 5xx or a 408 proves nothing, regardless of the
/// body; 1xx and 3xx have no meaning in the protocol.
fn settles(status: u16) -> bool {
    matches!(status, 200..=299 | 400..=407 | 409..=499)
}

impl Error {
    pub fn operation(&self) -> CloudCall {
        self.operation
    }

    /// Whether the service may have carried out the call. `false` only if that is certain: no connection was opened, or the
    /// service refused in a readable way.
    pub fn may_have_happened(&self) -> bool {
        match &self.fault {
            Fault::NotSent(_) => false,
            Fault::Answered {
                status,
                refusal: Some(refusal),
                ..
            } => !settles(*status) || refusal.status.is_some_and(|inner| !settles(inner)),
            _ => true,
        }
    }

    /// Whether the same request may succeed later without a change by anyone.
    pub fn is_retryable(&self) -> bool {
        match &self.fault {
            // 409, 423 and 425 (conflict, locked, too early): another operation occupies the instance.
            Fault::Answered { .. } => {
                matches!(
                    self.status(),
                    Some(408 | 409 | 423 | 425 | 429 | 500..) | None
                )
            }
            Fault::NotSent(_) | Fault::Timeout(_) | Fault::Broken(_) | Fault::Unfit { .. } => true,
        }
    }

    /// The pause that the service requests, at most ten minutes.
    pub fn retry_after(&self) -> Option<Duration> {
        let Fault::Answered { retry_after, .. } = &self.fault else {
            return None;
        };
        *retry_after
    }

    /// The service's own "no such instance", in the answer to a call that was authorised and named only the instance.
    pub fn is_no_such_instance(&self) -> bool {
        self.operation.names_only_an_instance() && self.is_not_found()
    }

    /// The service's own "no such task". Tasks may expire, so this proves nothing about the operation's outcome.
    pub fn is_no_such_task(&self) -> bool {
        self.operation == CloudCall::Task && self.is_not_found()
    }

    /// The service's own "no such region" or "no such zone" for a listing: no server can exist there.
    pub fn is_no_such_place(&self) -> bool {
        let code = self.code().unwrap_or_default().to_ascii_lowercase();
        let names_a_place = code.contains("zone") || code.contains("region");
        self.operation == CloudCall::Instances && names_a_place && self.is_not_found()
    }

    fn is_not_found(&self) -> bool {
        let Fault::Answered {
            status,
            refusal: Some(refusal),
            ..
        } = &self.fault
        else {
            return false;
        };
        !self.may_have_happened()
            && self.status() != Some(403)
            && !self.is_unauthorized()
            && !self.is_account_not_normal()
            && !self.is_rate_limited()
            && (*status == 404 || refusal.missing)
    }

    /// The token was refused, in general or for this call.
    pub fn is_unauthorized(&self) -> bool {
        let begins = |word| self.code().is_some_and(|code| starts_with(code, word));
        match self.status() {
            Some(401) => true,
            // The token was accepted: the reason is the account's status or quota.
            Some(403) => !begins("account") && !begins("quota"),
            _ => begins("authenticated."),
        }
    }

    /// The service refuses the account itself (payment, suspension). This is a guess from the status 402 and from codes that
    /// begin with `Account`, since the specification names none: good enough for a condition and for caution, never as proof.
    pub fn is_account_not_normal(&self) -> bool {
        !self.is_unauthorized()
            && (self.status() == Some(402)
                || self.code().is_some_and(|code| starts_with(code, "account")))
    }

    /// Another operation occupies the instance, or the instance is not in the required state. The same request may be accepted
    /// later.
    pub fn is_conflict(&self) -> bool {
        matches!(self.status(), Some(409 | 423 | 425))
    }

    /// The service requires the instance to be stopped first (field note 10: one client states this). Detected by words, since
    /// no code is specified: it must be a refusal because of a state, and mention a stop.
    pub fn requires_stopped_server(&self) -> bool {
        let mentions = |text: Option<&str>, words: &[&str]| {
            let text = text.unwrap_or_default().to_ascii_lowercase();
            words.iter().any(|word| text.contains(word))
        };
        let Some(Envelope { code, message, .. }) = self.refusal() else {
            return false;
        };
        let in_code = |words: &[&str]| mentions(code.as_deref(), words);
        let anywhere = |words: &[&str]| in_code(words) || mentions(message.as_deref(), words);
        let is_refusal = matches!(self.status(), Some(200..500)) && !self.is_not_found();
        let is_of_state = self.is_conflict() || in_code(&["stop", "state", "status", "power"]);
        is_refusal
            && is_of_state
            && !in_code(&["image", "key", "package", "account"])
            && anywhere(&["stop", "shut", "power off", "powered off"])
            && !anywhere(&["progress"])
    }

    /// The rate limit of the service was exceeded.
    pub fn is_rate_limited(&self) -> bool {
        self.status() == Some(429)
    }

    /// The refused address to which the name of the service or of its proxy resolves, if no request may go to any of the name's
    /// addresses.
    pub fn refused_address(&self) -> Option<Refused> {
        let Fault::NotSent(TransportError::Network(source)) = &self.fault else {
            return None;
        };
        beneath(source).find_map(|error| error.downcast_ref().copied())
    }

    /// Nothing was sent, because the answers to other calls left no memory for this one.
    pub fn lacks_memory(&self) -> bool {
        matches!(self.fault, Fault::NotSent(TransportError::NoAnswerMemory))
    }

    /// Whether the error shows that the service cannot be reached or does not work normally: there was no answer, or an answer
    /// that the service itself would not send.
    pub fn is_outage(&self) -> bool {
        match &self.fault {
            Fault::NotSent(_) => !self.lacks_memory(),
            Fault::Timeout(_) | Fault::Broken(_) => true,
            Fault::Unfit { unfit, .. } => matches!(unfit, Unfit::Malformed(_)),
            Fault::Answered { refusal, .. } => {
                let is_unreadable = refusal.is_none() && !self.is_unauthorized();
                self.status() >= Some(500) || (is_unreadable && !self.is_rate_limited())
            }
        }
    }

    /// Whether the operator itself repeats the call: nothing was done, and the service may accept the same call later. Only the
    /// operator makes mutating calls.
    fn is_repeated_by_operator(&self) -> bool {
        let is_of_the_account = self.is_unauthorized() || self.is_account_not_normal();
        self.operation.is_mutating()
            && self.is_retryable()
            && !self.may_have_happened()
            && !is_of_the_account
    }

    /// Whether the answer looks like that of a server that does not know the path. A readable 404 concerns a thing instead.
    fn suggests_wrong_path(&self) -> bool {
        matches!(&self.fault, Fault::Answered { status, refusal, .. }
            if matches!(status, 405 | 501) || (*status == 404 && refusal.is_none()))
    }

    /// A label for metrics, from a small fixed set.
    pub fn category(&self) -> &'static str {
        match &self.fault {
            Fault::NotSent(_) => "not_sent",
            Fault::Timeout(_) => "timeout",
            Fault::Broken(_) => "broken",
            Fault::Unfit { unfit, .. } => match unfit {
                Unfit::Malformed(_) => "undecodable",
                Unfit::Excess(_) => "oversized",
                Unfit::NoMemory(_) => "no_memory",
            },
            Fault::Answered { .. } if self.is_rate_limited() => "rate_limited",
            Fault::Answered { .. } if self.is_unauthorized() => "unauthorized",
            Fault::Answered { .. } if self.is_not_found() => "not_found",
            Fault::Answered { .. } if self.status() >= Some(500) => "server_error",
            Fault::Answered {
                refusal: Some(_), ..
            } => "refused",
            Fault::Answered { refusal: None, .. } => "unexpected_status",
        }
    }

    /// The service's error code.
    pub fn code(&self) -> Option<&str> {
        self.refusal().and_then(|refusal| refusal.code.as_deref())
    }

    /// The decisive status: that of the envelope if a success status carries a refusal, else that of the answer.
    pub fn status(&self) -> Option<u16> {
        match &self.fault {
            Fault::Answered {
                status, refusal, ..
            } => {
                let inner = refusal.as_ref().and_then(|refusal| refusal.status);
                let inner = inner.filter(|_| matches!(status, 200..=299));
                inner.or(Some(*status))
            }
            Fault::Unfit { status, .. } => Some(*status),
            Fault::NotSent(_) | Fault::Timeout(_) | Fault::Broken(_) => None,
        }
    }

    fn refusal(&self) -> Option<&Envelope> {
        let Fault::Answered { refusal, .. } = &self.fault else {
            return None;
        };
        refusal.as_ref()
    }
}

/// Compares codes without regard to case, since each known code comes from a single example.
fn starts_with(code: &str, prefix: &str) -> bool {
    code.get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f)?;
        if self.suggests_wrong_path() {
            f.write_str(
                " (if this lasts, the path may be wrong: check spec.paths of the Account)",
            )?;
        }
        match self.is_repeated_by_operator() {
            true => f.write_str("; the operator retries automatically"),
            false => Ok(()),
        }
    }
}

impl Error {
    /// The status and the message of the answer, and the call that it answered.
    fn answer(&self) -> String {
        let status = self.status().map(|status| status.to_string());
        let envelope = self.refusal().map(ToString::to_string);
        format!(
            "{}{}, at {} {}",
            status.unwrap_or_default(),
            envelope.unwrap_or_default(),
            self.operation.method(),
            self.path
        )
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unauthorized() {
            return write!(f, "the token was refused ({})", self.answer());
        }
        if self.is_rate_limited() {
            return write!(
                f,
                "the service is rate limiting requests ({})",
                self.answer()
            );
        }
        let (call, method) = (self.operation.words(), self.operation.method());
        write!(f, "{call} ({method} {}) ", self.path)?;
        match &self.fault {
            Fault::NotSent(source) => {
                write!(f, "could not reach the service ({})", obstacle(source))
            }
            Fault::Timeout(_) => f.write_str("had no answer in time"),
            Fault::Broken(_) => f.write_str("lost its connection before the answer was whole"),
            Fault::Unfit { status, unfit } => {
                write!(f, "was answered with {status}, but {unfit}")
            }
            Fault::Answered {
                status,
                refusal: None,
                ..
            } => write!(f, "was answered with {status} and no readable reason"),
            Fault::Answered {
                status,
                refusal: Some(refusal),
                ..
            } => {
                // An answer that leaves the outcome unknown is not called a refusal, regardless of its text.
                let how = match self.may_have_happened() {
                    true => "answered",
                    false => "refused",
                };
                write!(f, "was {how} with {status}{refusal}")
            }
        }
    }
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(code) = &self.code {
            // A service may quote the refused password in the code as well.
            write!(f, " {}", password::hide_in(code))?;
        }
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::NotSent(source) | Fault::Timeout(source) | Fault::Broken(source) => Some(source),
            Fault::Answered { .. } | Fault::Unfit { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
