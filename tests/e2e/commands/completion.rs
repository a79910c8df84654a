//! `completion`, for shells and for kubectl: the candidates that a tab offers.

use super::unreachable::Silence;
use super::{CommandOutput, PLUGIN, run};
use crate::support::{Setup, eventually, instance};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// The candidates of bash's script after these words, the last of which is unfinished.
async fn by_bash(words: &[&str]) -> Vec<String> {
    let script = format!(
        "source <('{PLUGIN}' completion bash) || exit 1\n\
         COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9\n\
         _clap_complete_kubectl_cloudserver \"$1\" \"${{@: -1}}\" ''\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script, "bash", "kubectl-cloudserver"]);
    offered(&run(command.args(words), "").await)
}

/// This program's answer to the script of a shell.
async fn by(shell: &str, words: &[&str]) -> CommandOutput {
    let mut command = Command::new(PLUGIN);
    command
        .env("CSO_COMPLETE", shell)
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.args(["--", "kubectl-cloudserver"]).args(words);
    run(&mut command, "").await
}

fn offered(output: &CommandOutput) -> Vec<String> {
    assert_eq!(
        (output.status, output.err.as_str()),
        (0, ""),
        "{}",
        output.out
    );
    let lines = output.out.lines().filter(|line| !line.is_empty());
    lines.map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn bash_completes_values_and_completes_flags_after_a_hyphen() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("web.yaml");
    std::fs::write(&file, "").unwrap();
    let (file, part) = (
        file.to_str().unwrap(),
        format!("{}/we", directory.path().display()),
    );
    for (words, expected) in [
        (&["cata"][..], &["catalog"][..]),
        (&["catalog", "fire"], &["firewalls"]),
        (&["instances", "--unow"], &["--unowned"]),
        (&["instances", "-o", ""], &["table", "wide", "json", "yaml"]),
        (&["instances", "--output", "w"], &["wide"]),
        (&["import", "--output", ""], &["yaml", "json"]),
        (
            &["catalog", "images", "--type", ""],
            &["System", "Self", "Application"],
        ),
        (
            &["plan", "--field-manager", "k"],
            &["kubectl", "kustomize-controller"],
        ),
        (&["plan", "-f", &part], &[file]),
        (&["catalog", "--token-file", &part], &[file]),
        (&["completion", "ba"], &["bash"]),
        // Values that the program cannot know are not completed.
        (&["import", "--package", ""], &[]),
        (&["pause", "--for", ""], &[]),
    ] {
        assert_eq!(by_bash(words).await, expected, "{words:?}");
    }
    let flags = by_bash(&["catalog", "packages", "--"]).await;
    assert!(flags.contains(&"--charge-mode".to_owned()), "{flags:?}");
}

#[tokio::test]
async fn every_shell_has_a_script_that_asks_this_program() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish", "kubectl"] {
        let mut command = Command::new(PLUGIN);
        let output = run(command.args(["completion", shell]), "").await;
        assert_eq!(output.status, 0, "{}", output.err);
        for word in ["CSO_COMPLETE", PLUGIN] {
            assert!(output.out.contains(word), "{shell}: {}", output.out);
        }
        let output = by(shell, &["catalog", "regions", "--output", "w"]).await;
        let first = output.out.split(['\t', ':', '\n']).next();
        assert_eq!(first, Some("wide"), "{shell}: {}", output.err);
        let output = by(shell, &["catalog", "regions", ""]).await;
        assert!(!output.out.contains("--"), "{shell}: {}", output.out);
    }
    // With an empty variable, the program behaves normally.
    let mut command = Command::new(PLUGIN);
    let output = run(command.arg("--version").env("CSO_COMPLETE", ""), "").await;
    assert!(
        output.out.starts_with("kubectl-cloudserver"),
        "{}",
        output.out
    );
}

