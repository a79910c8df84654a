//! The command `catalog` in the form in which users type it.

use crate::support::{PLUGIN, Setup, World, eventually, is_for_now, run};
use cloud_simulator::catalogue;
use serde_json::Value;
use std::process::Output;
use tokio::process::Command;

/// Runs a command again until it gets an answer.
async fn answered(input: &str, command: impl Fn() -> Command) -> (bool, String, String) {
    eventually("the command is answered", async || {
        let result = checked(run(&mut command(), input).await);
        match !result.0 && is_for_now(&result.2) {
            true => Err(result.2),
            false => Ok(result),
        }
    })
    .await
}

/// Calls the service directly, with the token on standard input.
async fn direct(world: &World, arguments: &[&str]) -> (bool, String, String) {
    let command = || {
        let mut command = Command::new(PLUGIN);
        command.arg("catalog").args(arguments);
        command.args(["--endpoint", world.sim.url(), "--token-file", "-"]);
        command
    };
    answered(World::TOKEN, command).await
}

/// Calls the service through an Account in the cluster.
async fn by_account(world: &World, arguments: &[&str]) -> (bool, String, String) {
    let command = || {
        let mut command = Command::new(PLUGIN);
        command.arg("catalog").args(arguments);
        command.args(["-n", &world.namespace, "--kubeconfig"]);
        command.arg(world.shared.cluster.kubeconfig_path());
        command
    };
    answered("", command).await
}

fn checked(output: Output) -> (bool, String, String) {
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let [out, err] = texts;
    for text in [&out, &err] {
        assert!(!text.contains(World::TOKEN), "the token leaked: {text}");
    }
    (output.status.success(), out, err)
}

