//! Restricts the form of requests to the apiserver. The client library inserts names and namespaces into paths unchanged, so an
//! invalid one (`../../victim/secrets/x`, `x?watch=true`) would request something else, with the operator's permissions or with
//! those of a command's user. Every request passes through this check, so that no caller can forget it.

use crate::api::valid;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use thiserror::Error;

/// The requested kinds, by the path of their version. Only the command `support` requests a little more, through a separate
/// client ([`of_support`]); the operator's own client never does.
const KINDS: [(&[&str], &[&str]); 6] = [
    (&["api", "v1"], &["namespaces", "secrets", "configmaps"]),
    (
        &["apis", "cloudserver.dev", "v1alpha1"],
        &["accounts", "instances"],
    ),
    (&["apis", "events.k8s.io", "v1"], &["events"]),
    (&["apis", "coordination.k8s.io", "v1"], &["leases"]),
    (&["apis", "authentication.k8s.io", "v1"], &["tokenreviews"]),
    (
        &["apis", "authorization.k8s.io", "v1"],
        &["subjectaccessreviews"],
    ),
];

/// Parameters of a list or a watch.
const OF_LISTS: &[&str] = &[
    "limit",
    "continue",
    "labelSelector",
    "fieldSelector",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
];
/// Parameters of a write.
const OF_WRITES: &[&str] = &["fieldManager", "fieldValidation", "dryRun", "force"];

/// The reason why a request was not sent.
#[derive(Debug, Error)]
#[error("{path:?} is none of the operator's requests: a name in it is none that Kubernetes takes")]
pub struct Malformed {
    path: String,
}

/// Wraps a client so that it refuses every request whose form is not one of the operator's.
pub fn well_formed(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if !may_pass(&request) {
                let path = request.uri().to_string().chars().take(200).collect();
                return Err(kube::Error::Service(Box::new(Malformed { path })));
            }
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

fn may_pass(request: &Request<Body>) -> bool {
    let (method, uri) = (request.method(), request.uri());
    let comes_from_support = request.extensions().get::<OfSupport>().is_some();
    is_well_formed(method, uri) || (comes_from_support && is_of_support(method, uri))
}

/// Marks a request of the command `support`.
#[derive(Clone, Copy)]
struct OfSupport;

/// The client of the command `support`, made from a well-formed one. It may also read the apiserver's version, list Deployments,
/// StatefulSets and Pods of a namespace, and read the metrics page of a Pod.
pub fn of_support(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        async move {
            request.extensions_mut().insert(OfSupport);
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

/// Whether a request has one of the operator's forms.
fn is_well_formed(method: &Method, uri: &http::Uri) -> bool {
    let Some(path) = uri.path().strip_prefix('/') else {
        return false;
    };
    let segments: Vec<&str> = path.split('/').collect();
    let known = KINDS.iter().find_map(|(version, kinds)| {
        let rest = segments.strip_prefix(*version)?;
        Some((rest, *kinds))
    });
    let Some((rest, kinds)) = known else {
        return false;
    };
    let is_name = |name: &str| valid::object_name(name).is_ok();
    let (kind, name) = match *rest {
        ["namespaces", name] if valid::namespace(name).is_ok() => ("namespaces", Some(name)),
        ["namespaces", namespace, kind, ref object @ ..] if valid::namespace(namespace).is_ok() => {
            match *object {
                [] => (kind, None),
                [name] => (kind, Some(name)),
                [name, "status"] if method == Method::PATCH => (kind, Some(name)),
                _ => return false,
            }
        }
        // In all namespaces, or of a cluster-scoped kind.
        [kind] => (kind, None),
        _ => return false,
    };
    let parameters = match (method, name) {
        (&Method::GET, None) => OF_LISTS,
        // An empty query is refused, too.
        (&Method::GET, Some(_)) if uri.query().is_some() => return false,
        (&Method::GET | &Method::DELETE, Some(_)) => &[],
        (&Method::POST, None) | (&Method::PUT | &Method::PATCH, Some(_)) => OF_WRITES,
        _ => return false,
    };
    kinds.contains(&kind)
        && name.is_none_or(is_name)
        && has_only(uri.query().unwrap_or_default(), parameters)
}

/// Whether the request is one of those that only the command `support` makes: the version, the operator's Deployment or
/// StatefulSet, its Pods, and their metrics.
fn is_of_support(method: &Method, uri: &http::Uri) -> bool {
    let is_namespace = |name: &str| valid::namespace(name).is_ok();
    let segments: Vec<&str> = uri.path().split('/').skip(1).collect();
    if method != Method::GET || !uri.path().starts_with('/') {
        return false;
    }
    match *segments {
        ["version"] => uri.query().is_none(),
        ["api", "v1", "namespaces", namespace, "pods"]
        | [
            "apis",
            "apps",
            "v1",
            "namespaces",
            namespace,
            "deployments" | "statefulsets",
        ] => is_namespace(namespace) && has_only(uri.query().unwrap_or_default(), OF_LISTS),
        [
            "api",
            "v1",
            "namespaces",
            namespace,
            "pods",
            pod,
            "proxy",
            "metrics",
        ] => is_namespace(namespace) && is_port_of_pod(pod) && uri.query().is_none(),
        _ => false,
    }
}

/// Whether the text names a Pod and one of its ports.
fn is_port_of_pod(text: &str) -> bool {
    let Some((pod, port)) = text.split_once(':') else {
        return false;
    };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    valid::object_name(pod).is_ok() && is_number && port.parse::<u16>().is_ok()
}

/// Whether a query contains only these parameters, each once and in the client library's notation.
fn has_only(query: &str, known: &[&str]) -> bool {
    let mut met = Vec::new();
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .all(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"*-._+%".contains(&byte);
            let is_new = !met.contains(&key);
            met.push(key);
            is_new && known.contains(&key) && value.bytes().all(encoded)
        })
}

#[cfg(test)]
mod tests;
