use super::*;
use crate::inventory::testing;
use jiff::Timestamp;
use serde_json::json;

fn account(name: &str) -> Account {
    importing(name, "Allowed")
}

fn importing(name: &str, imports: &str) -> Account {
    serde_json::from_value(json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"endpoint": "http://127.0.0.1", "tokenSecretRef": {"name": "t", "key": "t"}, "imports": imports},
    }))
    .unwrap()
}

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

/// A zone that was not listed. [`summary`] gives it its place.
fn unlisted() -> PlaceListing {
    PlaceListing {
        place: Place::new("r", ""),
        servers: 0,
        unowned: Vec::new(),
        in_flight: 0,
        is_wanted: true,
        ended: None,
        listed_at: None,
        failing: None,
    }
}

fn listed(servers: usize, unowned: usize) -> PlaceListing {
    let row = |n| json!({"ecsResourceUUID": format!("ecs-{n}")});
    let rows = (0..unowned).map(|n| row(n).as_object().cloned().unwrap());
    let pass = testing::pass(Instant::now(), rows.collect(), None);
    PlaceListing {
        servers,
        unowned: pass.rows.values().cloned().collect(),
        ended: Some(pass.ended),
        ..unlisted()
    }
}

/// A zone whose failures began now, at this second of the day.
fn failing(second: i64, message: &str) -> PlaceListing {
    PlaceListing {
        failing: Some(ListingFailure::of(Instant::now(), at(second).0, message).into()),
        ..unlisted()
    }
}

fn summary(zones: &[(&str, PlaceListing)]) -> Vec<PlaceListing> {
    let zones = zones.iter();
    let listing = |(zone, listing): &(&str, PlaceListing)| PlaceListing {
        place: Place::new("r", *zone),
        ..listing.clone()
    };
    zones.map(listing).collect()
}

fn counted(
    former: &AccountStatus,
    zones: &[(&str, PlaceListing)],
    since: Option<Instant>,
) -> AccountStatus {
    let mut status = former.clone();
    write_listings(&mut status, &summary(zones), &account("default"), since);
    status
}

/// The status that follows a former one, of an Account whose service answers since then.
fn after(former: &AccountStatus, zones: &[(&str, PlaceListing)], since: Instant) -> AccountStatus {
    counted(former, zones, Some(since))
}

#[tokio::test(start_paused = true)]
async fn a_failing_zone_is_reported_with_its_time_and_hides_no_other() {
    let began = Instant::now();
    let down = failing(7, "no such zone");
    let zones = [("a", listed(3, 1)), ("nope", down)];
    let none = AccountStatus::default();
    let first = after(&none, &zones, began);
    assert_eq!((first.servers, first.unowned_servers), (Some(3), Some(1)));
    assert_eq!(first.listed_zones.as_deref(), Some("1/2"));
    assert_eq!(first.inventory[1].failing_since, None, "it may be a hiccup");
    tokio::time::advance(times::ZONE_FAILING_SHOWN_AFTER).await;
    let reported = after(&first, &zones, began);
    let nope = &reported.inventory[1];
    assert_eq!(nope.failing_since, Some(at(7)));
    assert_eq!(nope.message.as_deref(), Some("no such zone"));
    assert_eq!((nope.servers, nope.owned, nope.unowned), (None, None, None));
    assert_eq!(
        (reported.servers, reported.unowned_servers),
        (Some(3), Some(1))
    );
    // A new process finds the zone failing: the former time is kept.
    let again = [("a", listed(3, 1)), ("nope", failing(90, "no such zone"))];
    assert_eq!(after(&reported, &again, began), reported);
    tokio::time::advance(times::ZONE_FAILING_SHOWN_AFTER).await;
    assert_eq!(after(&reported, &again, began), reported);
    // The zone is listed at last.
    let well = after(
        &reported,
        &[("a", listed(3, 1)), ("nope", listed(2, 0))],
        began,
    );
    assert_eq!(well.listed_zones.as_deref(), Some("2/2"));
    assert_eq!((well.servers, well.unowned_servers), (Some(5), Some(1)));
    assert_eq!(well.inventory[1].failing_since, None);
    assert_eq!(well.inventory[1].message, None);
}

#[tokio::test(start_paused = true)]
async fn a_failing_zone_counts_as_last_listed() {
    let began = Instant::now();
    let known = after(
        &AccountStatus::default(),
        &[("a", listed(3, 1)), ("b", listed(2, 2))],
        began,
    );
    let down = PlaceListing {
        failing: failing(7, "503").failing,
        ..listed(2, 2)
    };
    tokio::time::advance(times::ZONE_FAILING_SHOWN_AFTER).await;
    let reported = after(&known, &[("a", listed(3, 1)), ("b", down)], began);
    assert_eq!(
        (reported.servers, reported.unowned_servers),
        (Some(5), Some(3))
    );
    assert_eq!(reported.listed_zones.as_deref(), Some("1/2"));
    assert_eq!(reported.inventory[1].failing_since, Some(at(7)));
}

