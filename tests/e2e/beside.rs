//! The bounds on reports also hold in a large fleet: those of `acknowledge`, `done` and `needs`, with the same code.

use crate::support::{Setup, instance, is_ready, names};
use crate::{acknowledge, done, needs};
use std::time::Instant;

/// The fleet size for which one operator is designed.
const FLEET: usize = 1_000;
/// Bought in parts, so that no wait is for all of them.
const PART: usize = 100;
/// Seconds that each task takes, and the maximum number of polls for one.
const TASK: (u64, usize) = (4, 6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a thousand Instances"]
async fn status_is_as_prompt_next_to_a_thousand_other_instances() {
    let setup = Setup::default().links().tasks(TASK.0 * 1000);
    let mut world = setup.begin("thousand").await;
    let (fleet, begun) = (names("fleet", FLEET), Instant::now());
    for part in fleet.chunks(PART) {
        world.apply_all(part, instance).await;
        world.until_all(part, "are Ready", is_ready).await;
    }
    println!("BOUND next to {FLEET}, bought in {:.0?}", begun.elapsed());
    acknowledge::at_a_fair_service(&world).await;
    done::reports_ends_in_time(&world, TASK, 5).await;
    acknowledge::while_it_is_away(&world, acknowledge::Away::Silent).await;
    needs::refusal::is_remembered(&mut world).await;
    world.until_all(&fleet, "are still Ready", is_ready).await;
    let servers = world.sim.servers();
    let kept = servers.iter().filter(|it| it.name.starts_with("fleet-"));
    let kept = kept.filter(|it| it.released_at.is_none()).count();
    assert_eq!(kept, FLEET, "each has its one server");
    world.finish().await;
}
