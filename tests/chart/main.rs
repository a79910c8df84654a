//! Tests the Helm chart with the real helm: it creates the same objects as `deploy/`, its values work as documented, and a real
//! control plane accepts its objects.

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

/// The name of the release, the chart, and most of the chart's objects.
const OPERATOR: &str = "cloud-server-operator";

/// The operator's own namespace in `deploy/`.
const OWN: &str = "cloud-server-system";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn chart() -> PathBuf {
    root().join("deploy/chart")
}

/// A pinned program, which is built if missing. A build takes minutes, once for each user.
fn built(name: &str) -> PathBuf {
    let mut build = Command::new(root().join("tools/build"));
    PathBuf::from(succeeded(&build.arg(name).output().unwrap()).trim())
}

/// The pinned helm.
///
/// It uses no configuration of the user: no repositories, no plugins, no namespace from the environment.
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

/// The kubectl that is built together with the control plane; it includes kustomize.
fn kubectl() -> Command {
    static KUBECTL: OnceLock<PathBuf> = OnceLock::new();
    let kubectl = KUBECTL.get_or_init(|| {
        let executables = devcluster::Executables::find_or_build().unwrap();
        executables.path("kubectl")
    });
    Command::new(kubectl)
}

/// The output of a command that must succeed.
fn succeeded(output: &Output) -> String {
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{why}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The error of a command that must fail.
fn refused(output: &Output) -> String {
    let done = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "not refused: {done}");
    String::from_utf8(output.stderr.clone()).unwrap()
}
