//! Where the memory of a fleet at rest goes: every allocation, recorded by heaptrack, up to a moment at which nothing happens.

use crate::support::bought::{at_rest, buy, setup};
use crate::support::names;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs heaptrack and an executable that allocates by malloc: make heap"]
async fn heap_of_a_fleet_at_rest() {
    let count = std::env::var("INSTANCES").expect("INSTANCES is not set: make heap");
    let count: usize = count.parse().unwrap();
    let mut world = setup().begin("heap").await;
    buy(&mut world, &names("web", count)).await;
    at_rest(&mut world, count).await;
    if std::env::var("RESTARTED").is_ok() {
        // The record of another process takes the place of the first one's.
        world.restart().await;
        at_rest(&mut world, count).await;
    }
    // Nothing is given back on the way out: what is there now is what the record ends with.
    world.kill();
    world.finish().await;
}
