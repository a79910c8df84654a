//! Acknowledged changes survive a SIGKILL, and time continues across a restart.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cloud_simulator::Clock;
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::TaskScript;
use cloud_simulator::time::Timestamp;
use common::{Caller, DEADLINE, quick, settle};

struct Program {
    child: Child,
    url: String,
}

impl Program {
    fn start(data: &Path, task_seconds: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cloud-simulator"))
            .args([
                "--listen",
                "127.0.0.1:0",
                "--token",
                "fixed",
                "--task-seconds",
                task_seconds,
            ])
            .arg("--data")
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.map_while(Result::ok).find_map(|line| {
            line.trim()
                .strip_prefix("endpoint")
                .map(|url| url.trim().to_owned())
        });
        Self {
            child,
            url: url.expect("the program prints its address"),
        }
    }

    fn caller(&self) -> Caller {
        Caller::new(&self.url, "fixed")
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[tokio::test]
async fn an_acknowledged_create_survives_a_sigkill_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("simulator.redb");
    let mut made: Vec<(String, String)> = Vec::new();
    for round in 0..4 {
        let mut program = Program::start(&data, "0");
        let caller = program.caller();
        for (server, task) in &made {
            let answer = caller
                .get("/instance/detail", &[("ecsResourceUUID", server)])
                .await;
            assert_eq!(answer.status, 200, "round {round}: {}", answer.body);
            assert_eq!(answer.body["instance"]["ecsStatus"], "STARTED");
            let answer = caller
                .get("/asynctask/getResult", &[("asyncTaskUUID", task)])
                .await;
            assert_eq!(answer.body["asyncTaskInfo"]["processResult"], "SUCCESS");
        }
        for number in 0..5 {
            made.push(caller.create(&format!("web-{round}-{number}")).await);
        }
        program.kill();
    }
    let sim = quick().file(&data).token("fixed").start().await.unwrap();
    assert_eq!(sim.live_servers().len(), made.len());
    assert_eq!(sim.ledger().calls("/instance/create").len(), made.len());
}

#[tokio::test]
async fn a_task_that_runs_through_a_restart_ends_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("simulator.redb");
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    let start = || {
        let builder = quick().file(&data).clock(clock.clone());
        builder.task_duration(Duration::from_secs(60)).start()
    };
    let sim = start().await.unwrap();
    sim.add_account("other", "other-token").unwrap();
    let (server, task) = Caller::of(&sim).create("web-1").await;
    sim.set_token("default", "rotated").unwrap();
    sim.advance(Duration::from_secs(30));
    sim.stop().await;

    let sim = start().await.unwrap();
    assert!(
        sim.add_account("other", "other-token").is_err(),
        "accounts are kept"
    );
    assert_eq!(sim.token(), "rotated");
    assert_eq!(sim.live_servers()[0].pending, "CREATING");
    sim.advance(Duration::from_secs(30));
    let server = sim.world(|world| world.server(&server)).unwrap();
    assert_eq!(
        (server.status, server.billed),
        ("STARTED", Duration::from_secs(60))
    );
    let answer = Caller::of(&sim)
        .get("/asynctask/getResult", &[("asyncTaskUUID", &task)])
        .await;
    assert_eq!(answer.body["asyncTaskInfo"]["processResult"], "SUCCESS");
}

#[tokio::test]
async fn another_seed_does_not_continue_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("simulator.redb");
    quick()
        .file(&data)
        .seed(5)
        .start()
        .await
        .unwrap()
        .stop()
        .await;
    let error = quick()
        .file(&data)
        .seed(6)
        .start()
        .await
        .expect_err("another seed");
    assert_eq!(error.to_string(), "cannot continue from the data file");
}

#[tokio::test]
async fn a_stopped_simulator_lets_go_of_its_file_and_its_callers() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("simulator.redb");
    let sim = quick().file(&data).start().await.unwrap();
    sim.fault(Rule::on("/instance/create", Act::Task(TaskScript::Never)));
    let caller = Caller::of(&sim);
    caller.create("web-1").await;
    drop(sim);
    let gone = caller
        .getting("/region/list", &[])
        .timeout(DEADLINE)
        .send()
        .await;
    assert!(gone.is_err());
    let sim = quick().file(&data).start().await.unwrap();
    settle(&sim).await;
    assert_eq!(
        sim.live_servers()[0].pending,
        "CREATING",
        "a task that never ends never does"
    );
}
