//! The cost of each verb in one Instance's life: writes by the audit log, calls by the service's ledger.

use super::print_figures;
use crate::support::bought::{is_naive, setup};
use crate::support::{
    Mark, World, counts, eventually, instance, mark, new_password, once, other_image, quiet_all,
    stopped,
};
use cloud_server_operator::api::Verb;
use serde_json::json;
use std::collections::BTreeMap;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: make bench"]
async fn life_of_one_instance() {
    let world = setup().tasks(1_000).begin("life").await;
    for verb in [
        Verb::Create,
        Verb::Stop,
        Verb::Start,
        Verb::ModifyPassword,
        Verb::Reinstall,
        Verb::Release,
    ] {
        // The naive controller does not change passwords.
        if verb == Verb::ModifyPassword && is_naive() {
            continue;
        }
        let since = match verb {
            Verb::Create => Mark::default(),
            _ => mark(&world, "web").await,
        };
        match verb {
            Verb::Create => drop(world.apply(&instance("web")).await),
            Verb::Stop => drop(world.apply(&stopped("web")).await),
            Verb::Start => drop(world.apply(&instance("web")).await),
            Verb::ModifyPassword => new_password(&world).await,
            Verb::Reinstall => drop(world.apply(&other_image("web")).await),
            _ => world.delete("web").await,
        }
        done(&world, verb).await;
        // Writes and calls after the completion belong to the same verb.
        quiet_all(&world).await;
        let writes = once(world.writes_since(since.at).await).len();
        let mut calls: BTreeMap<String, usize> = BTreeMap::new();
        for call in world.calls_since(since.seq) {
            *calls.entry(call.path).or_default() += 1;
        }
        print_figures(&json!({
            "scenario": "life", "verb": verb, "writes": writes, "calls": calls.values().sum::<usize>(), "calls_by_path": calls,
        }));
    }
    world.finish().await;
}

/// Waits until the service has carried out the verb, and the object shows it.
async fn done(world: &World, verb: Verb) {
    eventually(&format!("{verb:?} is carried out"), async || {
        match counts(world, verb, None) {
            (1, 1) => Ok(()),
            counted => Err(format!("{counted:?}")),
        }
    })
    .await;
    match verb {
        Verb::Release => world.gone("web").await,
        _ => drop(world.ready("web").await),
    }
}
