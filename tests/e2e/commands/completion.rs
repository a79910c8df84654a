//! `completion`, for shells and for kubectl.

use super::{EXECUTABLE, run};
use std::os::unix::fs::PermissionsExt;
use tokio::process::Command;

#[tokio::test]
async fn every_shell_gets_a_script_and_kubectl_gets_candidates() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let mut command = Command::new(EXECUTABLE);
        let told = run(command.args(["completion", shell]), "").await;
        assert_eq!(told.status, 0, "{}", told.err);
        assert!(
            told.out.contains("instances") && told.out.contains("unowned"),
            "{}",
            told.out
        );
    }
    let mut command = Command::new(EXECUTABLE);
    let told = run(command.args(["completion", "kubectl"]), "").await;
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("kubectl_complete-cloudserver");
    std::fs::write(&script, &told.out).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (words, wanted) in [
        (&["ca"][..], "catalog\n:4\n"),
        (&["catalog", "fire"][..], "firewalls\n:4\n"),
        (
            &["-n", "team", "instances", "--unow"][..],
            "--unowned\n:4\n",
        ),
        (&["completion", "ba"][..], "bash\n:4\n"),
        (&["plan", "-f", ""][..], ":0\n"),
    ] {
        let mut command = Command::new("sh");
        let told = run(command.arg(&script).args(words), "").await;
        assert!(
            told.out.ends_with(wanted),
            "{words:?}: {}{}",
            told.out,
            told.err
        );
    }
}

#[tokio::test]
async fn wrong_usage_is_no_answer_of_plan() {
    let mut command = Command::new(EXECUTABLE);
    let told = run(command.args(["plan", "--nonsense"]), "").await;
    assert_eq!(told.status, 1);
    let mut command = Command::new(EXECUTABLE);
    let told = run(command.args(["plan", "--help"]), "").await;
    assert_eq!(told.status, 0);
    assert!(told.out.contains("Exit status:"), "{}", told.out);
}
