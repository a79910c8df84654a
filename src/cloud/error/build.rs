//! The reasons why a client cannot be built.

use crate::cloud::CloudCall;
use crate::cloud::address::{Refused, Target};
use crate::cloud::tls::TlsError;

/// A client could not be built; nothing was sent. Except for [`Self::Http`] and [`TlsError::Setup`], the configuration is wrong.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The endpoint is not a URL that requests can go to.
    #[error("the endpoint {0}")]
    Endpoint(&'static str),
    /// The operator does not allow this endpoint.
    #[error("the endpoint is none of those that the operator allows")]
    NotAllowed,
    /// The token cannot be sent in a header.
    #[error("the token is empty or has characters that no header can carry")]
    Token,
    /// An overridden path is not a plain absolute path.
    #[error("the path for {0} is not a plain absolute path")]
    Path(CloudCall),
    /// The endpoint or the proxy is an address to which no request may go.
    #[error("no request goes to {1}")]
    Address(Target, Refused),
    /// The proxy is not a URL that connections can use.
    #[error("the proxy {0}")]
    Proxy(&'static str),
    /// The operator does not allow this proxy.
    #[error("the proxy is none that --allowed-endpoint of the operator allows")]
    ProxyNotAllowed,
    /// The CA bundle or the client certificate is not usable.
    #[error(transparent)]
    Tls(TlsError),
    /// The HTTP client could not be set up.
    #[error("the HTTP client could not be set up")]
    Http(#[source] reqwest::Error),
}
