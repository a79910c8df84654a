//! A log whose reader stops reading, and one whose reader is gone: neither stops the operator's work.

use crate::support::{
    Setup, Weather, World, eventually, instance, is_ready, names, other_image, quiet_all,
    side_by_side, stopped,
};
use serde_json::Value;

/// The reader's behaviour after the operator has logged its address.
#[derive(Clone, Copy, Debug)]
enum Reader {
    /// It stays and reads nothing: the pipe fills up.
    Stopped,
    /// It is gone: every write fails.
    Gone,
}

impl Reader {
    /// A shell that pipes its standard error to the reader, which passes on the operator's address, and that then becomes the
    /// operator. A reader that stays ends with it.
    fn around(self) -> String {
        let then = match self {
            Self::Stopped => "exec tail --pid=$$ -f /dev/null",
            Self::Gone => "true",
        };
        format!("exec \"$0\" \"$@\" 2> >(grep -m1 '\"address\"' >&2; {then})")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_a_reader_stops_no_work() {
    side_by_side(2, [Reader::Stopped, Reader::Gone], |reader| async move {
        let script = reader.around();
        let line = ["bash", "-c", &script];
        // Hundreds of lines per second: a pipe holds 64 KiB.
        let setup = Setup::default().filter("trace").around(&line);
        let world = setup.begin("log").await;
        let fleet = names("web", 8);
        world.apply_all(&fleet, instance).await;
        world.all_ready(&fleet).await;
        world.apply_all(&fleet, other_image).await;
        for name in &fleet {
            world
                .until(name, "is reinstalled", |i| {
                    is_ready(i) && i.status.as_ref().unwrap().history.len() == 2
                })
                .await;
        }
        let lines = world.logs().lines().count();
        assert_eq!(lines, 1, "another process reads: the test tests nothing");
        quiet_all(&world).await;
        world.finish().await;
    })
    .await;
}

/// The log lines about an Instance: the message, with the verb or the reason.
fn about(world: &World, name: &str) -> Vec<(String, String)> {
    let logs = world.logs();
    let lines = logs
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let lines = lines.filter(|line: &Value| line["name"] == name);
    lines
        .map(|line| {
            assert_eq!(line["namespace"], world.namespace, "{line}");
            assert!(line["generation"].is_i64(), "{line}");
            let text = |field: &str| line[field].as_str().map(ToOwned::to_owned);
            let what = text("verb").or_else(|| text("reason")).unwrap_or_default();
            (text("message").unwrap_or_default(), what)
        })
        .collect()
}

const READY: &str = "condition Ready changed";
const ACCEPTED: &str = "the service accepted the call";
const ENDED: &str = "the operation ended";

/// The lines that docs/operations/monitoring.md lists: one for each decision.
const LINES: [(&str, &str); 9] = [
    (ACCEPTED, "create"),
    (READY, "Available"),
    (ENDED, "create"),
    (READY, "Stopping"),
    (ACCEPTED, "stop"),
    (READY, "Available"),
    (ENDED, "stop"),
    (READY, "Releasing"),
    (ACCEPTED, "release"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_is_logged_for_each_decision_and_more_at_a_higher_level() {
    let filters = ["info", "info,cloud_server_operator=debug"];
    side_by_side(2, filters, |filter| async move {
        let world = Setup::default().filter(filter).begin("lines").await;
        world.apply(&instance("web")).await;
        world.ready("web").await;
        world.apply(&stopped("web")).await;
        world
            .until("web", "is stopped", |i| {
                is_ready(i) && i.status.as_ref().unwrap().history.len() == 2
            })
            .await;
        quiet_all(&world).await;
        world.delete("web").await;
        world.gone("web").await;
        eventually("its release is logged", async || {
            let lines = about(&world, "web");
            match lines.iter().any(|(_, what)| what == "Released") {
                true => Ok(()),
                false => Err(format!("{lines:#?}")),
            }
        })
        .await;
        let mut lines = about(&world, "web");
        if filter == "info" {
            let last = lines.pop().unwrap();
            assert_eq!(last.1, "Released", "{last:?}");
            let lines: Vec<(&str, &str)> = lines
                .iter()
                .map(|(message, what)| (message.as_str(), what.as_str()))
                .collect();
            assert_eq!(lines, LINES);
        } else {
            let reconciles = lines.iter().filter(|(message, _)| message == "reconciled");
            assert!(reconciles.count() > 5, "{lines:#?}");
            lines.retain(|(message, _)| message != "reconciled");
            assert!(lines.len() > LINES.len(), "{lines:#?}");
        }
        world.finish().await;
    })
    .await;
}

/// The client library logs each 5xx answer as an error, and the operator logs it as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_the_apiserver_is_logged_once() {
    let world = Setup::default().links().begin("once").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    world.links().kubernetes.set(Weather::Cut);
    eventually("it is logged", async || {
        match world.logs().contains("watch failed, starting a new one") {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        }
    })
    .await;
    assert!(!world.logs().contains("\"kube_"), "{}", world.logs());
    world.links().kubernetes.set(Weather::Fair);
    world.finish().await;
}
