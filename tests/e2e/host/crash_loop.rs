//! An operator that is killed at the same point again and again, also while it recovers: in the end there is one server, bought
//! once.

use crate::support::recorder::{Kind, Place, Point, Then};
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
async fn killed_at_every_look_for_its_servers_it_buys_none_again() {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_record_of_a_server_that_it_found_it_buys_none_again() {
    let mut world = Setup::default().recorder().begin("loop-record").await;
    let fleet = names("web", 1);
    killed_while_buying(&mut world, &fleet).await;
    for round in 0..STARTS {
        // The server is found and not recorded yet: killed before that write, and in the last round after it, without its
        // answer.
        let place = if round + 1 < STARTS {
            Place::Before
        } else {
            Place::AfterEffect
        };
        let point = Point {
            kind: Kind::Intent,
            nth: 1,
        };
        world.recorder().begin();
        let trap = world.recorder().trap(point, place, Then::End);
        world.start().await;
        assert!(
            trap.reached(PATIENCE).await,
            "round {round}: {:?}",
            world.recorder().points()
        );
        world.kill();
        world.recorder().cut_off().await;
        trap.let_go();
    }
    world.start().await;
    world.all_ready(&fleet).await;
    quiet_all(&world).await;
    assert_eq!(create_calls(&world.sim), 1, "{}", world.ledger_text());
    world.finish().await;
}

/// The worst point: each process concludes, after all its proofs, that nothing was bought, and is killed at the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "each of twenty starts has to settle first: two minutes"]
async fn killed_at_every_purchase_it_has_one_server_when_one_is_carried_out() {
    let mut world = Setup::default().begin("loop-buy").await;
    let fleet = names("web", 4);
    let act = |gone| Act::Hold {
        at: When::BeforeEffect,
        gone,
    };
    for round in 0..STARTS {
        let mut holds = Vec::new();
        for (number, name) in fleet.iter().enumerate() {
            // Each create is carried out in a different round, long before the others.
            let gone = if round == 5 * number {
                ClientGone::Execute
            } else {
                ClientGone::Drop
            };
            let rule = Rule::on("/instance/create", act(gone)).containing(&format!("\"{name}-"));
            holds.push((number, world.sim.hold(rule)));
        }
        if round == 0 {
            world.apply_all(&fleet, instance).await;
        } else {
            world.start().await;
        }
        for (number, hold) in &holds {
            if round <= 5 * number {
                hold.reached(PATIENCE).await.unwrap();
            }
        }
        world.kill();
        for (number, hold) in &holds {
            if round <= 5 * number {
                hold.client_left(PATIENCE).await.unwrap();
            }
            hold.release();
        }
        world.sim.faults().clear();
    }
    world.start().await;
    world.all_ready(&fleet).await;
    quiet_all(&world).await;
    println!(
        "CRASH LOOP: {} calls, {} servers",
        create_calls(&world.sim),
        world.sim.servers().len()
    );
    assert_eq!(
        world.sim.servers().len(),
        fleet.len(),
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}
