use super::*;
use crate::api::{Account, Instance};
use crate::runtime::KubeError;
use crate::runtime::kubernetes::{call, patch_params};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// The requests that reached a fake apiserver, which answers every request with an error.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<String>>>);

impl Sent {
    fn client(&self) -> Client {
        let sent = self.0.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri());
            sent.lock().unwrap().push(line);
            async {
                Ok::<_, kube::Error>(Response::builder().status(404).body(Body::empty()).unwrap())
            }
        });
        well_formed(Client::new(service, "team-a"))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Makes every kind of request that concerns a kind of objects, with this namespace and name.
async fn request_all(client: &Client, namespace: &str, name: &str) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let instances: Api<Instance> = Api::namespaced(client.clone(), namespace);
    let accounts: Api<Account> = Api::namespaced(client.clone(), namespace);
    let (post, patch) = (PostParams::default(), Patch::Merge(serde_json::json!({})));
    let apply = PatchParams::apply("me").force().dry_run();
    let _ = secrets.get(name).await;
    let _ = secrets.get_metadata(name).await;
    let _ = secrets.delete(name, &DeleteParams::default()).await;
    let _ = secrets.patch(name, &patch_params(), &patch).await;
    let _ = secrets.create(&post, &Secret::default()).await;
    let _ = secrets
        .list(&ListParams::default().labels("a=b,c").limit(1))
        .await;
    let _ = instances
        .patch(
            name,
            &apply.validation_strict(),
            &Patch::Apply(serde_json::json!({})),
        )
        .await;
    let _ = instances.patch_status(name, &patch_params(), &patch).await;
    let _ = instances.watch(&WatchParams::default(), "0").await;
    let _ = accounts.get_opt(name).await;
}

#[tokio::test]
async fn requests_with_valid_names_are_sent() {
    let sent = Sent::default();
    let client = sent.client();
    request_all(&client, "team-a", "web-1.a").await;
    assert_eq!(sent.take().len(), 10);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let _ = namespaces.get_metadata("kube-system").await;
    let everywhere: Api<Instance> = Api::all(client.clone());
    let watched = WatchParams::default().initial_events();
    let _ = everywhere.watch_metadata(&watched, "17").await;
    let _ = everywhere
        .list_metadata(&ListParams::default().continue_token("a/b=&?"))
        .await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "cloud-server-system");
    let _ = leases
        .replace("lease", &PostParams::default(), &Lease::default())
        .await;
    let events: Api<Event> = Api::namespaced(client.clone(), "team-a");
    let _ = events
        .create(&PostParams::default(), &Event::default())
        .await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "team-a");
    let _ = maps.get("ca").await;
    assert_eq!(sent.take().len(), 6);
}