#[tokio::test(start_paused = true)]
async fn all_zones_are_counted_and_failing_ones_are_always_shown() {
    let began = Instant::now();
    let names: Vec<_> = (0..150).map(|n| format!("z{n:03}")).collect();
    let zones: Vec<_> = names
        .iter()
        .map(|name| match name.as_str() {
            "z149" => (name.as_str(), failing(7, "no such zone")),
            _ => (name.as_str(), listed(2, 1)),
        })
        .collect();
    tokio::time::advance(times::ZONE_FAILING_SHOWN_AFTER).await;
    let reported = after(&AccountStatus::default(), &zones, began);
    assert_eq!(reported.listed_zones.as_deref(), Some("149/150"));
    assert_eq!(
        (reported.servers, reported.unowned_servers),
        (Some(298), Some(149))
    );
    assert_eq!(reported.inventory.len(), ZONES);
    let last = reported.inventory.last().unwrap();
    assert_eq!(
        (last.zone.as_str(), last.failing_since.clone()),
        ("z149", Some(at(7)))
    );
}

#[tokio::test(start_paused = true)]
async fn counts_of_a_former_process_stay_until_the_zone_is_listed_again() {
    let began = Instant::now();
    let mut known = after(
        &AccountStatus::default(),
        &[("a", listed(3, 1)), ("b", listed(2, 0))],
        began,
    );
    known.unowned = vec![UnownedServer {
        id: "ecs-1".into(),
        region: "r".into(),
        zone: "a".into(),
        ..UnownedServer::default()
    }];
    let unknown = [("a", unlisted()), ("b", unlisted())];
    assert_eq!(after(&known, &unknown, began), known);
    // The zones are listed one after the other; unowned servers of the zone not yet listed are kept.
    let half = [("a", unlisted()), ("b", listed(4, 0))];
    let reported = after(&known, &half, began);
    assert_eq!(
        (reported.servers, reported.unowned_servers),
        (Some(7), Some(1))
    );
    assert_eq!(reported.unowned, known.unowned);
    // Right after a restart, no Instance in zone a had a reconcile yet. Later, none names the zone any more.
    let one = [("b", listed(2, 0))];
    assert_eq!(after(&known, &one, began), known);
    tokio::time::advance(times::ALL_HAD_A_RECONCILE_AFTER).await;
    let rest = after(&known, &one, began);
    assert_eq!((rest.inventory.len(), rest.servers), (1, Some(2)));
    assert_eq!(rest.unowned, []);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_listing_is_written_once_it_is_five_minutes_newer() {
    let began = Instant::now();
    let zones = |second: i64| {
        let known = PlaceListing {
            listed_at: Some(at(second).0),
            ..listed(3, 1)
        };
        [("a", known), ("b", listed(2, 0))]
    };
    let none = AccountStatus::default();
    let known = after(&none, &zones(1000), began);
    assert_eq!(known.inventory[0].last_listed_time, Some(at(1000)));
    for (second, is_written) in [
        (1060, false),
        (1299, false),
        (1300, true),
        (900, false),
        (600, true),
    ] {
        assert_eq!(
            after(&known, &zones(second), began) != known,
            is_written,
            "{second}"
        );
    }
    // A process that has not listed the zone keeps its former state.
    let again = [("a", unlisted()), ("b", listed(2, 0))];
    assert_eq!(after(&known, &again, began), known);
    // A status written by an older version has no time.
    let older = after(&none, &[("a", listed(3, 1)), ("b", listed(2, 0))], began);
    assert_eq!(after(&older, &zones(1000), began), known);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_service_is_not_reported_per_zone() {
    let known = after(
        &AccountStatus::default(),
        &[("a", listed(3, 1))],
        Instant::now(),
    );
    let down = PlaceListing {
        failing: failing(7, "503").failing,
        ..listed(3, 1)
    };
    let zones = [("a", down)];
    tokio::time::advance(10 * times::ZONE_FAILING_SHOWN_AFTER).await;
    let outage = counted(&known, &zones, None);
    assert_eq!(outage, known);
    // The service answers again, and the zone has not been retried yet.
    let back = Instant::now();
    assert_eq!(after(&known, &zones, back), known);
    tokio::time::advance(times::ZONE_FAILING_SHOWN_AFTER).await;
    assert_ne!(after(&known, &zones, back), known);
}

#[test]
fn an_unowned_server_is_reported_with_the_command_to_import_it() {
    let command = import_command(&account("default"), "ecs-1_a.B");
    assert_eq!(
        command.as_deref(),
        Some("kubectl cloudserver import ecs-1_a.B -n team-a")
    );
    let command = import_command(&account("other"), "ecs-1");
    assert_eq!(
        command.as_deref(),
        Some("kubectl cloudserver import ecs-1 -n team-a --account other")
    );
}

#[test]
fn no_import_command_is_shown_if_the_account_denies_imports() {
    assert_eq!(
        import_command(&importing("default", "Denied"), "ecs-1"),
        None
    );
}

#[test]
fn an_identifier_with_shell_characters_makes_no_command() {
    let long = "e".repeat(LONGEST_ID + 1);
    for id in [
        "",
        "a b",
        "a;b",
        "$(a)",
        "--all",
        "a\nb",
        "ä",
        long.as_str(),
    ] {
        assert_eq!(import_command(&account("default"), id), None, "{id}");
    }
}
