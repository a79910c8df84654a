//! Several operators, one of which is active by a Lease.

mod concurrent;
mod fence;
mod gate;
mod other_holder;

use crate::support::{
    PATIENCE, Setup, World, create_calls, eventually, get, instance, longest_stall, stays,
    watch_stalls,
};
use cloud_server_operator::api::names::BINDING;
use cloud_simulator::faults::{Act as Fault, ClientGone, Rule, When};
use futures::StreamExt;
use gate::{Act, Gate};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use other_holder::OtherHolder;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The active operator and a standby. If a silent apiserver has cost the first one its Lease before the test begins, the world
/// is created again.
async fn pair(name: &str) -> World {
    for _ in 0..3 {
        let mut world = Setup::default().leases().begin(name).await;
        let active = world.operator().name();
        eventually(
            "the first has the Lease, or has ended",
            async || match world.holder().await {
                holder if holder == active || !world.operator().is_running() => Ok(()),
                holder => Err(format!("it is held by {holder:?}")),
            },
        )
        .await;
        world.start_standby().await;
        if world.operator().is_running() && world.holder().await == active {
            return world;
        }
    }
    panic!("three times the first operator lost its Lease before the test began");
}

/// Every version of the world's Lease that a watch delivers, from now on.
struct Record {
    specs: Arc<Mutex<Vec<LeaseSpec>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Record {
    async fn begin(world: &World) -> Self {
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), "cloud-server-system");
        let only = Config::default().fields(&format!("metadata.name={}", world.namespace));
        let specs: Arc<Mutex<Vec<LeaseSpec>>> = Arc::default();
        let task = tokio::spawn({
            let specs = specs.clone();
            watcher(leases, only)
                .default_backoff()
                .touched_objects()
                .for_each(move |lease| {
                    let spec = lease.ok().and_then(|lease| lease.spec);
                    specs.lock().unwrap().extend(spec);
                    std::future::ready(())
                })
        });
        let record = Self { specs, task };
        eventually("the Lease is watched", async || {
            let begun = !record.specs.lock().unwrap().is_empty();
            begun.then_some(()).ok_or("nothing came yet".to_owned())
        })
        .await;
        record
    }

    /// The time from the last renewal of one holder to the first of the other, by the times in the Lease. The watch delivers
    /// them with a delay.
    async fn gap(&self, from: &str, to: &str) -> Duration {
        let is = |spec: &LeaseSpec, name: &str| {
            let holder = spec.holder_identity.as_deref().unwrap_or_default();
            holder.split('_').next() == Some(name)
        };
        eventually("the watch shows both", async || {
            let specs = self.specs.lock().unwrap();
            let last = specs.iter().rfind(|spec| is(spec, from));
            let first = specs.iter().find(|spec| is(spec, to));
            let last = last.and_then(|spec| spec.renew_time.as_ref());
            let first = first.and_then(|spec| spec.acquire_time.as_ref());
            let (Some(last), Some(first)) = (last, first) else {
                return Err(format!("{specs:?}"));
            };
            Ok(first
                .0
                .duration_since(last.0)
                .try_into()
                .unwrap_or_default())
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_from_a_killed_operator_when_its_lease_has_run_out() {
    let mut world = pair("lease-kill").await;
    world.apply(&instance("web-1")).await;
    world.ready("web-1").await;
    let (active, standby) = (world.operator().name(), world.standby().name());
    let record = Record::begin(&world).await;
    world.kill();
    let taken = world.until_holder(&standby).await;
    let took = record.gap(&active, &standby).await;
    println!("take-over after SIGKILL: {took:?} after the last renewal");
    // The upper bound is asserted in virtual time (`runtime::lease::tests`).
    assert!(took >= World::LEASE, "{took:?}");
    assert_eq!(taken.lease_transitions, Some(1));
    world.promote();
    world.apply(&instance("web-2")).await;
    world.ready("web-2").await;
    assert_eq!(create_calls(&world.sim), 2);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_from_a_terminated_leader_without_waiting_for_its_lease() {
    let mut world = pair("lease-term").await;
    world.apply(&instance("web-1")).await;
    world.ready("web-1").await;
    let standby = world.standby().name();
    let record = Record::begin(&world).await;
    let terminated = Timestamp::now();
    world.operator().terminate();
    let taken = world.until_holder(&standby).await;
    let took = record.gap("", &standby).await;
    let all = taken.acquire_time.unwrap().0.duration_since(terminated);
    println!("take-over after SIGTERM: {took:?} after the release, {all:#} after the signal");
    assert!(took < World::LEASE, "{took:?}");
    let ended = tokio::time::timeout(PATIENCE, world.operator().ended()).await;
    assert!(ended.unwrap().success());
    world.promote();
    world.apply(&instance("web-2")).await;
    world.ready("web-2").await;
    assert_eq!(create_calls(&world.sim), 2);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_is_kept_until_a_create_in_flight_is_on_record() {
    watch_stalls();
    for _ in 0..3 {
        if is_kept_while_in_flight(pair("lease-flight").await).await {
            return;
        }
    }
    panic!("three times this machine stood still while the answer was waited for");
}

/// The stall of the machine that the next half minute tolerates, between renewals and in the grace period.
const STILL: Duration = Duration::from_secs(5);

/// Whether the machine let the operator renew its Lease while it waited for the answer; otherwise the result shows nothing.
async fn is_kept_while_in_flight(mut world: World) -> bool {
    let (active, standby) = (world.operator().name(), world.standby().name());
    let hold = world.sim.hold(Rule::on(
        "/instance/create",
        Fault::Hold {
            at: When::AfterEffect,
            gone: ClientGone::Drop,
        },
    ));
    world.apply(&instance("web")).await;
    hold.reached(PATIENCE).await.unwrap();
    world.operator().terminate();
    // Longer than the validity of the Lease, which the operator renews while it waits for the answer.
    let window = World::LEASE + Duration::from_secs(1);
    let begun = Instant::now();
    while begun.elapsed() < window {
        let holder = world.holder().await;
        let stall = longest_stall(begun, Instant::now());
        if stall > STILL || begun.elapsed() > window + 2 * STILL {
            return false;
        }
        assert_eq!(holder, active, "the old one gave the Lease away");
        // A pace, not a wait: the check covers the whole window.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    hold.release();
    world.until_holder(&standby).await;
    let web = world.get("web").await;
    let server = world.only_server(&web).id;
    let record: Value = serde_json::from_str(&web.annotations()[BINDING]).unwrap();
    assert_eq!(record["id"], server, "on record before the Lease went");
    assert!(world.operator().ended().await.success());
    world.promote();
    assert_eq!(world.ready("web").await.status.unwrap().id, Some(server));
    assert_eq!(create_calls(&world.sim), 1);
    world.finish().await;
    true
}

/// An operator is stopped between its intent and its POST, another one gets the Lease meanwhile, and the first one continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_was_stopped_past_its_lease_calls_and_writes_nothing_and_ends() {
    let mut world = Setup::default()
        .leases()
        .without_operator()
        .begin("lease-stop")
        .await;
    let gate = Gate::start(world.apiserver()).await;
    gate.judge(|_, path, body| {
        if path.contains("/instances/") && body.contains(BINDING) {
            Act::HoldAnswer
        } else {
            Act::Pass
        }
    });
    world.start_behind(gate.address());
    let active = world.operator().name();
    world.until_holder(&active).await;
    world.apply(&instance("web")).await;
    gate.holds().await;
    world.operator().pause();
    // The other holder does nothing, so that every call from here on comes from the stopped operator.
    let other_holder = OtherHolder::hold(world.client.clone(), world.namespace.clone()).await;
    let window = World::LEASE + Duration::from_secs(1);
    stays("another has the Lease", window, async || {
        match world.holder().await {
            holder if holder == OtherHolder::NAME => Ok(()),
            other => Err(format!("it is held by {other:?}")),
        }
    })
    .await;
    let writes = gate.writes().len();
    gate.open();
    let begun = Instant::now();
    world.operator().go_on();
    let status = world.operator().ended().await;
    println!("it ended {:?} after it went on", begun.elapsed());
    assert!(!status.success(), "{status}");
    assert_eq!(create_calls(&world.sim), 0, "{}", world.ledger_text());
    assert_eq!(world.sim.live_servers(), []);
    let later = gate.writes().split_off(writes);
    assert!(later.iter().all(gate::Write::is_lease), "{later:?}");
    assert!(
        later.iter().all(|write| write.answered != Some(200)),
        "{later:?}"
    );
    assert!(
        world.logs().contains("another process may be active"),
        "it prints the reason"
    );
    other_holder.leaves().await;
    world.start().await;
    let web = world.ready("web").await;
    world.only_server(&web);
    assert_eq!(create_calls(&world.sim), 1);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_ready_makes_no_calls_and_treats_no_object_from_before_its_term_as_new() {
    let mut world = Setup::default()
        .leases()
        .without_operator()
        .begin("lease-silent")
        .await;
    let other_holder = OtherHolder::hold(world.client.clone(), world.namespace.clone()).await;
    let gate = Gate::start(world.apiserver()).await;
    world.start_behind(gate.address());
    world.operator().ready().await;
    world.apply(&instance("web")).await;
    // Longer than a Lease of its own would be valid, and than the interval at which the service must be listed.
    let window = World::LEASE + Duration::from_secs(2);
    let url = world.operator().url("livez").await;
    stays("it does nothing", window, async || {
        let calls = world.sim.ledger().entries().count();
        let (writes, live) = (gate.writes(), get(&url).await?);
        if calls == 0 && writes.is_empty() && live.0 == 200 {
            Ok(())
        } else {
            Err(format!("{calls} calls, {writes:?}, {live:?}"))
        }
    })
    .await;
    let (_, text) = world.operator().metrics().await;
    assert!(
        text.contains(r#"cloud_server_operator_shard_active{shard="0-of-1"} 0"#),
        "{text}"
    );
    other_holder.leaves().await;
    let web = world.ready("web").await;
    world.only_server(&web);
    let (_, text) = world.operator().metrics().await;
    assert!(
        text.contains(r#"cloud_server_operator_shard_active{shard="0-of-1"} 1"#),
        "{text}"
    );
    let paths: Vec<String> = world
        .sim
        .ledger()
        .entries()
        .map(|e| e.path.clone())
        .collect();
    let first = |path: &str| paths.iter().position(|p| p == path).unwrap_or(usize::MAX);
    assert!(
        first("/instance/list") < first("/instance/create"),
        "another may have bought for it: {paths:?}"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_have_a_priority_of_their_own() {
    let world = pair("lease-flow").await;
    let (server, ca) = world.apiserver();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(ca.as_bytes()).unwrap()])
        .build()
        .unwrap();
    let flow = async |path: &str| {
        let answer = eventually(path, async || {
            let request = client
                .get(format!("{server}{path}"))
                .bearer_auth(world.operator_token());
            let answer = request.send().await.map_err(|error| error.to_string())?;
            match answer.status().as_u16() {
                200 => Ok(answer),
                status => Err(status.to_string()),
            }
        })
        .await;
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        (
            header("x-kubernetes-pf-flowschema-uid"),
            header("x-kubernetes-pf-prioritylevel-uid"),
        )
    };
    let uid = async |kind: &str, name: &str| {
        let arguments = ["get", kind, name, "-o", "jsonpath={.metadata.uid}"];
        let (done, uid) = world.kubectl(&arguments, "").await;
        assert!(done, "{uid}");
        uid
    };
    let lease = format!(
        "/apis/coordination.k8s.io/v1/namespaces/cloud-server-system/leases/{}",
        world.namespace
    );
    let instances = format!(
        "/apis/cloudserver.dev/v1alpha1/namespaces/{}/instances",
        world.namespace
    );
    let expected = (
        uid(
            "flowschema",
            "cloud-server-operator-leader-election.cloud-server-system",
        )
        .await,
        uid("prioritylevelconfiguration", "leader-election").await,
    );
    assert_eq!(flow(&lease).await, expected);
    let other = flow(&instances).await;
    assert!(other.0 != expected.0 && other.1 != expected.1, "{other:?}");
    world.finish().await;
}
