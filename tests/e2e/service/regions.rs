//! A token that is limited to regions (field note 24): the listing of another region is empty. This must not make a server look
//! gone.

use crate::support::{Setup, World, effects, instance, is_ready, ready_message, with};
use serde_json::{Value, json};

const ELSEWHERE: &str = "de-frankfurt-1";

/// An Instance in another region.
fn elsewhere(world: &World, name: &str) -> Value {
    world.sim.world(|w| {
        let catalogue = w.catalogue();
        let region = catalogue.region(ELSEWHERE).unwrap();
        let zone = &region.zones[0].code;
        let package = catalogue.packages().iter().find(|each| each.zone == *zone);
        let image = catalogue
            .images()
            .iter()
            .find(|each| each.region == ELSEWHERE);
        let firewall = catalogue
            .firewalls()
            .iter()
            .find(|each| each.region == ELSEWHERE);
        with(name, |spec| {
            spec["region"] = json!(ELSEWHERE);
            spec["zone"] = json!(zone);
            spec["package"] = json!({"code": package.unwrap().code});
            spec["image"] = json!({"id": image.unwrap().id});
            spec["firewall"] = json!({"id": firewall.unwrap().id});
        })
    })
}

/// A world with a server in each of two regions.
async fn two_regions(test: &str) -> World {
    let world = Setup::default().begin(test).await;
    world.apply(&instance("here")).await;
    world.apply(&elsewhere(&world, "there")).await;
    world.ready("here").await;
    world.ready("there").await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_token_for_other_regions_only_makes_no_server_count_as_missing() {
    let world = two_regions("limited-new").await;
    let before = world.sim.ledger().last_seq();
    world
        .sim
        .set_regions("default", Some(&[ELSEWHERE]))
        .unwrap();
    world.sim.set_token("default", "limited-canary").unwrap();
    world.secret("cloud-token", "token", "limited-canary").await;
    let doubted = world.until_reason("here", "ServerReadFailed").await;
    let message = ready_message(&doubted).to_owned();
    assert!(message.contains("may see the region"), "{message}");
    assert!(is_ready(&world.get("there").await));

    // A deletion does not accept the empty answer of that region as proof.
    world.delete("here").await;
    world.until_reason("here", "ReleaseUnconfirmed").await;
    assert_eq!(world.sim.live_servers().len(), 2);
    assert_eq!(effects(&world, before), Vec::<String>::new());

    world.sim.set_regions("default", None).unwrap();
    world.gone("here").await;
    assert_eq!(world.sim.live_servers().len(), 1, "{}", world.ledger_text());
    world.finish().await;
}
