//! Failures on purpose: a store that is frozen, full, restored from a snapshot, compacted.

use std::time::Duration;

use devcluster::{Cluster, Component};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use tokio::time::timeout;

use crate::{
    calls::{create, insist, is_there},
    config_map, eventually,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_frozen_filled_compacted_and_restored() {
    let cluster = Cluster::builder().start().await.unwrap();
    let client = cluster.client().await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["a", "b", "c"] {
        create(&api, &config_map(name)).await;
    }

    cluster.freeze_component(Component::Etcd).unwrap();
    let late = config_map("late");
    let params = PostParams::default();
    let write = api.create(&params, &late);
    let answer = timeout(Duration::from_millis(500), write).await;
    assert!(answer.is_err(), "a frozen store answered: {answer:?}");
    cluster.thaw_component(Component::Etcd).unwrap();
    // Reads and writes recover independently of each other.
    insist("the store is read again", async || api.get("a").await)
        .await
        .unwrap();
    create(&api, &config_map("d")).await;

    cluster.fill().await.unwrap();
    let refused = api.create(&params, &late).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.message.contains("space exceeded")),
        "{refused:?}"
    );
    assert!(api.get("a").await.is_ok(), "a full store is read");
    cluster.make_room().await.unwrap();
    api.create(&params, &config_map("roomy")).await.unwrap();

    // The next page of a listing whose version is compacted, requested from an API that does not have it in memory.
    let page = ListParams::default().limit(1);
    let first = insist("a page is read", async || api.list(&page).await);
    let first = first.await.unwrap();
    create(&api, &config_map("e")).await;
    eventually("the store is compacted", async || {
        cluster.compact().await.is_ok()
    })
    .await;
    cluster.stop_component(Component::Apiserver).await.unwrap();
    cluster.start_component(Component::Apiserver).await.unwrap();
    let next = page.continue_token(first.metadata.continue_.as_deref().unwrap());
    let refused = insist("the next page is read", async || api.list(&next).await).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 410),
        "{refused:?}"
    );

    let kept = tempfile::tempdir().unwrap();
    let snapshot = kept.path().join("etcd");
    cluster.snapshot(&snapshot).unwrap();
    let after = create(&api, &config_map("after")).await;
    cluster.restore(&snapshot).await.unwrap();
    assert!(!is_there(&api, "after").await);
    let again = create(&api, &config_map("again")).await;
    let version = |object: &ConfigMap| -> u64 {
        let version = object.metadata.resource_version.as_deref();
        version.unwrap().parse().unwrap()
    };
    assert!(
        version(&again) < version(&after) + 200,
        "versions went back"
    );
    cluster.stop().await;
}
