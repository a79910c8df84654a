//! Sixty-four mebibytes, half of the limit in `deploy/`, for a fleet that is bought, listed repeatedly, and changed; and a
//! fleet whose operator is killed by the kernel for its memory.

use super::cgroup::Cgroup;
use crate::support::{
    PATIENCE, Setup, World, eventually, instance, is_ready, names, other_image, quiet_all,
};
use cloud_simulator::faults::{Act, ClientGone, Rule, When};
use std::process::{Command, Stdio};
use std::time::Instant;

const MEBIBYTE: u64 = 1 << 20;
const LIMIT: u64 = 64 * MEBIBYTE;

/// A figure of `/proc/PID/status`, in bytes.
pub fn figure(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kibibytes = line
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap();
    kibibytes * 1024
}

fn print_memory(world: &mut World, group: &Cgroup, when: &str) {
    let process = world.operator().id();
    let [most, now, own] =
        ["VmHWM:", "VmRSS:", "RssAnon:"].map(|name| figure(process, name) / MEBIBYTE);
    let counted = group.most_memory() / MEBIBYTE;
    println!(
        "MEMORY {when}: most {most} MiB, now {now}, of these its own {own}; the group counted at most {counted}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "buys three hundred servers"]
async fn hundreds_of_instances_fit_into_the_memory_that_is_given() {
    let Some(group) = Cgroup::new("memory") else {
        return;
    };
    group.limit_memory(LIMIT);
    let around = group.around(false);
    let line: Vec<&str> = around.iter().map(String::as_str).collect();
    let mut world = Setup::default().around(&line).begin("memory").await;
    world.add_unowned_servers(World::TOKEN, 700);
    print_memory(&mut world, &group, "at the start");
    let fleet = names("web", 300);
    let begun = Instant::now();
    for part in fleet.chunks(75) {
        world.apply_all(part, instance).await;
        world.all_ready(part).await;
    }
    println!("MEMORY: {} bought in {:?}", fleet.len(), begun.elapsed());
    print_memory(&mut world, &group, "with the fleet");
    for part in fleet[..150].chunks(75) {
        world.apply_all(part, other_image).await;
        world
            .until_all(part, "are reinstalled", |i| {
                is_ready(i) && i.status.as_ref().unwrap().history.len() == 2
            })
            .await;
    }
    print_memory(&mut world, &group, "after a reinstall of half of it");
    for round in 1..=3 {
        assert!(world.operator().is_running(), "killed: {}", world.logs());
        world.restart().await;
        world.all_ready(&fleet).await;
        // A listing of a thousand servers and one of all Instances at the same time.
        world.apply(&instance(&format!("new-{round}"))).await;
        world.ready(&format!("new-{round}")).await;
        print_memory(&mut world, &group, "after a start with the fleet");
    }
    assert!(world.operator().is_running());
    let own = figure(world.operator().id(), "RssAnon:");
    assert!(own < LIMIT / 2, "{} MiB", own / MEBIBYTE);
    assert_eq!(
        world.sim.servers().len(),
        700 + fleet.len() + 3,
        "{}",
        world.ledger_text()
    );
    quiet_all(&world).await;
    world.kill();
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control group, which not everybody may make: make torture"]
async fn an_operator_killed_for_its_memory_buys_nothing_twice() {
    let Some(group) = Cgroup::new("memory") else {
        return;
    };
    group.limit_memory(LIMIT);
    let around = group.around(true);
    let line: Vec<&str> = around.iter().map(String::as_str).collect();
    let mut world = Setup::default().around(&line).begin("oom").await;
    // Creates that are carried out and not answered yet.
    let fleet = names("web", 4);
    let mut holds = Vec::new();
    for name in &fleet {
        let at = When::AfterEffect;
        let act = Act::Hold {
            at,
            gone: ClientGone::Execute,
        };
        holds.push(
            world
                .sim
                .hold(Rule::on("/instance/create", act).containing(&format!("\"{name}-"))),
        );
    }
    world.apply_all(&fleet, instance).await;
    for hold in &holds {
        hold.reached(PATIENCE).await.unwrap();
    }
    // Another process in the group uses up the rest of the memory; the operator is killed first.
    let eater = group.around(false);
    let mut eater = Command::new(&eater[0])
        .args(&eater[1..])
        .args(["sh", "-c", "head -c 100000000 /dev/zero | tail"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the kernel has killed it", async || {
        match world.operator().is_running() {
            false => Ok(()),
            true => Err("it runs".to_owned()),
        }
    })
    .await;
    let ended = world.operator().ended().await;
    println!("OOM: {ended}");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&ended),
        Some(9),
        "{ended}"
    );
    eater.wait().unwrap();
    for hold in holds {
        hold.release();
    }
    world.start().await;
    world.all_ready(&fleet).await;
    assert_eq!(
        world.sim.servers().len(),
        fleet.len(),
        "{}",
        world.ledger_text()
    );
    world.kill();
    world.finish().await;
}