#[tokio::test]
async fn a_name_that_is_a_path_is_reported_as_malformed_and_not_sent() {
    let sent = Sent::default();
    let client = sent.client();
    for name in [
        "../../victim/secrets/x",
        "?limit=1",
        "x?watch=true",
        "x?fieldManager=me",
        "x/../y",
        "..",
        ".",
        "%2e%2e",
        "x%2Fy",
        "x%3Flimit=1",
        "a//b",
        "X",
        "-",
        "x&force=true",
    ] {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "team-a");
        for error in [
            call("read Secret", secrets.get(name)).await.map(|_| ()),
            call("read Secret", secrets.get_metadata(name))
                .await
                .map(|_| ()),
            call("delete", secrets.delete(name, &DeleteParams::default()))
                .await
                .map(|_| ()),
        ] {
            let error = error.unwrap_err();
            assert!(
                matches!(error, KubeError::Malformed { .. }),
                "{name}: {error}"
            );
            assert!(!error.may_have_happened());
            assert!(
                error.to_string().contains("a name that Kubernetes rejects"),
                "{error}"
            );
        }
        request_all(&client, "team-a", name).await;
        // Requests that name no object are not affected.
        assert_eq!(sent.take().len(), 3, "{name}");
        request_all(&client, name, "x").await;
        assert_eq!(sent.take(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn requests_that_the_program_never_makes_are_refused() {
    let is_ours = |method: &Method, uri: &str| is_well_formed(method, &uri.parse::<Uri>().unwrap());
    let secrets = "/api/v1/namespaces/a/secrets";
    assert!(is_ours(&Method::GET, &format!("{secrets}/x")));
    assert!(is_ours(
        &Method::GET,
        &format!("{secrets}?limit=1&continue=a%2Fb")
    ));
    for (method, uri) in [
        (Method::GET, "/"),
        (Method::GET, "/api/v1"),
        // A namespace in a path that ends with #, of a form that only names of other kinds may have.
        (Method::GET, "/api/v1/namespaces/0.a"),
        (
            Method::GET,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/x",
        ),
        (Method::GET, "/api/v1/namespaces/a/secrets/x/"),
        (Method::GET, "/api/v1/namespaces/a/secrets/x/log"),
        (Method::GET, "/api/v1/namespaces/a/secrets/x/status"),
        (Method::GET, "/api/v1/namespaces/a/secrets/x/status/y"),
        (Method::GET, "/api/v1/secrets/x"),
        (Method::GET, "/api/v1/namespaces/a/secrets?limit=1?limit=2"),
        (
            Method::GET,
            "/api/v1/namespaces/a/secrets?labelSelector=a/b",
        ),
        (Method::DELETE, "/api/v1/namespaces/a/secrets"),
        (Method::DELETE, "/api/v1/namespaces/a/secrets/x?dryRun=All?"),
        (
            Method::PATCH,
            "/api/v1/namespaces/a/secrets/x?force=true?&fieldManager=m",
        ),
        (Method::POST, "/api/v1/namespaces/a/secrets/x"),
        (Method::CONNECT, "/api/v1/namespaces/a/secrets/x"),
    ] {
        assert!(!is_ours(&method, uri), "{method} {uri}");
    }
}

proptest! {
    /// In a valid namespace, each request that is sent concerns that kind in that namespace, regardless of the name. Callers must
    /// validate the namespace: one with a `#` can name another kind. Here a request names a valid one in any case.
    #[test]
    fn no_name_makes_a_request_leave_its_namespace_and_kind(
        namespace in "(team-a|[-a-z/.?#%&=0-9]{0,24}|\\PC{0,8})",
        name in "(web|[-a-z/.?#%&=0-9]{0,24}|\\PC{0,8})",
    ) {
        let sent = Sent::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { request_all(&sent.client(), &namespace, &name).await });
        for line in sent.take() {
            let path = line.split([' ', '?']).nth(1).unwrap();
            let parts: Vec<&str> = path.split('/').collect();
            let at = parts.iter().position(|part| *part == "namespaces").unwrap();
            // A fragment is never part of a request, so the URI of a name with one ends there, and its own query is that of the
            // request. Nor can the comparison distinguish a question mark that ends a name (with an empty query) from the one that
            // the library appends in a delete.
            let before = |text: &str| {
                let is_empty = |query: &str| query.chars().all(|c| c == '&');
                let (text, has_fragment) = match text.split_once('#') {
                    Some((text, _)) => (text, true),
                    None => (text, false),
                };
                match text.split_once('?') {
                    Some((name, query)) if has_fragment || is_empty(query) => name.to_owned(),
                    Some(_) | None => text.to_owned(),
                }
            };
            prop_assert!(valid::namespace(parts[at + 1]).is_ok(), "{line}");
            if valid::namespace(&namespace).is_ok() {
                prop_assert_eq!(parts[at + 1], &namespace, "{}", &line);
                prop_assert!(["secrets", "instances", "accounts"].contains(&parts[at + 2]), "{line}");
                if let Some(sent) = parts.get(at + 3) {
                    prop_assert_eq!(*sent, before(&name), "{}", &line);
                }
            }
        }
    }
}

#[test]
fn the_metrics_of_a_pod_are_read_and_nothing_else_through_its_proxy() {
    let is_ours = |path: &str| is_well_formed(&Method::GET, &path.parse::<Uri>().unwrap());
    let pods = "/api/v1/namespaces/cloud-server-system/pods";
    assert!(is_ours("/version"));
    assert!(is_ours(&format!("{pods}/operator-a1:8080/proxy/metrics")));
    for path in [
        &format!("{pods}/operator-a1/log"),
        &format!("{pods}/operator-a1/proxy/metrics"),
        &format!("{pods}/operator-a1:/proxy/metrics"),
        &format!("{pods}/operator-a1:80800/proxy/metrics"),
        &format!("{pods}/operator-a1:8080:22/proxy/metrics"),
        &format!("{pods}/https:operator-a1:8080/proxy/metrics"),
        &format!("{pods}/operator-a1:8080/proxy/admin"),
        &format!("{pods}/operator-a1:8080/proxy/metrics?x=y"),
        &format!("{pods}/..%2f:8080/proxy/metrics"),
        "/api/v1/namespaces/../pods",
    ] {
        assert!(!is_ours(path), "{path}");
    }
}
