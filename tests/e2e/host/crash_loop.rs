//! An operator that is killed at the same point again and again, also while it recovers: in the end there is one server, bought
//! once.

use crate::support::{PATIENCE, Setup, World, counts, create_calls, instance, names, quiet_all};
use cloud_server_operator::api::Verb;
use cloud_simulator::faults::{Act, ClientGone, Rule, When};

/// Number of starts. Another controller bought a server at each of them.
const STARTS: usize = 20;

/// Kills the buyer of creates that were carried out, before it gets the answers.
async fn killed_while_buying(world: &mut World, fleet: &[String]) {
    let act = Act::Hold {
        at: When::AfterEffect,
        gone: ClientGone::Execute,
    };
    let holds: Vec<_> = fleet
        .iter()
        .map(|name| {
            let rule = Rule::on("/instance/create", act.clone()).containing(&format!("\"{name}-"));
            world.sim.hold(rule)
        })
        .collect();
    world.apply_all(fleet, instance).await;
    for hold in &holds {
        hold.reached(PATIENCE).await.unwrap();
    }
    world.kill();
    holds
        .iter()
        .for_each(cloud_simulator::faults::Hold::release);
    assert_eq!(world.sim.servers().len(), fleet.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_search_for_its_servers_the_operator_buys_none_again() {
    let mut world = Setup::default().begin("loop-look").await;
    let fleet = names("web", 3);
    killed_while_buying(&mut world, &fleet).await;
    for _ in 0..STARTS {
        // A recovery begins with a listing of the servers.
        let act = Act::Hold {
            at: When::BeforeEffect,
            gone: ClientGone::Drop,
        };
        let hold = world.sim.hold(Rule::on("/instance/list", act));
        world.start().await;
        hold.reached(PATIENCE).await.unwrap();
        world.kill();
        hold.release();
    }
    world.start().await;
    world.all_ready(&fleet).await;
    quiet_all(&world).await;
    assert_eq!(create_calls(&world.sim), 3, "{}", world.ledger_text());
    assert_eq!(
        counts(&world, Verb::Create, None),
        (3, 3),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}
