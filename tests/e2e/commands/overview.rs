//! `status` and `describe`: how all of it stands, seen by a person.

use super::asked;
use crate::support::{Setup, World, busy, instance, with};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looks_sees_what_is_ready_what_runs_and_what_waits_for_a_person() {
    let world = Setup::default().begin("overview").await;
    world.apply(&instance("web")).await;
    let ready = world.ready("web").await;
    let web = world.only_server(&ready);
    let running = busy(&world).await;
    world.until_reason("busy", "Creating").await;
    let waiting = with("waiting", |spec| {
        spec["login"]["passwordSecretRef"]["name"] = json!("missing");
    });
    world.apply(&waiting).await;
    world.until_reason("waiting", "LoginSecretNotFound").await;

    let told = asked(&world, &["status"], "").await;
    assert_eq!(told.status, 0, "{}", told.err);
    let lines: Vec<&str> = told.out.lines().collect();
    assert_eq!(lines[0], world.namespace);
    assert!(
        lines[1].starts_with("└─ Account default: Ready · "),
        "{lines:#?}"
    );
    for (line, words) in [
        (
            2,
            [
                "├─ busy",
                "Reconciling (Creating) · create ",
                running.as_str(),
            ],
        ),
        (3, ["├─ waiting", "(LoginSecretNotFound) · ", "missing"]),
        (4, ["└─ web", "Ready · ", web.id.as_str()]),
    ] {
        for words in words {
            assert!(lines[line].contains(words), "{words:?}: {lines:#?}");
        }
    }
    assert_eq!(lines.len(), 5, "{lines:#?}");

    let told = asked(&world, &["describe", "web", "busy"], "").await;
    assert_eq!(told.status, 0, "{}", told.err);
    let address = &ready.status.as_ref().unwrap().detail["publicIpAddress"];
    let address = address.as_str().unwrap();
    for words in [
        &format!("Instance {}/web, ", world.namespace),
        &format!("Its server is {}, ", web.id),
        &format!(", at {address}, "),
        "How it stands: Ready\n",
        "create 1: done in ",
        "The create (number 1, as the spec asks) is followed to its end; the service took it as task ",
    ] {
        assert!(
            told.out.contains(words),
            "{words:?} is not in\n{}",
            told.out
        );
    }
    let told = asked(&world, &["describe", "nobody"], "").await;
    assert_eq!(told.status, 1);
    assert!(
        told.err
            .contains("Instance nobody does not exist in namespace"),
        "{}",
        told.err
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_for_who_helps_has_objects_and_events_and_no_secret_and_is_never_written_over() {
    let world = Setup::default().begin("support").await;
    world.apply(&instance("web")).await;
    let id = world.only_server(&world.ready("web").await).id;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle.tar.gz");
    let command = ["support", "--output", file.to_str().unwrap()];
    let told = asked(&world, &command, "").await;
    assert_eq!(told.status, 0, "{}", told.err);
    // Nothing is installed as a Pod here, which is said.
    assert!(
        told.out.contains("left out: operator/pods.yaml: no Pod"),
        "{}",
        told.out
    );
    let unpacked = Command::new("tar")
        .args([
            "-xzf",
            file.to_str().unwrap(),
            "-C",
            folder.path().to_str().unwrap(),
        ])
        .status()
        .unwrap();
    assert!(unpacked.success());
    let inside = folder.path().join("cloud-server-support");
    let read = |name: &str| fs::read_to_string(inside.join(name)).unwrap();
    for (name, words) in [
        ("versions.yaml", env!("CARGO_PKG_VERSION")),
        ("accounts.yaml", "name: default"),
        ("instances.yaml", id.as_str()),
        ("events.yaml", "regarding:"),
        ("operator/leases.yaml", "[]"),
        ("missing.txt", "no Pod"),
    ] {
        assert!(
            read(name).contains(words),
            "{words:?} is not in {name}:\n{}",
            read(name)
        );
        for secret in [World::TOKEN, World::PASSWORD] {
            assert!(!read(name).contains(secret), "{name} tells a secret");
        }
    }
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = asked(&world, &command, "").await;
    assert_eq!(again.status, 1);
    assert!(
        again.err.contains("name another file with --output"),
        "{}",
        again.err
    );
}
