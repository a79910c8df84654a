//! The process: its pages, its end, its output.

use crate::support::{
    EXECUTABLE, PATIENCE, PLUGIN, Setup, create_calls, eventually, instance, stays,
};
use cloud_server_operator::api::names::BINDING;
use cloud_simulator::faults::{Act, ClientGone, Rule, When};
use kube::ResourceExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_openmetrics_and_count_the_actions() {
    let mut world = Setup::default().begin("metrics").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let (kind, text) = world.operator().metrics().await;
    assert_eq!(
        kind,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line
            .rsplit_once(' ')
            .unwrap_or_else(|| panic!("no sample: {line:?}"));
        assert!(
            // The operator's own metrics, and the established ones for controllers and processes.
            [
                "cloud_server_operator_",
                "controller_runtime_",
                "process_",
                "workqueue_"
            ]
            .iter()
            .any(|begin| name.starts_with(begin))
                && value.parse::<f64>().is_ok(),
            "{line:?}"
        );
        assert!(
            !name.contains("\"web\"") && !name.contains(&world.namespace),
            "a label names an object: {line:?}"
        );
    }
    let created = "cloud_server_operator_cloud_calls_total{operation=\"create\",result=\"ok\"} 1";
    assert!(text.contains(created), "{created:?} is not in {text}");
    world.finish().await;
}

/// No core dump of it is written, and other processes of the same user cannot read its memory.
#[tokio::test]
async fn secrets_in_memory_stay_there() {
    let unprivileged = |program: &str| {
        let mut command = Command::new("/usr/bin/setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--pdeathsig=KILL",
        ]);
        command
            .arg(program)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    // The plugin waits for a token on standard input, the operator for a cluster that does not answer.
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    let text = "{kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], \
         clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {}}]}";
    std::fs::write(&kubeconfig, text).unwrap();
    let readable = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&kubeconfig, readable).unwrap();
    let mut plugin = unprivileged(PLUGIN);
    plugin.args(["instances", "--endpoint", "http://127.0.0.1:9"]);
    plugin.args(["--token-file", "-"]);
    let mut operator = unprivileged(EXECUTABLE);
    operator.args(["run", "--listen=127.0.0.1:0", "--leader-elect=false"]);
    operator.env("KUBECONFIG", kubeconfig.path());
    for mut command in [plugin, operator] {
        let mut running = command.stdin(Stdio::piped()).spawn().unwrap();
        let place = format!("/proc/{}", running.id());
        eventually("its memory is its own", async || {
            let limits = std::fs::read_to_string(format!("{place}/limits")).unwrap();
            let core = limits
                .lines()
                .find_map(|line| line.strip_prefix("Max core file size"));
            let core: Vec<&str> = core.unwrap_or_default().split_whitespace().collect();
            let read = unprivileged("/bin/cat")
                .arg(format!("{place}/environ"))
                .output()
                .unwrap();
            let why = String::from_utf8_lossy(&read.stderr).into_owned();
            match core.starts_with(&["0", "0"]) && why.contains("Permission denied") {
                true => Ok(()),
                false => Err(format!(
                    "core: {core:?}; read by another: {} {why}",
                    read.status
                )),
            }
        })
        .await;
        running.kill().unwrap();
        running.wait().unwrap();
    }
}

#[test]
fn the_definitions_that_are_printed_are_the_ones_in_the_repository() {
    let output = Command::new(EXECUTABLE)
        .arg("crds")
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success());
    let kept = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../crds/cloudserver.dev.yaml"
    ))
    .unwrap();
    assert!(
        String::from_utf8(output.stdout).unwrap() == kept,
        "crds/ is out of date: write it again with the command `crds`"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_term_signal_while_a_create_is_in_flight_waits_for_its_receipt() {
    // A grace period that no stall of this machine exceeds.
    let setup = Setup::default().environment("CSO_GRACE_SECONDS", "55");
    let mut world = setup.begin("term").await;
    // Repeated, since it is random which part of the process notices the signal first.
    for name in ["web-1", "web-2", "web-3", "web-4", "web-5"] {
        let hold = world.sim.hold(
            Rule::on(
                "/instance/create",
                Act::Hold {
                    at: When::AfterEffect,
                    gone: ClientGone::Drop,
                },
            )
            .containing(name),
        );
        world.apply(&instance(name)).await;
        hold.reached(PATIENCE).await.unwrap();
        world.operator().terminate();
        // A second: longer than a process needs to end without waiting.
        stays(
            "it waits for the answer",
            Duration::from_secs(1),
            async || {
                if world.operator().is_running() {
                    Ok(())
                } else {
                    Err("it ended".to_owned())
                }
            },
        )
        .await;
        hold.release();
        let status = world.operator().ended().await;
        assert!(status.success(), "{status}");
        let web = world.get(name).await;
        let server = world.only_server(&web).id;
        let record: serde_json::Value = serde_json::from_str(&web.annotations()[BINDING]).unwrap();
        assert_eq!(record["id"], server, "the receipt is on record");
        world.start().await;
        assert_eq!(world.ready(name).await.status.unwrap().id, Some(server));
    }
    assert_eq!(create_calls(&world.sim), 5);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_operator_ends_at_once_on_a_term_signal() {
    let mut world = Setup::default().begin("term-idle").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    // Far below the grace period of 25 s, since no reconcile is running. The best of three, since a stall can delay any single
    // one.
    let at_once = Duration::from_secs(15);
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let begun = Instant::now();
        world.operator().terminate();
        let status = world.operator().ended().await;
        best = best.min(begun.elapsed());
        assert!(status.success(), "{}", world.logs());
        if best < at_once {
            break;
        }
        world.start().await;
    }
    assert!(best < at_once, "{best:?}: {}", world.logs());
    world.finish().await;
}
