//! The documentation site builds without a warning, each link and anchor has a target, the summary lists each page, and the
//! commands of quick start and tasks work as their pages describe.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

#[path = "site/commands.rs"]
mod commands;
#[path = "site/kinds.rs"]
mod kinds;

use commands::{Block, blocks, script};
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The pages whose commands are run, in this order: each page continues from the previous ones.
const PAGES: [&str; 8] = [
    "quickstart.md",
    "howto/buy.md",
    "howto/change.md",
    "howto/rotate.md",
    "howto/watch.md",
    "howto/repair.md",
    "howto/remove.md",
    "first-server.md",
];

/// The test replaces these texts of the pages: three addresses, and the user's own service.
const SIMULATOR: &str = "127.0.0.1:8090";
const CONTROL: &str = "127.0.0.1:8091";
const HEALTH: &str = "127.0.0.1:8080";
const SERVICE: &str = "https://cloud.example/api";

/// How long a create with a lost answer stays open: the value of the examples, and the shorter one of this test.
const SETTLING: [&str; 2] = ["settleSeconds: 180", "settleSeconds: 15"];

/// Long enough for a machine that runs three other builds.
const MOST_SECONDS: &str = "1200";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn docs() -> PathBuf {
    root().join("docs")
}

/// The output of a command that must succeed.
fn succeeded(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

fn tool(name: &str) -> Command {
    let built = Command::new(root().join("tools/crate")).arg(name).output();
    Command::new(succeeded(&built.unwrap()).trim())
}

#[test]
fn the_site_is_built_without_a_warning_and_each_link_and_anchor_resolves() {
    let site = tempfile::tempdir().unwrap();
    let mut build = Command::new(root().join("tools/site"));
    succeeded(&build.arg(site.path()).output().unwrap());
    for page in ["index.html", "docs/quickstart.html", "docs/api.html"] {
        assert!(site.path().join(page).exists(), "no {page}");
    }
    let mut follow = tool("hyperlink");
    let follow = follow.arg(site.path()).arg("--check-anchors");
    let output = succeeded(&follow.output().unwrap());
    // The link checker succeeds for an empty folder, too.
    let links = output.split("Checking ").nth(1).unwrap();
    let links: usize = links.split(' ').next().unwrap().parse().unwrap();
    assert!(links > 3_000, "{output}");
}

/// Pages below a folder, as paths from `docs/`.
fn pages(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            let inside = path.strip_prefix(docs()).unwrap();
            found.insert(inside.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn each_page_is_in_the_summary_once() {
    let summary = fs::read_to_string(docs().join("SUMMARY.md")).unwrap();
    let listed = summary.split("](").skip(1);
    let listed: Vec<&str> = listed.map(|rest| rest.split(')').next().unwrap()).collect();
    let once: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    let mut there = BTreeSet::new();
    pages(&docs(), &mut there);
    there.remove("SUMMARY.md");
    assert!(there.len() > 100, "{there:?}");
    let missing: Vec<&String> = there
        .iter()
        .filter(|page| !once.contains(page.as_str()))
        .collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
}

#[test]
fn each_page_of_the_tasks_is_run() {
    let mut there = BTreeSet::new();
    pages(&docs().join("howto"), &mut there);
    there.remove("howto/README.md");
    let run = PAGES.iter().filter(|page| page.starts_with("howto/"));
    let run: BTreeSet<String> = run.map(|page| (*page).to_owned()).collect();
    assert_eq!(there, run);
}

/// Text files below a folder.
fn texts(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.push((path, text));
        }
    }
}

#[test]
fn commands_of_pages_chart_examples_and_messages_reach_our_kinds_next_to_kinds_of_the_same_name() {
    let mut found = Vec::new();
    for folder in [
        "deploy",
        "docs",
        "examples",
        "kubectl-cloudserver/src",
        "src",
    ] {
        texts(&root().join(folder), &mut found);
    }
    for page in [
        "README.md",
        "CHANGELOG.md",
        "simulator/README.md",
        "devcluster/README.md",
    ] {
        let path = root().join(page);
        let text = fs::read_to_string(&path).unwrap();
        found.push((path, text));
    }
    let mut seen = 0;
    let mut wrong = Vec::new();
    for (path, text) in &found {
        for command in kinds::commands(text) {
            seen += 1;
            if !kinds::ambiguous(&command).is_empty() {
                wrong.push(format!("{}: {command}", path.display()));
            }
        }
    }
    assert!(seen > 200, "{seen} commands");
    assert!(
        wrong.is_empty(),
        "write instances.cloudserver.dev or accounts.cloudserver.dev:\n{}",
        wrong.join("\n")
    );
}

/// Free ports below 32768, where the system's automatic assignment begins, so that no other process gets them meanwhile.
fn ports() -> [u16; 3] {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let free = (first..32_000).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let free: Vec<u16> = free.take(3).collect();
    free.try_into().unwrap()
}

/// A copy of the parts of the repository that the pages use, so that the test does not write to the repository.
fn repository(here: &impl Fn(&str) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["crds", "deploy", "examples"] {
        let mut copy = Command::new("cp");
        copy.arg("-R").arg(root().join(name)).arg(folder.path());
        succeeded(&copy.output().unwrap());
    }
    for file in fs::read_dir(folder.path().join("examples")).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, here(&text)).unwrap();
        }
    }
    fs::write(folder.path().join("token.txt"), "example-token").unwrap();
    folder
}

