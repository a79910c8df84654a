//! The operator loses and regains what it needs: permissions, its token, the definitions of its kinds, and the consent of a
//! policy to its writes (rows K11, K16). None of it causes a release or requests without pauses, and all work continues without
//! a restart.

use super::{Plane, all, none, recovers};
use crate::support::wire::{Act, Kind, WireRequest};
use crate::support::{
    Setup, Shared, World, assert_idle, condition, counts, create_calls, eventually, instance,
    instance_by_key, is_ready, kubectl_of, other_image, posts, ready_message, reason, stays,
    until_served,
};
use cloud_server_operator::api::{Instance, Verb};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

async fn deploy(world: &World) {
    let apply = ["apply", "--server-side", "-k", DEPLOY];
    eventually("deploy/ is applied", async || {
        let output = kubectl_of(&world.shared.cluster, &apply, "").await;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    })
    .await;
    until_served(&world.shared.cluster).await.unwrap();
}

/// Requests of a user while nothing can be done: one more Instance, another image, a deletion.
async fn request_changes(world: &World, new: &str, rebuilt: &str, going: &str) {
    world.apply(&instance(new)).await;
    world.apply(&other_image(rebuilt)).await;
    world.delete(going).await;
}

/// Longer than the life of any watch that is still open (25 s).
async fn nothing_is_called(world: &World, window: Duration) {
    let before = posts(world, 0);
    stays("nothing is called", window, async || {
        match posts(world, 0) {
            now if now == before => Ok(()),
            _ => Err(world.ledger_text()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_token_and_definitions_that_go_and_come_back_need_no_restart() {
    let plane = Plane::start().await;
    let setup = Setup::default().wire().cluster(plane.shared.clone());
    let world = setup.begin("k11-rights").await;
    let names = ["web-1", "web-2", "web-3", "web-4", "web-5"];
    for name in names {
        world.apply(&instance(name)).await;
    }
    eventually("ready", async || all(&world, &names, is_ready).await).await;

    // The permissions.
    let binding = "clusterrolebinding/cloud-server-operator";
    world.run(&["delete", binding], "").await;
    world
        .until_forbidden("patch", "instances.cloudserver.dev")
        .await;
    request_changes(&world, "new-1", "web-1", "web-2").await;
    nothing_is_called(&world, Duration::from_secs(30)).await;
    deploy(&world).await;
    let names = ["web-1", "web-3", "web-4", "web-5", "new-1"];
    recovers("K11: continues with its rights", async || {
        none(&world, &["web-2"]).await?;
        all(&world, &names, is_ready).await
    })
    .await;

    // The token.
    let refused = world.wire().on(|_| true, Act::Answer(401));
    request_changes(&world, "new-2", "web-3", "web-4").await;
    nothing_is_called(&world, Duration::from_secs(20)).await;
    refused.heal();
    let names = ["web-1", "web-3", "web-5", "new-1", "new-2"];
    recovers("K11: continues with its token", async || {
        none(&world, &["web-4"]).await?;
        all(&world, &names, is_ready).await
    })
    .await;
    assert_eq!(create_calls(&world.sim), 7, "{}", world.ledger_text());
    assert_eq!(counts(&world, Verb::Reinstall, None), (2, 2));
    assert_eq!(counts(&world, Verb::Release, None), (2, 2));

    accounts_come_and_go(&world, &names).await;
    instances_come_and_go(&world).await;
    world.finish().await;
}

/// Deletes the definition of Accounts, and with it all Accounts, which have no finalizer: the Instances stay unchanged.
async fn accounts_come_and_go(world: &World, names: &[&str]) {
    let kind = "crd/accounts.cloudserver.dev";
    // With a new watch, which stays open for twenty seconds. A watch that waits for its next attempt would instead list, learn
    // that there are no Accounts at all, and continue with the Accounts that it knows.
    let new = Duration::from_secs(3);
    eventually("a new watch of Accounts", async || {
        match world
            .wire()
            .count(Instant::now() - new, Kind::Watch, "accounts")
        {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let failures = || world.logs().matches("\"kind\":\"Account\"").count();
    let before = failures();
    world.run(&["delete", kind], "").await;
    // Until its watch has ended, the operator may know the Account, and buy.
    eventually("the operator hears of it", async || {
        (failures() > before)
            .then_some(())
            .ok_or_else(|| "its watch continues".to_owned())
    })
    .await;
    world.apply(&instance_by_key("new-3")).await;
    let bought = create_calls(&world.sim);
    nothing_is_called(world, Duration::from_secs(10)).await;
    deploy(world).await;
    world.account("default", world.sim.url()).await;
    recovers("K11: continues with its Accounts", async || {
        all(world, &[names, &["new-3"]].concat(), is_ready).await
    })
    .await;
    assert_eq!(create_calls(&world.sim), bought + 1);
    assert_eq!(
        counts(world, Verb::Release, None).0,
        2,
        "{}",
        world.ledger_text()
    );
}

/// Deletes the definition of Instances, which deletes all Instances: their finalizers hold it until their servers are released,
/// as in any other deletion.
async fn instances_come_and_go(world: &World) {
    let kind = "crd/instances.cloudserver.dev";
    world.run(&["delete", kind], "").await;
    assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
    deploy(world).await;
    world.apply(&instance("again")).await;
    recovers("K11: continues with its kind", async || {
        all(world, &["again"], is_ready).await
    })
    .await;
    assert_idle(world, &world.get("again").await);
}

fn is_write_of_the_record(request: &WireRequest) -> bool {
    request.is(Kind::Write, "instances") && !request.target.contains("/status")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_records_are_reported_and_retried_slowly() {
    let world = Setup::default().wire().begin("k11-refused").await;
    for (code, name) in [(413, "large"), (422, "invalid")] {
        let refused = world.wire().on(is_write_of_the_record, Act::Answer(code));
        world.apply(&instance(name)).await;
        world.until_reason(name, "WriteRefused").await;
        nothing_is_called(&world, Duration::from_secs(12)).await;
        assert!(refused.met() <= 6, "{} writes in 12 s", refused.met());
        refused.heal();
        recovers("K11: continues when its record is accepted", async || {
            all(&world, &[name], is_ready).await
        })
        .await;
        assert_idle(&world, &world.get(name).await);
    }
    assert_eq!(create_calls(&world.sim), 2);
    world.finish().await;
}

/// A policy of the cluster that denies every change of Instances by the operator in this namespace, and every change of the
/// status of one of them.
struct Policy {
    name: String,
}

impl Policy {
    async fn begin(world: &World, without_status: &str) -> Self {
        let name = format!("deny-{}", world.namespace);
        let user = format!("request.userInfo.username == '{}'", Shared::USER);
        let taken = format!(
            "has(request.subResource) && request.subResource == 'status' && object.metadata.name != '{without_status}'"
        );
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["cloudserver.dev"], "apiVersions": ["v1alpha1"],
                    "operations": ["UPDATE"], "resources": ["instances", "instances/status"],
                }]},
                "matchConditions": [{"name": "operator", "expression": user}],
                "validations": [{"expression": taken, "message": "not on this cluster"}],
            },
        });
        let here = json!({"matchLabels": {"kubernetes.io/metadata.name": world.namespace}});
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": here},
            },
        });
        for object in [policy, binding] {
            world.run(&["apply", "-f", "-"], &object.to_string()).await;
        }
        // The apiserver applies policies after a delay.
        let client = world.shared.cluster.client_for(&world.shared.token).await;
        let api: Api<Instance> = Api::namespaced(client.unwrap(), &world.namespace);
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let label = json!({"metadata": {"labels": {"probe": "yes"}}});
        eventually("the policy is in force", async || {
            match api
                .patch_metadata(without_status, &params, &Patch::Merge(&label))
                .await
            {
                Err(kube::Error::Api(status)) if status.message.contains("denied") => Ok(()),
                other => Err(format!("{:?}", other.map(|_| ()))),
            }
        })
        .await;
        Self { name }
    }

    async fn end(self, world: &World) {
        for kind in [
            "validatingadmissionpolicybinding",
            "validatingadmissionpolicy",
        ] {
            world.run(&["delete", kind, &self.name], "").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_denies_the_operators_writes_is_reported_and_retried_slowly() {
    let world = Setup::default().begin("k16-policy").await;
    for name in ["rebuilt", "going"] {
        world.apply(&instance(name)).await;
    }
    for name in ["rebuilt", "going"] {
        world.ready(name).await;
    }
    let policy = Policy::begin(&world, "rebuilt").await;
    let since = (jiff::Timestamp::now(), Instant::now());
    request_changes(&world, "new", "rebuilt", "going").await;
    // The status of the other one cannot be written.
    for name in ["new", "going"] {
        let refused = world.until_reason(name, "WriteRefused").await;
        let words = ready_message(&refused);
        assert!(words.contains("not on this cluster"), "{words}");
        assert_eq!(
            condition(&refused, "Stalled").unwrap().status,
            "True",
            "{}",
            reason(&refused)
        );
    }
    // A minute, for which the limits are defined. Only the release, which needs no write, is called.
    let window = Duration::from_secs(60).saturating_sub(since.1.elapsed());
    stays("nothing is bought or erased", window, async || {
        match (
            create_calls(&world.sim),
            counts(&world, Verb::Reinstall, None).0,
        ) {
            (2, 0) => Ok(()),
            _ => Err(world.ledger_text()),
        }
    })
    .await;
    let writes = world.writes().await;
    // If writes of status are denied, so is the report of that: two writes in each attempt.
    for (name, most) in [("new", 8), ("rebuilt", 16), ("going", 8)] {
        let mine = writes
            .iter()
            .filter(|write| write.name == name && !write.is_dry_run());
        let mine: Vec<_> = mine.filter(|write| write.received_at >= since.0).collect();
        let denied = mine.iter().filter(|write| !write.is_success()).count();
        println!(
            "K16: {name}: {denied} writes denied, {} done",
            mine.len() - denied
        );
        assert!(
            (1..=most).contains(&denied),
            "{denied} denied writes of {name} in a minute"
        );
        assert!(mine.len() - denied <= 4, "{mine:#?}");
    }
    policy.end(&world).await;
    recovers("K16: continues without the policy", async || {
        none(&world, &["going"]).await?;
        all(&world, &["new", "rebuilt"], is_ready).await
    })
    .await;
    assert_eq!(create_calls(&world.sim), 3);
    assert_eq!(counts(&world, Verb::Reinstall, None), (1, 1));
    assert_eq!(counts(&world, Verb::Release, None), (1, 1));
    world.finish().await;
}
