//! References by name or filter: the purchase, later changes, messages, and costs.

use crate::support::{
    Mark, Setup, World, assert_idle, condition, mark, outline, posts, quiet, with, written,
};
use cloud_server_operator::api::Instance;
use cloud_simulator::catalogue::{self, Image, ImageKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;

mod candidates;
mod lists;
mod rules;

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
fn list_reads(world: &World, since: u64) -> BTreeMap<String, usize> {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bought_server_matches_the_names_and_filters_of_the_spec() {
    let world = Setup::default().begin("named").await;
    world.apply(&by_name("api-1")).await;
    let ready = world.ready("api-1").await;
    let example = catalogue::example();
    let server = assert_idle(&world, &ready);
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
async fn the_installed_image_matches_the_distribution_name_and_type_of_the_spec() {
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
        let installed = assert_idle(&world, &ready).image;
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
async fn a_package_that_status_lacks_is_written_once() {
    let mut world = Setup::default().begin("package-name").await;
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
        .until("web", "shows its package", |web| {
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
