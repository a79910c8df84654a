//! Fifty Accounts whose services answer with any data, of any size, at any pace, without end, next to one with a healthy
//! service. They affect only their own Accounts, within the container's memory limit in `deploy/`.

mod attack;

use crate::host::cgroup::Cgroup;
use crate::host::memory::figure;
use crate::support::{Setup, World, eventually, instance, is_ready, other_image, with};
use attack::{Attack, Attacker};
use std::time::Instant;

const MEBIBYTE: u64 = 1 << 20;
/// The limit in `deploy/`.
const LIMIT: u64 = 128 * MEBIBYTE;
/// The metric for the memory available to answers.
const ROOM: &str = "cloud_server_operator_response_memory_available_bytes ";
/// Accounts: a few for each attack, some of which answer the probe correctly.
const HOSTILE: usize = 50;
/// Minimum number of requests for each attack that ends without a deadline; attacks that only a deadline ends get one. With
/// half the memory, calls wait for one another, so each attack gets fewer.
const ROUNDS: usize = 4;
const ROUNDS_WITH_HALF: usize = 2;

fn name(number: usize) -> String {
    format!("hostile-{number}")
}

/// Creates an Account for each attacker, and an Instance that needs many look-ups there.
async fn enter(world: &World, attackers: &[Attacker]) {
    for (number, attacker) in attackers.iter().enumerate() {
        let account = name(number);
        world.account(&account, &attacker.endpoint).await;
        let manifest = with(&account, |spec| {
            spec["accountRef"] = serde_json::json!({"name": account});
            if number.is_multiple_of(2) {
                spec["image"] = serde_json::json!({"name": "Ubuntu"});
                spec["firewall"] = serde_json::json!({"name": "default"});
            }
        });
        world.apply(&manifest).await;
    }
}

/// Buys, changes and releases a server.
async fn a_life(world: &World, name: &str) {
    let begun = Instant::now();
    world.apply(&instance(name)).await;
    world.ready(name).await;
    let bought = begun.elapsed();
    world.apply(&other_image(name)).await;
    let names = [name.to_owned()];
    world
        .until_all(&names, "is reinstalled", |instance| {
            is_ready(instance) && instance.status.as_ref().unwrap().history.len() == 2
        })
        .await;
    world.delete(name).await;
    world.gone(name).await;
    let all = begun.elapsed();
    println!("HOSTILE: {name} was Ready after {bought:?}, changed and released after {all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_hostile_services_cost_their_own_accounts_and_no_other() {
    let group = Cgroup::if_possible("memory");
    among_fifty(group, LIMIT, ROUNDS).await;
}

/// The operator stays within the available memory: calls wait for one another, and the kernel does not kill it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control group, which not everybody may make: make torture"]
async fn with_half_the_memory_calls_to_fifty_hostile_services_wait_and_no_process_is_killed() {
    let Some(group) = Cgroup::new("memory") else {
        return;
    };
    let room = among_fifty(Some(group), LIMIT / 2, ROUNDS_WITH_HALF).await;
    assert!(room < 48 * MEBIBYTE, "{room} bytes for answers");
}

/// Returns the memory that was available to answers at the end.
async fn among_fifty(group: Option<Cgroup>, limit: u64, rounds: usize) -> u64 {
    let around = group.as_ref().map(|group| group.around(false));
    let line: Vec<&str> = around.iter().flatten().map(String::as_str).collect();
    if let Some(group) = &group {
        group.limit_memory(limit);
    }
    let mut world = Setup::default().around(&line).begin("hostile").await;
    let mut attackers = Vec::new();
    for number in 0..HOSTILE {
        let attack = Attack::ALL[number % Attack::ALL.len()];
        attackers
            .push(Attacker::start(attack, (number / Attack::ALL.len()).is_multiple_of(2)).await);
    }
    a_life(&world, "before").await;
    enter(&world, &attackers).await;
    a_life(&world, "during").await;
    let process = world.operator().id();
    eventually("each attack was met several times", async || {
        assert!(world.operator().is_running(), "killed: {}", world.logs());
        let behind = attackers
            .iter()
            .filter(|attacker| !attacker.was_met(rounds));
        let behind: Vec<String> = behind.map(ToString::to_string).collect();
        match behind.is_empty() {
            true => Ok(()),
            false => Err(behind.join(", ")),
        }
    })
    .await;
    a_life(&world, "after").await;
    assert!(world.operator().is_running(), "killed: {}", world.logs());
    let [most, now] = ["VmHWM:", "VmRSS:"].map(|name| figure(process, name));
    let counted = group.as_ref().map(|group| group.most_memory() / MEBIBYTE);
    println!(
        "HOSTILE: most {} MiB, now {} MiB; the group counted at most {counted:?} MiB",
        most / MEBIBYTE,
        now / MEBIBYTE
    );
    for attacker in &attackers {
        println!("HOSTILE: {attacker}");
    }
    assert!(most < limit, "{} MiB", most / MEBIBYTE);
    assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
    let (_, metrics) = world.operator().metrics().await;
    let room = metrics.lines().find_map(|line| line.strip_prefix(ROOM));
    world.kill();
    room.unwrap().trim().parse().unwrap()
}
