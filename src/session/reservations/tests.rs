#![allow(
    clippy::option_option,
    reason = "no record, a record without a server, and one with it"
)]

use super::*;
use crate::api::Applied;
use jiff::Timestamp;

fn account() -> ObjectKey {
    key("default")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn most(instances: usize) -> Most {
    Most {
        instances: Some(instances),
        creates: None,
    }
}

/// An Instance whose UID is its name, with or without a record.
fn meta(name: &str, record: Option<Option<&str>>) -> ObjectMeta {
    meta_of(name, record, false)
}

fn meta_of(name: &str, record: Option<Option<&str>>, imported: bool) -> ObjectMeta {
    let text = record.map(|id| {
        PurchaseRecord {
            cluster: "c".into(),
            namespace: "ns".into(),
            name: name.into(),
            uid: name.into(),
            marker: Marker::of_uid(name),
            attempt: 1,
            nonce: "n".into(),
            id: id.map(ToOwned::to_owned),
            imported: imported.then(|| "by-hand".to_owned()),
            task: None,
            started_at: Timestamp::UNIX_EPOCH,
            generation: 1,
            cause: None,
            target: Applied::default(),
            waiting_password: false,
            package: "p".into(),
            firewall: Some("f".into()),
            recreated: 0,
            resolved: None,
            places: vec!["r/z".into()],
            lost: 0,
            failed: 0,
            refused: None,
            account: "default".into(),
            credential: "x".into(),
        }
        .to_text()
    });
    ObjectMeta {
        namespace: Some("ns".into()),
        name: Some(name.into()),
        uid: Some(name.into()),
        annotations: text.map(|text| [(BINDING.to_owned(), text)].into()),
        ..ObjectMeta::default()
    }
}

/// Reservations, and the subjects that they woke.
fn reservations() -> (Reservations, Arc<Mutex<Vec<String>>>) {
    let woken: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = woken.clone();
    let wake = move |subject: Subject| told.lock().unwrap().push(subject.to_string());
    let reservations = Reservations::new("c".into(), wake);
    reservations.is_whole();
    (reservations, woken)
}

fn note(
    reservations: &Reservations,
    meta: &ObjectMeta,
    account: Option<&str>,
    status_id: Option<&str>,
) {
    let uid = meta.uid.as_deref().unwrap().into();
    reservations.note((ObjectKey::of_meta(meta), uid), meta, account, status_id);
}

fn sees(reservations: &Reservations, name: &str, record: Option<Option<&str>>) {
    note(reservations, &meta(name, record), Some("default"), None);
}

#[test]
fn no_more_have_a_place_than_may_and_one_that_goes_makes_room_for_one_that_waits() {
    let (reservations, woken) = reservations();
    for name in ["a", "b", "c"] {
        sees(&reservations, name, None);
    }
    let now = Instant::now();
    let (reconcile_a, reconcile_b) = (reservations.reconcile("a"), reservations.reconcile("b"));
    assert_eq!(
        reservations.take("a", &account(), most(2), now),
        Reservation::Taken
    );
    assert_eq!(
        reservations.take("b", &account(), most(2), now),
        Reservation::Taken
    );
    assert_eq!(
        reservations.take("c", &account(), most(2), now),
        Reservation::Full(2)
    );
    // a was announced, so its reservation is permanent; b returned its reservation.
    reservations.announce("a", true);
    drop((reconcile_a, reconcile_b));
    assert_eq!(*woken.lock().unwrap(), ["c"]);
    assert_eq!(
        reservations.take("c", &account(), most(2), now),
        Reservation::Taken
    );
    reservations.announce("c", true);
    assert_eq!(
        reservations.take("b", &account(), most(2), now),
        Reservation::Full(2)
    );
    sees(&reservations, "a", Some(None));
    sees(&reservations, "c", Some(Some("ecs-1")));
    assert_eq!(
        reservations.take("b", &account(), most(2), now),
        Reservation::Full(2)
    );
    reservations.gone("a");
    assert_eq!(*woken.lock().unwrap(), ["c", "b"]);
    assert_eq!(
        reservations.take("b", &account(), most(2), now),
        Reservation::Taken
    );
}

/// An Instance without a record, created at this second.
fn created(reservations: &Reservations, name: &str, second: i64) {
    let mut meta = meta(name, None);
    let at = Timestamp::from_second(second).unwrap();
    meta.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at));
    note(reservations, &meta, Some("default"), None);
}

