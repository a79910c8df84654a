use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::pass::PassBuilder;
use super::super::testing;
use super::super::view::{NoEvidence, Sighting};
use super::*;
use crate::api::Marker;
use crate::runtime::metrics::Listings;

fn settings() -> Settings {
    Settings {
        jitter: 0.0,
        ..Settings::default()
    }
}

fn place() -> Place {
    Place::new("r", "z")
}

fn subject(name: &str) -> InstanceUid {
    name.into()
}

fn subscription(name: &str, id: Option<&str>, attention: Attention) -> Subscription {
    Subscription {
        places: vec![place()],
        id: id.map(ServerId::from),
        marker: Marker::of_uid(name),
        wants: Wants {
            attention,
            pass_after: None,
            passes: 1,
        },
        releasing: false,
        credential: Some("secret/1".into()),
    }
}

fn quiet(name: &str, id: Option<&str>) -> Subscription {
    subscription(name, id, Attention::Quiet)
}

fn row(id: &str, owner: &str, status: &str) -> Map<String, Value> {
    let name = format!("web-{}", Marker::of_uid(owner));
    let row = json!({"ecsResourceUUID": id, "instanceName": name, "ecsStatus": status});
    row.as_object().cloned().unwrap()
}

/// A state with its own clock.
struct Bench {
    state: State,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self {
            state: State::new(settings()),
            now: Instant::now(),
        }
    }

    fn wait(&mut self, duration: Duration) {
        self.now += duration;
    }

    /// The time until the next pass is due. Fails if one is due now.
    fn due_in(&mut self) -> Option<Duration> {
        let due = self.state.due(PER_SECOND, self.now);
        assert!(due.now.is_empty(), "a pass is due at once");
        due.next.map(|next| next - self.now)
    }

    /// Begins the pass that must be due now.
    fn begin(&mut self) {
        assert_eq!(
            self.state.due(PER_SECOND, self.now).now.len(),
            1,
            "no pass is due"
        );
    }

    fn end(&mut self, rows: Vec<Map<String, Value>>) -> Vec<String> {
        self.end_with(rows, None)
    }

    /// Ends the running pass a second later with these rows in one page. Returns the woken subjects.
    fn end_with(&mut self, rows: Vec<Map<String, Value>>, row_count: Option<u64>) -> Vec<String> {
        let began = self.now;
        self.wait(Duration::from_secs(1));
        let mut builder = PassBuilder::new(None);
        let page = testing::page(&mut builder, rows, row_count);
        builder.add(page).unwrap();
        let pass = builder.finish(began, self.now);
        self.complete(Ok(pass))
    }

    fn fail(&mut self) -> Vec<String> {
        self.complete(Err(PassError::RowWithoutId { page: 1 }))
    }

    fn complete(&mut self, result: Result<Pass, PassError>) -> Vec<String> {
        let woken = self.state.completed(&place(), result, 1.0, self.now);
        let mut woken: Vec<_> = woken.iter().map(ToString::to_string).collect();
        woken.sort();
        woken
    }

    fn pass(&mut self, rows: Vec<Map<String, Value>>) -> Vec<String> {
        self.begin();
        self.end(rows)
    }
}

const S: Duration = Duration::from_secs(1);
/// More than any of these passes needs.
const PER_SECOND: f64 = 100.0;

