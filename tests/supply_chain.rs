//! The program is built from pinned inputs: versions by the lock file, the compiler by its release.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Subcommands of cargo that read the lock file, and may rewrite it unless that is forbidden.
const RESOLVING: [&str; 8] = [
    "bench", "build", "check", "clippy", "doc", "install", "run", "test",
];

/// Calls of cargo in a text that leave the lock file writable. Each call is examined up to the end of its line.
fn unlocked(text: &str) -> Vec<&str> {
    let calls = text.lines().flat_map(|line| {
        ["cargo ", "$(CARGO) ", "$cargo\" "]
            .into_iter()
            .flat_map(move |caller| {
                line.match_indices(caller)
                    .map(move |(at, _)| (&line[at..], &line[at + caller.len()..]))
            })
    });
    calls
        .filter(|(_, rest)| {
            let mut words = rest.split(|c: char| !c.is_ascii_lowercase() && c != '-');
            let command = words.next().unwrap_or_default();
            // Only checks whether the subcommand is installed.
            let asks = words.next() == Some("--version");
            RESOLVING.contains(&command) && !asks
        })
        // In prose, the command ends at its closing quote.
        .map(|(call, _)| call.split('`').next().unwrap())
        .filter(|call| !call.contains(" --locked"))
        .collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

#[test]
fn every_cargo_command_uses_the_lock_file_unchanged() {
    let mut all = Vec::new();
    files(root(), &mut all);
    let (mut calls, mut wrong) = (0, Vec::new());
    for file in all {
        let inside = file.strip_prefix(root()).unwrap();
        if inside == Path::new("tests/supply_chain.rs") {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        calls += text.matches("--locked").count();
        for call in unlocked(&text) {
            wrong.push(format!("{}: {call}", inside.display()));
        }
    }
    assert!(calls >= 10, "only {calls} calls are found");
    assert!(wrong.is_empty(), "without --locked:\n{}", wrong.join("\n"));
}

#[test]
fn calls_are_found_in_scripts_make_and_prose() {
    let text = "long cargo build --workspace\n\t$(CARGO) test --lib\n(cd x && \"$cargo\" test -q)\nBuild it (`cargo build --release`), then\n\
                cargo build --locked\n\t$(CARGO) fmt --check\ncargo clippy --version\ncargo-deny check\nthe cargo is lost\n`cargo test` of --locked";
    assert_eq!(
        unlocked(text),
        [
            "cargo build --workspace",
            "$(CARGO) test --lib",
            "$cargo\" test -q)",
            "cargo build --release",
            "cargo test",
        ]
    );
}

/// The text between the quotes of `key = "…"`, at the beginning of a line.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let line = line.ok_or_else(|| format!("no {key}")).unwrap();
    line.split('"').nth(1).unwrap()
}

#[test]
fn the_compiler_is_pinned_to_a_release_of_the_version_that_the_manifests_ask_for() {
    let pinned = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (pinned, oldest) = (value(&pinned, "channel"), value(&manifest, "rust-version"));
    let patch = pinned.strip_prefix(&format!("{oldest}."));
    assert!(
        patch.is_some_and(|patch| patch.parse::<u32>().is_ok()),
        "{pinned} is no release of {oldest}"
    );
}

#[test]
fn workflows_of_the_forge_are_well_formed() {
    let built = Command::new(root().join("tools/build"))
        .arg("actionlint")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "tools/build actionlint: {stderr}");
    let program = String::from_utf8(built.stdout).unwrap();
    let workflows = fs::read_dir(root().join(".github/workflows")).unwrap();
    let files: Vec<_> = workflows.map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 2, "{files:?}");
    let judged = Command::new(program.trim()).args(&files).output().unwrap();
    let stdout = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success(), "{stdout}");
}

/// Creates a release's `install.yaml` with this image.
fn install_yaml(image: &str, version: &str) -> Output {
    let kubectl = devcluster::Executables::find_or_build().unwrap();
    let mut tool = Command::new(root().join("tools/install-yaml"));
    tool.args([image, version]);
    tool.env("KUBECTL", kubectl.path("kubectl"));
    tool.output().unwrap()
}

