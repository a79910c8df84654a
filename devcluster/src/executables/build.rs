//! Builds the executables from the Go modules pinned in `devcluster/go`.

use std::{
    fs::{self, File},
    io,
    path::Path,
    process::Stdio,
    thread,
    time::Duration,
};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::{Error, KUBERNETES_VERSION, go};
use crate::progress::Step;

pub(super) const GO_MOD: &str = include_str!("../../go/go.mod");
const GO_SUM: &str = include_str!("../../go/go.sum");

/// Go's cache of compiled packages during the build: the executables share most of their packages. It grows to 3 GB, so it is
/// separate from the user's cache and is removed when all executables are built.
const BUILD_CACHE: &str = ".go-build";

/// Each build works in a directory with this prefix, so that the remains of a killed build are recognized.
const WORK_PREFIX: &str = ".work-";

/// How often a running build is checked. Often enough for a spinner.
const TICK: Duration = Duration::from_millis(100);

/// Eight digits that identify everything that affects the build.
pub(super) fn digest() -> String {
    let parts = [
        GO_MOD,
        GO_SUM,
        &link_flags(),
        std::env::consts::OS,
        std::env::consts::ARCH,
    ];
    let mut digits = HEXLOWER.encode(&Sha256::digest(parts.join("\0")));
    digits.truncate(8);
    digits
}

/// Builds one executable and renames it into place.
pub(super) fn build(name: &'static str, label: &str, directory: &Path) -> Result<(), Error> {
    let work = tempfile::Builder::new()
        .prefix(WORK_PREFIX)
        .tempdir_in(directory)
        .map_err(Error::file("create a directory in", directory))?;
    go::check(work.path())?;
    write(&work.path().join("go.mod"), GO_MOD)?;
    write(&work.path().join("go.sum"), GO_SUM)?;

    let result = compile(name, label, directory, work.path())?;
    let target = directory.join(name);
    fs::rename(&result, &target).map_err(Error::file("create", &target))
}

/// Removes the files that only a build needs, and the remains of killed builds.
pub(super) fn clean_up(directory: &Path) {
    // A file that cannot be removed costs only disk space.
    let _ = fs::remove_dir_all(directory.join(BUILD_CACHE));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(WORK_PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Runs the compiler in `work` and returns the path of the result.
fn compile(
    name: &'static str,
    label: &str,
    directory: &Path,
    work: &Path,
) -> Result<std::path::PathBuf, Error> {
    let result = work.join(name);
    let output = work.join("output");
    let log = File::create(&output).map_err(Error::file("create", &output))?;
    let mut step = Step::begin(label, "building");

    let mut compiler = go::command(work)
        .env("GOCACHE", directory.join(BUILD_CACHE))
        // -v prints each package as it is compiled, the only progress that Go reports.
        .args(["build", "-v", "-trimpath", "-buildvcs=false", "-ldflags"])
        .arg(link_flags())
        .arg("-o")
        .arg(&result)
        .arg(package(name))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(Error::NoGo)?;
    let status = loop {
        if let Some(status) = compiler.try_wait().map_err(Error::NoGo)? {
            break status;
        }
        step.tick(|| doing(&fs::read_to_string(&output).unwrap_or_default()));
        thread::sleep(TICK);
    };
    if !status.success() {
        let output_text = fs::read_to_string(&output).unwrap_or_default();
        step.fail();
        return Err(Error::Build {
            executable: name,
            reason: reason(&output_text, &status.to_string()),
        });
    }
    step.finish("ready");
    Ok(result)
}

fn package(name: &str) -> String {
    match name {
        "etcd" => "go.etcd.io/etcd/server/v3".to_owned(),
        command => format!("k8s.io/kubernetes/cmd/{command}"),
    }
}

/// Without these flags, servers and clients report the unexpanded template of a source archive as their version.
fn link_flags() -> String {
    let mut parts = KUBERNETES_VERSION.split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let mut flags = "-s -w".to_owned();
    for package in [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ] {
        flags.push_str(&format!(
            " -X {package}.gitVersion=v{KUBERNETES_VERSION} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} \
             -X {package}.gitCommit="
        ));
    }
    flags
}

/// The current activity of Go, derived from its output.
fn doing(output_text: &str) -> String {
    let (downloads, packages): (Vec<&str>, Vec<&str>) = output_text
        .lines()
        .partition(|line| line.starts_with("go: downloading"));
    if packages.is_empty() && !downloads.is_empty() {
        return format!("downloading modules ({})", downloads.len());
    }
    format!("building ({} packages)", packages.len())
}

/// The last lines that are neither package names nor downloads.
fn reason(output_text: &str, status: &str) -> String {
    let lines: Vec<&str> = output_text
        .lines()
        .filter(|line| {
            line.contains(' ') && !line.starts_with("go: downloading") && !line.starts_with("# ")
        })
        .collect();
    match lines.as_slice() {
        [] => format!("go ended with {status}"),
        lines => lines[lines.len().saturating_sub(3)..].join("; "),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source: io::Error| Error::file("write", path)(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_the_step_of_go() {
        assert_eq!(doing(""), "building (0 packages)");
        assert_eq!(
            doing("go: downloading a v1\ngo: downloading b v1\n"),
            "downloading modules (2)"
        );
        assert_eq!(
            doing("go: downloading a v1\ninternal/cpu\nruntime\n"),
            "building (2 packages)"
        );
    }

    #[test]
    fn a_failure_is_reported_with_the_error_of_go_without_the_noise() {
        let output_text = "go: downloading a v1\nruntime\n# a/b\n../a/b.go:1:2: undefined: x\n";
        assert_eq!(
            reason(output_text, "exit status: 1"),
            "../a/b.go:1:2: undefined: x"
        );
        assert_eq!(
            reason("runtime\n", "exit status: 1"),
            "go ended with exit status: 1"
        );
    }
}