#[tokio::test(start_paused = true)]
async fn without_subscriptions_no_pass_is_due() {
    let mut bench = Bench::new();
    assert_eq!(bench.due_in(), None);
    bench.state.subscribe(&subject("a"), quiet("a", None));
    bench.state.leave(&subject("a"));
    assert_eq!(bench.due_in(), None);
    assert!(bench.state.places.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_strongest_attention_sets_the_pace() {
    let mut bench = Bench::new();
    bench.state.subscribe(&subject("a"), quiet("a", None));
    bench.pass(vec![]);
    assert_eq!(bench.due_in(), Some(59 * S), "from beginning to beginning");
    bench
        .state
        .subscribe(&subject("b"), subscription("b", None, Attention::InFlight));
    assert_eq!(bench.due_in(), Some(4 * S));
    bench.state.subscribe(&subject("b"), quiet("b", None));
    assert_eq!(bench.due_in(), Some(59 * S));
    assert_eq!(bench.state.priority(&place()), CallPriority::Resync);
}

#[tokio::test(start_paused = true)]
async fn a_listing_speeds_up_once_as_many_operations_run_as_it_has_pages() {
    let mut bench = Bench::new();
    let rows = |from: usize| {
        (from..from + 50).map(|n| row(&format!("ecs-{n}"), &format!("o-{n}"), "STARTED"))
    };
    bench.state.subscribe(&subject("a"), quiet("a", None));
    bench.begin();
    let began = bench.now;
    let mut builder = PassBuilder::new(None);
    for page in 0..2 {
        let page = testing::page(&mut builder, rows(page * 50).collect(), Some(100));
        builder.add(page).unwrap();
    }
    let end = testing::page(&mut builder, vec![], Some(100));
    builder.add(end).unwrap();
    bench.complete(Ok(builder.finish(began, bench.now)));
    let subscribed = |bench: &mut Bench, name: &str, attention: Attention, after| {
        let running = Subscription {
            wants: Wants {
                attention,
                pass_after: after,
                passes: 1,
            },
            ..subscription(name, Some(name), attention)
        };
        bench.state.subscribe(&subject(name), running);
        (bench.due_in(), bench.state.priority(&place()))
    };
    let followed = Attention::Followed;
    let at_its_own_pace = (Some(60 * S), CallPriority::Resync);
    let at_the_pace_of_operations = (Some(5 * S), CallPriority::Operation);
    assert_eq!(subscribed(&mut bench, "b", followed, None), at_its_own_pace);
    let sometime = Some(bench.now);
    assert_eq!(
        subscribed(&mut bench, "b", followed, sometime),
        at_its_own_pace
    );
    let second = subscribed(&mut bench, "c", followed, None);
    assert_eq!(second, at_the_pace_of_operations, "two pages");
    assert_eq!(
        subscribed(&mut bench, "c", Attention::Quiet, None),
        at_its_own_pace
    );
    let waits = subscribed(&mut bench, "d", Attention::InFlight, None);
    assert_eq!(
        waits, at_the_pace_of_operations,
        "only a listing shows the end"
    );
    assert_eq!(
        subscribed(&mut bench, "d", Attention::Quiet, None),
        at_its_own_pace
    );
    // A failed pass is retried soon while an operation is in progress.
    bench.wait(60 * S);
    bench.begin();
    bench.fail();
    assert!(bench.due_in().unwrap() < 10 * S);
}

#[tokio::test(start_paused = true)]
async fn listings_leave_half_of_the_request_limit_to_others() {
    let mut bench = Bench::new();
    bench.state.subscribe(&subject("a"), quiet("a", None));
    bench.pass(vec![row("ecs-1", "a", "STARTED")]);
    let due = |bench: &Bench, per_second: f64| {
        let mut state = State::new(settings());
        let watched = bench.state.places.get(&place()).unwrap();
        let (newest, began) = (watched.view.newest.clone(), watched.began);
        state.subscribe(&subject("a"), quiet("a", None));
        let watched = state.places.get_mut(&place()).unwrap();
        (watched.view.newest, watched.began, watched.stretch) = (newest, began, 1.0);
        state.due(per_second, bench.now).next.unwrap() - began.unwrap()
    };
    assert_eq!(due(&bench, 5.0), 60 * S);
    assert_eq!(due(&bench, 0.02), 200 * S, "two calls, half of the limit");
    assert_eq!(due(&bench, 0.000_1), 240 * S, "the slowest pace");
}

#[tokio::test(start_paused = true)]
async fn a_proof_is_two_successive_passes_that_began_after_the_instant() {
    let mut bench = Bench::new();
    bench.state.subscribe(&subject("a"), quiet("a", None));
    bench.pass(vec![]);
    let after = bench.now + 10 * S;
    let proof = Subscription {
        wants: Wants {
            pass_after: Some(after),
            passes: 2,
            ..Wants::default()
        },
        ..quiet("a", None)
    };
    bench.state.subscribe(&subject("a"), proof);
    assert_eq!(bench.state.priority(&place()), CallPriority::Operation);
    assert_eq!(bench.due_in(), Some(10 * S + Duration::from_millis(1)));
    bench.wait(10 * S + Duration::from_millis(1));
    assert_eq!(
        bench.pass(vec![]),
        Vec::<String>::new(),
        "half a proof wakes no subject"
    );
    assert_eq!(bench.due_in(), Some(Duration::from_millis(250)));
    bench.wait(Duration::from_millis(250));
    assert_eq!(bench.pass(vec![]), ["a"]);
    assert_eq!(bench.due_in(), Some(59 * S), "and then it is quiet again");
}

#[tokio::test(start_paused = true)]
async fn passes_without_evidence_are_repeated_with_growing_pauses() {
    let mut bench = Bench::new();
    let proof = Subscription {
        wants: Wants {
            pass_after: Some(bench.now - S),
            ..Wants::default()
        },
        ..quiet("a", None)
    };
    bench.state.subscribe(&subject("a"), proof);
    let mut gaps = Vec::new();
    for _ in 0..6 {
        bench.begin();
        // An empty page whose `rowCount` is five.
        assert_eq!(
            bench.end_with(vec![], Some(5)).len(),
            usize::from(gaps.is_empty())
        );
        let gap = bench.due_in().unwrap();
        gaps.push(gap.as_millis());
        bench.wait(gap);
    }
    assert_eq!(gaps, [500, 1000, 2000, 4000, 5000, 5000]);
    bench.begin();
    assert_eq!(bench.end_with(vec![], Some(0)), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_pass_wakes_no_subject_changes_nothing_and_is_retried_with_a_growing_pause() {
    let mut bench = Bench::new();
    bench.state.subscribe(
        &subject("a"),
        subscription("a", Some("ecs-1"), Attention::InFlight),
    );
    bench.pass(vec![row("ecs-1", "a", "STARTED")]);
    bench.wait(4 * S);
    let mut pauses = Vec::new();
    for _ in 0..7 {
        bench.begin();
        assert!(bench.fail().is_empty());
        let pause = bench.due_in().unwrap();
        pauses.push(pause.as_secs());
        bench.wait(pause);
    }
    assert_eq!(pauses, [5, 5, 5, 8, 16, 20, 20]);
    let known = |bench: &Bench| bench.state.listings().remove(0);
    let failing = known(&bench).failing.unwrap();
    assert!(
        bench.now > failing.since + 60 * S,
        "the beginning of the failure does not move"
    );
    let view = bench.state.view(&place());
    assert!(view.failing.is_some());
    assert!(matches!(
        view.sighting(&"ecs-1".into()),
        Sighting::Present(..)
    ));
    bench.pass(vec![]);
    assert!(bench.state.view(&place()).failing.is_none());
    assert_eq!(known(&bench).failing, None);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_subject_is_woken_by_a_change_and_only_once() {
    let mut bench = Bench::new();
    bench
        .state
        .subscribe(&subject("a"), quiet("a", Some("ecs-1")));
    bench
        .state
        .subscribe(&subject("b"), quiet("b", Some("ecs-2")));
    let own = |status| vec![row("ecs-1", "a", status), row("ecs-2", "b", "STARTED")];
    let pass = |bench: &mut Bench, rows| {
        let woken = bench.pass(rows);
        bench.wait(59 * S);
        woken
    };
    assert_eq!(pass(&mut bench, own("STARTED")), ["a", "b"], "appeared");
    for _ in 0..5 {
        assert!(pass(&mut bench, own("STARTED")).is_empty());
    }
    assert_eq!(pass(&mut bench, own("STOPPED")), ["a"]);
    assert!(pass(&mut bench, own("STOPPED")).is_empty());
    let mut twin = own("STOPPED");
    twin.push(row("ecs-3", "b", "STARTED"));
    assert_eq!(pass(&mut bench, twin), ["b"], "another with its marker");
    assert_eq!(pass(&mut bench, own("STOPPED")), ["b"]);
    assert_eq!(
        pass(&mut bench, vec![row("ecs-2", "b", "STARTED")]),
        ["a"],
        "vanished"
    );
    assert!(pass(&mut bench, vec![row("ecs-2", "b", "STARTED")]).is_empty());
    assert!(bench.state.has_shown("secret/1", &place().region));
}

#[tokio::test(start_paused = true)]
async fn an_unsteady_pass_wakes_no_subject_whose_server_it_lacks() {
    let mut bench = Bench::new();
    bench
        .state
        .subscribe(&subject("a"), quiet("a", Some("ecs-1")));
    bench.pass(vec![row("ecs-1", "a", "STARTED")]);
    bench.wait(59 * S);
    bench.begin();
    assert!(bench.end_with(vec![], Some(1)).is_empty());
    assert!(!bench.state.view(&place()).newest.as_ref().unwrap().steady);
}

#[tokio::test(start_paused = true)]
async fn in_flight_subjects_are_woken_by_every_pass() {
    let mut bench = Bench::new();
    bench
        .state
        .subscribe(&subject("a"), subscription("a", None, Attention::InFlight));
    for _ in 0..3 {
        assert_eq!(bench.pass(vec![]), ["a"]);
        bench.wait(4 * S);
    }
}

#[tokio::test(start_paused = true)]
async fn a_subject_that_expects_no_change_is_woken_by_changes_alone() {
    let mut bench = Bench::new();
    let busy = subscription("a", Some("ecs-a"), Attention::InFlight);
    bench.state.subscribe(&subject("a"), busy);
    let rows = || vec![row("ecs-a", "a", "STARTED")];
    assert_eq!(bench.pass(rows()), ["a"]);
    bench.state.expect_no_change(&subject("a"));
    bench.state.expect_no_change(&subject("unknown"));
    bench.wait(59 * S);
    assert_eq!(bench.pass(rows()), [""; 0]);
    bench.wait(59 * S);
    assert_eq!(bench.pass(vec![row("ecs-a", "a", "STOPPED")]), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_breaker_of_a_zone_opens_when_many_vanish_and_closes_when_each_is_settled() {
    let mut bench = Bench::new();
    let names: Vec<String> = (0..6).map(|n| n.to_string()).collect();
    let rows = |from: usize| {
        names[from..]
            .iter()
            .map(|n| row(&format!("ecs-{n}"), n, "STARTED"))
            .collect()
    };
    for name in &names {
        bench
            .state
            .subscribe(&subject(name), quiet(name, Some(&format!("ecs-{name}"))));
    }
    bench.pass(rows(0));
    bench.wait(59 * S);
    let mut woken = bench.pass(rows(4));
    woken.sort();
    let missing: Vec<String> = (0..4).map(|n: u8| n.to_string()).collect();
    assert_eq!(
        woken, missing,
        "only the missing, which are then read one by one"
    );
    let view = bench.state.view(&place());
    assert!(view.breaker_open);
    assert_eq!(
        view.sighting(&"ecs-0".into()),
        Sighting::Unknown(NoEvidence::BreakerOpen)
    );

    bench.state.confirmed_gone("0", &"ecs-0".into());
    let releasing = Subscription {
        releasing: true,
        ..quiet("1", Some("ecs-1"))
    };
    bench.state.subscribe(&subject("1"), releasing);
    bench.state.leave(&subject("2"));
    assert!(bench.state.view(&place()).breaker_open, "one is missing");
    bench.wait(59 * S);
    bench.pass(rows(3));
    assert!(
        !bench.state.view(&place()).breaker_open,
        "the last missing server is listed again"
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_first_listing_opens_the_breaker_also_for_later_records() {
    let mut bench = Bench::new();
    bench
        .state
        .subscribe(&subject("0"), quiet("0", Some("ecs-0")));
    bench.pass(vec![]);
    assert!(!bench.state.view(&place()).breaker_open);
    for name in ["1", "2", "3"] {
        bench
            .state
            .subscribe(&subject(name), quiet(name, Some(&format!("ecs-{name}"))));
    }
    assert!(bench.state.view(&place()).breaker_open);
    assert!(!bench.state.has_shown("secret/1", &place().region));
}

/// Creates failed in a zone, and the next ones were made in another zone. The process that takes over has judged no listing yet.
#[tokio::test(start_paused = true)]
async fn a_former_place_expects_no_server_that_is_in_a_later_one() {
    let mut bench = Bench::new();
    let later = Place::new("r", "a");
    let recorded = |n: u8, places: [&Place; 2]| Subscription {
        places: places.map(Clone::clone).to_vec(),
        ..quiet(&n.to_string(), Some(&format!("ecs-{n}")))
    };
    let subscribe = |bench: &mut Bench, n: u8, places: [&Place; 2]| {
        let subscription = recorded(n, places);
        bench
            .state
            .subscribe(&subject(&n.to_string()), subscription);
        bench.state.view(&place()).breaker_open
    };
    for n in 0..3 {
        subscribe(&mut bench, n, [&place(), &later]);
    }
    assert_eq!(bench.state.due(PER_SECOND, bench.now).now.len(), 2);
    bench.end(vec![]);
    assert!(!bench.state.view(&place()).breaker_open);
    for n in 3..6 {
        assert!(!subscribe(&mut bench, n, [&place(), &later]));
    }
    let opens = (6..9).map(|n| subscribe(&mut bench, n, [&later, &place()]));
    assert_eq!(opens.collect::<Vec<_>>(), [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn newly_bought_servers_do_not_count_as_missing() {
    let mut bench = Bench::new();
    bench.state.subscribe(&subject("0"), quiet("0", None));
    bench.pass(vec![]);
    for name in ["1", "2", "3", "4"] {
        let fresh = subscription(name, Some(&format!("ecs-{name}")), Attention::InFlight);
        bench.state.subscribe(&subject(name), fresh);
    }
    bench.wait(4 * S);
    bench.pass(vec![]);
    assert!(!bench.state.view(&place()).breaker_open);
}

#[tokio::test(start_paused = true)]
async fn a_late_server_of_a_deleted_instance_is_found() {
    let mut bench = Bench::new();
    bench.state.subscribe(&subject("a"), quiet("a", None));
    bench.begin();
    // The tombstone is set while a pass is running, so that pass began too early to count.
    bench.wait(S);
    bench
        .state
        .add_tombstone(Marker::of_uid("dead"), vec![place()], bench.now);
    bench.now -= S;
    let late = || vec![row("ecs-7", "dead", "STARTED")];
    bench.end(late());
    assert!(bench.state.late_servers(bench.now).is_empty());
    bench.wait(59 * S);
    bench.pass(late());
    let found = vec![(Marker::of_uid("dead"), ServerId::from("ecs-7"), place())];
    assert_eq!(bench.state.late_servers(bench.now), found);
    bench.state.leave(&subject("a"));
    assert!(
        bench.due_in() > Some(200 * S),
        "the tombstone alone is watched slowly"
    );
    bench.wait(6 * 3600 * S);
    assert!(bench.state.late_servers(bench.now).is_empty());
    assert_eq!(bench.due_in(), None);
    assert!(bench.state.places.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unowned_servers_are_counted() {
    let mut bench = Bench::new();
    bench
        .state
        .subscribe(&subject("a"), quiet("a", Some("ecs-1")));
    bench.pass(vec![
        row("ecs-1", "x", "S"),
        row("ecs-2", "a", "S"),
        row("ecs-3", "y", "S"),
    ]);
    let owns = |id: &ServerId, marker: Option<&Marker>| {
        id.as_str() == "ecs-1" || marker == Some(&Marker::of_uid("a"))
    };
    let mut listing = bench.state.listings().remove(0);
    listing
        .unowned
        .retain(|row| !owns(&row.id, row.marker.as_ref()));
    assert_eq!((listing.servers, listing.unowned.len()), (3, 1));
    assert_eq!(listing.unowned[0].id, ServerId::from("ecs-3"));
}

#[tokio::test(start_paused = true)]
async fn a_zone_without_subscriptions_is_forgotten_after_its_running_pass() {
    let mut bench = Bench::new();
    bench.state.subscribe(&subject("a"), quiet("a", None));
    bench.begin();
    bench.state.leave(&subject("a"));
    assert!(bench.end(vec![]).is_empty());
    assert_eq!(bench.due_in(), None);
    assert!(bench.state.places.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_age_of_the_listings_is_that_of_the_oldest() {
    let mut bench = Bench::new();
    let of = |bench: &Bench| {
        let listings = bench.state.listings().into_iter();
        let counts = listings.map(|mut listing| {
            listing.unowned.retain(|row| row.id.as_str() == "ecs-3");
            listing.counts(bench.now)
        });
        counts.fold(Listings::default(), Listings::and)
    };
    assert_eq!(of(&bench), Listings::default());
    bench
        .state
        .subscribe(&subject("a"), quiet("a", Some("ecs-1")));
    bench.pass(vec![
        row("ecs-1", "a", "S"),
        row("ecs-2", "x", "S"),
        row("ecs-3", "y", "S"),
    ]);
    let listed = of(&bench);
    assert_eq!(listed.unowned, 1);
    bench.wait(60 * S);
    bench.begin();
    bench.fail();
    let failing = of(&bench);
    assert_eq!(failing.unowned, 1);
    assert!(failing.oldest >= listed.oldest + 60 * S, "{failing:?}");
    // If a place is listed only for tombstones, no user waits for it.
    bench
        .state
        .add_tombstone(Marker::of_uid("a"), vec![place()], bench.now);
    bench.state.leave(&subject("a"));
    let unwatched = of(&bench);
    assert_eq!(unwatched.oldest, Duration::ZERO);
}
