//! `wait`, `start`, `stop`, `restart`, `reinstall`, `pause`, `resume`, `reconcile`: the service gets each call once, and a wait
//! ends when the operation is done, when it failed, when the timeout has passed, or when the user interrupts it.

use super::rights::{Limited, allow};
use super::terminal::{BOTH, read, shown, terminal};
use super::{CommandOutput, PLUGIN, output_of};
use crate::support::{
    Mark, Setup, World, end_task, endless, eventually, insist, instance, mark, other_image, posts,
    reason, stopped, token, with,
};
use cloud_server_operator::api::{Instance, PowerState, Verb};
use cloud_simulator::faults::{Act, Rule};
use cloud_simulator::model::TaskScript;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

async fn prints(world: &World, arguments: &[&str], status: i32, words: &[&str]) -> CommandOutput {
    let output = output_of(world, arguments, "").await;
    output.assert(status, words);
    output
}

/// The managers of a field of the spec, as the apiserver records them.
fn managers<'a>(instance: &'a Instance, field: &str) -> Vec<&'a str> {
    let entries = instance.metadata.managed_fields.iter().flatten();
    let has = |value: &Value| value.pointer(&format!("/f:spec/f:{field}")).is_some();
    entries
        .filter(|entry| {
            entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| has(&fields.0))
        })
        .filter_map(|entry| entry.manager.as_deref())
        .collect()
}