#[test]
fn who_came_first_is_served_first_and_one_that_asks_no_more_holds_up_nobody() {
    let (reservations, woken) = reservations();
    sees(&reservations, "has-one", Some(Some("ecs-1")));
    for (name, second) in [("c", 30), ("a", 10), ("b", 20)] {
        created(&reservations, name, second);
    }
    let now = Instant::now();
    let ask = |name: &str, most: Most| {
        let reconcile = reservations.reconcile(name);
        (reservations.take(name, &account(), most, now), reconcile)
    };
    for name in ["c", "b", "a"] {
        assert_eq!(ask(name, most(1)).0, Reservation::Full(1));
    }
    let names = |reservations: &Reservations| {
        let waiting = reservations.used(&account(), now).waiting.into_iter();
        waiting.map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(&reservations), ["a", "b", "c"]);
    reservations.gone("has-one");
    assert_eq!(*woken.lock().unwrap(), ["a"], "there is room for one");
    // Only the first in line gets the reservation, regardless of who asks.
    assert_eq!(ask("c", most(1)).0, Reservation::Full(1));
    // The first in line needs no reservation any more: the next is woken and gets it.
    drop(reservations.reconcile("a"));
    assert_eq!(*woken.lock().unwrap(), ["a", "b"]);
    assert_eq!(names(&reservations), ["b", "c"]);
    let (room, reconcile) = ask("b", most(1));
    assert_eq!(room, Reservation::Taken);
    assert_eq!(reservations.used(&account(), now).instances, 1);
    // It asks again and keeps its position.
    assert_eq!(ask("a", most(1)).0, Reservation::Full(1));
    assert_eq!(names(&reservations), ["a", "c"]);
    drop(reconcile); // b did not buy
    assert_eq!(*woken.lock().unwrap(), ["a", "b", "a"]);
    assert_eq!(ask("a", most(1)).0, Reservation::Taken);
}

#[test]
fn the_rate_is_shared_in_the_same_order() {
    let (reservations, _) = reservations();
    for (name, second) in [("c", 30), ("a", 10), ("b", 20)] {
        created(&reservations, name, second);
    }
    let pace = Most {
        instances: None,
        creates: Some(1),
    };
    let now = Instant::now();
    let ask = |name: &str, after: u64| {
        let mut reconcile = reservations.reconcile(name);
        reconcile.buys(true);
        reservations.take(name, &account(), pace, now + Duration::from_secs(after))
    };
    assert_eq!(ask("c", 0), Reservation::Taken, "nobody else asked");
    assert!(matches!(ask("b", 1), Reservation::TooFast { .. }));
    assert!(matches!(ask("a", 2), Reservation::TooFast { .. }));
    assert_eq!(reservations.used(&account(), now).creates, 1);
    assert!(
        matches!(ask("b", 60), Reservation::TooFast { .. }),
        "a stands before it"
    );
    assert_eq!(ask("a", 60), Reservation::Taken);
    assert_eq!(ask("b", 120), Reservation::Taken);
}

#[test]
fn who_was_before_a_restart_counts_from_what_the_watch_shows() {
    let (reservations, _) = reservations();
    sees(&reservations, "bought", Some(Some("ecs-1")));
    sees(&reservations, "announced", Some(None));
    sees(&reservations, "new", None);
    // The record was lost, and status names the server.
    note(
        &reservations,
        &meta("lost", None),
        Some("default"),
        Some("ecs-2"),
    );
    let now = Instant::now();
    assert_eq!(
        reservations.take("new", &account(), most(3), now),
        Reservation::Full(3)
    );
    assert_eq!(
        reservations.take("new", &account(), most(4), now),
        Reservation::Taken
    );
    // Another Account has its own limit, and so has an Instance of another namespace.
    assert_eq!(
        reservations.take("new", &key("other"), most(1), now),
        Reservation::Taken
    );
    assert!(reservations.needs(&account()) && !reservations.needs(&key("third")));
}

