//! Listings of more than one page with faults: pages missing, doubled, miscounted, changed between two requests; and a listing
//! that suddenly shows next to nothing.

use crate::support::{
    Setup, World, counts, eventually, instance, names, outline, posts, quiet_all, reason, server_id,
};
use cloud_server_operator::api::Verb;
use cloud_server_operator::api::names::FINALIZER;
use cloud_simulator::Readings;
use cloud_simulator::catalogue;
use cloud_simulator::faults::{Act, Listing, Rule, When};
use cloud_simulator::model::{Console, CreateRequest, Request};
use cloud_simulator::readings::ListOrder;
use kube::ResourceExt;

const LIST: &str = "/instance/list";
/// More than a page holds (50), so that our servers come after them.
const UNOWNED: usize = 55;

fn lost(when: When) -> Act {
    Act::Lose { when }
}

/// Waits until this many pages matched a rule.
async fn met(world: &World, rule: u64, pages: u64) {
    eventually("wrong listings were read", async || {
        match world.sim.faults().hits(rule) {
            hits if hits >= pages => Ok(()),
            hits => Err(format!("{hits} pages")),
        }
    })
    .await;
}

/// Four of our servers on the second page, behind foreign ones; one Instance whose first create had no effect, and one whose
/// first create was not answered: only the listing distinguishes the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_are_missing_doubled_or_miscounted_prove_nothing() {
    let oldest_first = Readings {
        list_order: ListOrder::OldestFirst,
        ..Readings::default()
    };
    let wrong = [
        ("skipped", Listing::SkippedPage { page: 2 }),
        ("doubled", Listing::DoubledPage { page: 1 }),
        ("too-few", Listing::WrongCount { count: 3 }),
        ("too-many", Listing::WrongCount { count: 7_000 }),
    ];
    let world = Setup::default().readings(oldest_first).begin("pages").await;
    world.add_unowned_servers(World::TOKEN, UNOWNED);
    let fleet = names("web", 4);
    world.apply_all(&fleet, instance).await;
    let ready = world.all_ready(&fleet).await;
    for (round, (name, listing)) in wrong.into_iter().enumerate() {
        let rule = world.sim.fault(Rule::on(LIST, Act::Listing(listing)));
        let [before, after] = ["before", "after"].map(|when| format!("{name}-{when}"));
        for (name, when) in [(&before, When::BeforeEffect), (&after, When::AfterEffect)] {
            let text = format!("\"{name}-");
            let rule = Rule::on("/instance/create", lost(when)).containing(&text);
            world.sim.fault(rule.times(1));
            world.apply(&instance(name)).await;
        }
        met(&world, rule, 8).await;
        for (web, before) in fleet.iter().zip(&ready) {
            let now = world.get(web).await;
            assert_ne!(reason(&now), "ServerMissing", "{name}: {}", outline(&now));
            assert_eq!(server_id(&now), server_id(before));
        }
        world.sim.faults().remove(rule);
        world.all_ready(&[before, after]).await;
        // One create without effect, and its successor; and one that was found.
        let made = world.sim.servers().len() - UNOWNED - fleet.len();
        assert_eq!(made, 2 * (round + 1), "{name}: {}", world.ledger_text());
    }
    let all = world.all_ready(&fleet).await;
    for (now, before) in all.iter().zip(&ready) {
        assert_eq!(server_id(now), server_id(before));
    }
    assert_eq!(
        counts(&world, Verb::Release, None),
        (0, 0),
        "{}",
        world.ledger_text()
    );
    assert_eq!(posts(&world, 0).len(), 4 + 4 * 3, "{}", world.ledger_text());
    quiet_all(&world).await;
    world.finish().await;
}

