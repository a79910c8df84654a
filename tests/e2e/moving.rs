//! Instances that are moved to another cluster: by the commands of `docs/operations/moving.md`, and without them.
//!
//! One apiserver stands in for both clusters: `--cluster-id` defines which one it is.

use crate::support::{
    PLUGIN, Setup, World, create_calls, eventually, instance, is_for_now, on_path, posts,
};
use cloud_simulator::catalogue;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::Command;

const PAGE: &str = include_str!("../../docs/operations/moving.md");

/// The commands of the page below the heading with this beginning, as users type them.
fn commands(heading: &str) -> Vec<&'static str> {
    let section = PAGE
        .split("\n## ")
        .find(|section| section.starts_with(heading));
    let lines = section.unwrap().lines();
    lines.filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// A folder with kubectl, the plugin, and a kubeconfig whose two contexts both refer to the one apiserver.
fn workplace(world: &World) -> TempDir {
    let folder = TempDir::new().unwrap();
    let kubectl = world.shared.cluster.kubectl();
    on_path(folder.path(), "kubectl", kubectl.get_program());
    on_path(folder.path(), "kubectl-cloudserver", PLUGIN);
    let text = std::fs::read_to_string(world.shared.cluster.kubeconfig_path()).unwrap();
    let (head, _) = text.split_once("contexts:").unwrap();
    let context = |name: &str| {
        format!("  - {{name: {name}, context: {{cluster: devcluster, user: devcluster}}}}\n")
    };
    let text = format!("{head}contexts:\n{}{}", context("old"), context("new"));
    std::fs::write(folder.path().join("kubeconfig"), text).unwrap();
    folder
}

/// Runs a command in the namespace of the world until the apiserver answers. Returns its status and its output.
async fn typed(world: &World, folder: &Path, command: &str) -> (Option<i32>, String) {
    let command = command.replace("team-a", &world.namespace);
    eventually("the command is answered", async || {
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("bash");
        shell
            .args(["-o", "pipefail", "-c", &command])
            .current_dir(folder);
        shell.env("PATH", format!("{}/bin:{path}", folder.display()));
        shell
            .env("KUBECONFIG", folder.join("kubeconfig"))
            .env("OLD", "old");
        shell.env_remove("CSO_ENDPOINT").stdin(Stdio::null());
        let output = shell.output().await.unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        match !output.status.success() && is_for_now(&text) {
            true => Err(text),
            false => Ok((output.status.code(), text)),
        }
    })
    .await
}

/// Runs commands that must all succeed; a plan may report changes in place.
async fn all_typed(world: &World, folder: &Path, commands: &[&str]) {
    for command in commands {
        let (status, text) = typed(world, folder, command).await;
        let is_plan = command.contains(" plan ");
        let is_well = status == Some(0) || (is_plan && status == Some(2));
        assert!(is_well, "{command}: {status:?}: {text}");
    }
}

/// The old cluster: an operator that bought two servers and was stopped.
async fn old(setup: Setup, name: &str) -> (World, [String; 2]) {
    let setup = setup.own_ids().environment("CSO_CLUSTER_ID", "old");
    let mut world = setup.begin(name).await;
    let mut ids = [String::new(), String::new()];
    for (name, id) in ["web-1", "web-2"].into_iter().zip(&mut ids) {
        world.apply(&instance(name)).await;
        *id = world.ready(name).await.status.unwrap().id.unwrap();
    }
    world.kill();
    (world, ids)
}

/// Deletes the objects of the old cluster, and keeps the servers.
async fn emptied(world: &World) {
    for name in ["web-1", "web-2"] {
        let held = r#"{"metadata":{"finalizers":null}}"#;
        world
            .run(&["patch", "instance", name, "--type=merge", "-p", held], "")
            .await;
        world.run(&["delete", "instance", name], "").await;
    }
}

