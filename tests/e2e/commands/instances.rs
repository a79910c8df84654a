//! `instances`: every server of the account, and its owner.

use super::{PLUGIN, exits, output_of, run, unowned_servers};
use crate::support::{Setup, World, instance, with};
use cloud_server_operator::api::Marker;
use cloud_simulator::Readings;
use cloud_simulator::catalogue;
use cloud_simulator::model::Console;
use cloud_simulator::readings::ListRows;
use serde_json::{Value, json};
use tokio::process::Command;

async fn rows(world: &World, flags: &[&str]) -> Vec<Value> {
    let output = exits(
        world,
        0,
        &[&["instances", "-o", "json"], flags].concat(),
        "",
    )
    .await;
    output.json().as_array().unwrap().clone()
}

/// Rows without the values that change between two reads.
fn settled(mut rows: Vec<Value>) -> Vec<Value> {
    for row in &mut rows {
        row.as_object_mut().unwrap().remove("usedFlow");
    }
    rows
}

fn row<'a>(rows: &'a [Value], id: &str) -> &'a Value {
    let mut rows = rows.iter();
    rows.find(|row| row["ecsResourceUUID"] == id).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_is_listed_with_its_owner_or_as_unowned() {
    // With minimal rows, the rest comes from the details.
    let readings = Readings {
        list_rows: ListRows::Minimal,
        ..Readings::default()
    };
    let world = Setup::default()
        .own_ids()
        .readings(readings)
        .begin("instances")
        .await;
    world.apply(&instance("web")).await;
    let web = world.only_server(&world.ready("web").await);
    let servers = unowned_servers(&world, 2).await;
    let marked = format!("gone-{}", Marker::of_uid("an Instance of another cluster"));
    crate::support::console(
        &world,
        Console::Rename {
            server: servers[1].id.clone(),
            name: marked,
        },
    );
    // It waits for a Secret that is never created.
    let waiting = with("waiting", |spec| {
        spec["login"]["passwordSecretRef"]["name"] = json!("missing");
    });
    world.apply(&waiting).await;
    world.until_reason("waiting", "LoginSecretNotFound").await;

    let all = rows(&world, &[]).await;
    assert_eq!(all.len(), 4, "{all:?}");
    let name = format!("{}/web", world.namespace);
    let own = row(&all, &web.id);
    assert_eq!(
        (&own["ownership"], &own["instance"]),
        (&json!("owned"), &json!(name))
    );
    assert_eq!(own["package"], catalogue::example().package);
    assert!(own["publicIpAddress"].is_string(), "{own}");
    assert_eq!(row(&all, &servers[0].id)["ownership"], "unowned");
    assert_eq!(row(&all, &servers[1].id)["ownership"], "marked");
    let serverless = all
        .iter()
        .find(|row| row["ecsResourceUUID"].is_null())
        .unwrap();
    assert_eq!(serverless["ecsStatus"], "LoginSecretNotFound");

    for flag in ["--unowned", "--owned"] {
        let some = rows(&world, &[flag]).await;
        assert_eq!(some.len(), 2, "{flag}: {some:?}\n{}", world.ledger_text());
    }
    assert_eq!(
        rows(&world, &["--region", catalogue::example().region])
            .await
            .len(),
        4
    );
    // The Instance without a server belongs to that zone only.
    for (zone, count) in [
        (catalogue::example().zone, 4),
        (catalogue::example().other_zone, 0),
    ] {
        let some = rows(&world, &["--zone", zone]).await;
        assert_eq!(some.len(), count, "{zone}: {some:?}");
    }
    let output = output_of(&world, &["instances", "--region", "Atlantis"], "").await;
    assert_eq!(output.status, 1);
    assert!(
        output.err.contains("Atlantis") && output.err.contains("--region"),
        "{}",
        output.err
    );

    // The YAML output has the same fields.
    let output = exits(&world, 0, &["instances", "-o", "yaml"], "").await;
    let yaml: Vec<Value> = serde_saphyr::from_str(&output.out).unwrap();
    assert!(
        output.out.contains("\n  ownership: owned\n"),
        "{}",
        output.out
    );
    assert_eq!(settled(yaml), settled(rows(&world, &[]).await));

    let output = output_of(&world, &["instances", "-o", "wide"], "").await;
    let line = output
        .out
        .lines()
        .find(|line| line.contains(&web.id))
        .unwrap();
    for word in [
        name.as_str(),
        "STARTED",
        "CPU",
        catalogue::example().package,
    ] {
        assert!(line.contains(word), "{word}: {line}");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_cluster_the_owner_of_a_server_is_reported_as_unknown() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("instances-direct")
        .await;
    let servers = unowned_servers(&world, 1).await;
    let direct = |flags: &'static [&'static str]| {
        let mut command = Command::new(PLUGIN);
        command.args([
            "instances",
            "--endpoint",
            world.sim.url(),
            "--token-file",
            "-",
        ]);
        command.args(flags);
        async move { run(&mut command, World::TOKEN).await }
    };
    let output = direct(&[]).await;
    assert_eq!(output.status, 0, "{}", output.err);
    assert!(
        output.out.contains(&servers[0].id) && output.out.contains('?'),
        "{}",
        output.out
    );
    assert!(output.err.contains("--kubeconfig"), "{}", output.err);
    let output = direct(&["--unowned"]).await;
    assert_eq!(output.status, 1);
    assert!(output.err.contains("--kubeconfig"), "{}", output.err);
    world.finish().await;
}
