//! Programs of the field that a test starts, and what their modules bring along.

use super::World;
use crate::judges;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tokio::net::TcpSocket;

/// A running program. Dropping it kills it by its own process id, and so does the end of the thread that started it.
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it; what it says goes to a file in this folder.
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
            // Nothing of this machine's settings, and nothing left behind on it.
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
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            let end = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("--- {} ---\n{end}\n---", self.log.display());
        }
    }
}

/// A folder for what programs write. It goes with the test, and with the cluster where the test is killed.
pub fn folder(world: &World, name: &str) -> TempDir {
    let cluster = world.shared.cluster.directory();
    let mut folder = tempfile::Builder::new();
    folder.prefix(name).tempdir_in(cluster).unwrap()
}

/// Where its own commands are found first.
fn path(folder: &Path) -> String {
    format!("{}:/usr/bin:/bin", folder.join("bin").display())
}

/// A command for a program that looks it up on its path.
pub fn on_path(folder: &Path, name: &str, program: impl AsRef<Path>) {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
}

/// A port of this process's until dropped, where a program may listen all the same: see the ports of `devcluster`.
pub fn port() -> (u16, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    (socket.local_addr().unwrap().port(), socket)
}

/// The files of a module that a folder of `tools/` names: definitions of kinds stand there.
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", folder.display());
    String::from_utf8(output.stdout).unwrap()
}
