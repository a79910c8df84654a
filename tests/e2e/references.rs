//! References by name or filter: the purchase, later changes, messages, and costs.

use crate::support::{
    Mark, Setup, World, at_rest, condition, done, eventually, instance, is_ready, mark, outline,
    posts, quiet, reason, with, written,
};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::catalogue::{self, Image, ImageKind, Key};
use cloud_simulator::faults::{Act, Rule, When};
use serde_json::{Value, json};
use std::collections::BTreeMap;

mod lists;
mod rules;
mod told;

/// The lists in which selectors are resolved.
const LISTS: [&str; 5] = [
    "/region/list",
    "/package/list",
    "/image/list",
    "/firewall/list",
    "/sshkey/list",
];
const IMAGES: &str = "/image/list";
const UBUNTU: &str = "Ubuntu 24.04 LTS";
const DEBIAN: &str = "Debian 12";

/// The example manifest from the repository, under another name.
fn by_name(name: &str) -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/instance-by-name.yaml"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let mut manifest: Value = serde_saphyr::from_str(&text).unwrap();
    manifest["metadata"]["name"] = json!(name);
    manifest
}

/// An Instance with only the image selected by name.
fn named_image(name: &str, image: &str) -> Value {
    with(name, |spec| spec["image"] = json!({"name": image}))
}

/// Calls of the lists since then.
fn looks(world: &World, since: u64) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in world.sim.ledger().since(since) {
        // The probe of the Account requests one row of the key pairs.
        let is_probe = entry.request.to_string().contains("\"pageSize\":\"1\"");
        if LISTS.contains(&entry.path.as_str()) && !is_probe {
            *counts.entry(entry.path.clone()).or_default() += 1;
        }
    }
    counts
}

/// Adds another image of the provider with that name.
fn another(world: &World, name: &str, id: &str) {
    another_called(world, name, id, name);
}

/// Adds a copy of the provider's image under another name.
fn another_called(world: &World, name: &str, id: &str, called: &str) {
    world.sim.world(|service| {
        let catalogue = service.catalogue_mut();
        let region = catalogue::example().region;
        let mut images = catalogue.images().iter();
        let like = images.find(|image| image.name == name && image.region == region);
        let image = Image {
            id: id.to_owned(),
            name: called.to_owned(),
            ..like.unwrap().clone()
        };
        catalogue.add_image(image);
    });
}

fn withdraw(world: &World, id: &str) {
    world
        .sim
        .world(|service| service.catalogue_mut().withdraw_image(id));
}

fn resolved(instance: &Instance, what: &str) -> String {
    let status = serde_json::to_value(instance.status.as_ref().unwrap()).unwrap();
    let id = &status["resolved"][what]["id"];
    id.as_str().unwrap_or_default().to_owned()
}

