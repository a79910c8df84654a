//! Servers that are paid in advance: status shows when they expire, and a condition warns. The service shows the time only in
//! its listing, and in its own time zone.

use crate::support::{Setup, condition, effects, instance, quiet};
use cloud_server_operator::api::Instance;
use cloud_simulator::Readings;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn expiring_in(days: u32) -> Readings {
    Readings {
        expires_after: Some(days * DAY),
        utc_offset_hours: 8,
        ..Readings::default()
    }
}

fn expiring(instance: &Instance) -> Option<(String, String)> {
    let shown = condition(instance, "Expiring")?;
    Some((shown.status.clone(), shown.reason.clone()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_expires_within_a_week_is_reported_and_stays_ready() {
    let world = Setup::default()
        .readings(expiring_in(3))
        .begin("expiry")
        .await;
    world.apply(&instance("web")).await;
    let soon = Some(("True".to_owned(), "ExpiresSoon".to_owned()));
    let web = world
        .until("web", "expires soon", |web| expiring(web) == soon)
        .await;
    let web = match condition(&web, "Ready").unwrap().status.as_str() {
        "True" => web,
        _ => world.ready("web").await,
    };
    let server = world.only_server(&web);
    let bought = i64::try_from(server.created_at.as_millis() / 1000).unwrap();
    let shown = web.status.as_ref().unwrap().expire_time.as_ref().unwrap();
    assert_eq!(shown.0.as_second(), bought + 3 * 24 * 3600);
    quiet(&world, "web").await;

    // Renewed at the service.
    let before = world.sim.ledger().last_seq();
    world.sim.set_readings(expiring_in(30));
    let renewed = world
        .until("web", "is renewed", |web| expiring(web).is_none())
        .await;
    let shown = renewed.status.as_ref().unwrap().expire_time.as_ref();
    assert_eq!(shown.unwrap().0.as_second(), bought + 30 * 24 * 3600);
    quiet(&world, "web").await;
    assert_eq!(effects(&world, before), Vec::<String>::new());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_expiry_is_read_in_the_time_zone_of_the_account() {
    let world = Setup::default()
        .readings(expiring_in(30))
        .begin("zone")
        .await;
    let field = serde_json::json!({"utcOffset": "-03:30"});
    world.change_account("default", field).await;
    world.account_is_ready("default").await;
    world.apply(&instance("web")).await;
    let has_time = |web: &Instance| web.status.as_ref().is_some_and(|s| s.expire_time.is_some());
    let web = world.until("web", "shows when it expires", has_time).await;
    let server = world.only_server(&web);
    let bought = i64::try_from(server.created_at.as_millis() / 1000).unwrap();
    let shown = web.status.as_ref().unwrap().expire_time.as_ref().unwrap();
    // The service's time zone is eight hours ahead of UTC; the Account's setting is three and a half hours behind.
    assert_eq!(shown.0.as_second(), bought + 30 * 24 * 3600 + 23 * 1800);
    assert_eq!(expiring(&web), None);
    world.ready("web").await;
    world.finish().await;
}
