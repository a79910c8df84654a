//! Finding and building the executables, with a fake Go that finishes at once instead of after minutes.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

/// Answers `go env GOVERSION`, and "builds" everything except the executable that `$BREAK` names.
const STAND_IN: &str = r#"#!/bin/sh
[ "$1" = env ] && { echo "$PRETEND"; exit; }
while [ $# -gt 1 ]; do [ "$1" = -o ] && result=$2; shift; done
echo "$1" >>"$CALLS"
echo runtime >&2
case $1 in *"$BREAK") echo "dial tcp: network is unreachable" >&2; exit 1 ;; esac
: >"$result"
"#;

fn build(home: &Path, pretend: &str, broken: &str) -> Output {
    build_with(&[], home, pretend, broken)
}

fn build_with(flags: &[&str], home: &Path, pretend: &str, broken: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_devcluster"))
        .arg("build")
        .args(flags)
        .env_remove("KUBEBUILDER_ASSETS")
        .env("XDG_CACHE_HOME", home.join("cache"))
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin", home.join("bin").display()),
        )
        .env("PRETEND", pretend)
        .env("BREAK", broken)
        .env("CALLS", home.join("calls"))
        .output()
        .unwrap()
}

fn home_with_stand_in() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let go = home.path().join("bin/go");
    fs::create_dir(home.path().join("bin")).unwrap();
    fs::write(&go, STAND_IN).unwrap();
    fs::set_permissions(&go, fs::Permissions::from_mode(0o755)).unwrap();
    home
}

#[test]
fn an_interrupted_build_continues() {
    let home = home_with_stand_in();

    let stopped = build(home.path(), "go1.26.0", "kube-controller-manager");
    let stderr = String::from_utf8(stopped.stderr).unwrap();
    assert!(!stopped.status.success());
    assert!(
        stderr.ends_with(
            "devcluster: cannot build kube-controller-manager: dial tcp: network is unreachable\n"
        ),
        "{stderr}"
    );
    let done = build(home.path(), "go1.26.0", "nothing");

    assert!(done.status.success());
    let directory = String::from_utf8(done.stdout).unwrap();
    let mut names: Vec<String> = fs::read_dir(directory.trim())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            ".lock",
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "kubectl"
        ]
    );
    assert_eq!(
        built(home.path()),
        [
            "v3",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-controller-manager",
            "kubectl"
        ]
    );
}

/// The executables that were built, in the order of their builds.
fn built(home: &Path) -> Vec<String> {
    let calls = fs::read_to_string(home.join("calls")).unwrap();
    let names = calls
        .lines()
        .filter_map(|package| package.rsplit('/').next());
    names.map(ToOwned::to_owned).collect()
}

#[test]
fn the_controllers_are_built_only_on_demand() {
    let home = home_with_stand_in();
    let leaner = build_with(
        &["--without-controllers"],
        home.path(),
        "go1.26.0",
        "nothing",
    );
    assert!(leaner.status.success());
    assert_eq!(built(home.path()), ["v3", "kube-apiserver", "kubectl"]);

    let whole = build(home.path(), "go1.26.0", "nothing");
    assert!(whole.status.success());
    let names = ["v3", "kube-apiserver", "kubectl", "kube-controller-manager"];
    assert_eq!(built(home.path()), names);
}

#[test]
fn an_old_go_is_refused_in_one_line_that_names_the_version_to_install() {
    let home = home_with_stand_in();

    let refused = build(home.path(), "go1.25.4", "nothing");

    assert!(!refused.status.success());
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "devcluster: the control plane cannot be built with go1.25.4: install Go 1.26 or newer and put it first in PATH\n"
    );
}

#[test]
fn a_missing_go_is_reported_in_one_line_that_names_the_version_to_install() {
    let home = tempfile::tempdir().unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_devcluster"))
        .arg("build")
        .env_remove("KUBEBUILDER_ASSETS")
        .env("XDG_CACHE_HOME", home.path())
        .env("PATH", home.path())
        .output()
        .unwrap();

    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1);
    assert!(
        stderr.contains("`go` cannot be run: install Go 1.26 or newer and put it in PATH"),
        "{stderr}"
    );
}