fn message(instance: &Instance) -> String {
    condition(instance, "Ready").unwrap().message.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_asked_for_by_names_and_filters_is_the_one_that_is_bought() {
    let world = Setup::default().begin("named").await;
    world.apply(&by_name("api-1")).await;
    let ready = world.ready("api-1").await;
    let example = catalogue::example();
    let server = at_rest(&world, &ready);
    assert_eq!(
        (server.region.as_str(), server.zone.as_str()),
        (example.region, example.zone)
    );
    assert_eq!(server.package, example.package, "the smallest that fits");
    assert_eq!(server.image, example.image);
    assert_eq!(server.firewall, example.firewall);
    assert_eq!(server.key.as_deref(), Some(example.key));
    for (what, id) in [
        ("region", example.region),
        ("zone", example.zone),
        ("package", example.package),
        ("image", example.image),
        ("firewall", example.firewall),
        ("sshKey", example.key),
    ] {
        assert_eq!(resolved(&ready, what), id);
    }
    let writes = written(&world, "api-1", &Mark::default()).await;
    assert!(writes.len() <= 3, "{writes:?}");
    quiet(&world, "api-1").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_is_asked_for_by_distribution_name_and_type_is_the_one_that_is_installed() {
    let world = Setup::default().begin("by-distribution").await;
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/instance-image-by-filter.yaml"
    );
    world.run(&["apply", "-f", path], "").await;
    let region = catalogue::example().region;
    for (name, image, distribution, kind) in [
        ("lean-1", "Alpine Linux 3.22", "Alpine", ImageKind::System),
        (
            "docker-1",
            "Docker on Debian 12",
            "Debian",
            ImageKind::Application,
        ),
    ] {
        let ready = world.ready(name).await;
        let installed = at_rest(&world, &ready).image;
        assert_eq!(resolved(&ready, "image"), installed);
        let is_it = |one: &&Image| one.region == region && one.id == installed;
        let found = world.sim.world(|service| {
            let catalogue = service.catalogue_mut();
            catalogue.images().iter().find(is_it).unwrap().clone()
        });
        assert_eq!(
            (found.name.as_str(), found.distro.as_str()),
            (image, distribution)
        );
        assert_eq!(found.kind, kind);
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_by_identifier_is_not_looked_up() {
    let world = Setup::default().begin("by-id").await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    assert!(ready.status.unwrap().resolved.is_none());
    assert_eq!(looks(&world, 0), BTreeMap::new());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_image_of_the_same_name_reinstalls_nothing_and_another_name_does_once() {
    let mut world = Setup::default().begin("same-name").await;
    world.apply(&named_image("web", UBUNTU)).await;
    world.ready("web").await;
    let example = catalogue::example();
    another(&world, UBUNTU, "img-newer");
    withdraw(&world, example.image);
    // Neither after a restart, nor for an edit of another field.
    world.restart().await;
    let labelled = with("web", |spec| {
        spec["image"] = json!({"name": UBUNTU});
        spec["restart"] = json!({"token": "once"});
    });
    let before = mark(&world, "web").await;
    world.apply(&labelled).await;
    let still = done(&world, "web", &before, &[Verb::Restart]).await;
    assert_eq!(at_rest(&world, &still).image, example.image);

    let before = mark(&world, "web").await;
    world.apply(&named_image("web", DEBIAN)).await;
    let changed = done(&world, "web", &before, &[Verb::Reinstall]).await;
    assert_eq!(at_rest(&world, &changed).image, example.other_image);
    assert_eq!(resolved(&changed, "image"), example.other_image);
    let writes = written(&world, "web", &before).await;
    // On a busy machine an acknowledgement may lose a race once.
    let (refused, taken): (Vec<_>, Vec<_>) = writes.iter().partition(|said| said.ends_with("422"));
    assert!(taken.len() <= 4 && refused.len() <= 1, "{writes:?}");
    quiet(&world, "web").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_for_the_identifier_that_stood_there_reinstalls_nothing() {
    let world = Setup::default().begin("id-to-name").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let example = catalogue::example();
    another(&world, UBUNTU, "img-newer");
    let since = world.sim.ledger().last_seq();
    world.apply(&named_image("web", UBUNTU)).await;
    let ready = world.ready("web").await;
    assert_eq!(resolved(&ready, "image"), example.image);
    quiet(&world, "web").await;
    assert_eq!(posts(&world, since), Vec::<String>::new());
    assert_eq!(looks(&world, since), BTreeMap::new(), "the server tells");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_that_status_lost_is_rebuilt_and_nothing_is_erased() {
    let mut world = Setup::default().begin("pin-lost").await;
    world.apply(&by_name("web")).await;
    world.ready("web").await;
    let example = catalogue::example();
    another(&world, UBUNTU, "img-newer");
    withdraw(&world, example.image);
    world.sim.world(|service| {
        let catalogue = service.catalogue_mut();
        let like = catalogue.key(example.key).unwrap().clone();
        let id = "key-newer".to_owned();
        catalogue.add_key(Key { id, ..like });
    });
    let since = world.sim.ledger().last_seq();
    world.kill();
    world.wipe_status("web").await;
    world.start().await;
    let ready = world.ready("web").await;
    for (what, id) in [
        ("image", example.image),
        ("sshKey", example.key),
        ("package", example.package),
        ("firewall", example.firewall),
    ] {
        assert_eq!(resolved(&ready, what), id);
    }
    assert_eq!(looks(&world, since), BTreeMap::new(), "the record tells");

    quiet(&world, "web").await;
    assert_eq!(posts(&world, since), Vec::<String>::new());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_package_that_status_lacks_is_written_once() {
    let mut world = Setup::default().begin("package-told").await;
    let fits = with("web", |spec| {
        spec["package"] = json!({"cpu": 1, "memory": 2, "chargeMode": "PayByTraffic"});
    });
    world.apply(&fits).await;
    let package = |web: &Instance| web.status.as_ref().unwrap().package.clone();
    let chosen = catalogue::example().package;
    assert_eq!(package(&world.ready("web").await).as_deref(), Some(chosen));
    world.kill();
    let patch = json!([{"op": "remove", "path": "/status/package"}]).to_string();
    let patch = [
        "patch",
        "instance",
        "web",
        "--subresource=status",
        "--type=json",
        "-p",
        &patch,
    ];
    world.run(&patch, "").await;
    let before = mark(&world, "web").await;
    world.start().await;
    world
        .until("web", "is told its package", |web| {
            package(web).as_deref() == Some(chosen)
        })
        .await;
    quiet(&world, "web").await;
    let writes = written(&world, "web", &before).await;
    assert_eq!(writes.len(), 1, "{writes:?}");
    world.restart().await;
    quiet(&world, "web").await;
    let writes = written(&world, "web", &before).await;
    assert_eq!(writes.len(), 1, "{writes:?}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_status_and_record_are_lost_the_server_itself_tells_its_image() {
    let mut world = Setup::default().begin("all-lost").await;
    world.apply(&named_image("web", UBUNTU)).await;
    world.ready("web").await;
    let example = catalogue::example();
    another(&world, UBUNTU, "img-newer");
    withdraw(&world, example.image);
    let since = world.sim.ledger().last_seq();
    world.kill();
    world.wipe_status("web").await;
    let arguments = ["annotate", "instance", "web", "cloudserver.dev/binding-"];
    world.run(&arguments, "").await;
    world.start().await;
    let ready = world
        .until("web", "its pin is rebuilt", |web| {
            is_ready(web) && resolved(web, "image") == example.image
        })
        .await;
    assert_eq!(at_rest(&world, &ready).image, example.image);
    quiet(&world, "web").await;
    assert_eq!(posts(&world, since), Vec::<String>::new());
    assert_eq!(looks(&world, since), BTreeMap::new());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_package_of_a_filter_pins_nothing_and_an_edited_filter_takes_another() {
    let world = Setup::default().begin("next-best").await;
    let example = catalogue::example();
    let refusal = Act::Error {
        status: 400,
        code: "InvalidPackageCode.SoldOut".to_owned(),
        message: "sold out".to_owned(),
        retry_after: None,
        when: When::BeforeEffect,
    };
    let rule = Rule::on("/instance/create", refusal).containing(example.package);
    world.sim.fault(rule);
    let manifest = |memory: u32| {
        with("web", |spec| {
            spec["package"] = json!({"cpu": 1, "memory": memory, "chargeMode": "PayByTraffic"});
        })
    };
    world.apply(&manifest(2)).await;
    let refused = world.until_reason("web", "CreateRefused").await;
    let words = format!("mend spec.package ({})", example.package);
    assert!(message(&refused).contains(&words), "{}", message(&refused));
    assert!(
        refused.status.unwrap().resolved.is_none(),
        "nothing is bought, nothing pinned"
    );
    world.apply(&manifest(3)).await;
    let ready = world.ready("web").await;
    let server = at_rest(&world, &ready);
    assert_eq!(server.package, "ru-moscow-1-a-c2m4-s50-t3000");
    assert_eq!(resolved(&ready, "package"), server.package);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_asked_for_by_names_is_released_like_any_other() {
    let world = Setup::default().begin("named-gone").await;
    world.apply(&by_name("api-1")).await;
    world.ready("api-1").await;
    world.delete("api-1").await;
    world.gone("api-1").await;
    eventually("nothing is left", async || {
        match world.sim.live_servers().len() {
            0 => Ok(()),
            n => Err(format!("{n} servers")),
        }
    })
    .await;
    world.finish().await;
}
