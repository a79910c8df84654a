//! The size of an Instance and its Secret in the cluster: in the store of etcd with and without Events and old versions, and on
//! its own.

use super::memory::sizes;
use super::print_figures;
use crate::host::memory::figure;
use crate::support::bought::{allow, buy, setup, until_idle};
use crate::support::{World, names, own};
use devcluster::Component;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

const RATE: u32 = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys thousands of servers: make bench"]
async fn a_fleet_in_the_store() {
    for count in sizes() {
        let mut world = setup().cluster(own().await).begin("store").await;
        allow(&world, RATE).await;
        let before = compacted(&world).await;
        let idle = resident(&world);
        buy(&mut world, &names("web", count)).await;
        until_idle(&mut world, count).await;
        let bought = used(&world).await;
        let served = resident(&world);
        // They would expire after an hour.
        let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
        let all = (DeleteParams::default(), ListParams::default());
        events.delete_collection(&all.0, &all.1).await.unwrap();
        let rest = compacted(&world).await;
        let each = |bytes: u64| bytes.saturating_sub(before) / count as u64;
        print_figures(&json!({
            "scenario": "store", "instances": count, "bytes_each_with_versions_and_events": each(bought), "bytes_each": each(rest),
            "bytes_of_the_object": object(&world).await,
            "apiserver_resident_bytes": served[0], "apiserver_resident_bytes_without": idle[0],
            "etcd_resident_bytes": served[1], "etcd_resident_bytes_without": idle[1],
        }));
        world.kill();
        world.finish().await;
    }
}

async fn used(world: &World) -> u64 {
    world.shared.cluster.store_bytes().await.unwrap()
}

async fn compacted(world: &World) -> u64 {
    world.shared.cluster.compact().await.unwrap();
    used(world).await
}

/// The resident memory of kube-apiserver and etcd.
fn resident(world: &World) -> [u64; 2] {
    [Component::Apiserver, Component::Etcd].map(|component| {
        let process = world.shared.cluster.process_id(component).unwrap();
        figure(process, "VmRSS:")
    })
}

/// The size of an Instance as the apiserver stores it.
async fn object(world: &World) -> usize {
    let path = format!(
        "/apis/cloudserver.dev/v1alpha1/namespaces/{}/instances/web-0",
        world.namespace
    );
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    world.client.request_text(request).await.unwrap().len()
}
