//! Externally released servers.

use super::example;
use crate::support::{
    Setup, World, busy, condition, console, create_calls, instance, is_ready, quiet,
};
use cloud_simulator::model::Console;

fn release(world: &World, server: &str) {
    let server = server.to_owned();
    console(world, Console::Release { server });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_released_by_others_is_replaced_as_often_as_the_spec_allows() {
    let world = Setup::default().begin("recreated").await;
    example(&world, "instance-recreated").await;
    world.apply(&instance("plain")).await;
    let first = world.only_server(&world.ready("replaced").await).id;
    let plain = world.only_server(&world.ready("plain").await).id;
    busy(&world).await;
    release(&world, &first);
    release(&world, &plain);
    let replaced = world
        .until("replaced", "has another server", |instance| {
            let id = instance.status.as_ref().unwrap().id.as_deref();
            is_ready(instance) && id.is_some() && id != Some(first.as_str())
        })
        .await;
    let second = world.only_server(&replaced).id;
    // Without the policy, nothing is bought.
    world.until_reason("plain", "ServerMissing").await;
    assert_eq!(create_calls(&world.sim), 4, "{}", world.ledger_text());
    release(&world, &second);
    let told = world.until_reason("replaced", "RecreateLimitReached").await;
    assert_eq!(condition(&told, "Stalled").unwrap().status, "True");
    quiet(&world, "replaced").await;
    assert_eq!(create_calls(&world.sim), 4, "{}", world.ledger_text());
    world.finish().await;
}
