//! The memory of an idle fleet by origin: every allocation, recorded by heaptrack, up to an idle moment.

use crate::support::bought::{buy, setup, until_idle};
use crate::support::names;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs heaptrack and an executable that allocates by malloc: make heap"]
async fn heap_of_an_idle_fleet() {
    let count = std::env::var("INSTANCES").expect("INSTANCES is not set: make heap");
    let count: usize = count.parse().unwrap();
    let mut world = setup().begin("heap").await;
    buy(&mut world, &names("web", count)).await;
    until_idle(&mut world, count).await;
    if std::env::var("RESTARTED").is_ok() {
        // The record of the new process replaces that of the first.
        world.restart().await;
        until_idle(&mut world, count).await;
    }
    // The process must not free memory on exit, so that the record ends with the current allocations.
    world.kill();
    world.finish().await;
}
