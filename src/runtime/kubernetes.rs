//! Calls to the kube-apiserver. Each has a deadline, and the client repeats no call that may have arrived.

use super::kube_error::NotActive;
use super::requests::{well_formed, wrapped};
use super::times::{
    KUBE_CALL_DEADLINE, KUBE_CONNECT_DEADLINE, WATCH_FIRST_TIMEOUT_SECONDS, WATCH_REOPEN_MIN,
    WATCH_TIMEOUT_SECONDS,
};
use super::watch::ObjectKey;
use super::{Heartbeat, KubeError, Term, chain, traces};
use crate::api::names::MANAGER;
use http::Uri;
use http::uri::Builder;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ObjectMeta, PartialObjectMeta, Patch};
use kube::{Api, Client, Config, Resource};
use serde_json::Value;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;
use tracing::Instrument;

/// The name of operator and plugin in the apiserver's audit log.
const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// The deadline of each call of this process, if a flag of a command sets it.
static DEADLINE: OnceLock<Duration> = OnceLock::new();

/// Sets the deadline of each [`call`] of this process. Clients that are created afterwards wait at least as long for an answer.
/// Only the first value counts.
pub fn set_deadline(deadline: Duration) {
    let _ = DEADLINE.set(deadline);
}

fn deadline() -> Duration {
    *DEADLINE.get().unwrap_or(&KUBE_CALL_DEADLINE)
}

/// Waits for one call, at most [`KUBE_CALL_DEADLINE`] or the deadline of [`set_deadline`].
///
/// # Errors
/// See [`KubeError`].
pub async fn call<T>(
    operation: &'static str,
    future: impl Future<Output = kube::Result<T>>,
) -> Result<T, KubeError> {
    call_within(deadline(), operation, future).await
}

/// Waits for one call, at most for this time.
///
/// # Errors
/// See [`KubeError`].
pub async fn call_within<T>(
    deadline: Duration,
    operation: &'static str,
    future: impl Future<Output = kube::Result<T>>,
) -> Result<T, KubeError> {
    let span = traces::call("kubernetes call", operation);
    let answered = tokio::time::timeout(deadline, future.instrument(span.clone())).await;
    let outcome = match answered {
        Ok(answered) => answered.map_err(|error| KubeError::of(operation, error)),
        Err(_) => Err(KubeError::Timeout {
            operation,
            deadline,
        }),
    };
    traces::ended(&span, outcome.as_ref().err().map(KubeError::category));
    outcome
}

/// The client of the kubeconfig (`KUBECONFIG` or `~/.kube/config`), or else of the Pod's ServiceAccount.
///
/// # Errors
/// There is neither, or it cannot be used.
pub async fn inferred_client() -> Result<Client, String> {
    let config = Config::infer().await.map_err(kube::Error::InferConfig);
    config.and_then(client).map_err(|error| chain(&error))
}

/// The client of this configuration. It does not retry, since the operator itself decides whether to repeat a write. If the
/// kubeconfig names an exec plugin, this function runs it.
///
/// # Errors
/// The configuration cannot be used.
pub fn client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(USER_AGENT),
    ));
    config.connect_timeout = Some(KUBE_CONNECT_DEADLINE);
    let watch = Duration::from_secs(u64::from(WATCH_TIMEOUT_SECONDS) + 10);
    config.read_timeout = Some(watch.max(deadline()));
    config.reset_reader_on_write = true;
    let builder = kube::client::ClientBuilder::try_from(config)?;
    Ok(well_formed(builder.build()))
}

/// Wraps a client so that it refuses every write outside the term. So a standby writes nothing, and neither does a process that
/// was suspended and continues after its term.
pub fn writes_within(client: Client, term: Term) -> Client {
    wrapped(client, move |client, request| {
        let term = term.clone();
        async move {
            if *request.method() != http::Method::GET && !term.holds() {
                return Err(kube::Error::Service(Box::new(NotActive)));
            }
            client.send(request).await
        }
    })
}

/// A request of a watch got no answer in time.
#[derive(Debug, Error)]
#[error("no answer within {} s", KUBE_CALL_DEADLINE.as_secs())]
struct NoAnswer;

/// Wraps a client for watches: each answer must begin within [`KUBE_CALL_DEADLINE`], but its stream may last. The end of the wait
/// for an answer, successful or not, counts as a heartbeat of the watch. Watches start at least `WATCH_REOPEN_MIN` apart, and one
/// that begins with an initial list gets the newest state.
pub fn watching(client: Client, heartbeat: Heartbeat) -> Client {
    let next = Arc::new(Mutex::new(Instant::now()));
    wrapped(client, move |client, mut request| {
        let (heartbeat, next) = (heartbeat.clone(), next.clone());
        async move {
            *request.uri_mut() = begin_with_newest(request.uri())
                .map_err(|error| kube::Error::Service(Box::new(error)))?;
            let query = request.uri().query().unwrap_or_default();
            if query.split('&').any(|part| part == "watch=true") {
                let at = {
                    let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                    let at = Instant::now().max(*next);
                    *next = at + WATCH_REOPEN_MIN;
                    at
                };
                tokio::time::sleep_until(at).await;
            }
            let answered = tokio::time::timeout(KUBE_CALL_DEADLINE, client.send(request)).await;
            heartbeat.beat();
            answered.unwrap_or_else(|_| Err(kube::Error::Service(Box::new(NoAnswer))))
        }
    })
}

