//! SIGKILL at the call of a reinstall, a password change, a start, a stop and a restart: before its effect, after it, and
//! after the answer. The operator is started again and ends at what the spec says, and nobody had to help. A crash after
//! the answer is also one before any later write.

use crate::support::proxy::{At, Write};
use crate::support::{PATIENCE, Setup, World, counts, instance, is_ready, path_of, side_by_side};
use cloud_server_operator::api::{PowerState, Verb};
use cloud_simulator::catalogue;
use cloud_simulator::faults::{Act, ClientGone, Rule, When};
use serde_json::{Value, json};

/// Worlds at the same time.
const AT_ONCE: usize = 9;
/// Places, and what becomes of a request whose client is gone before it took effect.
const PLACES: [(When, ClientGone); 4] = [
    (When::BeforeEffect, ClientGone::Drop),
    (When::BeforeEffect, ClientGone::Execute),
    (When::AfterEffect, ClientGone::Execute),
    (When::AfterReply, ClientGone::Execute),
];

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut manifest = instance("web");
    change(&mut manifest["spec"]);
    manifest
}

/// Asks for the verb.
async fn ask(world: &World, verb: Verb) {
    let manifest = match verb {
        Verb::ModifyPassword => {
            let value = World::NEW_PASSWORD;
            return world.secret("login", "password", value).await;
        }
        Verb::Reinstall => {
            with(|spec| spec["image"]["id"] = json!(catalogue::example().other_image))
        }
        Verb::Stop => with(|spec| spec["powerState"] = json!("Stopped")),
        Verb::Restart => with(|spec| spec["restart"] = json!({"token": "one"})),
        Verb::Create | Verb::Release | Verb::Start => instance("web"),
    };
    world.apply(&manifest).await;
}

/// Where the operator is killed.
#[derive(Clone, Copy, Debug)]
enum Place {
    Call(When, ClientGone),
    Write(Write, At),
}

async fn crash(verb: Verb, place: Place) {
    let setup = match place {
        Place::Call(..) => Setup::default(),
        Place::Write(..) => Setup::default().proxy(),
    };
    let mut world = setup.begin("crash-verb").await;
    let first = match verb {
        Verb::Start => with(|spec| spec["powerState"] = json!("Stopped")),
        _ => instance("web"),
    };
    world.apply(&first).await;
    // Created, and stopped where it has to be started: the first status of a create may come before the stop.
    world
        .until("web", "is as the test begins", |i| {
            let status = i.status.as_ref().unwrap();
            let state = status.detail.get("ecsStatus");
            let wanted = match i.spec.power_state {
                PowerState::Stopped => "STOPPED",
                PowerState::Running | PowerState::Unmanaged => "STARTED",
            };
            is_ready(i) && state.is_some_and(|state| state == wanted)
        })
        .await;
    let before = counts(&world, verb, None);
    match place {
        Place::Call(at, gone) => {
            let hold = world
                .sim
                .hold(Rule::on(path_of(verb), Act::Hold { at, gone }));
            ask(&world, verb).await;
            hold.reached(PATIENCE).await.unwrap();
            world.kill();
            if at == When::BeforeEffect {
                hold.client_left(PATIENCE).await.unwrap();
            }
            hold.release();
        }
        Place::Write(write, at) => {
            let trap = world.proxy().trap(write, at);
            ask(&world, verb).await;
            assert!(trap.reached().await, "{verb} {place:?}: no such write");
            world.kill();
            trap.lose();
        }
    }
    world.start().await;

    let ready = world
        .until("web", &format!("has done the {verb} and is Ready"), |i| {
            let history = &i.status.as_ref().unwrap().history;
            let did = history.iter().any(|e| e.verb == verb && e.succeeded);
            is_ready(i) && did
        })
        .await;
    let status = ready.status.as_ref().unwrap();
    let server = world.only_server(&ready);
    assert_eq!(status.id.as_deref(), Some(server.id.as_str()));
    assert_eq!(world.sim.servers().len(), 1, "{}", world.ledger_text());
    assert_eq!(server.image, ready.spec.image.id);
    let password = match verb {
        Verb::ModifyPassword => World::NEW_PASSWORD,
        _ => World::PASSWORD,
    };
    let has = world.sim.world(|w| w.password_of(&server.id));
    assert_eq!(has.as_deref(), Some(password), "{}", world.ledger_text());
    let power = match ready.spec.power_state {
        PowerState::Stopped => "STOPPED",
        PowerState::Running | PowerState::Unmanaged => "STARTED",
    };
    assert_eq!(status.detail["ecsStatus"], power);

    let after = counts(&world, verb, None);
    let (accepted, completed) = (after.0 - before.0, after.1 - before.1);
    let attempts = status.history.iter().filter(|e| e.verb == verb).count();
    println!(
        "CRASH {verb:?} {place:?}: accepted {accepted}, completed {completed}, attempts {attempts}"
    );
    // An attempt is never carried out twice; what the server shows was carried out is not asked for again.
    assert!(accepted <= attempts, "{}", world.ledger_text());
    if verb == Verb::Reinstall {
        assert_eq!(completed, 1, "{}", world.ledger_text());
    }
    assert!((1..=2).contains(&completed), "{}", world.ledger_text());
    world.delete("web").await;
    world.gone("web").await;
    assert_eq!(world.sim.live_servers(), [], "{}", world.ledger_text());
    world.finish().await;
}

