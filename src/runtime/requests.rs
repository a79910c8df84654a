//! Restricts the form of requests to the apiserver. The client library inserts names and namespaces into paths unchanged, so an
//! invalid one (`../../victim/secrets/x`, `x?watch=true`) would request something else, with the operator's permissions or with
//! those of a command's user. Every request passes through this check, so that no caller can forget it. It does not see a `#`,
//! which cuts off the rest of the path: callers validate namespaces, and names that a user chooses.

use crate::api::valid;
use http::{Method, Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use thiserror::Error;

/// The requested kinds. The last three are those of the command `support`.
const KINDS: [&str; 12] = [
    "namespaces",
    "secrets",
    "configmaps",
    "events",
    "leases",
    "accounts",
    "instances",
    "tokenreviews",
    "subjectaccessreviews",
    "deployments",
    "statefulsets",
    "pods",
];

/// The reason why a request was not sent.
#[derive(Debug, Error)]
#[error("{path:?} is no request of this program: it contains a name that Kubernetes rejects")]
pub struct Malformed {
    path: String,
}

/// A client that passes each request to `send`, with the client that it wraps.
pub(super) fn wrapped<F>(
    client: Client,
    send: impl Fn(Client, Request<Body>) -> F + Clone + Send + 'static,
) -> Client
where
    F: Future<Output = kube::Result<Response<Body>>> + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request| send(client.clone(), request));
    Client::new(service, namespace)
}

/// Wraps a client so that it refuses every request whose form is not one of this program's.
pub fn well_formed(client: Client) -> Client {
    wrapped(client, |client, request| async move {
        if !is_well_formed(request.method(), request.uri()) {
            let path = request.uri().to_string().chars().take(200).collect();
            return Err(kube::Error::Service(Box::new(Malformed { path })));
        }
        client.send(request).await
    })
}

fn is_well_formed(method: &Method, uri: &Uri) -> bool {
    let segments: Vec<&str> = uri.path().split('/').skip(1).collect();
    let resource = match *segments {
        ["version"] => return method == Method::GET,
        ["api", _, ref resource @ ..] | ["apis", _, _, ref resource @ ..] => resource,
        _ => return false,
    };
    let (kind, namespace, name) = match *resource {
        // In all namespaces, or of a cluster-scoped kind.
        [kind] => (kind, None, None),
        // A Namespace is only read. If a `#` in its name cut off the rest of a path, a write in the Namespace would become a write
        // of the Namespace itself.
        ["namespaces", name] if method == Method::GET && valid::namespace(name).is_ok() => {
            ("namespaces", None, Some(name))
        }
        ["namespaces", namespace, kind] => (kind, Some(namespace), None),
        ["namespaces", namespace, kind, name] => (kind, Some(namespace), Some(name)),
        ["namespaces", namespace, kind, name, "status"] if method == Method::PATCH => {
            (kind, Some(namespace), Some(name))
        }
        ["namespaces", namespace, "pods", pod, "proxy", "metrics"] if method == Method::GET => {
            match pod.split_once(':') {
                Some((name, port)) if port.parse::<u16>().is_ok() => {
                    ("pods", Some(namespace), Some(name))
                }
                _ => return false,
            }
        }
        _ => return false,
    };
    let fits = match (method, name) {
        // An empty query is refused, too: the library adds none.
        (&Method::GET, Some(_)) => uri.query().is_none(),
        (&Method::DELETE, Some(_)) => uri.query().unwrap_or_default().is_empty(),
        (&Method::GET | &Method::POST, None) | (&Method::PUT | &Method::PATCH, Some(_)) => true,
        _ => false,
    };
    fits && KINDS.contains(&kind)
        && namespace.is_none_or(|namespace| valid::namespace(namespace).is_ok())
        && name.is_none_or(|name| valid::object_name(name).is_ok())
        && is_plain(uri.query().unwrap_or_default())
}

/// Whether a query is in the client library's notation. The library itself begins the query of each request that may have one, so a
/// question mark in a name would be the first of two, and the second one is refused here.
fn is_plain(query: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"*-._+%=&".contains(&byte);
    query.bytes().all(is_plain)
}

#[cfg(test)]
mod tests;