#[tokio::test]
async fn kubectl_gets_candidates_and_their_directive() {
    let mut command = Command::new(PLUGIN);
    let output = run(command.args(["completion", "kubectl"]), "").await;
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("kubectl_complete-cloudserver");
    std::fs::write(&script, &output.out).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(directory.path().join("all")).unwrap();
    let here = directory.path().display();
    for (words, expected) in [
        (&["ca"][..], "catalog\n:4\n".to_owned()),
        (&["catalog", "fire"][..], "firewalls\n:4\n".to_owned()),
        (
            &["instances", "-n", "team", "--unow"][..],
            "--unowned\n:4\n".to_owned(),
        ),
        (&["completion", "ba"][..], "bash\n:4\n".to_owned()),
        (
            &["plan", "-f", &format!("{here}/kub")][..],
            format!("{here}/kubectl_complete-cloudserver\n:4\n"),
        ),
        // The completion continues in the directory.
        (
            &["plan", "-f", &format!("{here}/a")][..],
            format!("{here}/all/\n:6\n"),
        ),
    ] {
        let mut command = Command::new("sh");
        let output = run(command.arg(&script).args(words), "").await;
        assert_eq!(output.out, expected, "{words:?}: {}", output.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_the_cluster_are_offered_if_it_answers() {
    let world = Setup::default().imports().begin("completion").await;
    for name in ["web", "wiki", "db"] {
        world.apply(&instance(name)).await;
        world.ready(name).await;
    }
    let unowned_servers = super::unowned_servers(&world, 1).await;
    eventually("the Account counts its servers", async || {
        let account = world.accounts().get("default").await.unwrap();
        let status = account.status.unwrap_or_default();
        match status.unowned.is_empty() || status.inventory.is_empty() {
            true => Err(format!("{status:?}")),
            false => Ok(()),
        }
    })
    .await;
    let kubeconfig = world.shared.cluster.kubeconfig_path().display().to_string();
    let at = |words: &[&str]| {
        let words = words.iter().map(|word| match *word {
            "HERE" => world.namespace.clone(),
            word => word.to_owned(),
        });
        let words: Vec<String> = words.collect();
        let (world, kubeconfig) = (&world, kubeconfig.clone());
        async move {
            let [first, rest @ ..] = words.as_slice() else {
                panic!("no words");
            };
            let mut all = vec![first.as_str(), "--kubeconfig", &kubeconfig];
            all.extend(["-n", &world.namespace]);
            all.extend(rest.iter().map(String::as_str));
            let output = eventually("the cluster is quick", async || {
                let began = Instant::now();
                let output = by_bash(&all).await;
                match output.is_empty() && began.elapsed() > Duration::from_secs(2) {
                    true => Err("nothing came in time".to_owned()),
                    false => Ok(output),
                }
            });
            output.await
        }
    };
    assert_eq!(at(&["stop", ""]).await, ["db", "web", "wiki"]);
    assert_eq!(at(&["wait", "db", "w"]).await, ["web", "wiki"]);
    assert_eq!(at(&["reinstall", "--yes", "d"]).await, ["db"]);
    assert_eq!(at(&["instances", "--account", ""]).await, ["default"]);
    let namespaces = at(&["plan", "--namespace", "kube-s"]).await;
    assert_eq!(namespaces, ["kube-system"]);
    assert_eq!(at(&["import", ""]).await, [unowned_servers[0].id.clone()]);
    let zones = at(&["instances", "--zone", ""]).await;
    assert_eq!(
        zones,
        [cloud_simulator::catalogue::example().zone],
        "each once"
    );
    // Names of another namespace are not offered.
    let elsewhere = ["stop", "-n", "kube-system", "--kubeconfig", &kubeconfig, ""];
    assert!(by_bash(&elsewhere).await.is_empty());
    let contexts = ["instances", "--kubeconfig", &kubeconfig, "--context", ""];
    assert!(!by_bash(&contexts).await.is_empty());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_cluster_completion_ends_soon_and_silently() {
    let silence = Silence::new();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let user = "token: t";
    // Some credential plugins print to the user's terminal.
    let loud = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: IfAvailable, \
                args: [-c, \"echo trouble >&2; exit 1\"]}";
    for (address, user) in [
        (&silence.closed, user),
        (&silence.mute, user),
        (&silence.closed, loud),
    ] {
        std::fs::write(kubeconfig, super::unreachable::kubeconfig(address, user)).unwrap();
        for words in [
            &["stop", "--kubeconfig", kubeconfig, ""][..],
            &["instances", "--kubeconfig", kubeconfig, "--account", ""],
            &["plan", "--kubeconfig", kubeconfig, "--namespace", ""],
        ] {
            let began = Instant::now();
            assert!(by_bash(words).await.is_empty(), "{words:?}");
            let took = began.elapsed();
            assert!(took < Duration::from_secs(10), "{words:?}: {took:?}");
        }
    }
    let nowhere = ["stop", "--kubeconfig", "/nowhere/kubeconfig", ""];
    assert!(by_bash(&nowhere).await.is_empty());
}

#[tokio::test]
async fn wrong_usage_is_no_answer_of_plan() {
    let mut command = Command::new(PLUGIN);
    let output = run(command.args(["plan", "--nonsense"]), "").await;
    assert_eq!(output.status, 1);
    let mut command = Command::new(PLUGIN);
    let output = run(command.args(["plan", "--help"]), "").await;
    assert_eq!(output.status, 0);
    assert!(output.out.contains("Exit status:"), "{}", output.out);
}