/// Others buy and release all the time, so that rows move between pages while the list is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_moves_while_it_is_read_hides_no_server() {
    let world = Setup::default().begin("moving").await;
    world.add_unowned_servers(World::TOKEN, UNOWNED);
    let fleet = names("web", 3);
    world.apply_all(&fleet, instance).await;
    let ready = world.all_ready(&fleet).await;
    world.add_unowned_servers(World::TOKEN, UNOWNED - 8);
    let example = catalogue::example();
    // With every requested page, a foreign server is added and another one removed.
    let mut moved = 0;
    let mut seen = world.sim.ledger().count(LIST);
    let rule = Rule::on("/instance/create", lost(When::AfterEffect)).times(2);
    world.sim.fault(rule);
    let new = names("new", 2);
    world.apply_all(&new, instance).await;
    world.delete("web-2").await;
    let deadline = tokio::time::Instant::now() + crate::support::PATIENCE;
    while moved < 20 {
        assert!(
            tokio::time::Instant::now() < deadline,
            "{moved} pages were read"
        );
        let now = world.sim.ledger().count(LIST);
        if now == seen {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            continue;
        }
        (seen, moved) = (now, moved + 1);
        let name = format!("passing-{moved}");
        let create = Request::Create(CreateRequest {
            package_code: Some(example.package.to_owned()),
            region_code: Some(example.region.to_owned()),
            zone_code: Some(example.zone.to_owned()),
            instance_name: Some(name),
            image: Some(example.image.to_owned()),
            key: Some(example.key.to_owned()),
            firewall: Some(example.firewall.to_owned()),
            password: None,
        });
        let made = world
            .sim
            .world(|w| w.call(w.now(), Some(World::TOKEN), &create));
        made.outcome.unwrap();
        let oldest = world
            .sim
            .live_servers()
            .into_iter()
            .find(|s| s.name.starts_with("stranger-"));
        let server = oldest.unwrap().id;
        world
            .sim
            .world(|w| w.console(Console::Release { server }))
            .unwrap();
    }
    world.gone("web-2").await;
    world.all_ready(&new).await;
    for (web, before) in fleet.iter().zip(&ready).take(2) {
        assert_eq!(server_id(&world.ready(web).await), server_id(before));
    }
    let events = world.events("ServerMissing").await;
    assert!(events.is_empty(), "{events:#?}");
    // The release may arrive before a create.
    let mut called = posts(&world, 0);
    called.sort();
    assert_eq!(
        called,
        ["create", "create", "create", "create", "create", "release"][..],
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}

/// Most known servers disappear from the listing at once, in three ways: until that is explained, nothing is bought and nothing
/// released, and no server is reported as missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_fleet_vanishes_from_the_listing_nothing_is_bought_or_released() {
    let world = Setup::default().begin("vanished-all").await;
    world
        .sim
        .add_account("another", "token-of-another-account")
        .unwrap();
    world.add_unowned_servers("token-of-another-account", 3);
    let fleet = names("web", 8);
    world.apply_all(&fleet, instance).await;
    let ready = world.all_ready(&fleet).await;
    let account = "another".to_owned();
    let ways = [
        ("empty", Listing::Empty),
        ("shrunk", Listing::Shrunk { by: 6 }),
        ("foreign", Listing::Foreign { account }),
    ];
    let mut left: Vec<String> = fleet.clone();
    for (way, listing) in ways {
        // An operation in flight keeps the listing at its pace, and ends before the listing goes wrong.
        let first = format!("{way}-first");
        world.apply(&instance(&first)).await;
        world.ready(&first).await;
        // A purchase without an answer: only a listing shows whether there is a server.
        let rule = Rule::on("/instance/create", lost(When::BeforeEffect)).times(1);
        world.sim.fault(rule);
        let rule = world.sim.fault(Rule::on(LIST, Act::Listing(listing)));
        let (unsure, gone) = (format!("{way}-unsure"), left.remove(0));
        world.apply(&instance(&unsure)).await;
        met(&world, rule, 4).await;
        let before = posts(&world, 0).len();
        world.delete(&gone).await;
        met(&world, rule, 8).await;
        let held = world.get(&gone).await;
        assert!(held.finalizers().iter().any(|f| f == FINALIZER), "{way}");
        for (name, now) in world.all().await {
            assert_ne!(reason(&now), "ServerMissing", "{name}: {}", outline(&now));
        }
        assert_eq!(
            posts(&world, 0).len(),
            before,
            "{way}: {}",
            world.ledger_text()
        );
        world.sim.faults().remove(rule);
        world.gone(&gone).await;
        world.all_ready(&[first, unsure]).await;
    }
    for now in world.all_ready(&left).await {
        let before = ready.iter().find(|web| web.name_any() == now.name_any());
        assert_eq!(server_id(&now), server_id(before.unwrap()));
    }
    quiet_all(&world).await;
    assert_eq!(
        counts(&world, Verb::Release, None),
        (3, 3),
        "{}",
        world.ledger_text()
    );
    assert_eq!(
        counts(&world, Verb::Create, None).1,
        3 + 8 + 6,
        "{}",
        world.ledger_text()
    );
    world.finish().await;
}
