//! Commands without an answer: each ends, names the address that did not answer, and lists what to check.

use super::{CommandOutput, PLUGIN, exits, output_of, program, run};
use crate::support::{PATIENCE, Setup, World, eventually, instance, other_image, with};
use serde_json::json;
use std::net::TcpListener;
use tokio::process::Command;

/// An address without a listener, and one that accepts connections and never answers.
pub(super) struct Silence {
    pub(super) closed: String,
    pub(super) mute: String,
    _listener: TcpListener,
}

impl Silence {
    pub(super) fn new() -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let (closed, mute) = (listen(), listen());
        Self {
            closed: address(&closed),
            mute: address(&mute),
            _listener: mute,
        }
    }
}

/// A kubeconfig of a cluster at this address, for this user.
pub(super) fn kubeconfig(address: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"https://{address}\", insecure-skip-tls-verify: true}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    )
}

/// Runs a command, which must end without help.
async fn ended(command: &mut Command, input: &str) -> CommandOutput {
    command.kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, run(command, input)).await;
    output.unwrap_or_else(|_| panic!("it hangs: {command:?}"))
}

fn assert_names(output: &CommandOutput, place: &str, remedies: &[&str]) {
    assert_eq!(output.status, 1, "{}", output.out);
    for word in [&[place][..], remedies].concat() {
        assert!(output.err.contains(word), "{word}: {}", output.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_does_not_answer_is_reported_with_the_remedy() {
    let world = Setup::default()
        .own_ids()
        .without_operator()
        .begin("no-service")
        .await;
    let silence = Silence::new();
    let troubles = [
        (&silence.closed, "could not reach the service"),
        (&silence.mute, "had no answer in time"),
    ];
    for (address, trouble) in troubles {
        let endpoint = format!("http://{address}");
        for arguments in [
            &["catalog", "regions"][..],
            &["catalog", "packages", "--region", "ru-moscow-1"],
            &["instances"],
            &["import", "ecs-1"],
        ] {
            let mut command = Command::new(PLUGIN);
            command.args(arguments).env("CSO_TOKEN", World::TOKEN);
            command.args(["--endpoint", &endpoint]);
            let output = ended(&mut command, "").await;
            assert_names(&output, address, &["check the endpoint"]);
            assert_eq!(output.out, "");
        }
        // The same through an Account. An unknown result has its own exit status.
        world.account("default", &endpoint).await;
        let named = with("web", |spec| spec["package"] = json!({"cpu": 1}));
        let remedy = format!("check the endpoint {endpoint}");
        let words = ["web: unknown", trouble, &remedy];
        eventually("the plan reports it", async || {
            let mut command = Command::new(PLUGIN);
            command.args(["plan", "-f", "-", "-n", &world.namespace, "--kubeconfig"]);
            command.arg(world.shared.cluster.kubeconfig_path());
            let output = ended(&mut command, &named.to_string()).await;
            match output.status == 1 && words.iter().all(|word| output.out.contains(word)) {
                true => Ok(()),
                false => Err(format!("{}: {}{}", output.status, output.out, output.err)),
            }
        })
        .await;
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_service_is_silent_is_judged_by_its_status_and_the_service_is_named() {
    let mut world = Setup::default().own_ids().begin("silent-service").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    world.kill();
    let silence = Silence::new();
    let endpoint = format!("http://{}", silence.closed);
    world.account("default", &endpoint).await;
    let remedy = format!("check the endpoint {endpoint}");
    for (manifest, status, verdict) in [
        (instance("web"), 0, "web: nothing"),
        (other_image("web"), 3, "web: ERASES THE DISK"),
    ] {
        let output = exits(&world, status, &["plan", "-f", "-"], &manifest.to_string()).await;
        for word in [
            verdict,
            "could not reach the service",
            "as status shows it",
            &remedy,
        ] {
            assert!(output.out.contains(word), "{word}: {}", output.out);
        }
    }
    // The same service, with a token that it refuses.
    world.account("default", world.sim.url()).await;
    world.secret("cloud-token", "token", "another-token").await;
    let remedy = format!(
        "put a valid token into the Secret of Account {}/default",
        world.namespace
    );
    // The service is up, but may be slow in a single case.
    eventually("the plan names the token", async || {
        let output = output_of(&world, &["plan", "-f", "-"], &instance("web").to_string()).await;
        match output.status == 0 && output.out.contains(&remedy) {
            true => Ok(()),
            false => Err(format!("{}: {}{}", output.status, output.out, output.err)),
        }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apiserver_that_does_not_answer_is_reported_with_the_remedy() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let silence = Silence::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let many: Vec<_> = (0..40)
        .map(|n| instance(&format!("web-{n}")).to_string())
        .collect();
    let many = many.join("\n---\n");
    for address in [&silence.closed, &silence.mute] {
        std::fs::write(&file, kubeconfig(address, "token: t")).unwrap();
        for (arguments, input) in [
            (&["catalog", "regions"][..], ""),
            (&["instances"], ""),
            (&["import", "ecs-1"], ""),
            (&["plan", "-f", "-"], &many),
        ] {
            let mut command = Command::new(PLUGIN);
            command.args(arguments).arg("--kubeconfig").arg(&file);
            let output = ended(command.env_remove("CSO_ENDPOINT"), input).await;
            assert_names(&output, address, &["--kubeconfig", "--context"]);
            assert_eq!(output.out, "");
            // Named once, although several things were requested.
            assert_eq!(
                output.err.matches(address.as_str()).count(),
                1,
                "{}",
                output.err
            );
        }
    }
}

#[tokio::test]
async fn a_missing_file_is_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str, user: &str, cluster: &str| {
        let file = directory.path().join(name);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:1\"{cluster}}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        );
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let authority = at("ca", "token: t", ", certificate-authority: /nowhere/ca.pem");
    let certificate = at(
        "cert",
        "client-certificate: /nowhere/c.pem, client-key: /nowhere/k.pem",
        "",
    );
    let token = at("token", "tokenFile: /nowhere/token", "");
    let plugin = at(
        "plugin",
        "exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere/plugin, interactiveMode: Never}",
        "",
    );
    let of = |kubeconfig: &str| {
        vec![
            "instances".to_owned(),
            "--kubeconfig".into(),
            kubeconfig.into(),
        ]
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    for arguments in [
        of("/nowhere/kubeconfig"),
        of(&authority),
        of(&certificate),
        of(&token),
        of(&plugin),
        words(&["stop", "web", "--kubeconfig", "/nowhere/kubeconfig"]),
        words(&["plan", "-f", "/nowhere/web.yaml"]),
        words(&[
            "catalog",
            "regions",
            "--endpoint",
            "http://127.0.0.1:1",
            "--token-file",
            "/nowhere/token",
        ]),
        words(&["catalog", "regions", "--context", "c"]),
        words(&["instances"]),
        words(&["run", "--leader-elect=false", "--keep-tokens=false"]),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = Command::new(program(&arguments));
        command
            .env("KUBECONFIG", "/nowhere/kubeconfig")
            .env("HOME", "/nowhere");
        let output = ended(command.args(&arguments).env_remove("CSO_ENDPOINT"), "").await;
        assert_eq!(output.status, 1, "{arguments:?}: {}", output.out);
        let times = output.err.matches("os error").count();
        assert_eq!(times, 1, "{arguments:?}: {}", output.err);
    }
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_named() {
    let mut command = Command::new(PLUGIN);
    command.args(["instances", "--kubeconfig", "/nowhere/kubeconfig"]);
    let output = ended(&mut command, "").await;
    assert_names(
        &output,
        "/nowhere/kubeconfig",
        &["--kubeconfig", "KUBECONFIG"],
    );
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, "apiVersion: v1\nkind: Config\n").unwrap();
    let mut command = Command::new(PLUGIN);
    command.args(["plan", "-f", "/nowhere/web.yaml", "--kubeconfig"]);
    let output = ended(command.arg(&kubeconfig), "").await;
    assert_names(&output, "/nowhere/web.yaml", &["-f"]);
    let mut command = Command::new(PLUGIN);
    command.args(["instances", "--context", "prod", "--kubeconfig"]);
    let output = ended(command.arg(&kubeconfig), "").await;
    assert_names(&output, "prod", &["--context"]);
}
