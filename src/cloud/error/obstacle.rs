//! Finds, in the source chain of a transport error, the reason why no connection was opened.

use super::flaw::flaw;
use crate::cloud::address::Refused;
use std::borrow::Cow;
use std::io;

/// The cause of a request without an answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::cloud) enum TransportError {
    #[error(transparent)]
    Network(reqwest::Error),
    /// A carrier in the same process returned no answer.
    #[error("no answer in this process")]
    Carrier,
    /// Until the deadline of the call, other calls under way left no memory for its answer.
    #[error("the answers to other calls under way left no memory for this one")]
    NoAnswerMemory,
}

/// An error and all its sources.
pub(super) fn beneath<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        // `source` of an I/O error skips the wrapped error itself and returns the source of that.
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

/// The reason why no connection was opened, in stable words: the cause itself is deep in the source chain, and its text differs
/// between platforms.
pub(super) fn obstacle(cause: &TransportError) -> Cow<'static, str> {
    let source = match cause {
        TransportError::Network(source) => source,
        TransportError::Carrier => return "the connection did not open".into(),
        TransportError::NoAnswerMemory => {
            return "the answers to other calls left no memory for this one".into();
        }
    };
    // A refused address is the source of a "dns error", whose text would hide the real reason.
    if let Some(refused) = beneath(source).find_map(|error| error.downcast_ref::<Refused>()) {
        return format!("the host name resolves to {refused}: no request goes there").into();
    }
    for error in beneath(source) {
        // The type is private to hyper-util, so its text is compared.
        if error.to_string() == "dns error" {
            return "the host name does not resolve".into();
        }
        // Likewise, hyper-util's text for a proxy that answers CONNECT with an error other than 407.
        if error.to_string() == "tunnel error: unsuccessful" {
            return "the proxy refused the connection".into();
        }
        match error.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(why)) => return flaw(why),
            Some(rustls::Error::AlertReceived(alert)) => {
                return format!("it refused the TLS handshake: {alert:?}").into();
            }
            Some(_) => return "the TLS handshake failed".into(),
            None => {}
        }
        match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => return "the connection was refused".into(),
            Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable) => {
                return "there is no route to it".into();
            }
            _ => {}
        }
    }
    if source.is_timeout() {
        "the connection did not open in time".into()
    } else {
        "the connection did not open".into()
    }
}
