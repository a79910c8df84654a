//! Every manifest in `examples/`, as it stands in its file.

use crate::support::{Setup, World, eventually, insist, is_ready, outline, reason};
use cloud_server_operator::api::Account;
use serde_json::Value;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// Where the examples' Account says that the service is, and its token.
const SERVICE: (&str, &str) = ("http://127.0.0.1:8090", "example-token");

/// Instances that are not to have a server here, and why. All others become Ready.
const WITHOUT_SERVER: [(&str, &str); 4] = [
    // The servers that they name are nobody's here; `import.rs` plays them with some that exist.
    ("legacy-1", "ImportNotFound"),
    ("legacy-2", "ImportNotFound"),
    ("watched", "NotBought"),
    ("held", "Paused"),
];

/// The manifests of the folder, by file; what kustomize is told is none.
fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(EXAMPLES).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_manifest = |path: &PathBuf| {
        path.extension().is_some_and(|ending| ending == "yaml")
            && !path.ends_with("kustomization.yaml")
    };
    let mut files: Vec<PathBuf> = paths.filter(is_manifest).collect();
    files.sort();
    assert!(files.len() >= 19, "{files:?}");
    files
}

/// The text of a manifest, with the service of this world in it.
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
async fn every_example_is_accepted_as_it_stands() {
    let setup = Setup::default().bare().without_operator();
    let world = setup.begin("examples-accepted").await;
    for file in files() {
        let path = file.to_str().unwrap();
        let apply = ["apply", "--dry-run=server", "-f", path];
        world.run(&apply, "").await;
        // Strictly: a field that the schema does not know would be dropped with a warning.
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
async fn every_example_does_what_it_says() {
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
    // Limits that come later release nothing.
    let limits = PathBuf::from(EXAMPLES).join("account-limits.yaml");
    world.run(&apply, &text(&world, &limits)).await;
    eventually("the Account has the limits and is ready", async || {
        let account: Account = insist("read it", async || world.accounts().get("default").await)
            .await
            .unwrap();
        let status = account.status.clone().unwrap_or_default();
        let is_current = Some(status.observed_generation) == account.metadata.generation;
        let is_ready = status.conditions.iter().any(|c| c.status == "True");
        match is_current && is_ready && account.spec.max_instances == Some(3) {
            true => Ok(()),
            false => Err(format!("{account:#?}")),
        }
    })
    .await;
    let servers = world.sim.live_servers().len();
    assert_eq!(servers, expected.len() - WITHOUT_SERVER.len());
    for (name, instance) in world.all().await {
        let exception = WITHOUT_SERVER.iter().find(|(one, _)| *one == name);
        let why = exception.map_or("Available", |(_, why)| why);
        assert_eq!(reason(&instance), why, "{}", outline(&instance));
    }
    world.finish().await;
}
