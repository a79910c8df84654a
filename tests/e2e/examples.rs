//! Every manifest in `examples/`, without changes.

use crate::support::{Setup, World, is_ready, outline, reason};
use cloud_simulator::Simulator;
use cloud_simulator::wire::Endpoint;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds");
const README: &str = include_str!("../../README.md");

/// The service's URL in the examples' Account, and its token.
const SERVICE: (&str, &str) = ("http://127.0.0.1:8090", "example-token");

/// Instances that get no server here, with the reason. All others become Ready.
const WITHOUT_SERVER: [(&str, &str); 4] = [
    // The examples' Account does not allow them; `import.rs` plays them with one that does.
    ("legacy-1", "ImportDenied"),
    ("legacy-2", "ImportDenied"),
    ("watched", "NoServer"),
    ("held", "Paused"),
];

/// The manifests in the folder, without the files for kustomize.
fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(EXAMPLES).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_manifest = |path: &PathBuf| {
        path.extension().is_some_and(|ending| ending == "yaml")
            && !path.ends_with("kustomization.yaml")
    };
    let mut files: Vec<PathBuf> = paths.filter(is_manifest).collect();
    files.sort();
    assert!(files.len() >= 24, "{files:?}");
    files
}

/// The text of a manifest, with this world's service.
fn text(world: &World, file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let text = text.replace(SERVICE.0, world.sim.url());
    text.replace(SERVICE.1, World::TOKEN)
}

/// Names of the Instances in a manifest.
fn instances(text: &str) -> Vec<String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let instances = documents.iter().filter(|one| one["kind"] == "Instance");
    instances
        .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_is_accepted_unchanged() {
    let setup = Setup::default().bare().without_operator();
    let world = setup.begin("examples-accepted").await;
    for file in files() {
        let path = file.to_str().unwrap();
        let apply = ["apply", "--dry-run=server", "-f", path];
        world.run(&apply, "").await;
        // Strictly, since a field that is not in the schema would otherwise be dropped with a warning.
        let apply = [
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
        ];
        world.run(&[&apply[..], &["-f", path]].concat(), "").await;
    }
    let all = ["apply", "--dry-run=server", "-k", EXAMPLES];
    world.run(&all, "").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_becomes_ready_or_waits_as_described() {
    let world = Setup::default().bare().begin("examples").await;
    let account = PathBuf::from(EXAMPLES).join("account.yaml");
    let apply = ["apply", "-f", "-"];
    world.run(&apply, &text(&world, &account)).await;
    let mut expected = Vec::new();
    for file in files() {
        let text = text(&world, &file);
        let names = instances(&text);
        if !names.is_empty() {
            world.run(&apply, &text).await;
        }
        expected.extend(names);
    }
    for (name, _) in WITHOUT_SERVER {
        assert!(expected.iter().any(|one| one == name), "no example {name}");
    }
    for name in &expected {
        let exception = WITHOUT_SERVER.iter().find(|(one, _)| one == name);
        match exception {
            Some((_, why)) => world.until_reason(name, why).await,
            None => world.until(name, "is Ready", is_ready).await,
        };
    }
    // Limits that are added later release nothing.
    let limits = PathBuf::from(EXAMPLES).join("account-limits.yaml");
    world.run(&apply, &text(&world, &limits)).await;
    let account = world.account_is_ready("default").await;
    assert_eq!(account.spec.max_instances, Some(3));
    let servers = world.sim.live_servers().len();
    assert_eq!(servers, expected.len() - WITHOUT_SERVER.len());
    for (name, instance) in world.all().await {
        let exception = WITHOUT_SERVER.iter().find(|(one, _)| *one == name);
        let why = exception.map_or("Available", |(_, why)| why);
        assert_eq!(reason(&instance), why, "{}", outline(&instance));
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manifests_of_the_readme_suffice_for_a_server() {
    let world = Setup::default().bare().begin("examples-readme").await;
    let sample = README.split("```yaml\n").nth(1).unwrap();
    let sample = sample.split("```").next().unwrap();
    let sample = sample.replace(SERVICE.0, world.sim.url());
    let sample = sample.replace(SERVICE.1, World::TOKEN);
    world.run(&["apply", "-f", "-"], &sample).await;
    world.ready("app-1").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_folder_of_definitions_can_be_applied_unchanged() {
    let setup = Setup::default().bare().without_operator();
    let world = setup.begin("examples-crds").await;
    for flag in ["-f", "-k"] {
        let apply = [
            "apply",
            "--server-side",
            "--dry-run=server",
            "--force-conflicts",
        ];
        world
            .run(&[&apply[..], &[flag, DEFINITIONS]].concat(), "")
            .await;
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_of_other_paths_is_understood_by_a_service_that_has_them() {
    let world = Setup::default().bare().begin("examples-paths").await;
    let moved = Simulator::builder()
        .token(World::TOKEN)
        .task_duration(Duration::from_secs(2))
        .path(Endpoint::Detail, "/v2/instance/show")
        .path(Endpoint::InstanceList, "/v2/instance/list")
        .path(Endpoint::TaskResult, "/v2/task/result");
    let moved = moved.start().await.unwrap();
    // The Secret comes from account.yaml, as for every example.
    for file in ["account.yaml", "account-paths.yaml", "instance-key.yaml"] {
        let text = text(&world, &PathBuf::from(EXAMPLES).join(file));
        let text = text.replace(world.sim.url(), moved.url());
        world.run(&["apply", "-f", "-"], &text).await;
        world.account_is_ready("default").await;
    }
    let names: Vec<String> = world.all().await.into_keys().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    world.until(&names[0], "is Ready", is_ready).await;
    world.delete(&names[0]).await;
    world.gone(&names[0]).await;
    let ledger = moved.ledger();
    // The service answers only there, and its ledger uses the documented paths.
    for path in ["/instance/detail", "/instance/list", "/asynctask/getResult"] {
        assert!(ledger.count(path) > 0, "{path}: {:?}", ledger.counts());
    }
    assert!(moved.live_servers().is_empty() && world.sim.live_servers().is_empty());
    world.finish().await;
}
