//! Forbidden destinations: this machine and its link, by any name or notation, unless the operator's flags allow them.

use crate::support::{Setup, World, eventually, insist, instance};
use cloud_server_operator::api::Account;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// Counts connections, and sends nothing.
pub(super) struct Silent {
    pub(super) port: u16,
    connections: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Silent {
    /// On every address of this machine.
    pub(super) async fn begin() -> Self {
        let listener = TcpListener::bind("[::]:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            let mut held = Vec::new();
            loop {
                held.push(listener.accept().await.unwrap());
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self {
            port,
            connections,
            task: task.abort_handle(),
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Writes an Account with these fields in addition to endpoint and token.
pub(super) async fn apply_account(world: &World, name: &str, endpoint: &str, more: Value) {
    let mut spec = json!({
        "endpoint": endpoint,
        "tokenSecretRef": {"name": "cloud-token", "key": "token"},
        "settleSeconds": 2,
        "requests": {"perSecond": 500, "burst": 500, "concurrent": 50},
    });
    let fields = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    let account = json!({
        "apiVersion": "cloudserver.dev/v1alpha1",
        "kind": "Account",
        "metadata": {"name": name},
        "spec": spec,
    });
    let (accounts, params) = (world.accounts(), PatchParams::apply("user").force());
    let patch = Patch::Apply(&account);
    let written = insist("an Account is written", async || {
        accounts.patch(name, &params, &patch).await
    });
    written.await.unwrap();
}

pub(super) fn find<'a>(account: &'a Account, kind: &str) -> Option<&'a Condition> {
    let conditions = &account.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Waits until Ready of an Account has this reason for the current spec.
pub(super) async fn until_reported(world: &World, name: &str, reason: &str) -> (Account, String) {
    eventually(&format!("Account {name} reports {reason}"), async || {
        let found = insist("read it", async || world.accounts().get(name).await);
        let account = found.await.unwrap();
        let ready = find(&account, "Ready").cloned();
        match ready {
            Some(ready)
                if ready.reason == reason
                    && ready.observed_generation == account.metadata.generation =>
            {
                Ok((account, ready.message))
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_or_proxy_on_this_machine_or_its_link_gets_no_connection() {
    // Nothing is allowed by name.
    let unset = ["/usr/bin/env", "-u", "CSO_ALLOWED_ENDPOINTS"];
    let world = Setup::default().around(&unset).begin("egress").await;
    let silent = Silent::begin().await;
    let port = silent.port;
    let through = |proxy: String| json!({"proxy": {"url": proxy}});
    let none = json!({});
    for (name, endpoint, more, address) in [
        (
            "metadata",
            "http://169.254.169.254:9".to_owned(),
            none.clone(),
            "169.254.169.254",
        ),
        (
            "literal",
            format!("http://127.0.0.1:{port}"),
            none.clone(),
            "127.0.0.1",
        ),
        (
            "odd",
            format!("http://0x7f.1:{port}"),
            none.clone(),
            "127.0.0.1",
        ),
        (
            "mapped",
            format!("http://[::ffff:127.0.0.1]:{port}"),
            none.clone(),
            "::ffff:127.0.0.1",
        ),
        (
            "unspecified",
            format!("http://0.0.0.0:{port}"),
            none.clone(),
            "0.0.0.0",
        ),
        (
            "named",
            format!("http://localhost:{port}"),
            none.clone(),
            "127.0.0.1",
        ),
        (
            "proxy",
            "https://cloud.example".to_owned(),
            through(format!("http://127.0.0.1:{port}")),
            "127.0.0.1",
        ),
        (
            "named-proxy",
            "https://cloud.example".to_owned(),
            through(format!("http://localhost:{port}")),
            "127.0.0.1",
        ),
    ] {
        apply_account(&world, name, &endpoint, more.clone()).await;
        let (account, message) = until_reported(&world, name, "AddressRefused").await;
        let url = more["proxy"]["url"].as_str().unwrap_or(&endpoint);
        let flag = format!("--allowed-endpoint={url}");
        for word in [address, flag.as_str()] {
            assert!(message.contains(word), "{name}: {message:?} lacks {word}");
        }
        let stalled = find(&account, "Stalled").unwrap();
        assert_eq!(stalled.status, "True", "{name}");
    }
    // The simulator itself is on loopback: nothing is bought there, and the Instance shows the reason.
    world.apply(&instance("web")).await;
    let web = world.until_reason("web", "AddressRefused").await;
    assert!(web.status.unwrap().id.is_none());
    assert_eq!(silent.connections(), 0, "a client connected");
    assert!(world.calls_since(0).is_empty(), "{}", world.ledger_text());
    world.finish().await;
}

/// Only its own fields determine the destinations of an Account's requests. Unencrypted requests cause a warning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_of_the_environment_are_not_used_and_plain_http_is_a_warning() {
    let silent = Silent::begin().await;
    let proxy = format!("http://127.0.0.1:{}", silent.port);
    let world = Setup::default()
        .environment("HTTP_PROXY", &proxy)
        .environment("http_proxy", &proxy)
        .environment("ALL_PROXY", &proxy)
        .begin("proxies")
        .await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    assert_eq!(
        silent.connections(),
        0,
        "a proxy of the environment was used"
    );
    let (account, _) = until_reported(&world, "default", "Available").await;
    assert!(
        find(&account, "InsecureEndpoint").is_none(),
        "loopback is no way to read on"
    );

    world.account("clear", "http://cloud.invalid").await;
    let (account, _) = until_reported(&world, "clear", "ServiceUnreachable").await;
    let warning = find(&account, "InsecureEndpoint").unwrap();
    assert_eq!(
        (warning.status.as_str(), warning.reason.as_str()),
        ("True", "PlainHttp")
    );
    world.finish().await;
}
