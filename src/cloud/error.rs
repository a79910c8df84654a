//! Errors of the service, on two axes: is it worth trying again, and may the call have happened all the same?

use rustls::CertificateError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What was asked of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Create an instance.
    Create,
    /// Release an instance.
    Release,
    /// Reinstall an instance's operating system.
    Reinstall,
    /// Set the password of an instance.
    ModifyPassword,
    /// Start an instance.
    Start,
    /// Stop an instance.
    Stop,
    /// Restart an instance.
    Restart,
    /// Details of one instance.
    Detail,
    /// Result of an asynchronous task.
    Task,
    /// One page of the instance list.
    Instances,
    /// One page of the security group list.
    Firewalls,
    /// One page of the image list.
    Images,
    /// One page of the key pair list.
    Keys,
    /// The package list.
    Packages,
    /// The region list.
    Regions,
}

impl Operation {
    /// The name that metrics and messages use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Release => "release",
            Self::Reinstall => "reinstall",
            Self::ModifyPassword => "modify_password",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Detail => "detail",
            Self::Task => "task",
            Self::Instances => "instances",
            Self::Firewalls => "firewalls",
            Self::Images => "images",
            Self::Keys => "keys",
            Self::Packages => "packages",
            Self::Regions => "regions",
        }
    }

    /// Whether the call changes something, and so must not be repeated blindly.
    pub fn is_mutating(self) -> bool {
        match self {
            Self::Create
            | Self::Release
            | Self::Reinstall
            | Self::ModifyPassword
            | Self::Start
            | Self::Stop
            | Self::Restart => true,
            Self::Detail
            | Self::Task
            | Self::Instances
            | Self::Firewalls
            | Self::Images
            | Self::Keys
            | Self::Packages
            | Self::Regions => false,
        }
    }

    /// Whether its answer is a list, which may be long.
    pub(super) fn is_listing(self) -> bool {
        matches!(
            self,
            Self::Instances
                | Self::Firewalls
                | Self::Images
                | Self::Keys
                | Self::Packages
                | Self::Regions
        )
    }

    /// Whether the request names one instance and nothing else, so that "not found" can only mean that instance. A
    /// reinstall also names an image and a key, a password change a region: their "not found" tells nothing.
    fn names_only_an_instance(self) -> bool {
        matches!(
            self,
            Self::Detail | Self::Release | Self::Start | Self::Stop | Self::Restart
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A client could not be built: the configuration is at fault, nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The endpoint is no URL that requests can go to.
    #[error("the endpoint {0}")]
    Endpoint(&'static str),
    /// The token cannot be sent in a header.
    #[error("the token is empty or has characters that no header can carry")]
    Token,
    /// An overridden path is not a plain absolute path.
    #[error("the path for {operation} is not a plain absolute path")]
    Path {
        /// The operation whose path it is.
        operation: Operation,
    },
    /// The HTTP client could not be set up.
    #[error("the HTTP client could not be set up")]
    Http(#[source] reqwest::Error),
}

/// A call that did not bring what was asked for.
///
/// `Display` names operation and path once, and never a token, a password or a whole body; what lies beneath is in
/// the source chain.
#[derive(Debug)]
pub struct Error {
    pub(super) operation: Operation,
    pub(super) path: Arc<str>,
    pub(super) fault: Fault,
}

/// What lies beneath a request that brought no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    /// The network.
    #[error(transparent)]
    Network(reqwest::Error),
    /// A carrier in the same process.
    #[error(transparent)]
    Carrier(super::transport::Lost),
}

/// What went wrong, before it is known where.
#[derive(Debug)]
pub(super) enum Fault {
    /// No connection was opened: name resolution, TCP or TLS failed, or there was nothing to send.
    NotSent(Cause),
    /// The deadline passed.
    Timeout(Cause),
    /// The connection broke with the request on it, or the answer was cut.
    Broken(Cause),
    /// The service answered with a status that is no success, or said no in a 2xx.
    Answered {
        status: u16,
        refusal: Option<Refusal>,
        retry_after: Option<Duration>,
    },
    /// A 2xx that does not say what a success says.
    Garbled { status: u16, what: &'static str },
}

/// An error envelope that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The envelope's own `httpStatus`, where it has one.
    pub status: Option<u16>,
    pub code: Option<String>,
    pub message: Option<String>,
    /// The code is one of those that mean "no such thing".
    pub missing: bool,
}

/// Whether a status with a readable envelope settles that nothing was done. A 5xx tells nothing whatever its body
/// says, nor does 408; nothing in the protocol gives a 1xx or 3xx a meaning.
fn settles(status: u16) -> bool {
    matches!(status, 200..=299 | 400..=407 | 409..=499)
}

impl Error {
    /// The operation that failed.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Whether the service may have carried the call out. `false` only where that is sure: no connection was opened,
    /// or the service refused in a way that could be read.
    pub fn may_have_happened(&self) -> bool {
        match &self.fault {
            Fault::NotSent(_) => false,
            Fault::Timeout(_) | Fault::Broken(_) | Fault::Garbled { .. } => true,
            Fault::Answered {
                status, refusal, ..
            } => match refusal {
                Some(refusal) => {
                    !settles(*status) || refusal.status.is_some_and(|inner| !settles(inner))
                }
                None => true,
            },
        }
    }

    /// Whether the same request may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match &self.fault {
            Fault::NotSent(_) | Fault::Timeout(_) | Fault::Broken(_) | Fault::Garbled { .. } => {
                true
            }
            Fault::Answered { .. } => match self.status() {
                // Conflict, locked, too early: another operation holds the instance.
                Some(408 | 409 | 423 | 425 | 429 | 500..) | None => true,
                Some(_) => false,
            },
        }
    }

    /// How long the service asked to be left alone, at most ten minutes.
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.fault {
            Fault::Answered { retry_after, .. } => *retry_after,
            Fault::NotSent(_) | Fault::Timeout(_) | Fault::Broken(_) | Fault::Garbled { .. } => {
                None
            }
        }
    }

    /// The service's own "no such instance", from a call that was authorised and named nothing but the instance.
    pub fn is_no_such_instance(&self) -> bool {
        self.operation.names_only_an_instance() && self.is_not_found()
    }

    /// The service's own "no such task": tasks may expire, so this says nothing about the operation's outcome.
    pub fn is_no_such_task(&self) -> bool {
        self.operation == Operation::Task && self.is_not_found()
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
        let readable = settles(*status) && refusal.status.is_none_or(settles);
        readable
            && !matches!(self.status(), Some(401 | 403))
            && !self.is_unauthorized()
            && !self.is_account_not_normal()
            && !self.is_rate_limited()
            && (*status == 404 || refusal.missing)
    }

    /// The token was not accepted, or not for this.
    pub fn is_unauthorized(&self) -> bool {
        let begins = |word| self.code().is_some_and(|code| starts_with(code, word));
        match self.status() {
            Some(401) => true,
            // The token was taken: it is the account's standing or its quota that stands in the way.
            Some(403) => !begins("account") && !begins("quota"),
            _ => begins("authenticated."),
        }
    }

    /// The account itself is refused (payment, suspension). A guess from the status 402 and from codes whose first
    /// part is `Account`, since the specification names none: good for a reason in a condition, not for a decision.
    pub fn is_account_not_normal(&self) -> bool {
        !self.is_unauthorized()
            && (self.status() == Some(402)
                || self.code().is_some_and(|code| starts_with(code, "account")))
    }

    /// Another operation holds the instance, or it is not in the state that the request needs: asked again later, the
    /// same request may be taken.
    pub fn is_conflict(&self) -> bool {
        matches!(self.status(), Some(409 | 423 | 425))
    }

    /// The service wants the instance stopped first (field note 10: one client states it). Read from words, since no code
    /// is specified for it: it must be a refusal of a state, and speak of one that is off.
    pub fn wants_it_stopped(&self) -> bool {
        let mentions = |text: Option<&str>, words: &[&str]| {
            let text = text.unwrap_or_default().to_ascii_lowercase();
            words.iter().any(|word| text.contains(word))
        };
        let is_refusal = matches!(self.status(), Some(200..500)) && self.refusal().is_some();
        let of_something_else = mentions(self.code(), &["image", "key", "package", "account"]);
        let of_a_state =
            self.is_conflict() || mentions(self.code(), &["stop", "state", "status", "power"]);
        let off = ["stop", "shut", "power off", "powered off"];
        let says_off = mentions(self.code(), &off) || mentions(self.message(), &off);
        let runs = mentions(self.code(), &["progress"]) || mentions(self.message(), &["progress"]);
        let is_of_it = is_refusal && !self.is_not_found() && !of_something_else;
        is_of_it && of_a_state && says_off && !runs
    }

    /// The request limit of the service was met.
    pub fn is_rate_limited(&self) -> bool {
        self.status() == Some(429)
    }

    /// No connection opened: the service has heard nothing, and would hear nothing of another request now.
    pub fn was_not_sent(&self) -> bool {
        matches!(self.fault, Fault::NotSent(_))
    }

    /// A label for metrics, one of a fixed few.
    pub fn category(&self) -> &'static str {
        match &self.fault {
            Fault::NotSent(_) => "not_sent",
            Fault::Timeout(_) => "timeout",
            Fault::Broken(_) => "broken",
            Fault::Garbled { .. } => "garbled",
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

    /// The service's message, cut to a line.
    pub fn message(&self) -> Option<&str> {
        self.refusal()
            .and_then(|refusal| refusal.message.as_deref())
    }

    /// The status that counts: the envelope's own where a success status carries a refusal, else that of the answer.
    pub fn status(&self) -> Option<u16> {
        match &self.fault {
            Fault::Answered {
                status, refusal, ..
            } => {
                let inner = refusal.as_ref().and_then(|refusal| refusal.status);
                if (200..300).contains(status) {
                    inner.or(Some(*status))
                } else {
                    Some(*status)
                }
            }
            Fault::Garbled { status, .. } => Some(*status),
            Fault::NotSent(_) | Fault::Timeout(_) | Fault::Broken(_) => None,
        }
    }

    fn refusal(&self) -> Option<&Refusal> {
        match &self.fault {
            Fault::Answered { refusal, .. } => refusal.as_ref(),
            Fault::NotSent(_) | Fault::Timeout(_) | Fault::Broken(_) | Fault::Garbled { .. } => {
                None
            }
        }
    }
}