/// The images of all containers in a text of objects.
fn images(yaml: &[u8]) -> Vec<String> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(str::from_utf8(yaml).unwrap()).unwrap();
    let containers = objects.iter().filter_map(|object| {
        let pod = object.pointer("/spec/template/spec")?;
        pod["containers"].as_array()
    });
    let images = containers.flatten().map(|container| &container["image"]);
    images.map(|of| of.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_manifests_of_a_release_name_the_image_by_digest_or_version() {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let image = "registry.example:5000/team/cloud-server-operator";
    for (name, version, expected) in [
        (image, &*digest, format!("{image}@{digest}")),
        (
            "cloud-server-operator",
            "0.1.0",
            "cloud-server-operator:0.1.0".to_owned(),
        ),
    ] {
        let made = install_yaml(name, version);
        let stderr = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{stderr}");
        assert_eq!(images(&made.stdout), [expected]);
    }
}

/// The output of a command that must succeed.
fn printed(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    output.stdout
}

#[test]
fn each_way_to_install_a_release_names_its_image_and_is_made_the_same_twice() {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let image = "registry.example:5000/team/cloud-server-operator";
    let kubectl = devcluster::Executables::find_or_build().unwrap();
    let kubectl = kubectl.path("kubectl");
    let helm = printed(Command::new(root().join("tools/build")).arg("helm"));
    let helm = String::from_utf8(helm).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let archive = format!("deploy-{version}.tar.gz");
    let package = format!("cloud-server-operator-{version}.tgz");
    for (name, tag, expected) in [
        (image, &*digest, format!("{image}@{digest}")),
        (
            "cloud-server-operator",
            "0.1.0",
            "cloud-server-operator:0.1.0".to_owned(),
        ),
    ] {
        let made = [(); 2].map(|()| {
            let folder = tempfile::tempdir().unwrap();
            let mut tool = Command::new(root().join("tools/release-manifests"));
            tool.arg(folder.path()).args([name, tag]);
            // The time of the commit is given explicitly, since an archive of the source has none.
            printed(
                tool.env("KUBECTL", &kubectl)
                    .env("SOURCE_DATE_EPOCH", "1700000000"),
            );
            folder
        });
        for file in ["install.yaml", &archive, &package] {
            let [one, other] = [0, 1].map(|at| fs::read(made[at].path().join(file)).unwrap());
            assert!(one == other, "{file} differs from one making to the next");
        }
        let folder = made[0].path();
        let single = fs::read(folder.join("install.yaml")).unwrap();
        assert_eq!(images(&single), [&*expected]);

        let mut unpack = Command::new("tar");
        let unpack = unpack.arg("-xzf").arg(folder.join(&archive));
        printed(unpack.arg("-C").arg(folder));
        let deploy = folder.join(format!("cloud-server-operator-{version}/deploy"));
        assert!(!deploy.join("chart").exists());
        let kustomize =
            |folder: &Path| printed(Command::new(&kubectl).arg("kustomize").arg(folder));
        assert!(kustomize(&deploy) == single, "the archive is another one");
        assert_eq!(images(&kustomize(&deploy.join("namespaced"))), [&*expected]);

        let mut template = Command::new(helm.trim());
        template.args(["template", "cloud-server-operator", "--namespace", "ours"]);
        template.args(["--set", "crds.install=false"]);
        let rendered = printed(template.arg(folder.join(&package)));
        assert_eq!(images(&rendered), [&*expected]);
    }
}

#[test]
fn an_incomplete_digest_is_not_installed() {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let and_more = format!("{digest}ghcr.io/operator");
    let short = &digest[..digest.len() - 1];
    for wrong in [&*and_more, short, "sha256:", "0.1.0@latest", ""] {
        let made = install_yaml("ghcr.io/operator", wrong);
        assert!(!made.status.success(), "{wrong:?} is taken");
        assert!(made.stdout.is_empty(), "{wrong:?} is printed");
        let stderr = String::from_utf8_lossy(&made.stderr);
        assert!(stderr.contains("instead of ghcr.io/operator"), "{stderr}");
    }
}
