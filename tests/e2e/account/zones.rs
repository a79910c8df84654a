//! Zones fail independently, and each reports since when.

use super::until_account;
use crate::support::{Setup, World, instance, stays, with};
use cloud_server_operator::api::{Account, AccountStatus, PlaceInventory};
use serde_json::json;
use std::time::Duration;

/// The Account's status of the existing zone, and of the other one.
fn zones(status: &AccountStatus) -> Option<(&PlaceInventory, &PlaceInventory)> {
    let there = cloud_simulator::catalogue::example().zone;
    let (known, other): (Vec<_>, Vec<_>) = status.inventory.iter().partition(|z| z.zone == there);
    match (&known[..], &other[..]) {
        ([known], [other]) => Some((known, other)),
        _ => None,
    }
}

/// The status if it shows the servers of the existing zone and the failure of the other.
fn one_fails(account: &Account) -> Option<AccountStatus> {
    let status = account.status.as_ref()?;
    let (known, other) = zones(status)?;
    let counts = (known.servers?, known.owned?, known.unowned?);
    let all = (status.servers?, status.unowned_servers?);
    let is_reported = known.failing_since.is_none() && other.failing_since.is_some();
    // Counted during the create, or after it.
    let is_final = known.in_flight == 0;
    (is_reported && is_final && counts == (3, 1, 2) && all == (3, 2)).then(|| status.clone())
}

/// Longer than the pause between two reconciles of the Account.
async fn assert_unchanged(world: &World, expected: &AccountStatus) {
    stays("the same", Duration::from_secs(35), async || {
        let account = world.accounts().get("default").await;
        match account.map(|account| account.status) {
            Ok(status) if status.as_ref() != Some(expected) => {
                Err(json_patch::diff(&json!(expected), &json!(status)).to_string())
            }
            Ok(_) | Err(_) => Ok(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_reports_since_when_a_zone_fails_and_still_counts_the_other_zones() {
    let mut world = Setup::default().begin("zones").await;
    world.add_unowned_servers(World::TOKEN, 2);
    world.apply(&instance("web")).await;
    world.ready("web").await;
    // The service refuses to list an unknown zone.
    let mistyped = with("mistyped", |it| it["zone"] = json!("nope"));
    world.apply(&mistyped).await;
    let status = until_account(&world, "the zones are reported", one_fails).await;
    assert_eq!(status.listed_zones.as_deref(), Some("1/2"));
    let (_, nope) = zones(&status).unwrap();
    assert!(
        nope.message
            .as_ref()
            .unwrap()
            .contains("InvalidZoneCode.NotFound")
    );
    assert_eq!((nope.servers, nope.unowned), (None, None));

    // Neither endless retries nor a restart change anything in it.
    assert_unchanged(&world, &status).await;
    world.restart().await;
    assert_unchanged(&world, &status).await;

    world.finish().await;
}