async fn json(world: &World, arguments: &[&str]) -> Vec<Value> {
    let (done, out, err) = direct(world, &[arguments, &["-o", "json"]].concat()).await;
    assert!(done, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_json_and_yaml_show_what_the_service_offers() {
    let world = Setup::default().without_operator().begin("catalog").await;
    let example = catalogue::example();
    let here = ["--region", example.region];

    let (done, out, err) = by_account(&world, &["regions"]).await;
    assert!(done, "{err}");
    let header: Vec<&str> = out.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["REGION", "NAME", "ZONE", "ZONE", "NAME"]);
    let zone = out
        .lines()
        .find(|line| line.contains(example.zone))
        .unwrap();
    assert!(zone.contains("Moscow Zone A"), "{out}");
    assert!(
        !out.contains('\u{1b}'),
        "colours only on a terminal: {out:?}"
    );

    // A filter in a spec selects the first row of the same filter here.
    let filter = [
        "--cpu",
        "1",
        "--memory",
        "2",
        "--charge-mode",
        "PayByTraffic",
    ];
    let zone = ["--zone", "Moscow Zone A"];
    let packages = json(
        &world,
        &[&["packages"][..], &here[..], &zone, &filter].concat(),
    )
    .await;
    assert_eq!(packages[0]["packageCode"], example.package);
    assert!(packages.iter().all(|row| row["zoneCode"] == example.zone));

    let images = json(
        &world,
        &["images", "--region", "Moscow", "--type", "system"],
    )
    .await;
    assert_eq!(images.len(), 22, "all pages");
    let all = json(&world, &[&["images"][..], &here[..]].concat()).await;
    assert_eq!(all.len(), 64, "all pages");
    let one = json(
        &world,
        &[
            &["images", "--name", "ubuntu 24.04 lts", "--type", "System"][..],
            &here[..],
        ]
        .concat(),
    )
    .await;
    assert_eq!(one.len(), 1);
    assert_eq!(one[0]["imageResourceUUID"], example.image);
    assert_eq!(one[0]["regionCode"], example.region);

    let (done, out, err) = direct(
        &world,
        &[&["firewalls", "-o", "wide"][..], &here[..]].concat(),
    )
    .await;
    assert!(
        done && out.contains("DESCRIPTION") && out.contains(example.firewall),
        "{out}{err}"
    );
    let (done, out, err) = direct(&world, &["keys", "--name", "laptop-1", "-o", "yaml"]).await;
    assert!(
        done && out.contains(&format!("sshKeyUUID: {}", example.key)),
        "{out}{err}"
    );
    let (done, out, err) = direct(&world, &["keys", "--name", "no such name"]).await;
    assert!(
        done && out.lines().count() == 1 && err.contains("nothing"),
        "{out}{err}"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wide_tables_show_more_columns_of_the_same_rows() {
    let world = Setup::default().without_operator().begin("wide").await;
    let example = catalogue::example();
    let here = ["--region", example.region];
    for (list, id, plain, wide) in [
        (
            "packages",
            example.package,
            &["CODE", "CPU", "MEMORY", "CHARGE MODE"][..],
            &["BANDWIDTH", "FREE FLOW", "REGION"][..],
        ),
        (
            "images",
            example.image,
            &["ID", "NAME", "TYPE", "DISTRIBUTION"],
            &["VERSION", "SIZE", "ACCOUNT", "SSH", "REGION"],
        ),
        (
            "firewalls",
            example.firewall,
            &["ID", "NAME", "RULES", "SERVERS"],
            &["STATUS", "DESCRIPTION"],
        ),
        ("keys", example.key, &["ID", "NAME", "CREATED"], &[]),
        ("regions", example.region, &["REGION", "ZONE NAME"], &[]),
    ] {
        // Keys and regions do not belong to a region.
        let place = if matches!(list, "keys" | "regions") {
            &[][..]
        } else {
            &here[..]
        };
        let (done, usual, err) = direct(&world, &[&[list][..], place].concat()).await;
        assert!(done, "{err}");
        let (done, all, err) = direct(&world, &[&[list, "-o", "wide"][..], place].concat()).await;
        assert!(done, "{err}");
        let header = |text: &str| text.lines().next().unwrap().to_owned();
        for column in plain {
            assert!(header(&usual).contains(column), "{column}: {usual}");
        }
        for column in plain.iter().chain(wide) {
            assert!(header(&all).contains(column), "{column}: {all}");
        }
        for column in wide.iter().filter(|column| **column != "REGION") {
            assert!(!header(&usual).contains(column), "{column}: {usual}");
        }
        // The same rows in the same order, including the row of the examples.
        let first = |text: &str| -> Vec<String> {
            let lines = text.lines().skip(1);
            lines
                .map(|line| line.split_whitespace().next().unwrap().to_owned())
                .collect()
        };
        assert_eq!(first(&usual), first(&all), "{list}");
        assert!(first(&all).iter().any(|one| one == id), "{list}: {all}");
    }
    // A wide column shows the service's own value.
    let flags = ["images", "--name", "Windows Server 2022", "-o", "wide"];
    let (_, all, _) = direct(&world, &[&flags[..], &here[..]].concat()).await;
    let row = all
        .lines()
        .find(|line| line.contains(example.windows_image));
    let row = row.unwrap_or_else(|| panic!("{all}"));
    for word in ["Administrator", "2022", "25"] {
        assert!(row.contains(word), "{word}: {row}");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_the_command_name_the_remedy() {
    let world = Setup::default()
        .without_operator()
        .begin("catalog-errors")
        .await;
    for (arguments, words) in [
        (
            &["images", "--region", "Atlantis"][..],
            &["Atlantis", "ru-moscow-1 (Moscow)", "--region"][..],
        ),
        (
            &["packages", "--region", "Moscow", "--zone", "Z"][..],
            &["ru-moscow-1-a", "--zone"][..],
        ),
    ] {
        let (done, _, err) = direct(&world, arguments).await;
        assert!(
            !done && words.iter().all(|word| err.contains(word)),
            "{arguments:?}: {err}"
        );
    }
    let (done, _, err) = by_account(&world, &["keys", "--account", "other"]).await;
    assert!(!done, "{err}");
    for word in [
        "Account other does not exist",
        &world.namespace,
        "--account",
    ] {
        assert!(err.contains(word), "{word}: {err}");
    }
    let mut command = Command::new(PLUGIN);
    command.args(["catalog", "keys", "--endpoint", world.sim.url()]);
    let (done, _, err) = checked(run(command.env_remove("CSO_TOKEN"), "").await);
    assert!(
        !done && err.contains("--token-file") && err.contains("CSO_TOKEN"),
        "{err}"
    );
    let command = || {
        let mut command = Command::new(PLUGIN);
        command.args(["catalog", "keys", "--endpoint", world.sim.url()]);
        command.env("CSO_TOKEN", "wrong");
        command
    };
    let (done, _, err) = answered("", command).await;
    assert!(
        !done && err.contains("401") && err.contains("valid token"),
        "{err}"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_as_a_plugin_of_kubectl() {
    let world = Setup::default().without_operator().begin("plugin").await;
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("kubectl-cloudserver");
    std::os::unix::fs::symlink(PLUGIN, &plugin).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", directory.path().display());
    let kubectl = async |arguments: &[&str]| {
        let command = || {
            let mut command = Command::from(world.shared.cluster.kubectl());
            command
                .env("PATH", &path)
                .arg("cloudserver")
                .args(arguments);
            command
        };
        answered("", command).await
    };
    let (done, out, err) = kubectl(&["catalog", "regions", "-n", &world.namespace]).await;
    assert!(
        done && out.contains(catalogue::example().zone),
        "{out}{err}"
    );
    let (_, out, _) = kubectl(&["catalog", "--help"]).await;
    assert!(out.contains("kubectl cloudserver catalog"), "{out}");
    world.finish().await;
}
