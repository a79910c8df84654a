//! How clusters end, and what outlives them.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use devcluster::{Cluster, Component, Error};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};

use crate::{
    calls::{create, delete, insist, is_there},
    config_map, eventually, install_widgets, namespace, owned, shared,
};

/// Whether a process of this id exists.
fn alive(process: u32) -> bool {
    Command::new("sh")
        .args(["-c", "kill -0 \"$0\"", &process.to_string()])
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success()
}

fn processes(directory: &Path) -> Vec<u32> {
    let id = |name: &str| {
        fs::read_to_string(directory.join("run").join(name))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    };
    ["etcd.pid", "apiserver.pid", "controllers.pid"]
        .map(id)
        .to_vec()
}

#[tokio::test]
async fn two_clusters_run_side_by_side_and_one_ends_alone() {
    let first = shared().await;
    let second = Cluster::builder().audit(false).start().await.unwrap();
    let client = namespace(first, "only-in-the-first").await;
    let elsewhere = Api::<Namespace>::all(second.client().await.unwrap());
    assert!(!is_there(&elsewhere, "only-in-the-first").await);
    let directory = second.directory().to_owned();
    let ended = processes(&directory);

    second.stop().await;

    assert!(!directory.exists());
    assert!(!ended.into_iter().any(alive));
    assert!(is_there(&Api::<Namespace>::all(client), "only-in-the-first").await);
}

#[tokio::test]
async fn a_cluster_ends_when_its_owner_is_killed() {
    let mut owner = Command::new(env!("CARGO_BIN_EXE_devcluster"))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut directory = PathBuf::new();
    for line in BufReader::new(owner.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(path) = line.strip_prefix("audit log") {
            directory = Path::new(path.trim()).parent().unwrap().to_owned();
        }
        if line.starts_with("Ready.") {
            break;
        }
    }
    let orphans = processes(&directory);
    assert!(orphans.iter().all(|process| alive(*process)));

    owner.kill().unwrap();
    owner.wait().unwrap();

    eventually("the directory is gone", async || !directory.exists()).await;
    assert!(!orphans.into_iter().any(alive), "the directory goes last");
}

/// Half a minute after its start, the collector looks for new kinds. A collector that knows them from its start needs only a
/// part of that time. The time limit must stay below half a minute, so a stalled machine gets three rounds.
#[tokio::test]
async fn restarted_controllers_collect_the_dependents_of_a_new_kind() {
    let mut rounds = Vec::new();
    while rounds.len() < 3 {
        let took = collecting_of_a_new_kind().await;
        if took < Duration::from_secs(20) {
            return;
        }
        rounds.push(took);
    }
    panic!("the collector did not know the kind: {rounds:?}");
}

/// How long a dependent of a new kind's object outlives its owner, if the controllers were started after the kind was
/// installed.
async fn collecting_of_a_new_kind() -> Duration {
    let cluster = Cluster::builder().start().await.unwrap();
    let client = namespace(&cluster, "new-kinds").await;
    install_widgets(&cluster, "new-kinds").await;
    cluster
        .stop_component(Component::ControllerManager)
        .await
        .unwrap();
    cluster
        .start_component(Component::ControllerManager)
        .await
        .unwrap();
    let kind = GroupVersionKind::gvk("devcluster.test", "v1", "Widget");
    let widgets = Api::<DynamicObject>::namespaced_with(
        client.clone(),
        "new-kinds",
        &ApiResource::from_gvk(&kind),
    );
    let config_maps = Api::<ConfigMap>::namespaced(client, "new-kinds");
    let owner = insist("the owner is read", async || widgets.get("w").await);
    let owner = owner.await.unwrap();
    let owned = owned("owned", "devcluster.test/v1", "Widget", &owner);
    create(&config_maps, &owned).await;

    let began = Instant::now();
    delete(&widgets, "w").await;

    eventually("the owned object is gone", async || {
        !is_there(&config_maps, "owned").await
    })
    .await;
    let took = began.elapsed();
    cluster.stop().await;
    took
}

#[tokio::test]
async fn objects_outlast_the_processes_and_a_kept_directory_outlasts_the_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Cluster::builder()
        .fsync(true)
        .data_dir(directory.path().join("kept"));
    let cluster = builder.clone().start().await.unwrap();
    let config_maps = Api::<ConfigMap>::namespaced(namespace(&cluster, "lasting").await, "lasting");
    create(&config_maps, &config_map("one")).await;

    let refused = builder.clone().start().await.unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    cluster.stop_component(Component::Apiserver).await.unwrap();
    cluster.stop_component(Component::Etcd).await.unwrap();
    assert!(config_maps.get("one").await.is_err(), "no process answers");
    cluster.start_component(Component::Etcd).await.unwrap();
    cluster.start_component(Component::Apiserver).await.unwrap();
    assert!(is_there(&config_maps, "one").await);

    cluster.stop().await;
    let cluster = builder.start().await.unwrap();
    let config_maps = Api::<ConfigMap>::namespaced(cluster.client().await.unwrap(), "lasting");
    assert!(is_there(&config_maps, "one").await);
}
