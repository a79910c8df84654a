//! Wrong listings.

use super::*;

/// Four Instances, and a busy one that sets the pace of the listing; its server.
async fn listed(name: &str) -> (World, Vec<Instance>, String) {
    let world = Setup::default().begin(name).await;
    let names = ["web-1", "web-2", "web-3", "web-4"];
    let fleet = fleet(&world, &names, instance).await;
    let server = busy(&world).await;
    (world, fleet, server)
}

/// Foreign servers: one of another account, and, if only the first page is returned, more than a page.
fn strangers(world: &World, listing: &Listing) {
    let token = "token-of-another-account";
    world.sim.add_account("another", token).unwrap();
    let (count, token) = match listing {
        Listing::FirstPageForEver => (60, World::TOKEN),
        _ => (1, token),
    };
    world.strangers(token, count);
}

/// Several passes of wrong listings: no call is made, nothing is reported as missing, and all is well afterwards.
async fn wrong_listing(name: &str, listing: Listing) {
    let (world, fleet, server) = listed(name).await;
    strangers(&world, &listing);
    let posts_before = posts(&world, 0);
    let id = world
        .sim
        .fault(Rule::on("/instance/list", Act::Listing(listing)));
    eventually("three wrong listings were read", async || {
        match world.sim.faults().hits(id) {
            6.. => Ok(()),
            hits => Err(format!("{hits} pages")),
        }
    })
    .await;
    for web in &fleet {
        // At most, the server is reported as not observable: it still exists.
        let now = world.get(&web.name_any()).await;
        assert_ne!(reason(&now), "ServerMissing", "{}", outline(&now));
    }
    world.sim.faults().remove(id);
    assert_eq!(posts(&world, 0), posts_before, "{}", world.ledger_text());
    for web in &fleet {
        let now = world.ready(&web.name_any()).await;
        assert_eq!(id_of(&now), id_of(web));
    }
    console(&world, Console::EndTask { server });
    world.ready("busy").await;
    quiet_all(&world).await;
    assert_eq!(posts(&world, 0), posts_before, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_listing_calls_nothing() {
    wrong_listing("empty-list", Listing::Empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_without_one_server_calls_nothing() {
    wrong_listing("shrunk-list", Listing::Shrunk { by: 1 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_with_each_server_twice_calls_nothing() {
    wrong_listing("repeated-list", Listing::Repeated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_of_another_account_calls_nothing() {
    let account = "another".to_owned();
    wrong_listing("foreign-list", Listing::Foreign { account }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_page_that_comes_for_ever_calls_nothing() {
    wrong_listing("first-page", Listing::FirstPageForEver).await;
}

/// An old listing shows released servers and lacks new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_listing_buys_nothing_twice_and_confirms_no_release() {
    let (world, fleet, _) = listed("stale-list").await;
    let id = world.sim.fault(Rule::on("/instance/list", Act::Stale));
    world.apply(&instance("new")).await;
    let new = world.ready("new").await;
    world.delete("web-4").await;
    let released = |w: &cloud_simulator::World| {
        let id = id_of(&fleet[3]);
        w.live_servers().iter().all(|server| server.id != id)
    };
    world.sim.wait_until(released, PATIENCE).await.unwrap();
    let hits = world.sim.faults().hits(id);
    eventually("three stale listings were read", async || {
        match world.sim.faults().hits(id) - hits {
            6.. => Ok(()),
            more => Err(format!("{more} pages")),
        }
    })
    .await;
    world.sim.faults().remove(id);
    world.gone("web-4").await;
    let now = world.ready("new").await;
    assert_eq!(id_of(&now), id_of(&new));
    assert_eq!(
        counts(&world, Verb::Release, Some(&id_of(&fleet[3]))),
        (1, 1)
    );
    assert_eq!(world.sim.servers().len(), 6, "{}", world.ledger_text());
    for web in &fleet[..3] {
        assert_eq!(id_of(&world.ready(&web.name_any()).await), id_of(web));
    }
    world.finish().await;
}
