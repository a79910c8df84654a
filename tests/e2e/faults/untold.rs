//! An operation whose outcome nothing shows.

use super::*;
use cloud_simulator::Entry;

/// The same image with another key: the service shows nothing from which the outcome follows, and a repetition would erase the
/// disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reinstall_of_which_nothing_tells_is_not_repeated_until_asked_again() {
    let world = Setup::default().begin("untold").await;
    // Enough time for a read of the server, even on a machine that stalls at times.
    world
        .change_account("default", json!({"settleSeconds": 20}))
        .await;
    let names = ["before", "after"];
    let fleet = fleet(&world, &names, instance).await;
    let path = path_of(Verb::Reinstall);
    for (instance, when) in fleet.iter().zip([When::BeforeEffect, When::AfterEffect]) {
        let rule = Rule::on(path, Act::Lose { when }).containing(&id_of(instance));
        world.sim.fault(rule.times(1));
    }
    // It runs until the operator has read the server.
    let never = Rule::on(path, Act::Task(TaskScript::Never)).containing(&id_of(&fleet[1]));
    world.sim.fault(never.times(1));
    for name in names {
        world.apply(&instance_by_key(name)).await;
    }
    let server = id_of(&fleet[1]);
    eventually("the service is seen at it", async || {
        let ledger = world.sim.ledger();
        let mut since = ledger
            .entries()
            .skip_while(|entry| entry.path != path || entry.effect.server() != Some(&server));
        let looks = |entry: &Entry| {
            entry.path == "/instance/detail" && entry.request.to_string().contains(&server)
        };
        match since.any(looks) {
            true => Ok(()),
            false => Err(world.ledger_text()),
        }
    })
    .await;
    end_task(&world, &fleet[1]).await;
    let told = world.until_reason("before", "OutcomeUnknown").await;
    assert_eq!(condition(&told, "Stalled").unwrap().status, "True");
    did(&world, "after", Verb::Reinstall).await;
    quiet_all(&world).await;
    assert_eq!(reason(&world.get("before").await), "OutcomeUnknown");
    let ids: Vec<_> = fleet.iter().map(id_of).collect();
    let done = || {
        ids.iter()
            .map(|id| counts(&world, Verb::Reinstall, Some(id)))
    };
    assert!(done().eq([(0, 0), (1, 1)]), "{}", world.ledger_text());
    // A new token requests it again.
    let mut manifest = instance_by_key("before");
    manifest["spec"]["reinstall"] = json!({"token": "again"});
    world.apply(&manifest).await;
    let now = did(&world, "before", Verb::Reinstall).await;
    let server = world.only_server(&now);
    assert_eq!(server.key.as_deref(), Some(catalogue::example().key));
    quiet_all(&world).await;
    assert!(done().eq([(1, 1), (1, 1)]), "{}", world.ledger_text());
    world.finish().await;
}
