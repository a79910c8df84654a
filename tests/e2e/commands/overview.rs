//! `status` and `describe`: how all of it stands, seen by a person.

use super::asked;
use crate::support::{Setup, busy, instance, with};
use serde_json::json;

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