fn labelled(name: &str) -> Value {
    let mut manifest = instance(name);
    manifest["metadata"]["labels"] = json!({"app": name});
    manifest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_verb_is_done_once_and_its_wait_ends_when_it_is() {
    let world = Setup::default().own_ids().begin("verbs").await;
    let names = ["db", "web"];
    for name in names {
        world.apply(&labelled(name)).await;
    }
    prints(
        &world,
        &["wait", "--all"],
        0,
        &["/db: Available", "/web: Available"],
    )
    .await;
    let Mark { seq, .. } = mark(&world, "web").await;

    prints(
        &world,
        &["stop", "db", "web", "--wait"],
        0,
        &["stop requested"],
    )
    .await;
    assert_eq!(posts(&world, seq), ["stop", "stop"]);
    let states: Vec<&str> = world.sim.live_servers().iter().map(|s| s.status).collect();
    assert_eq!(states, ["STOPPED", "STOPPED"]);
    let web = world.get("web").await;
    assert_eq!(web.spec.power_state, PowerState::Stopped);
    assert_eq!(managers(&web, "powerState"), ["cloudserver-cli"]);
    // Already in the requested state: nothing is written, and no call is made.
    prints(&world, &["stop", "web", "--wait"], 0, &["Stopped already"]).await;
    assert_eq!(
        world.get("web").await.metadata.generation,
        web.metadata.generation
    );

    let before = mark(&world, "web").await;
    prints(
        &world,
        &["restart", "web"],
        1,
        &["spec.powerState is Stopped", "`start`"],
    )
    .await;
    prints(
        &world,
        &["start", "-l", "app=web", "--wait"],
        0,
        &["/web: Available"],
    )
    .await;
    assert_eq!(posts(&world, before.seq), ["start"]);
    for _ in 0..2 {
        let before = mark(&world, "web").await;
        prints(
            &world,
            &["restart", "web", "--wait"],
            0,
            &["/web: Available"],
        )
        .await;
        assert_eq!(posts(&world, before.seq), ["restart"]);
    }

    let before = mark(&world, "web").await;
    prints(
        &world,
        &["pause", "web", "--for", "2h", "--wait"],
        0,
        &["/web: Paused"],
    )
    .await;
    prints(&world, &["pause", "web", "--wait"], 0, &["/web: Paused"]).await;
    let pause = world.get("web").await.spec.pause.unwrap();
    assert_eq!(pause.until, None, "nothing is left of the time");
    // The operation cannot complete, and the wait reports it.
    prints(
        &world,
        &["stop", "web", "--wait"],
        2,
        &["Paused", "`resume`"],
    )
    .await;
    assert_eq!(posts(&world, before.seq), Vec::<String>::new());
    prints(
        &world,
        &["resume", "web", "--wait"],
        0,
        &["/web: Available"],
    )
    .await;
    assert_eq!(posts(&world, before.seq), ["stop"]);

    prints(
        &world,
        &["reconcile", "web", "--wait"],
        0,
        &["/web: Available"],
    )
    .await;
    let web = world.get("web").await;
    let token = web.spec.reconcile.unwrap().token;
    assert_eq!(web.status.unwrap().last_reconcile_token, Some(token));
    assert_eq!(posts(&world, before.seq), ["stop"]);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ready_from_before_the_edit_does_not_end_the_wait() {
    let mut world = Setup::default().own_ids().begin("verbs-old").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    world.kill();
    // The Ready condition is for the former generation.
    let stop = ["stop", "web", "--wait", "--timeout", "1s"];
    prints(
        &world,
        &stop,
        3,
        &["not within 1 s", "has not observed the edit yet"],
    )
    .await;
    let web = world.get("web").await;
    assert_eq!(
        (web.spec.power_state, reason(&web)),
        (PowerState::Stopped, "Available")
    );

    // The wait does not end with progress, but with the end of the task.
    endless(&world, Verb::Stop);
    world.start().await;
    world.until_reason("web", "Stopping").await;
    prints(
        &world,
        &["wait", "web", "--timeout", "1s"],
        3,
        &["Stopping"],
    )
    .await;
    end_task(&world, &web).await;
    prints(&world, &["wait", "web"], 0, &["/web: Available"]).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_ends_the_wait_and_prints_its_message() {
    let world = Setup::default().own_ids().begin("verbs-failure").await;
    world.apply(&instance("web")).await;
    world.apply(&instance("db")).await;
    prints(&world, &["wait", "web", "db"], 0, &["/web: Available"]).await;
    let words = "the hypervisor was not in the mood";
    let act = Act::Task(TaskScript::Fail {
        reason: words.to_owned(),
    });
    world.sim.fault(Rule::on("/instance/stop", act).times(1));
    prints(
        &world,
        &["stop", "web", "--wait"],
        2,
        &["OperationFailed", words],
    )
    .await;
    // The operator retries all the same.
    prints(&world, &["wait", "db"], 0, &[]).await;
    world.ready("web").await;

    // A change that waits for human action.
    let held = with("db", |spec| {
        spec["image"] = other_image("db")["spec"]["image"].clone();
        spec["reinstallPolicy"] = json!("OnRequest");
    });
    world.apply(&held).await;
    prints(
        &world,
        &["wait", "--all"],
        2,
        &["ReinstallNeedsApproval", "/web: Available"],
    )
    .await;
    // An Instance that does not exist, and one that is deleted meanwhile.
    prints(
        &world,
        &["wait", "web", "no-such"],
        1,
        &["no-such", "does not exist"],
    )
    .await;
    prints(
        &world,
        &["start", "-l", "app=none"],
        1,
        &["matches: check -n and -l"],
    )
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_is_erased_only_after_the_user_confirms() {
    let world = Setup::default().own_ids().begin("verbs-reinstall").await;
    world.apply(&instance("web")).await;
    let web = world.ready("web").await;
    let server = world.only_server(&web).id;
    let before = mark(&world, "web").await;

    let names = ["ERASES 1 disk", server.as_str(), "--yes"];
    prints(&world, &["reinstall", "web"], 1, &names).await;
    for (answer, status) in [("no\n", 1), ("\n", 1), ("y\n", 1), ("yes\n", 0)] {
        let command = command(&world, &["reinstall", "web"]);
        let output = tokio::task::spawn_blocking(move || answered(command, answer));
        let (code, text) = output.await.unwrap();
        assert_eq!(code, status, "{answer:?}: {text}");
        for word in [
            "ERASES 1 disk",
            server.as_str(),
            "/web: everything on the disk",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        if status != 0 {
            assert_eq!(world.get("web").await.spec, web.spec, "{answer:?}");
            assert_eq!(posts(&world, before.seq), Vec::<String>::new());
        }
    }
    prints(&world, &["wait", "web"], 0, &["/web: Available"]).await;
    assert_eq!(posts(&world, before.seq), ["reinstallSystem"]);
    prints(
        &world,
        &["reinstall", "web", "--yes", "--wait"],
        0,
        &["/web: Available"],
    )
    .await;
    assert_eq!(posts(&world, before.seq), ["reinstallSystem"; 2]);
    // Also with OnRequest: the token confirms the image.
    let careful = with("web", |spec| spec["reinstallPolicy"] = json!("OnRequest"));
    world.apply(&careful).await;
    prints(
        &world,
        &["reinstall", "web", "-y", "--wait"],
        0,
        &["/web: Available"],
    )
    .await;
    assert_eq!(posts(&world, before.seq), ["reinstallSystem"; 3]);
    let never = with("web", |spec| spec["reinstallPolicy"] = json!("Never"));
    world.apply(&never).await;
    prints(
        &world,
        &["reinstall", "web", "-y"],
        1,
        &["spec.reinstallPolicy is Never"],
    )
    .await;
    world.finish().await;
}

fn command(world: &World, arguments: &[&str]) -> Command {
    let mut command = Command::new(PLUGIN);
    command.args(arguments).args(["-n", &world.namespace]);
    command.arg("--kubeconfig");
    command.arg(world.shared.cluster.kubeconfig_path());
    command
}

/// Runs a command and answers its questions at a terminal. Returns its status and its whole output.
fn answered(mut command: Command, answer: &str) -> (i32, String) {
    let (mut user, its) = terminal();
    command.stdin(Stdio::from(its));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    user.write_all(answer.as_bytes()).unwrap();
    let output = command.output().unwrap();
    let texts = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(texts).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_wait_keeps_the_edit_and_reports_it() {
    let world = Setup::default().own_ids().begin("verbs-interrupted").await;
    world.apply(&instance("web")).await;
    let web = world.ready("web").await;
    endless(&world, Verb::Stop);
    let command = command(&world, &["stop", "web", "--wait"]);
    let (status, text) = tokio::task::spawn_blocking(move || interrupted(command, "Stopping"))
        .await
        .unwrap();
    assert_eq!(status, 130, "{text}");
    for word in [
        "the wait was interrupted",
        "Stopping",
        "stay in the specs",
        "`wait`",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    end_task(&world, &web).await;
    prints(&world, &["wait", "web"], 0, &["/web: Available"]).await;
    assert_eq!(world.only_server(&web).status, "STOPPED");
    world.finish().await;
}

/// Sends Ctrl-C, as a shell does, once the command prints this word. Returns the status and the whole output.
fn interrupted(mut command: Command, word: &str) -> (i32, String) {
    let (mut user, its) = terminal();
    let out = its.try_clone().unwrap();
    command.stdin(Stdio::null()).stdout(out).stderr(its);
    let mut child = command.spawn().unwrap();
    drop(command); // this closes the command's ends of the terminal
    let (mut seen, mut some) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&seen).contains(word) {
        let count = user.read(&mut some).unwrap_or_default();
        assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&some[..count]);
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let rest = read(user);
    let status = child.wait().unwrap().code().unwrap();
    let seen = String::from_utf8_lossy(&seen).into_owned();
    (status, seen + &rest.join().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_terminal_a_command_shows_the_request_that_it_waits_for() {
    let world = Setup::default().own_ids().begin("verbs-terminal").await;
    world.apply(&stopped("web")).await;
    let output = shown(&world, BOTH, &[], &["wait", "web"]).await;
    assert_eq!(output.status, 0, "{}{}", output.out, output.err);
    assert!(output.err.contains("waiting for web: "), "{:?}", output.err);
    assert!(output.out.contains("/web: Available"), "{:?}", output.out);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_a_manifest_would_revert_is_refused_or_warned_about() {
    let world = Setup::default().own_ids().begin("verbs-gitops").await;
    // Applied server-side, as Flux and Argo CD do it, and client-side by kubectl.
    world.apply(&token("web", "kernel")).await;
    world
        .run(&["apply", "-f", "-"], &token("db", "kernel").to_string())
        .await;
    prints(&world, &["wait", "--all"], 0, &[]).await;
    let before = mark(&world, "web").await;
    prints(
        &world,
        &["restart", "web"],
        1,
        &["field manager user", "another restart"],
    )
    .await;
    prints(
        &world,
        &["restart", "db"],
        1,
        &["kubectl apply", "another restart"],
    )
    .await;
    assert_eq!(world.get("web").await.spec.restart.unwrap().token, "kernel");
    // A field that is not in the manifest stays when the manifest is applied again.
    world.apply(&instance("web")).await;
    prints(&world, &["restart", "web", "--wait"], 0, &[]).await;
    let token = world.get("web").await.spec.restart;
    world.apply(&instance("web")).await;
    assert!(token.is_some() && world.get("web").await.spec.restart == token);
    assert_eq!(posts(&world, before.seq), ["restart"]);
    world.apply(&stopped("web")).await;
    prints(
        &world,
        &["start", "web", "--wait"],
        0,
        &["field manager user", "will revert this change"],
    )
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_edit_or_watch_gets_the_missing_permission_and_the_remedy() {
    const OURS: &str = "cloudserver.dev";
    let world = Setup::default().own_ids().begin("verbs-rights").await;
    world.apply(&instance("web")).await;
    let web = world.ready("web").await;
    let user = Limited::of(&world).await;
    let lacks = |verb: &str| format!("cannot {verb} resource \"instances\"");
    user.until(&["stop", "web"], "", 1, &[&lacks("get"), "allowed to"])
        .await;
    allow(&world, &[(OURS, "instances", &["get"])]).await;
    user.until(&["stop", "web"], "", 1, &[&lacks("patch"), "allowed to"])
        .await;
    assert_eq!(world.get("web").await.spec, web.spec);
    allow(&world, &[(OURS, "instances", &["get", "patch"])]).await;
    let words = ["stop requested", &lacks("list"), "list and watch"];
    user.until(&["stop", "web", "--wait"], "", 1, &[words[1], words[2]])
        .await;
    eventually("the edit is stored", async || {
        let spec = world.get("web").await.spec;
        match spec.power_state == PowerState::Stopped {
            true => Ok(()),
            false => Err(format!("{:?}", spec.power_state)),
        }
    })
    .await;
    allow(&world, &[(OURS, "instances", &["get", "list", "watch"])]).await;
    user.until(&["wait", "web"], "", 0, &["/web: Available"])
        .await;
    // A policy of the cluster: the output quotes its rule.
    let params = PatchParams::apply("user").force();
    let observed = with("web", |spec| spec["managementPolicy"] = json!("Observe"));
    let patch = Patch::Apply(&observed);
    let written = insist("it is observed", async || {
        world.instances().patch("web", &params, &patch).await
    });
    assert_eq!(written.await.unwrap().name_any(), "web");
    prints(
        &world,
        &["start", "web"],
        1,
        &["spec.managementPolicy is Observe"],
    )
    .await;
    world.finish().await;
}