#[test]
fn under_a_limit_that_was_lowered_exactly_one_of_two_goes_on() {
    let (reservations, _) = reservations();
    sees(&reservations, "a", Some(None));
    sees(&reservations, "b", Some(None));
    let now = Instant::now();
    assert_eq!(
        reservations.take("a", &account(), most(1), now),
        Reservation::Taken
    );
    assert_eq!(
        reservations.take("b", &account(), most(1), now),
        Reservation::Full(1)
    );
    assert_eq!(
        reservations.take("a", &account(), most(0), now),
        Reservation::Full(0)
    );
    sees(&reservations, "b", Some(Some("ecs-1")));
    assert_eq!(
        reservations.take("a", &account(), most(1), now),
        Reservation::Full(1)
    );
}

#[test]
fn an_older_sight_of_the_object_does_not_end_what_is_on_its_way() {
    let (reservations, _) = reservations();
    sees(&reservations, "a", None);
    sees(&reservations, "b", None);
    let now = Instant::now();
    let reconcile = reservations.reconcile("a");
    assert_eq!(
        reservations.take("a", &account(), most(1), now),
        Reservation::Taken
    );
    reservations.announce("a", true);
    drop(reconcile);
    sees(&reservations, "a", None);
    assert_eq!(
        reservations.take("b", &account(), most(1), now),
        Reservation::Full(1)
    );
}

#[test]
fn creates_are_counted_over_a_minute_and_what_bought_nothing_is_not() {
    let (reservations, _) = reservations();
    let pace = Most {
        instances: None,
        creates: Some(2),
    };
    let now = Instant::now();
    for name in ["a", "b", "c"] {
        sees(&reservations, name, None);
    }
    let mut reconcile = reservations.reconcile("a");
    assert_eq!(
        reservations.take("a", &account(), pace, now),
        Reservation::Taken
    );
    reconcile.buys(true);
    drop(reconcile);
    // The next reconcile of an Instance that bought does not reset the count.
    drop(reservations.reconcile("a"));
    let reconcile = reservations.reconcile("b");
    assert_eq!(
        reservations.take("b", &account(), pace, now),
        Reservation::Taken
    );
    let later = now + Duration::from_secs(20);
    let slow = Reservation::TooFast {
        per_minute: 2,
        wait: Duration::from_secs(40),
    };
    assert_eq!(reservations.take("c", &account(), pace, later), slow);
    drop(reconcile); // b was refused
    let mut reconcile = reservations.reconcile("c");
    assert_eq!(
        reservations.take("c", &account(), pace, later),
        Reservation::Taken
    );
    reconcile.buys(true);
    drop(reconcile);
    assert_eq!(reservations.take("b", &account(), pace, later), slow);
    let much_later = now + Duration::from_secs(60);
    assert_eq!(
        reservations.take("b", &account(), pace, much_later),
        Reservation::Taken
    );
}

#[test]
fn what_is_on_record_or_bears_a_marker_is_owned() {
    let (reservations, _) = reservations();
    sees(&reservations, "a", Some(Some("ecs-1")));
    let marker = Marker::of_uid("a");
    assert!(reservations.owns(&ServerId::from("ecs-1"), None));
    assert!(reservations.owns(&ServerId::from("ecs-2"), Some(&marker)));
    assert!(!reservations.owns(&ServerId::from("ecs-2"), Some(&Marker::of_uid("b"))));
    // The indexes follow the current record.
    sees(&reservations, "a", Some(Some("ecs-3")));
    assert!(!reservations.owns(&ServerId::from("ecs-1"), None));
    assert!(reservations.owns(&ServerId::from("ecs-3"), None));
    assert!(reservations.needs(&account()));
    reservations.gone("a");
    assert!(!reservations.owns(&ServerId::from("ecs-3"), Some(&marker)));
    assert!(!reservations.needs(&account()));
}

#[test]
fn of_two_that_would_take_over_one_server_one_gets_it_and_what_somebody_has_nobody_gets() {
    let (reservations, _) = reservations();
    for name in ["a", "b"] {
        sees(&reservations, name, None);
    }
    let id = ServerId::from("ecs-1");
    let reconciles = (reservations.reconcile("a"), reservations.reconcile("b"));
    let claim = |name: &str, marker: Option<&Marker>| {
        reservations.claim(name, &account(), &id, marker, |_| Backing::Known)
    };
    assert_eq!(claim("a", None), Claim::Taken);
    assert_eq!(claim("b", None), Claim::Owned(key("a")));
    reservations.announce("a", true);
    drop(reconciles);
    assert_eq!(claim("b", None), Claim::Owned(key("a")));
    reservations.gone("a");
    sees(&reservations, "c", Some(None));
    let marker = Marker::of_uid("c");
    assert_eq!(claim("b", Some(&marker)), Claim::Owned(key("c")));
    assert_eq!(claim("b", Some(&Marker::of_uid("gone"))), Claim::Taken);
}

