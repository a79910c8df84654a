//! Very little CPU time, and a machine that stalls for a while.

use super::cgroup::Cgroup;
use crate::support::{
    Setup, World, counts, eventually, instance, names, other_image, own, posts, quiet_all, stays,
    stopped,
};
use cloud_server_operator::api::Verb;
use devcluster::Component;
use std::process::Command;
use std::time::{Duration, Instant};

/// Buys some servers, changes others, releases one.
async fn at_work(world: &World, old: &[String], new: &[String]) {
    world.apply_all(new, instance).await;
    world.apply_all(&old[..1], other_image).await;
    world.apply_all(&old[1..2], stopped).await;
    world.delete(&old[2]).await;
}

/// Asserts that each was done once.
async fn all_is_done(world: &World, old: &[String], new: &[String]) {
    world.gone(&old[2]).await;
    world.all_ready(&[&old[..2], new].concat()).await;
    for verb in [Verb::Reinstall, Verb::Stop, Verb::Release] {
        assert_eq!(
            counts(world, verb, None),
            (1, 1),
            "{verb}: {}",
            world.ledger_text()
        );
    }
    assert_eq!(
        world.sim.servers().len(),
        old.len() + new.len(),
        "{}",
        world.ledger_text()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a twentieth of a processor shared with fifteen other tests is none: make torture"]
async fn with_a_twentieth_of_a_processor_all_is_done_once() {
    let Some(group) = Cgroup::new("cpu") else {
        return;
    };
    let around = group.around(false);
    let line: Vec<&str> = around.iter().map(String::as_str).collect();
    let mut world = Setup::default()
        .tasks(1_000)
        .around(&line)
        .begin("starved")
        .await;
    let (old, new) = (names("old", 3), names("new", 6));
    world.apply_all(&old, instance).await;
    world.all_ready(&old).await;
    group.limit_processor(5);
    let begun = Instant::now();
    at_work(&world, &old, &new).await;
    let mut ended = 0;
    eventually("all is requested", async || {
        ended += usize::from(world.supervise().await);
        match posts(&world, 0).len() {
            n if n >= old.len() + new.len() + 3 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    all_is_done(&world, &old, &new).await;
    println!(
        "STARVED: all done in {:?}; it waited {} times and ended {ended} times",
        begun.elapsed(),
        group.waits()
    );
    assert!(ended <= 2, "it ended {ended} times");
    assert!(
        group.waits() > 0,
        "it never had to wait: the test tests nothing"
    );
    group.free_processor();
    quiet_all(&world).await;
    world.kill();
    world.finish().await;
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill")
        .args([name, &process.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// The machine was suspended with all its processes; the service continued.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a control plane of its own stands still for half a minute, three times"]
async fn a_suspended_machine_continues() {
    let mut world = Setup::default()
        .tasks(2_000)
        .cluster(own().await)
        .begin("suspended")
        .await;
    let (old, new) = (names("old", 3), names("new", 6));
    world.apply_all(&old, instance).await;
    world.all_ready(&old).await;
    for round in 0..3 {
        let before = posts(&world, 0).len();
        match round {
            0 => world.apply_all(&new, instance).await,
            1 => {
                world.apply_all(&old[..1], other_image).await;
                world.apply_all(&old[1..2], stopped).await;
            }
            _ => world.delete(&old[2]).await,
        }
        eventually("something is under way", async || {
            match posts(&world, 0).len() > before {
                true => Ok(()),
                false => Err(world.ledger_text()),
            }
        })
        .await;
        let parts = [Component::Apiserver, Component::Etcd].map(|part| world.process_of(part));
        world.operator().pause();
        parts.iter().for_each(|part| signal("-STOP", *part));
        let seq = world.sim.ledger().last_seq();
        stays(
            "no call arrives, except those that were in flight",
            Duration::from_secs(30),
            async || match world.calls_since(seq).len() {
                0..=8 => Ok(()),
                n => Err(format!("{n} calls")),
            },
        )
        .await;
        parts.iter().for_each(|part| signal("-CONT", *part));
        world.operator().go_on();
        println!("SUSPENDED: after {} calls", posts(&world, 0).len());
    }
    let back = Instant::now();
    // A Lease that expired meanwhile ends the process.
    eventually("all is requested", async || {
        world.supervise().await;
        match posts(&world, 0).len() >= old.len() + new.len() + 3 {
            true => Ok(()),
            false => Err(world.ledger_text()),
        }
    })
    .await;
    all_is_done(&world, &old, &new).await;
    println!("SUSPENDED: all done {:?} after the last", back.elapsed());
    quiet_all(&world).await;
    world.finish().await;
}