/// Every place of a verb, each in a world of its own.
async fn crash_everywhere(verb: Verb, places: impl IntoIterator<Item = Place>) {
    let places: Vec<_> = places.into_iter().map(|place| (verb, place)).collect();
    side_by_side(AT_ONCE, places, |(verb, place)| crash(verb, place)).await;
}

fn calls() -> impl Iterator<Item = Place> {
    PLACES.into_iter().map(|(at, gone)| Place::Call(at, gone))
}

/// Every write of an operation: intent, receipt, end. The receipt of what may be done twice is the first status of it.
fn writes(verb: Verb) -> impl Iterator<Item = Place> {
    let everywhere = [At::BeforeEffect, At::AfterEffect, At::AfterReply];
    let all = if verb.is_harmless_twice() {
        [Write::Intent, Write::Status(1), Write::Status(2)]
    } else {
        [Write::Intent, Write::Receipt, Write::Status(1)]
    };
    all.into_iter()
        .flat_map(move |write| everywhere.map(|at| Place::Write(write, at)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_the_call_of_a_reinstall_erases_once() {
    crash_everywhere(Verb::Reinstall, calls()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_the_call_of_a_password_change_ends_with_the_new_password() {
    crash_everywhere(Verb::ModifyPassword, calls()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_the_call_of_a_start_ends_with_a_running_server() {
    crash_everywhere(Verb::Start, calls()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_the_call_of_a_stop_ends_with_a_stopped_server() {
    crash_everywhere(Verb::Stop, calls()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_the_call_of_a_restart_ends_with_a_running_server() {
    crash_everywhere(Verb::Restart, calls()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_a_write_of_a_reinstall_erases_once() {
    crash_everywhere(Verb::Reinstall, writes(Verb::Reinstall)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_a_write_of_a_password_change_ends_with_the_new_password() {
    crash_everywhere(Verb::ModifyPassword, writes(Verb::ModifyPassword)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_a_write_of_a_start_ends_with_a_running_server() {
    crash_everywhere(Verb::Start, writes(Verb::Start)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_a_write_of_a_restart_ends_with_a_running_server() {
    crash_everywhere(Verb::Restart, writes(Verb::Restart)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_a_write_of_a_stop_ends_with_a_stopped_server() {
    crash_everywhere(Verb::Stop, writes(Verb::Stop)).await;
}
