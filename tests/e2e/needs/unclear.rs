//! A create with an unknown outcome: status has the service's message, the next step, and its time.

use super::{assert_names, until_reported};
use crate::support::{
    Follower, Setup, World, condition, create_calls, eventually, instance, marker_of, path_of, with,
};
use cloud_server_operator::api::{Instance, Verb};
use cloud_simulator::faults::{Act, Rule, When};
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Long enough for a restart meanwhile.
const SETTLE: SignedDuration = SignedDuration::from_secs(20);
/// After the settling time, two listings five seconds apart must show no server, on a machine that many tests share.
const RECHECK: SignedDuration = SignedDuration::from_secs(30);

/// A service that answers this many creates with 503, and a settling time of [`SETTLE`].
async fn maintained(world: &World, times: u64) {
    let error = Act::Error {
        status: 503,
        code: "InternalError.Unknown".to_owned(),
        message: "maintenance".to_owned(),
        retry_after: None,
        when: When::BeforeEffect,
    };
    let settle = json!({"settleSeconds": SETTLE.as_secs()});
    world.change_account("default", settle).await;
    let rule = Rule::on(path_of(Verb::Create), error);
    world.sim.fault(rule.times(times));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unclear_create_is_reported_with_the_answer_of_the_service_and_the_next_step() {
    let world = Setup::default().begin("maintenance").await;
    maintained(&world, 1).await;
    let web = world.apply(&instance("web")).await;
    let (kinds, message) = until_reported(&world, "web", "CreateUnconfirmed").await;
    assert_eq!(kinds, ["Reconciling"]);
    let name = format!("web-{}", marker_of(&web));
    let parts = [
        "answered with 503",
        "maintenance",
        "the outcome of the create is unknown",
        &name,
        "UTC",
    ];
    assert_names(&message, &parts);
    world.ready("web").await;
    assert_eq!((create_calls(&world.sim), world.live(&web).len()), (2, 1));
    world.finish().await;
}

/// The end of the settling time in status, read at this time, since the message contains a time of day without a date.
fn named(instance: &Instance, at: Timestamp) -> Option<Timestamp> {
    let ready = condition(instance, "Ready").filter(|it| it.reason == "CreateUnconfirmed")?;
    let (before, _) = ready.message.split_once(" UTC")?;
    let time: Time = before.rsplit(' ').next()?.parse().ok()?;
    let today = at.to_zoned(TimeZone::UTC).date();
    let day = SignedDuration::from_hours(24);
    let of_today =
        today.to_zoned(TimeZone::UTC).unwrap().timestamp() + time.duration_since(Time::midnight());
    [of_today - day, of_today, of_today + day]
        .into_iter()
        .min_by_key(|of_a_day| of_a_day.duration_since(at).abs())
}

/// The time of each create that reached the service.
fn create_times(world: &World) -> Vec<Timestamp> {
    let ledger = world.sim.ledger();
    let calls = ledger.since(0).into_iter();
    let creates = calls.filter(|call| call.path == path_of(Verb::Create));
    let at = creates.map(|call| i64::try_from(call.at.as_millis()).unwrap());
    at.map(|at| Timestamp::from_millisecond(at).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_that_is_named_is_still_to_come_while_nothing_was_bought() {
    let mut world = Setup::default().begin("named-time").await;
    maintained(&world, 2).await;
    let web = world.apply(&instance("web")).await;
    let followed = Follower::of(&world, "web").await;
    until_reported(&world, "web", "CreateUnconfirmed").await;
    world.kill();
    world.start().await;
    eventually("it is requested once more", async || {
        match create_times(&world).len() {
            2.. => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    world.ready("web").await;
    let creates = create_times(&world);
    let [_, second, third] = creates[..] else {
        panic!("{}", world.ledger_text());
    };

    // Each reported time, and since when it was reported; other writes do not change it.
    let mut spells = Vec::new();
    for seen in followed.versions() {
        let named = named(&seen.instance, seen.at);
        if spells.last().is_none_or(|(_, before)| *before != named) {
            spells.push((seen.at, named));
        }
    }
    let mut names = Vec::new();
    for pair in spells.windows(2) {
        let ((at, Some(named)), (end, _)) = (pair[0], pair[1]) else {
            continue;
        };
        println!("{at} to {end}: nothing is bought before {named}");
        assert!(named > at, "reported at {at}: {named} is over");
        let expired = end.duration_since(named);
        assert!(
            expired < RECHECK,
            "{named} was over for {expired:#}, until {end}"
        );
        names.push((at, named));
    }
    for call in [second, third] {
        let mut before = names.iter().filter(|(at, _)| *at < call);
        let (_, named) = before.next_back().expect("a time was reported");
        // The reported time is in whole seconds, and never too early.
        let soonest = *named - SignedDuration::from_secs(1);
        assert!(soonest <= call, "called at {call}, reported {named}");
    }
    // The settling time of the second attempt equals that of the first.
    let last = names.last().unwrap().1;
    let after = last.duration_since(second);
    assert!(after >= SETTLE - SignedDuration::from_secs(1), "{after:#}");
    assert_eq!((create_calls(&world.sim), world.live(&web).len()), (3, 1));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unclear_create_in_a_zone_that_does_not_exist_needs_no_human() {
    let mut world = Setup::default().begin("unclear-nowhere").await;
    let error = Act::Error {
        status: 503,
        code: "InternalError.Unknown".to_owned(),
        message: "maintenance".to_owned(),
        retry_after: None,
        when: When::BeforeEffect,
    };
    let rule = Rule::on(path_of(Verb::Create), error);
    world.sim.fault(rule.times(2));
    let nowhere = |name: &str| with(name, |spec| spec["zone"] = json!("ru-nowhere-1-a"));
    for name in ["fixed", "deleted"] {
        world.apply(&nowhere(name)).await;
        until_reported(&world, name, "CreateUnconfirmed").await;
    }
    // The next process does not know of the calls, either.
    world.kill();
    world.start().await;
    world.apply(&instance("fixed")).await;
    world.delete("deleted").await;
    world.ready("fixed").await;
    world.gone("deleted").await;
    assert_eq!(world.sim.live_servers().len(), 1);
    // The zone of the first attempt does not prevent the confirmation.
    world.delete("fixed").await;
    world.gone("fixed").await;
    assert_eq!(world.sim.live_servers().len(), 0);
    world.finish().await;
}
