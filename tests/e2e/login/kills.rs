//! A rotation that is interrupted at any write: at each point the Secret contains the server's password, and in the end it
//! shows it as the one in effect.

use super::{age, agrees, hourly, in_force, read, server_password};
use crate::support::recorder::{Place, Point, Then};
use crate::support::{PATIENCE, Setup, World, eventually, insist, outline};
use cloud_server_operator::api::Instance;

const LOGIN: &str = "web-login";

/// Asserts that the server's password is in the Secret.
async fn is_not_lost(world: &World, web: &Instance) {
    let (held, has) = (read(world, LOGIN).await, server_password(world, web));
    assert!(
        held.values().any(|value| *value == has),
        "{:?}",
        held.keys()
    );
    assert!(held.contains_key("password") && held.contains_key("current"));
}

/// Waits until another password is in effect, at the service, in the Secret and in status.
pub(super) async fn rotated(world: &World, former: &str) -> Instance {
    eventually("another password is made", async || {
        match read(world, LOGIN).await["password"] != former {
            true => Ok(()),
            false => Err(outline(&world.get("web").await)),
        }
    })
    .await;
    in_force(world, "web", LOGIN).await
}

/// The changes that a rotation consists of. Afterwards another password is in effect.
async fn learnt(world: &World, former: &mut String) -> Vec<Point> {
    world.recorder().begin();
    age(world, LOGIN, 2).await;
    let web = rotated(world, former).await;
    *former = agrees(world, &web, LOGIN).await["password"].clone();
    let mut points = world.recorder().points();
    points.retain(|point| point.kind.is_mutation());
    points
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_kill_at_any_boundary_of_a_rotation_loses_no_password() {
    let mut world = Setup::default().recorder().begin("rotation-kills").await;
    world.apply(&hourly("web")).await;
    let web = world.ready("web").await;
    let mut former = server_password(&world, &web);
    // Recorded twice: a repeated status write in one of them is not a step of every rotation.
    let first = learnt(&world, &mut former).await;
    let mut points = learnt(&world, &mut former).await;
    points.retain(|point| first.contains(point));
    println!("ROTATION is {points:?}");
    let of_secrets = points
        .iter()
        .filter(|point| point.to_string().starts_with("secret"));
    assert_eq!(
        of_secrets.count(),
        2,
        "one before the call, one after its success"
    );
    for point in points {
        for place in [Place::Before, Place::AfterEffect] {
            world.recorder().begin();
            let trap = world.recorder().trap(point, place, Then::End);
            age(&world, LOGIN, 2).await;
            let reached = trap.reached(PATIENCE).await;
            assert!(reached, "{point}/{place} was not reached");
            is_not_lost(&world, &web).await;
            world.kill();
            world.recorder().cut_off().await;
            trap.let_go();
            is_not_lost(&world, &web).await;
            world.start().await;
            let now = rotated(&world, &former).await;
            let held = agrees(&world, &now, LOGIN).await;
            assert_eq!(held["previous"], former, "{point}/{place}");
            former = held["password"].clone();
            println!("ROTATION {point}/{place}: ok");
        }
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_a_kill_around_the_first_password_makes_one_server_with_it() {
    for place in [Place::Before, Place::AfterEffect, Place::AfterReply] {
        let mut world = Setup::default().recorder().begin("first-kills").await;
        world.recorder().begin();
        let first = Point {
            kind: crate::support::recorder::Kind::Secret,
            nth: 1,
        };
        let trap = world.recorder().trap(first, place, Then::End);
        world.apply(&hourly("web")).await;
        assert!(trap.reached(PATIENCE).await);
        world.kill();
        world.recorder().cut_off().await;
        trap.let_go();
        let secrets = world.secrets();
        let written = insist("read it", async || secrets.get_opt(LOGIN).await);
        let written = written.await.unwrap();
        assert_eq!(written.is_some(), place != Place::Before);
        world.start().await;
        let web = world.ready("web").await;
        let held = agrees(&world, &web, LOGIN).await;
        if let Some(written) = written {
            let written = super::texts(&written);
            assert_eq!(held["password"], written["password"], "it is used as it is");
        }
        assert_eq!(world.sim.servers().len(), 1);
        world.finish().await;
    }
}
