//! What a request to the apiserver may look like. The client library puts names and namespaces into paths as they are: one
//! that is none (`../../victim/secrets/x`, `x?watch=true`) would ask for something else, with our rights, or with those of the
//! user of a command. Here is the one place that every request passes, so that nobody can forget to look.

use crate::api::valid;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use thiserror::Error;

/// The kinds that are ever asked for, by the path of their version.
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

/// Why a request was not sent.
#[derive(Debug, Error)]
#[error("{path:?} is none of the operator's requests: a name in it is none that Kubernetes takes")]
pub struct Malformed {
    path: String,
}

/// The same client, but for what it refuses to send: any request that is not formed like one of ours.
pub fn well_formed(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if !is_well_formed(request.method(), request.uri()) {
                let path = request.uri().to_string().chars().take(200).collect();
                return Err(kube::Error::Service(Box::new(Malformed { path })));
            }
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

/// Whether a request may be one of ours.
fn is_well_formed(method: &Method, uri: &http::Uri) -> bool {
    let Some(path) = uri.path().strip_prefix('/') else {
        return false;
    };
    let segments: Vec<&str> = path.split('/').collect();
    if method == Method::GET && is_of_support(&segments, uri.query()) {
        return true;
    }
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
        // Of all namespaces, or of none.
        [kind] => (kind, None),
        _ => return false,
    };
    let parameters = match (method, name) {
        (&Method::GET, None) => OF_LISTS,
        // Not even the question mark.
        (&Method::GET, Some(_)) if uri.query().is_some() => return false,
        (&Method::GET | &Method::DELETE, Some(_)) => &[],
        (&Method::POST, None) | (&Method::PUT | &Method::PATCH, Some(_)) => OF_WRITES,
        _ => return false,
    };
    kinds.contains(&kind)
        && name.is_none_or(is_name)
        && has_only(uri.query().unwrap_or_default(), parameters)
}

/// Whether it reads what the command `support` reads beside: the version, the operator's Deployment and Pods, and their metrics.
fn is_of_support(segments: &[&str], query: Option<&str>) -> bool {
    let is_namespace = |name: &str| valid::namespace(name).is_ok();
    match *segments {
        ["version"] => query.is_none(),
        ["api", "v1", "namespaces", namespace, "pods"]
        | ["apis", "apps", "v1", "namespaces", namespace, "deployments"] => {
            is_namespace(namespace) && has_only(query.unwrap_or_default(), OF_LISTS)
        }
        [
            "api",
            "v1",
            "namespaces",
            namespace,
            "pods",
            pod,
            "proxy",
            "metrics",
        ] => {
            let pod = pod.strip_suffix(":8080").unwrap_or_default();
            is_namespace(namespace) && valid::object_name(pod).is_ok() && query.is_none()
        }
        _ => false,
    }
}

/// Whether a query holds these parameters alone, each once, and each as the client library writes it.
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