/// Makes a watch that begins with an initial list show the newest state of etcd, and gives the list time to complete. `kube`
/// requests version 0, which an apiserver may answer with an older state, and sets the same timeout as for other watches.
fn begin_with_newest(uri: &Uri) -> Result<Uri, http::Error> {
    let query = uri.query().unwrap_or_default();
    let parts: Vec<&str> = query.split('&').collect();
    if !parts.contains(&"sendInitialEvents=true") {
        return Ok(uri.clone());
    }
    let is_changed =
        |part: &&str| *part == "resourceVersion=0" || part.starts_with("timeoutSeconds=");
    let same: Vec<&str> = parts.into_iter().filter(|part| !is_changed(part)).collect();
    let (path, same) = (uri.path(), same.join("&"));
    let target = format!("{path}?{same}&timeoutSeconds={WATCH_FIRST_TIMEOUT_SECONDS}");
    Builder::from(uri.clone()).path_and_query(target).build()
}

/// The parameters of patches, which name the operator as field manager.
pub fn patch_params() -> kube::api::PatchParams {
    kube::api::PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..Default::default()
    }
}

/// Makes a JSON patch from its operations.
///
/// # Errors
/// They are not a JSON patch, which is a defect of the caller.
pub fn json_patch(operation: &'static str, operations: Value) -> Result<Patch<()>, KubeError> {
    let operations = serde_json::from_value(operations);
    operations
        .map(Patch::Json)
        .map_err(|_| KubeError::unwritable(operation))
}

/// Applies a JSON patch to the status of an object, one call. Returns the metadata of the patched object.
///
/// # Errors
/// See [`KubeError`].
pub async fn patch_status<K>(
    client: &Client,
    key: &ObjectKey,
    operation: &'static str,
    operations: Vec<Value>,
) -> Result<ObjectMeta, KubeError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(client.clone(), &key.namespace);
    let (patch, params) = (
        json_patch(operation, Value::Array(operations))?,
        patch_params(),
    );
    let patched = call(operation, api.patch_status(&key.name, &params, &patch)).await?;
    Ok(patched.metadata)
}

/// A JSON pointer to the value under these keys.
pub fn pointer(keys: &[&str]) -> String {
    keys.iter()
        .map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;
    use kube::client::Body;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test(start_paused = true)]
    async fn outside_its_term_a_process_reads_but_does_not_write() {
        static SENT: AtomicUsize = AtomicUsize::new(0);
        let server = tower::service_fn(|_: http::Request<Body>| async {
            SENT.fetch_add(1, Ordering::SeqCst);
            let body = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
            Ok::<_, kube::Error>(http::Response::new(Body::from(body.as_bytes().to_vec())))
        });
        let term = Term::awaited();
        let client = writes_within(Client::new(server, "default"), term.clone());
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let write = async || {
            let (params, object) = (PostParams::default(), ConfigMap::default());
            call("write", api.create(&params, &object))
                .await
                .map(|_| ())
        };
        assert!(call("read", api.get("a")).await.is_ok());
        let refused = write().await.unwrap_err();
        assert!(matches!(refused, KubeError::NotActive { .. }), "{refused}");
        assert!(!refused.may_have_happened());
        assert!(term.extend_until(Instant::now() + Duration::from_secs(10)));
        assert!(write().await.is_ok());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(write().await.is_err(), "the term has ended");
        assert_eq!(SENT.load(Ordering::SeqCst), 2, "one read, one write");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends_at_its_deadline_with_an_unknown_outcome() {
        let server = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, kube::Error>>()
        });
        let api: Api<ConfigMap> = Api::default_namespaced(Client::new(server, "default"));
        let began = Instant::now();
        let params = PostParams::default();
        let error = call("write", api.create(&params, &ConfigMap::default())).await;
        let error = error.unwrap_err();
        assert!(matches!(error, KubeError::Timeout { .. }), "{error}");
        assert!(error.may_have_happened());
        // The runtime's clock rounds up.
        let took = began.elapsed();
        assert!(
            took >= KUBE_CALL_DEADLINE && took < KUBE_CALL_DEADLINE + Duration::from_millis(10)
        );
    }

    #[test]
    fn a_watch_begins_with_the_newest_state_and_is_otherwise_unchanged() {
        let secrets = "/api/v1/secrets?&watch=true&timeoutSeconds=20&fieldSelector=type%21%3Da%2Ctype%21%3Db\
                       &allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let of = |uri: &str| {
            begin_with_newest(&uri.parse().unwrap())
                .unwrap()
                .to_string()
        };
        let rewritten = of(&format!("https://10.0.0.1{secrets}&resourceVersion=0"));
        let expected = secrets.replace("timeoutSeconds=20&", "");
        assert_eq!(
            rewritten,
            format!("https://10.0.0.1{expected}&timeoutSeconds=120")
        );
        for other in [
            "/api/v1/secrets?watch=true&timeoutSeconds=20&resourceVersion=0",
            "/api/v1/secrets?limit=50",
            "/api/v1/namespaces/a/secrets/sendInitialEvents=true",
        ] {
            assert_eq!(of(other), other);
        }
    }

    #[test]
    fn a_pointer_escapes_its_keys() {
        assert_eq!(
            pointer(&["metadata", "annotations", "a.b/c~d"]),
            "/metadata/annotations/a.b~1c~0d"
        );
    }
}
