//! The Helm chart, by the real helm: it makes what `deploy/` makes, its values do what they say, and a real control plane takes
//! what it makes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

mod authorities;
mod copies;
mod installed;
mod judged;
mod network;
mod rendered;
mod same;
mod switches;
mod values;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The name of release, chart, and of most of what it makes.
const OPERATOR: &str = "cloud-server-operator";

/// The operator's own namespace in `deploy/`.
const OWN: &str = "cloud-server-system";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn chart() -> PathBuf {
    root().join("deploy/chart")
}

/// A pinned program, built where it is missing, which takes minutes, once for each user.
fn built(name: &str) -> PathBuf {
    let mut build = Command::new(root().join("tools/build"));
    PathBuf::from(succeeded(&build.arg(name).output().unwrap()).trim())
}

/// The pinned helm.
///
/// It reads nothing of the user's: no repositories, no plugins, no namespace from the environment.
fn helm() -> Command {
    static HELM: OnceLock<PathBuf> = OnceLock::new();
    static NOTHING: OnceLock<tempfile::TempDir> = OnceLock::new();
    let helm = HELM.get_or_init(|| built("helm"));
    let nothing = NOTHING.get_or_init(|| tempfile::tempdir().unwrap()).path();
    let mut command = Command::new(helm);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("HELM_") {
            command.env_remove(variable);
        }
    }
    for home in ["CACHE", "CONFIG", "DATA"] {
        command.env(format!("HELM_{home}_HOME"), nothing.join(home));
    }
    command.env_remove("KUBECONFIG");
    command
}

/// The kubectl that the control plane's executables come with; kustomize is part of it.
fn kubectl() -> Command {
    static KUBECTL: OnceLock<PathBuf> = OnceLock::new();
    let kubectl = KUBECTL.get_or_init(|| {
        let executables = devcluster::Executables::find_or_build().unwrap();
        executables.path("kubectl")
    });
    Command::new(kubectl)
}

/// What it said, of a command that has to succeed.
fn succeeded(output: &Output) -> String {
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{why}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Why it failed, of a command that has to.
fn refused(output: &Output) -> String {
    let done = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "not refused: {done}");
    String::from_utf8(output.stderr.clone()).unwrap()
}
