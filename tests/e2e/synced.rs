//! How far a status can be trusted: the report about a server while the service cannot report it.

use crate::support::{Setup, World, condition, delete, instance, is_ready, reason};
use cloud_server_operator::api::Instance;

fn synced(instance: &Instance) -> Option<(&str, &str)> {
    let synced = condition(instance, "Synced")?;
    Some((&synced.status, &synced.reason))
}

async fn until_synced(world: &World, name: &str, expected: (&str, &str)) -> Instance {
    let what = format!("Synced is {expected:?}");
    world
        .until(name, &what, |now| synced(now) == Some(expected))
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_account_is_gone_or_refused_reports_it_and_stays_ready() {
    let world = Setup::default().begin("synced").await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    assert_ne!(synced(&ready).map(|synced| synced.0), Some("False"));

    delete(&world.accounts(), "default").await;
    let web = until_synced(&world, "web", ("False", "AccountNotFound")).await;
    assert!(is_ready(&web), "it is as it was seen last: {web:?}");
    let message = &condition(&web, "Synced").unwrap().message;
    assert!(
        message.contains("Account default does not exist"),
        "{message}"
    );
    world.account("default", world.sim.url()).await;
    assert!(is_ready(
        &until_synced(&world, "web", ("True", "Available")).await
    ));

    world.sim.set_token("default", "rotated-token").unwrap();
    // The next caller learns of it.
    world.apply(&instance("other")).await;
    world.until_reason("other", "TokenRefused").await;
    let web = until_synced(&world, "web", ("False", "TokenRefused")).await;
    assert!(is_ready(&web), "{}", reason(&web));
    world.secret("cloud-token", "token", "rotated-token").await;
    world.ready("other").await;
    until_synced(&world, "web", ("True", "Available")).await;
    world.finish().await;
}
