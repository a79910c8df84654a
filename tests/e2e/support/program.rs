//! External programs that a test starts, and files of their Go modules.

use super::World;
use crate::judges;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tokio::net::TcpSocket;

/// A running program. Its process is killed when this is dropped, or when the thread that started it ends.
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it; its output goes to a file in this folder.
    pub fn start(
        folder: &Path,
        name: &str,
        program: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).unwrap();
        let mut command = Command::new("/usr/bin/setpriv");
        command
            .arg("--pdeathsig=KILL")
            .arg(program)
            // No settings of this machine, and no files left behind on it.
            .env_clear()
            .env("HOME", folder)
            .env("TMPDIR", folder)
            .env("PATH", path(folder))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        prepare(&mut command);
        let child = command.spawn().unwrap();
        Self { child, log }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("--- {} ---\n{end}\n---", self.log.display());
        }
    }
}

/// A folder for the files of programs. It is deleted with the test, or with the cluster if the test is killed.
pub fn folder(world: &World, name: &str) -> TempDir {
    let cluster = world.shared.cluster.directory();
    let mut folder = tempfile::Builder::new();
    folder.prefix(name).tempdir_in(cluster).unwrap()
}

/// A `PATH` that begins with the folder's own commands.
fn path(folder: &Path) -> String {
    format!("{}:/usr/bin:/bin", folder.join("bin").display())
}

/// Adds a command for a program that looks it up in `PATH`.
pub fn on_path(folder: &Path, name: &str, program: impl AsRef<Path>) {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
}

/// Reserves a port for this process until dropped; a program can nevertheless listen there: see the ports of `devcluster`.
pub fn port() -> (u16, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    (socket.local_addr().unwrap().port(), socket)
}

/// The files of a module that a folder of `tools/` names: they contain custom resource definitions.
pub fn module(tool: &str, module: &str) -> PathBuf {
    let folder = judges::root().join("tools").join(tool);
    go(&folder, ["mod", "download", module]);
    let found = go(
        &folder,
        ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module],
    );
    PathBuf::from(found.trim())
}

fn go(folder: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let mut go = Command::new("go");
    let go = go.args(arguments).current_dir(folder);
    let output = go
        .env("GOFLAGS", "")
        .env("GOWORK", "off")
        .env("GOTOOLCHAIN", "local")
        .output();
    let output = output.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", folder.display());
    String::from_utf8(output.stdout).unwrap()
}
