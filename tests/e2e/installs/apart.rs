//! Two operators in one cluster, each for its own namespace, and one that runs as any user that the cluster chooses.

use crate::support::{Setup, World, insist, instance, is_ready, own, with};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use serde_json::json;

async fn holder(world: &World, own: &str) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), own);
    let found = insist("the Lease is read", async || {
        leases.get_opt("cloud-server-operator").await
    });
    found.await.unwrap()?.spec?.holder_identity
}

/// The Accounts whose tokens are copied to this namespace.
async fn copied(world: &World, own: &str) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), own);
    let all = ListParams::default().labels("cloudserver.dev/token-copy");
    let found = insist("copies are listed", async || secrets.list(&all).await);
    let labels = found.await.unwrap().items.into_iter();
    labels
        .filter_map(|copy| copy.metadata.labels?.remove("cloudserver.dev/namespace"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_operators_for_a_namespace_each_coexist() {
    let cluster = own().await;
    let begin = async |name: &'static str| {
        let setup = Setup::default().cluster(cluster.clone()).own_ids();
        let mut world = setup.without_operator().begin(name).await;
        let own = world.install_for_itself().await;
        (world, own)
    };
    // Both are installed before either begins, so that the first one would notice if the second installation overwrote its
    // objects.
    let ((mut a, own_a), (mut b, own_b)) = (begin("side-a").await, begin("side-b").await);
    a.start().await;
    b.start().await;
    let generated = with("web", |spec| spec["login"] = json!({"generate": {}}));
    for world in [&a, &b] {
        world.apply(&generated).await;
    }
    for (world, own) in [(&a, &own_a), (&b, &own_b)] {
        world.until("web", "is Ready", is_ready).await;
        assert_eq!(world.sim.live_servers().len(), 1, "{}", world.ledger_text());
        assert_eq!(copied(world, own).await, [world.namespace.as_str()]);
    }
    let holders = (holder(&a, &own_a).await, holder(&b, &own_b).await);
    assert!(holders.0.is_some() && holders.1.is_some(), "{holders:?}");
    assert_ne!(holders.0, holders.1, "a Lease each");
    // Neither may touch the other's objects.
    let user = format!("system:serviceaccount:{own_a}:cloud-server-operator");
    for (namespace, may) in [(&a.namespace, "yes"), (&b.namespace, "no"), (&own_b, "no")] {
        let arguments = [
            "auth", "can-i", "get", "secrets", "-n", namespace, "--as", &user,
        ];
        let (_, answer) = a.kubectl(&arguments, "").await;
        assert!(answer.trim().ends_with(may), "{namespace}: {answer}");
    }
    // Neither does the other's work.
    a.kill();
    a.apply(&instance("later")).await;
    b.apply(&instance("later")).await;
    b.ready("later").await;
    assert_eq!(a.sim.live_servers().len(), 1, "{}", a.ledger_text());
    a.start().await;
    a.ready("later").await;
    for world in [&a, &b] {
        for name in ["web", "later"] {
            world.delete(name).await;
            world.gone(name).await;
        }
        assert_eq!(world.sim.live_servers(), []);
    }
    a.finish().await;
    b.finish().await;
}

/// Set to any value if the tests do not run as root, since only root can run a process as another user.
const NOT_ROOT: &str = "E2E_WITHOUT_ROOT";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_user_that_the_cluster_chooses_can_run_it() {
    if std::env::var_os(NOT_ROOT).is_some() {
        println!("LEFT OUT: {NOT_ROOT} is set, so nothing is tested here");
        return;
    }
    let mut world = Setup::default()
        .without_operator()
        .begin("no-account")
        .await;
    world.run_as_an_unknown_user();
    world.start().await;
    let id = world.operator().id();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default()
            .split_whitespace()
            .next()
            .map(ToOwned::to_owned)
    };
    assert_eq!(line("Uid:").as_deref(), Some("1000650000"), "{status}");
    assert_eq!(
        line("CapEff:").as_deref(),
        Some("0000000000000000"),
        "{status}"
    );
    world.apply(&instance("web")).await;
    world.ready("web").await;
    world.delete("web").await;
    world.gone("web").await;
    let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("HOME="), "{environment}");
    // The manifest leaves the choice to the cluster.
    let (done, user) = world
        .kubectl(
            &[
                "get", "deployment", "cloud-server-operator", "-n", "cloud-server-system", "-o",
                "jsonpath={.spec.template.spec.securityContext}{.spec.template.spec.containers[*].securityContext}",
            ],
            "",
        )
        .await;
    assert!(done && user.contains("\"runAsNonRoot\":true"), "{user}");
    assert!(
        !user.contains("runAsUser") && !user.contains("runAsGroup") && !user.contains("fsGroup"),
        "{user}"
    );
    world.finish().await;
}
