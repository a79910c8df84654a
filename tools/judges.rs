//! Lets tests query the programs of this folder: how do kstatus and Argo CD judge these objects?

use serde::Deserialize;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// A judge's verdict on an object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Verdict {
    /// `Current`, `InProgress`, `Failed`, `Terminating`; `Healthy`, `Progressing`, `Degraded`, `Suspended`.
    pub status: String,
    /// The reason, for people.
    pub message: String,
}

/// kstatus, as Flux uses it.
pub fn kstatus(objects: &[Value]) -> Vec<Verdict> {
    ask("kstatus", &[], objects)
}

/// Argo CD with the health checks of a folder or of a ConfigMap.
pub fn argocd(checks: &Path, objects: &[Value]) -> Vec<Verdict> {
    ask("argocd-health", &[checks], objects)
}

/// The root of the repository, for any package.
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut above = package.ancestors();
    let found = above.find(|folder| folder.join("tools/judges.rs").is_file());
    found.expect("no folder of tools").to_owned()
}

/// The health checks in the form contributed to Argo CD.
pub fn contributed() -> PathBuf {
    root().join("deploy/argocd/resource_customizations")
}

/// The path of the program, which is built if `make test` has not built it.
pub fn program(name: &str) -> String {
    let built = Command::new(root().join("tools/build")).arg(name).output();
    let built = built.expect("tools/build does not start");
    let told = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "tools/build {name}: {told}");
    String::from_utf8_lossy(&built.stdout).trim().to_owned()
}

/// Returns one verdict for each object.
fn ask(name: &str, arguments: &[&Path], objects: &[Value]) -> Vec<Verdict> {
    let mut judge = Command::new(program(name))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the judge does not start");
    let mut input = judge.stdin.take().expect("an input");
    let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
    // The judge answers while it reads, so writing and reading must be concurrent.
    let writer = thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = judge.wait_with_output().expect("the judge does not end");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {told}");
    let written = writer.join().expect("a writer");
    written.expect("the judge does not read to the end");
    let answers = String::from_utf8_lossy(&output.stdout);
    let verdicts: Vec<Verdict> = answers
        .lines()
        .map(|line| serde_json::from_str(line).expect("a verdict"))
        .collect();
    assert_eq!(verdicts.len(), objects.len(), "{name} left objects out");
    verdicts
}
