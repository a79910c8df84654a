//! The commands in the form in which users type them.

mod completion;
mod connection;
mod import;
mod instances;
mod names;
mod output;
mod overview;
mod plan;
mod proxy;
mod rights;
mod secrets;
mod terminal;
mod unreachable;
mod verbs;
mod verdicts;

use crate::support::{self, EXECUTABLE, PLUGIN, World, eventually, is_for_now};
use cloud_simulator::model::ServerInfo;
use serde_json::Value;
use std::process::Output;
use tokio::process::Command;

/// The result of a command.
struct CommandOutput {
    status: i32,
    out: String,
    err: String,
}

impl CommandOutput {
    fn of(output: Output) -> Self {
        let status = output.status.code().unwrap();
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let [out, err] = texts;
        for text in [&out, &err] {
            for secret in [World::TOKEN, World::PASSWORD] {
                assert!(!text.contains(secret), "a secret leaked: {text}");
            }
            assert!(
                !text.contains('\u{1b}'),
                "colours and progress only on a terminal: {text:?}"
            );
        }
        Self { status, out, err }
    }

    /// Asserts the exit status, and that the output contains these words.
    #[track_caller]
    fn assert(&self, status: i32, words: &[&str]) {
        let all = format!("{}{}", self.out, self.err);
        assert_eq!(self.status, status, "{all}");
        for word in words {
            assert!(all.contains(word), "{word:?}: {all}");
        }
    }

    fn json(&self) -> Value {
        let read = serde_json::from_str(&self.out);
        read.unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }
}

/// The program that has the command of these arguments.
fn program(arguments: &[&str]) -> &'static str {
    match arguments.first() {
        Some(&("run" | "crds")) => EXECUTABLE,
        _ => PLUGIN,
    }
}

async fn run(command: &mut Command, input: &str) -> CommandOutput {
    CommandOutput::of(support::run(command, input).await)
}

/// Runs a command as an administrator of the cluster, in the namespace of the world, until it gets an answer.
async fn output_of(world: &World, arguments: &[&str], input: &str) -> CommandOutput {
    // A test that fails prints its commands.
    println!("$ {}", arguments.join(" "));
    eventually("the command is answered", async || {
        let mut command = Command::new(PLUGIN);
        command.args(arguments).args(["-n", &world.namespace]);
        command.arg("--kubeconfig");
        command.arg(world.shared.cluster.kubeconfig_path());
        let output = run(&mut command, input).await;
        // If the apiserver is too slow for one of its requests, a command continues with partial information.
        let is_partial = [&output.out, &output.err]
            .iter()
            .any(|text| text.contains("no answer from the apiserver"));
        match is_partial || (output.status == 1 && is_for_now(&output.err)) {
            true => Err(output.err),
            false => Ok(output),
        }
    })
    .await
}

/// Runs a command as [`output_of`] does, and asserts its exit status.
async fn exits(world: &World, status: i32, arguments: &[&str], input: &str) -> CommandOutput {
    let output = output_of(world, arguments, input).await;
    output.assert(status, &[]);
    output
}

/// Plans a manifest as this field manager. Returns the verdict for its only Instance, the exit status, and the Instance's part
/// of the output.
async fn verdict(world: &World, manifest: &Value, manager: &str) -> (String, i32, Value) {
    let flags = ["plan", "-f", "-", "-o", "json", "--field-manager", manager];
    let output = output_of(world, &flags, &manifest.to_string()).await;
    let report = output.json();
    assert_eq!(report["exitStatus"], output.status);
    let one = report["instances"][0].clone();
    let verdict = one["verdict"].as_str().unwrap().to_owned();
    (verdict, output.status, one)
}

/// Waits until servers that were bought externally run, and returns them.
async fn unowned_servers(world: &World, count: usize) -> Vec<ServerInfo> {
    let before: Vec<String> = world.sim.live_servers().into_iter().map(|s| s.id).collect();
    world.add_unowned_servers(World::TOKEN, count);
    let is_made = |server: &ServerInfo| server.status == "STARTED";
    let made = world.sim.wait_until(
        |w| w.live_servers().iter().all(is_made),
        crate::support::PATIENCE,
    );
    made.await.unwrap();
    let mut servers = world.sim.live_servers();
    servers.retain(|server| !before.contains(&server.id));
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    servers
}