#[test]
fn of_two_records_of_one_server_exactly_one_steps_back_and_never_the_one_that_bought_it() {
    let (reservations, _) = reservations();
    for name in ["b", "c"] {
        note(
            &reservations,
            &meta_of(name, Some(Some("ecs-1")), true),
            None,
            None,
        );
    }
    let rival =
        |name: &str, id: &str| reservations.rival(name, &ServerId::from(id), |_| Backing::Known);
    assert_eq!(rival("b", "ecs-1"), Rival::None);
    assert_eq!(rival("c", "ecs-1"), Rival::Of(key("b")));
    sees(&reservations, "d", Some(Some("ecs-1")));
    assert_eq!(rival("b", "ecs-1"), Rival::Of(key("d")));
    assert_eq!(rival("b", "ecs-2"), Rival::None);
}

#[test]
fn a_record_that_nothing_backs_takes_no_server_from_anybody() {
    let (reservations, _) = reservations();
    let id = ServerId::from("ecs-1");
    sees(&reservations, "forged", Some(Some("ecs-1")));
    note(
        &reservations,
        &meta_of("a", Some(Some("ecs-1")), true),
        None,
        None,
    );
    sees(&reservations, "b", None);
    let backed = |by: Backing| {
        let backing = move |say: &Say<'_>| {
            assert_eq!((&say.account, say.credential), (&account(), Some("x")));
            by
        };
        let claim = reservations.claim("b", &account(), &id, None, backing);
        (reservations.rival("a", &id, backing), claim)
    };
    assert_eq!(backed(Backing::Lacking), (Rival::None, Claim::Taken));
    assert_eq!(backed(Backing::NotYet), (Rival::NotYet, Claim::NotYet));
    let (rival, claim) = backed(Backing::OtherShard);
    assert_eq!(rival, Rival::None);
    assert!(matches!(claim, Claim::Owned(_)));
    let (rival, claim) = backed(Backing::Known);
    assert_eq!(rival, Rival::Of(key("forged")));
    assert!(matches!(claim, Claim::Owned(_)));
    // A marker is derived from a UID, which users cannot choose, so it needs no backing.
    let marker = Marker::of_uid("forged");
    let lacking = |_: &Say<'_>| Backing::Lacking;
    let claim = reservations.claim(
        "b",
        &account(),
        &ServerId::from("ecs-2"),
        Some(&marker),
        lacking,
    );
    assert_eq!(claim, Claim::Owned(key("forged")));
}

proptest::proptest! {
    /// After any sequence of steps, each index matches the current entries.
    #[test]
    fn nobody_is_found_by_what_he_says_no_more(
        steps in proptest::collection::vec((0..8_u8, 0..3_usize, 0..3_usize), 1..60)
    ) {
        let (reservations, _) = reservations();
        let names = ["a", "b", "c"];
        let ids = ["ecs-1", "ecs-2", "ecs-3"];
        let mut guards = std::collections::HashMap::new();
        for (step, who, which) in steps {
            let (name, id) = (names[who], ids[which]);
            let account = ObjectKey::new("ns", ["default", "other"][which % 2]);
            match step {
                0 => sees(&reservations, name, Some(Some(id))),
                1 => sees(&reservations, name, None),
                2 => drop(guards.insert(name, reservations.reconcile(name))),
                3 => drop(guards.remove(name)),
                4 => drop(reservations.claim(name, &account, &id.into(), None, |_| Backing::Known)),
                5 => drop(reservations.take(name, &account, most(2), Instant::now())),
                6 => reservations.announce(name, which > 0),
                _ if which == 0 => reservations.gone_elsewhere(name),
                _ => reservations.gone(name),
            }
            proptest::prop_assert!(reservations.lock().entries.are_sound(), "after step {step}");
        }
    }
}