/// Why no connection was opened, in words that are the same each time: the cause itself lies deep in the chain, and its
/// words differ from platform to platform.
fn obstacle(cause: &Cause) -> &'static str {
    let Cause::Network(source) = cause else {
        return "the connection did not open";
    };
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(source);
    while let Some(error) = next {
        // The type is private to hyper-util; these are its words.
        if error.to_string() == "dns error" {
            return "its name does not resolve";
        }
        match error.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(why)) => return flaw(why),
            Some(_) => return "the TLS handshake failed",
            None => {}
        }
        let outer = error.downcast_ref::<io::Error>();
        match outer.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => return "the connection was refused",
            Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
                return "there is no route to it";
            }
            _ => {}
        }
        // An I/O error gives the source of what it wraps, and not what it wraps.
        let wrapped = outer.and_then(|error| error.get_ref());
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    if source.is_timeout() {
        "the connection did not open in time"
    } else {
        "the connection did not open"
    }
}

/// What is wrong with a certificate: each has a remedy of its own.
fn flaw(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired and is to be renewed"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: a clock is wrong, there or here"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        CertificateError::UnknownIssuer => {
            "its certificate is of an authority that the operator does not trust"
        }
        _ => "its certificate is not valid",
    }
}

/// Codes are compared without regard to case: the ones that are known come from one example each.
fn starts_with(code: &str, prefix: &str) -> bool {
    code.get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) ", self.operation, self.path)?;
        match &self.fault {
            Fault::NotSent(source) => {
                write!(f, "could not reach the service ({})", obstacle(source))
            }
            Fault::Timeout(_) => f.write_str("had no answer in time"),
            Fault::Broken(_) => f.write_str("lost its connection before the answer was whole"),
            Fault::Garbled { status, what } => write!(f, "was answered with {status}, but {what}"),
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
                write!(f, "was refused with {status}")?;
                if let Some(code) = &refusal.code {
                    write!(f, " {code}")?;
                }
                match &refusal.message {
                    Some(message) => write!(f, ": {message}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::NotSent(source) | Fault::Timeout(source) | Fault::Broken(source) => Some(source),
            Fault::Answered { .. } | Fault::Garbled { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
