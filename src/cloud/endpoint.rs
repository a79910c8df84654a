//! An Account's endpoint, and the patterns that limit which endpoints the operator uses.

use super::error::BuildError;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;
use url::{Host, Url};

/// Parses an endpoint to which the paths of requests can be appended.
///
/// # Errors
/// It is not an http or https URL, or contains a part that no endpoint has.
pub fn check_endpoint(endpoint: &str) -> Result<Url, BuildError> {
    let url = Url::parse(endpoint.trim()).map_err(|_| BuildError::Endpoint("is no URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(BuildError::Endpoint("is no http or https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BuildError::Endpoint("has user information in it"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(BuildError::Endpoint("has a query or a fragment"));
    }
    Ok(url)
}

/// The endpoints that the operator allows (`--allowed-endpoint`). Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AllowedEndpoints(Arc<[EndpointPattern]>);

impl AllowedEndpoints {
    /// Whether requests may go to this endpoint. Without patterns, every endpoint is allowed.
    pub fn allow(&self, endpoint: &Url) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.matches(endpoint))
    }

    /// Whether a pattern that matches this endpoint names exactly its host, rather than a domain above it. Such a host is allowed
    /// on purpose, even if it is, or resolves to, an address that is otherwise refused.
    pub fn name_host_of(&self, endpoint: &Url) -> bool {
        let mut patterns = self.0.iter();
        patterns
            .any(|pattern| matches!(pattern.host, HostPattern::Is(_)) && pattern.matches(endpoint))
    }
}

impl From<Vec<EndpointPattern>> for AllowedEndpoints {
    fn from(patterns: Vec<EndpointPattern>) -> Self {
        Self(patterns.into())
    }
}

/// A pattern of allowed endpoints, in the syntax of a source in a Content Security Policy: `[scheme://]host[:port][/path]`.
///
/// * The default scheme is https.
/// * The host `*.cloud.example` matches every host below cloud.example, but not cloud.example itself.
/// * The default port is the scheme's own; `:*` is any port.
/// * The path is a prefix by whole segments.
///
/// Both sides are compared as URLs, parsed by the same parser that the requests use, so that the comparison and the requests
/// agree on host and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPattern {
    text: String,
    scheme: String,
    host: HostPattern,
    /// None is any port.
    port: Option<u16>,
    path: Vec<String>,
}

/// A host in normalized form, without the trailing dot that a name may have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Is(String),
    Below(String),
}

/// The error in a pattern. It does not repeat the pattern, which may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}: write it as https://cloud.example/api or *.cloud.example")]
pub struct PatternError(&'static str);

impl FromStr for EndpointPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let is_refused = |c: char| c.is_whitespace() || c.is_control() || "@\\?#'\"".contains(c);
        if text.is_empty() {
            return Err(PatternError("it is empty"));
        }
        if text.contains(is_refused) {
            return Err(PatternError(
                "it has a user name, a query, a fragment, a quotation mark, a backslash or white space in it",
            ));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return Err(PatternError("its scheme is neither https nor http"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let without_port = authority.strip_suffix(":*");
        let (authority, any_port) = (without_port.unwrap_or(authority), without_port.is_some());
        let domain = authority.strip_prefix("*.");
        let (authority, below) = (domain.unwrap_or(authority), domain.is_some());
        if authority.contains('*') || path.contains('*') {
            return Err(PatternError(
                "a star may only be the port (:*) or begin the host (*.)",
            ));
        }
        if authority.matches(':').count() > 1 && !authority.starts_with('[') {
            return Err(PatternError("an IPv6 address needs square brackets"));
        }
        let url = Url::parse(&format!("{scheme}://{authority}{path}")).ok();
        let url = url.filter(|_| !authority.ends_with(':'));
        let url = url.ok_or(PatternError("it is no URL and no host"))?;
        let host = plain(url.host_str().unwrap_or_default());
        let host = match (below, url.host()) {
            (false, Some(_)) => HostPattern::Is(host),
            (true, Some(Host::Domain(_))) => HostPattern::Below(host),
            (true, _) => return Err(PatternError("there is nothing below an address")),
            (false, None) => return Err(PatternError("it has no host")),
        };
        Ok(Self {
            text: text.to_owned(),
            host,
            port: url.port_or_known_default().filter(|_| !any_port),
            path: segments(&url).map(str::to_owned).collect(),
            scheme,
        })
    }
}

impl EndpointPattern {
    /// Whether an endpoint matches this pattern.
    pub fn matches(&self, endpoint: &Url) -> bool {
        endpoint.scheme() == self.scheme
            && (self.port.is_none() || self.port == endpoint.port_or_known_default())
            && self.host.matches(endpoint)
            && is_below(endpoint, &self.path)
    }
}

impl HostPattern {
    fn matches(&self, endpoint: &Url) -> bool {
        let host = plain(endpoint.host_str().unwrap_or_default());
        match (self, endpoint.host()) {
            (Self::Is(own), Some(_)) => host == *own,
            (Self::Below(domain), Some(Host::Domain(_))) => host
                .strip_suffix(domain.as_str())
                .and_then(|labels| labels.strip_suffix('.'))
                .is_some_and(|labels| !labels.is_empty()),
            (Self::Is(_) | Self::Below(_), _) => false,
        }
    }
}

impl fmt::Display for EndpointPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A host as the parser writes it, without the trailing dot of a name: with and without the dot, it is the same host.
fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_owned()
}

/// The segments of a path. Trailing slashes are dropped, as in requests.
fn segments(url: &Url) -> impl Iterator<Item = &str> {
    let path = url.path().trim_end_matches('/');
    path.split('/').skip(1)
}

/// Whether the path of an endpoint begins with these segments. The remaining segments must be plain: some servers interpret an
/// escaped slash, `..;`, `...` or an empty segment as the parent directory.
fn is_below(endpoint: &Url, path: &[String]) -> bool {
    let mut segments = segments(endpoint);
    let begins = path
        .iter()
        .all(|segment| segments.next() == Some(segment.as_str()));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    let is_name = |segment: &str| segment.contains(|c| c != '.') && segment.chars().all(is_plain);
    begins && segments.all(is_name)
}

#[cfg(test)]
mod tests;
