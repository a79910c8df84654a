//! Without free file descriptors nothing new can be opened. The operator degrades, reports it, and recovers.

use crate::support::{
    Setup, condition, counts, eventually, instance, names, posts, quiet_all, stays, stopped,
};
use cloud_server_operator::api::Verb;
use std::process::Command;
use std::time::{Duration, Instant};

/// Limits the number of a process's descriptors.
fn allow(process: u32, most: usize) {
    let set = Command::new("prlimit")
        .args(["--pid", &process.to_string(), &format!("--nofile={most}:")])
        .status()
        .unwrap();
    assert!(set.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_without_descriptors_buys_nothing_and_recovers() {
    let mut world = Setup::default().begin("descriptors").await;
    let old = names("old", 3);
    world.apply_all(&old, instance).await;
    world.all_ready(&old).await;
    let process = world.operator().id();
    let open = std::fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .count();
    println!("DESCRIPTORS: {open} open when idle");
    assert!(open < 64, "{open}");
    let before = posts(&world, 0).len();
    // Open connections stay open, and no new one can be opened.
    allow(process, open / 2);
    let new = names("new", 6);
    world.apply_all(&new, instance).await;
    world.apply_all(&old[..1], stopped).await;
    world.delete("old-1").await;
    // The open connections carry most of the traffic, and it is random which connection is missing first. A missing one to the
    // apiserver shows in the log, a missing one to the service in the status of the waiting Instances.
    eventually("it cannot open any more", async || {
        if world.logs().contains("no usable answer from the apiserver") {
            return Ok(());
        }
        let waits = world.get("new-0").await;
        match condition(&waits, "Ready") {
            Some(ready) if ready.reason == "ServiceUnreachable" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Long enough for several attempts of each.
    stays(
        "it lives, and nothing gets through",
        Duration::from_secs(10),
        async || match (
            world.operator().is_running(),
            posts(&world, 0).len() - before,
        ) {
            (true, 0) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    allow(process, 1_024);
    let back = Instant::now();
    world.gone("old-1").await;
    world
        .all_ready(&[&new[..], &old[..1], &old[2..]].concat())
        .await;
    println!("DESCRIPTORS: all well {:?} after it", back.elapsed());
    // Less than the longest pause between two attempts (300 s).
    assert!(
        back.elapsed() < Duration::from_secs(240),
        "{:?}",
        back.elapsed()
    );
    assert_eq!(world.operator().id(), process, "without a restart");
    quiet_all(&world).await;
    assert_eq!(
        counts(&world, Verb::Stop, None),
        (1, 1),
        "{}",
        world.ledger_text()
    );
    assert_eq!(
        world.sim.servers().len(),
        old.len() + new.len(),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}
