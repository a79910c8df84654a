//! An identifier that the service has assigned again: the record names a server of another owner, and the operator never acts
//! on it. If the new server is in the same account, only its name shows the difference.

use crate::support::{
    Setup, World, condition, console, eventually, instance, names, new_password, other_image,
    outline, posts, quiet_all, ready_message, reason, server_id, stays,
};
use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::BINDING;
use cloud_simulator::Timestamp;
use cloud_simulator::faults::{Act, Rule, When};
use cloud_simulator::model::{Console, DEFAULT_ACCOUNT};
use serde_json::json;
use std::time::Duration;

const ANOTHER: &str = "another";
const LIST: &str = "/instance/list";
/// A listing up to this age still counts as an observation of the server before its release (docs/decisions/0016-deletion.md).
const JUST_LISTED: Duration = Duration::from_secs(10);

/// Releases the server of an Instance, and assigns its identifier to another server.
fn recycle(world: &World, instance: &Instance, account: &str) -> String {
    let server = server_id(instance);
    console(
        world,
        Console::Release {
            server: server.clone(),
        },
    );
    let (account, name) = (account.to_owned(), format!("another-{}", &server[4..]));
    console(
        world,
        Console::Recycle {
            server: server.clone(),
            account,
            name,
        },
    );
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_another_account_with_the_same_identifier_is_unchanged() {
    let mut world = Setup::default().begin("recycled").await;
    world
        .sim
        .add_account(ANOTHER, "token-of-another-account")
        .unwrap();
    let fleet = names("web", 5);
    world.apply_all(&fleet, instance).await;
    let ready = world.all_ready(&fleet).await;
    let before = posts(&world, 0).len();

    // Deleted at once: the last listing still shows the server as ours, but is too old for a release.
    let blind = world.sim.fault(Rule::on(
        LIST,
        Act::Error {
            status: 503,
            code: "Gateway.Unavailable".to_owned(),
            message: "no upstream".to_owned(),
            retry_after: None,
            when: When::BeforeEffect,
        },
    ));
    eventually("no listing is as new as that", async || {
        let ledger = world.sim.ledger();
        let mut read = ledger.calls(LIST).into_iter();
        let read = read.rfind(|call| call.code.is_none());
        match read.map(|call| Timestamp::wall_clock().since(call.at)) {
            Some(age) if age > JUST_LISTED => Ok(()),
            age => Err(format!("the last one is {age:?} old")),
        }
    })
    .await;
    let mut other_servers = vec![recycle(&world, &ready[0], DEFAULT_ACCOUNT)];
    world.delete("web-0").await;
    world.until_reason("web-0", "RecordInvalid").await;
    world.sim.faults().remove(blind);
    // Deleted while no operator runs: the first observation is the deletion, before any listing.
    world.kill();
    other_servers.push(recycle(&world, &ready[1], DEFAULT_ACCOUNT));
    world.delete("web-1").await;
    // One that is not deleted, and one of another account.
    other_servers.push(recycle(&world, &ready[2], DEFAULT_ACCOUNT));
    other_servers.push(recycle(&world, &ready[3], ANOTHER));
    world.start().await;
    world.until_reason("web-2", "NameDiffers").await;
    let missing = world.until_reason("web-3", "ServerMissing").await;
    assert_eq!(condition(&missing, "Stalled").unwrap().status, "True");
    // No requested operation is done to a foreign server.
    let mut desired = other_image("web-2");
    desired["spec"]["powerState"] = json!("Stopped");
    desired["spec"]["restart"] = json!({"token": "now"});
    world.apply(&desired).await;
    world.apply(&other_image("web-3")).await;
    new_password(&world).await;
    let touched = || {
        let ledger = world.sim.ledger();
        let calls = ledger.mutating().into_iter();
        let of_them = calls.filter(|call| {
            let request = call.request.to_string();
            call.status != Some(404) && other_servers.iter().any(|id| request.contains(id.as_str()))
        });
        of_them
            .map(|call| format!("{} {}", call.path, call.request))
            .collect::<Vec<_>>()
    };
    // Two listings at the pace of running operations, which the deletions cause.
    stays(
        "nothing is done to a server of another owner",
        Duration::from_secs(12),
        async || match touched() {
            calls if calls.is_empty() => Ok(()),
            calls => Err(format!("{calls:?}")),
        },
    )
    .await;
    for name in ["web-0", "web-1"] {
        let held = world.until_reason(name, "RecordInvalid").await;
        let message = ready_message(&held);
        assert!(message.contains("another-"), "{message}");
    }
    world.delete("web-2").await;
    world.until_reason("web-2", "RecordInvalid").await;
    world.delete("web-3").await;
    world.gone("web-3").await;
    // A user checked, and states that there is nothing to be released.
    for name in ["web-0", "web-1", "web-2"] {
        let edit = format!("{BINDING}-");
        world.run(&["annotate", "instance", name, &edit], "").await;
        world.gone(name).await;
    }
    world.until_events("ServerNotReleased", 3).await;
    assert_eq!(touched(), Vec::<String>::new());
    let live: Vec<_> = world
        .sim
        .live_servers()
        .into_iter()
        .map(|server| server.id)
        .collect();
    assert!(
        other_servers.iter().all(|id| live.contains(id)),
        "{}",
        world.ledger_text()
    );
    assert_eq!(live.len(), fleet.len());
    let last = world.ready("web-4").await;
    assert_eq!(
        (reason(&last), server_id(&last)),
        ("Available", server_id(&ready[4])),
        "{}",
        outline(&last)
    );
    eventually("its password is changed", async || {
        match posts(&world, 0)[before..]
            .iter()
            .filter(|path| *path == "modifyInstancePassword")
            .count()
        {
            1 => Ok(()),
            _ => Err(world.ledger_text()),
        }
    })
    .await;
    quiet_all(&world).await;
    world.finish().await;
}
