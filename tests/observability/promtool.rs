//! Prometheus' checker for rules and metrics, as `make test` builds it.

use super::ROOT;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Its path. If missing, it is built, which takes minutes, once for each user.
fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let mut build = Command::new(Path::new(ROOT).join("tools/build"));
        let output = build.arg("promtool").output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tools/build promtool: {stderr}");
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
}

/// Runs it in the root of the repository, requires success, and returns its output.
pub fn run(arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(path());
    command
        .args(arguments)
        .current_dir(ROOT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", path().display()));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}: {text}");
    text
}
