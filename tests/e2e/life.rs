//! The ordinary life of an Instance: created, ready, deleted, alone or with its namespace.

use crate::support::{
    Setup, abnormal, condition, create_calls, delete, eventually, instance, instance_by_key,
    marker_of, name_of_length, outline, quiet, ready_message, stays, with,
};
use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::{BINDING, FINALIZER};
use cloud_simulator::Readings;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::Api;
use serde_json::json;
use std::time::{Duration, Instant};

/// Every field of the specification's section 2.3.
const DETAIL: &[&str] = &[
    "ecsResourceUUID",
    "instanceName",
    "ecsStatus",
    "ecsPendingStatus",
    "cpu",
    "giftCpu",
    "memory",
    "instanceSeries",
    "bandwidth",
    "bandwidthType",
    "freeFlow",
    "usedFlow",
    "limitFlow",
    "internetChargeType",
    "networkType",
    "internalIpAddress",
    "publicIpAddress",
    "publicIpResourceUUID",
    "secondaryPublicIpInfoList",
    "systemDiskResourceUUID",
    "systemDiskCategory",
    "systemDiskSize",
    "dataDiskSize",
    "dataDiskInfoList",
    "snapshotNum",
    "imageResourceUUID",
    "imageName",
    "imageType",
    "osDistroVersion",
    "sysAccount",
    "supportIpv6",
    "supportSsh",
    "ifAttachable",
    "regionCode",
    "regionName",
    "zoneCode",
    "zoneName",
    "createTime",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_has_conditions_before_an_operator_reads_it() {
    let setup = Setup::default().without_operator();
    let mut world = setup.begin("unwritten").await;
    world.apply(&instance("web")).await;
    let ready = "{.status.conditions[?(@.type=='Ready')]['status','reason']}";
    for object in [
        "instances.cloudserver.dev/web",
        "accounts.cloudserver.dev/default",
    ] {
        let get = ["get", object, "-o", &format!("jsonpath={ready}")];
        let (done, text) = world.kubectl(&get, "").await;
        assert!(done && text.trim() == "Unknown Pending", "{object}: {text}");
    }
    world.start().await;
    world.ready("web").await;
    world.finish().await;
}

/// The service shows the public address this long after the server is ready. Quiet listings are a minute apart.
const ADDRESS_LATE: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_public_address_that_the_service_shows_late_is_in_status_soon() {
    let readings = Readings {
        address_late: ADDRESS_LATE,
        ..Readings::default()
    };
    let world = Setup::default().readings(readings).begin("late").await;
    world.apply(&instance("web")).await;
    let public = |web: &Instance| {
        let addresses = web.status.as_ref().and_then(|s| s.addresses.as_ref());
        addresses.and_then(|addresses| addresses.public.clone())
    };
    let ready = world.ready("web").await;
    assert_eq!(public(&ready), None, "{}", outline(&ready));
    let begun = Instant::now();
    let shown = |web: &Instance| public(web).is_some();
    world.until("web", "shows its address", shown).await;
    let took = begun.elapsed();
    assert!(took < 4 * ADDRESS_LATE, "{took:?}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_becomes_one_server_and_its_status_describes_it() {
    let world = Setup::default().begin("create").await;
    let applied = world.apply(&instance("web-1")).await;
    assert_eq!(
        applied.status.as_ref().unwrap().observed_generation,
        -1,
        "in progress from second zero"
    );

    let ready = world.ready("web-1").await;
    let server = world.only_server(&ready);
    assert_eq!(create_calls(&world.sim), 1);
    assert_eq!(server.name, format!("web-1-{}", marker_of(&ready)));

    let status = ready.status.as_ref().unwrap();
    assert_eq!(status.id.as_deref(), Some(server.id.as_str()));
    let missing: Vec<_> = DETAIL
        .iter()
        .filter(|field| !status.detail.contains_key(**field))
        .collect();
    assert!(missing.is_empty(), "missing in status.detail: {missing:?}");
    assert_eq!(status.detail["ecsResourceUUID"], server.id);
    let addresses = status.addresses.as_ref().unwrap();
    assert_eq!(
        addresses.public.as_deref(),
        status.detail["publicIpAddress"].as_str()
    );
    assert_eq!(
        addresses.internal.as_deref(),
        status.detail["internalIpAddress"].as_str()
    );
    assert!(
        addresses
            .public
            .as_ref()
            .is_some_and(|address| address.starts_with("198."))
    );

    assert_eq!(
        abnormal(status),
        0,
        "abnormal conditions exist only while they are true"
    );
    let condition = condition(&ready, "Ready").unwrap();
    assert_eq!(
        (condition.reason.as_str(), condition.observed_generation),
        ("Available", Some(1))
    );
    assert_eq!(status.observed_generation, 1);
    assert!(status.operation.is_none());
    assert_eq!(
        (status.history.len(), status.history[0].succeeded),
        (1, true)
    );

    assert!(ready.finalizers().contains(&FINALIZER.to_owned()));
    let record: serde_json::Value = serde_json::from_str(&ready.annotations()[BINDING]).unwrap();
    assert_eq!(
        (record["id"].as_str(), record["attempt"].as_i64()),
        (Some(server.id.as_str()), Some(1))
    );
    assert_eq!(record["uid"], ready.uid().unwrap());

    assert_eq!(
        world.sim.world(|w| w.password_of(&server.id)).as_deref(),
        Some(crate::support::World::PASSWORD)
    );
    // Long enough for two listings at the pace of running operations, which must not change the observed state.
    stays("it is Ready", Duration::from_secs(11), async || {
        let now = world.get("web-1").await;
        if now.status == ready.status {
            Ok(())
        } else {
            Err(outline(&now))
        }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_with_a_key_is_bought_without_a_password() {
    let world = Setup::default().begin("key").await;
    world.apply(&instance_by_key("web")).await;
    let ready = world.ready("web").await;
    let server = world.only_server(&ready);
    assert_eq!(world.sim.world(|w| w.password_of(&server.id)), None);
    let ledger = world.sim.ledger();
    let request = ledger.calls("/instance/create")[0].request.to_string();
    assert!(
        request.contains(cloud_simulator::catalogue::example().key),
        "{request}"
    );
    assert!(!request.contains("passwordGiven"), "{request}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identifiers_that_need_escaping_are_taken_as_they_are() {
    let readings = Readings {
        awkward_ids: true,
        ..Readings::default()
    };
    let world = Setup::default().readings(readings).begin("awkward").await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    let id = world.only_server(&ready).id;
    assert_eq!(ready.status.unwrap().id, Some(id));
    world.delete("web").await;
    world.gone("web").await;
    assert_eq!(world.sim.live_servers(), []);
    assert_eq!(world.sim.servers().len(), 1, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_with_the_longest_name_has_its_secrets_and_events() {
    let world = Setup::default().begin("longest-name").await;
    let name = name_of_length(253);
    let manifest = with(&name, |spec| {
        spec["login"] = json!({"generate": {"secretName": "own"}});
        spec["connectionSecret"] = json!({"name": "reach"});
    });
    world.apply(&manifest).await;
    let ready = world.ready(&name).await;
    world.only_server(&ready);
    eventually("the connection Secret is there", async || {
        let found = world.secrets().get("reach").await;
        found.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;
    world.delete(&name).await;
    world.gone(&name).await;
    for reason in ["Created", "Available", "Released"] {
        eventually(&format!("an Event has reason {reason}"), async || {
            let events = world.events(reason).await;
            let is_of_it = |event: &Event| {
                let regarding = event.regarding.as_ref();
                regarding.and_then(|object| object.name.as_ref()) == Some(&name)
            };
            match events.iter().filter(|event| is_of_it(event)).count() {
                1 => Ok(()),
                count => Err(format!("{count} of {events:?}")),
            }
        })
        .await;
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_namespace_goes_with_all_its_servers_although_secret_and_account_go_first() {
    let world = Setup::default().begin("namespace").await;
    for name in ["web-1", "web-2", "web-3"] {
        world.apply(&instance(name)).await;
    }
    for name in ["web-1", "web-2", "web-3"] {
        world.ready(name).await;
    }
    assert_eq!(world.sim.live_servers().len(), 3);
    // The namespace controller deletes kinds in any order; the test enforces the worst one.
    delete(&world.secrets(), "cloud-token").await;
    delete(&world.secrets(), "login").await;
    delete(&world.accounts(), "default").await;
    let api: Api<Namespace> = Api::all(world.client.clone());
    delete(&api, &world.namespace).await;
    eventually("the namespace is gone", async || {
        match api.get_opt(&world.namespace).await {
            Ok(None) => Ok(()),
            Ok(Some(namespace)) => Err(format!("{:?}\n{}", namespace.status, world.ledger_text())),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    assert_eq!(world.sim.live_servers(), []);
    assert_eq!(world.sim.servers().len(), 3);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_without_a_firewall_is_bought_where_the_service_requires_none() {
    let world = Setup::default().begin("no-firewall").await;
    let open = with("web", |spec| {
        spec.as_object_mut().unwrap().remove("firewall");
    });
    world.apply(&open).await;
    let refused = world.until_reason("web", "CreateRefused").await;
    let message = ready_message(&refused).to_owned();
    assert!(
        message.contains("spec.firewall (it is left out)"),
        "{message}"
    );

    world.sim.set_readings(Readings {
        firewall_optional: true,
        ..Readings::default()
    });
    let ready = world.ready("web").await;
    assert_eq!(world.only_server(&ready).firewall, "");
    let error = world.kubectl_apply(&instance("web")).await.unwrap_err();
    assert!(error.contains("spec.firewall cannot be changed"), "{error}");
    world.apply(&open).await;
    quiet(&world, "web").await;

    world.delete("web").await;
    world.gone("web").await;
    assert_eq!(world.sim.live_servers(), []);
    assert_eq!(world.sim.servers().len(), 1, "{}", world.ledger_text());
    world.finish().await;
}