async fn assert_kept(world: &World, ids: &[String; 2]) {
    for (name, id) in ["web-1", "web-2"].into_iter().zip(ids) {
        let server = world.ready(name).await.status.unwrap().id;
        assert_eq!(server.as_ref(), Some(id), "{name}");
    }
    assert_eq!(world.sim.live_servers().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_moves_with_its_objects_and_keeps_its_servers() {
    let (mut world, ids) = old(Setup::default(), "moving-objects").await;
    let folder = workplace(&world);
    let commands = commands("With the objects");
    let (uid, commands) = commands.split_first().unwrap();
    // The fake cluster has no namespace with that UID.
    let (status, text) = typed(&world, folder.path(), uid).await;
    assert!(status == Some(0) && text.len() == 36, "{text}");
    let (save, bring) = commands.split_first().unwrap();
    all_typed(&world, folder.path(), &[save]).await;
    emptied(&world).await;
    let bought = create_calls(&world.sim);
    // The operator of the new cluster, with the identity of the old one.
    world.start().await;
    let seq = world.sim.ledger().last_seq();
    all_typed(&world, folder.path(), bring).await;
    assert_kept(&world, &ids).await;
    assert_eq!(create_calls(&world.sim), bought);
    assert_eq!(posts(&world, seq), Vec::<String>::new());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_without_its_objects_is_imported_and_keeps_its_servers() {
    let (mut world, ids) = old(Setup::default(), "moving-servers").await;
    let folder = workplace(&world);
    emptied(&world).await;
    let bought = create_calls(&world.sim);
    world.environment("CSO_CLUSTER_ID", "new");
    world.start().await;
    let commands = commands("Without the objects");
    assert!(
        commands
            .iter()
            .any(|command| command.contains(catalogue::example().firewall))
    );
    all_typed(&world, folder.path(), &commands).await;
    assert_kept(&world, &ids).await;
    assert_eq!(create_calls(&world.sim), bought);
    // The output for programs, once all have an Instance.
    let json = "kubectl cloudserver import --all --context new -n team-a -o json";
    let (status, text) = typed(&world, folder.path(), json).await;
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("nothing to import"), "{text}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_whose_server_is_still_there_is_reported_before_anything_is_bought() {
    let (mut world, ids) = old(Setup::default().imports(), "moving-copies").await;
    let folder = workplace(&world);
    let save = commands("With the objects")[1];
    all_typed(&world, folder.path(), &[save]).await;
    emptied(&world).await;
    let bought = create_calls(&world.sim);
    let plan = "kubectl cloudserver plan -f fleet.json --context new -n team-a";
    let (status, text) = typed(&world, folder.path(), plan).await;
    assert_eq!(status, Some(3), "{text}");
    for words in [
        "new server",
        &format!("its server {}", ids[0]),
        "spec.import.id",
        "--cluster-id old",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    world.environment("CSO_CLUSTER_ID", "new");
    world.start().await;
    all_typed(
        &world,
        folder.path(),
        &["kubectl --context new apply -f fleet.json"],
    )
    .await;
    for name in ["web-1", "web-2"] {
        world.until_reason(name, "RecordedByOtherCluster").await;
    }
    // One is imported, and the other one is intended as a copy.
    let import = format!(r#"{{"spec":{{"import":{{"id":"{}"}}}}}}"#, ids[0]);
    world
        .run(
            &["patch", "instance", "web-1", "--type=merge", "-p", &import],
            "",
        )
        .await;
    assert_eq!(
        world.ready("web-1").await.status.unwrap().id.as_ref(),
        Some(&ids[0])
    );
    assert_eq!(
        create_calls(&world.sim),
        bought,
        "nothing is bought before a person could decide"
    );
    world
        .run(
            &["annotate", "instance", "web-2", "cloudserver.dev/binding-"],
            "",
        )
        .await;
    let copy = world.ready("web-2").await.status.unwrap().id;
    assert!(copy.is_some() && copy.as_ref() != Some(&ids[1]));
    assert_eq!(create_calls(&world.sim), bought + 1);
    world.finish().await;
}