/// A PATH with all programs. `make build-tests` builds all of them.
fn path() -> String {
    let operator = Path::new(env!("CARGO_BIN_EXE_cloud-server-operator"));
    let folder = operator.parent().unwrap();
    for program in ["cloud-simulator", "devcluster", "kubectl-cloudserver"] {
        assert!(
            folder.join(program).exists(),
            "no {program}: make build-tests"
        );
    }
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// One shell runs all commands, like a new user: variables and processes of a page are available to the next. The end of the
/// quick start, which removes everything, comes last.
#[test]
fn each_command_of_quick_start_and_tasks_does_what_its_page_describes() {
    let [simulator, control, health] = ports().map(|port| format!("127.0.0.1:{port}"));
    let here = |text: &str| {
        let text = text.replace(SERVICE, &format!("http://{simulator}"));
        let text = text.replace(SIMULATOR, &simulator);
        let text = text.replace(CONTROL, &control).replace(HEALTH, &health);
        text.replace(SETTLING[0], SETTLING[1])
    };
    let of_page = |page: &str| blocks(&fs::read_to_string(docs().join(page)).unwrap());
    let mut pages: Vec<(&str, Vec<Block>)> =
        PAGES.iter().map(|page| (*page, of_page(page))).collect();
    let last = pages[0].1.pop().unwrap();
    pages.push((PAGES[0], vec![last]));
    let mut text = String::from("set -euo pipefail\nexec 2>&1\n");
    for (page, blocks) in &pages {
        text.push_str(&script(page, blocks));
    }
    text.push_str("wait\n");
    let folder = repository(&here);
    fs::write(folder.path().join("script"), here(&text)).unwrap();
    let log = folder.path().join("log");
    let mut shell = Command::new("timeout");
    shell
        .args(["--kill-after=10", MOST_SECONDS, "bash", "script"])
        .current_dir(folder.path())
        .env("PATH", path())
        .env("KUBECACHEDIR", folder.path().join("kube"))
        .env_remove("KUBECONFIG")
        .env_remove("POD_NAMESPACE")
        .stdin(std::process::Stdio::null())
        .stdout(fs::File::create(&log).unwrap())
        // A process group for the shell and all its children.
        .process_group(0);
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CSO_") || name.starts_with("SIMULATOR_") {
            shell.env_remove(&variable);
        }
    }
    shell.env("SIMULATOR_TASK_SECONDS", "1");
    let mut shell = shell.spawn().unwrap();
    let group = rustix::process::Pid::from_child(&shell);
    let status = shell.wait().unwrap();
    // Kills the processes that remain if a command failed; otherwise none remain.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let output = fs::read_to_string(&log).unwrap();
    let operator = fs::read_to_string(folder.path().join("target/quickstart/operator.log"));
    assert!(
        status.success(),
        "{status}\n{output}\nthe log of the operator:\n{}",
        operator.unwrap_or_default()
    );
}
