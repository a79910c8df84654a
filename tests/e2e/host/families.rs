//! Networks with one address family: without IPv4, without IPv6, and on a kernel without IPv6.

use crate::support::{Family, Network, Setup, World, insist, instance};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::process::Command;

const PROBED_BY_V4: &str = "127.0.0.1:8080";
const PROBED_BY_V6: &str = "[::1]:8080";

/// Binds the Secret of the token to this endpoint.
async fn bind_token(world: &World, endpoint: &str) {
    let patch = json!({"metadata": {"annotations": {"cloudserver.dev/endpoint": endpoint}}});
    let (secrets, params) = (world.secrets(), PatchParams::default());
    let written = insist("the Secret is annotated", async || {
        secrets
            .patch("cloud-token", &params, &Patch::Merge(&patch))
            .await
    });
    written.await.unwrap();
}

/// The apiserver, the endpoint, the annotation and the flag use different notations of the address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_ipv4_the_default_listener_is_probed_and_a_server_is_bought_at_an_ipv6_literal() {
    let mut world = Setup::default().without_operator().begin("ipv6").await;
    let network = Network::of(Family::V6);
    let apiserver = network.link("[::1]:0", world.apiserver().0);
    let service = network.link("[::1]:0", world.sim.url());
    let port = service.address().port();
    bind_token(&world, &format!("http://[0::0:1]:{port}")).await;
    let allowed = format!("http://[0000:0:0:0:0:0:0:0001]:{port}");
    world.environment("CSO_ALLOWED_ENDPOINTS", &allowed);
    world
        .account("default", &format!("http://[::1]:{port}/"))
        .await;
    let url = format!("https://[0:0:0:0:0:0:0:1]:{}", apiserver.address().port());
    world
        .start_inside(&network, &url, PROBED_BY_V6.parse().unwrap())
        .await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    assert!(service.opened() > 0, "the operator went another way");
    assert_eq!(world.sim.servers().len(), 1, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_ipv6_the_default_listener_is_probed_by_ipv4() {
    let mut world = Setup::default().without_operator().begin("ipv4").await;
    let network = Network::of(Family::V4);
    let refused = network.inside(|| std::net::TcpListener::bind("[::1]:0"));
    assert!(refused.is_err(), "the network has IPv6");
    let apiserver = network.link("127.0.0.1:0", world.apiserver().0);
    let url = format!("https://{}", apiserver.address());
    world
        .start_inside(&network, &url, PROBED_BY_V4.parse().unwrap())
        .await;
    world.finish().await;
}

/// Like a kernel that was booted with `ipv6.disable=1`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_kernel_without_ipv6_the_default_listener_is_probed_by_ipv4() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("no_ipv6.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/host/no_ipv6.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([library.as_os_str(), source.as_ref()])
        .status()
        .unwrap();
    assert!(built.success());
    let mut world = Setup::default().without_operator().begin("no-ipv6").await;
    world.environment("LD_PRELOAD", library.to_str().unwrap());
    let network = Network::of(Family::V4);
    let apiserver = network.link("127.0.0.1:0", world.apiserver().0);
    let url = format!("https://{}", apiserver.address());
    world
        .start_inside(&network, &url, PROBED_BY_V4.parse().unwrap())
        .await;
    let listening = network.inside(|| std::fs::read_to_string("/proc/thread-self/net/tcp6"));
    let sockets = listening.unwrap().lines().skip(1).count();
    assert_eq!(sockets, 0, "a socket of IPv6 was opened all the same");
    world.finish().await;
}
