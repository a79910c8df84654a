//! Failures of control planes, for tests that need to cause them.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::Cluster;
use crate::{Component, Error, ready::Reservation};

/// A thread stops within milliseconds, but a busy machine can need seconds.
const STOPPED_WITHIN: Duration = Duration::from_secs(120);

impl Cluster {
    /// Stops a component in the middle of its work: its connections stay open and get no answers. Returns when each of its
    /// threads has stopped. See [`Self::thaw_component`].
    ///
    /// # Errors
    /// It does not run, or it does not stop.
    pub fn freeze_component(&self, component: Component) -> Result<(), Error> {
        freeze(self.running(component)?).map_err(Error::Supervisor)
    }

    /// Resumes a frozen component.
    ///
    /// # Errors
    /// It does not run.
    pub fn thaw_component(&self, component: Component) -> Result<(), Error> {
        signal(self.running(component)?, "CONT").map_err(Error::Supervisor)
    }

    /// Copies the stored data of etcd, as a snapshot would, to a directory that does not exist yet. [`Self::restore`] reads it.
    /// The API waits during the copy, about a tenth of a second.
    ///
    /// # Errors
    /// Etcd does not run, or the copy fails.
    pub fn snapshot(&self, to: &Path) -> Result<(), Error> {
        // A frozen etcd changes no file. Its files contain all written data, as after a crash.
        self.freeze_component(Component::Etcd)?;
        let copied = copy(&self.store(), to);
        self.thaw_component(Component::Etcd)?;
        copied.map_err(Error::directory(to))
    }

    /// Restores the control plane to a snapshot: every object, and the resource versions that the API assigns. Kills the API
    /// and its store, and returns when both serve again.
    ///
    /// # Errors
    /// They do not end or start, or the copy fails.
    pub async fn restore(&self, from: &Path) -> Result<(), Error> {
        let all = [
            Component::ControllerManager,
            Component::Apiserver,
            Component::Etcd,
        ];
        for component in all {
            self.stop_component(component).await?;
        }
        let store = self.store();
        fs::remove_dir_all(&store).map_err(Error::directory(&store))?;
        copy(from, &store).map_err(Error::directory(&store))?;
        for component in all.into_iter().rev() {
            self.start_component(component).await?;
        }
        Ok(())
    }

    /// Makes etcd discard every version but the newest. A client that wants to continue from an older version gets the error
    /// that it is gone.
    ///
    /// # Errors
    /// Etcd does not do it.
    pub async fn compact(&self) -> Result<(), Error> {
        crate::ready::compact(self.ports.etcd)
            .await
            .map_err(|error| Error::Client(error.into()))
    }

    /// The bytes of etcd's store that are in use: all versions since the last compaction.
    ///
    /// # Errors
    /// Etcd does not report them.
    pub async fn store_bytes(&self) -> Result<u64, Error> {
        crate::ready::store_bytes(self.ports.etcd)
            .await
            .map_err(|error| Error::Client(error.into()))
    }

    /// Makes etcd behave as if its disk were full: reads are answered, writes are refused. This is the alarm NOSPACE, which
    /// etcd raises on its own when its store reaches `--quota-backend-bytes`. See [`Self::make_room`].
    ///
    /// # Errors
    /// Etcd does not do it.
    pub async fn fill(&self) -> Result<(), Error> {
        self.alarm(Reservation::None).await
    }

    /// Ends the effect of [`Self::fill`], as an administrator does after compacting and defragmenting the store.
    ///
    /// # Errors
    /// Etcd does not do it.
    pub async fn make_room(&self) -> Result<(), Error> {
        self.alarm(Reservation::Enough).await
    }

    async fn alarm(&self, room: Reservation) -> Result<(), Error> {
        crate::ready::alarm(self.ports.etcd, room)
            .await
            .map_err(|error| Error::Client(error.into()))
    }

    fn store(&self) -> PathBuf {
        self.directory.join("etcd")
    }

    fn running(&self, component: Component) -> Result<u32, Error> {
        self.process_id(component).ok_or_else(|| {
            let it = component.executable();
            Error::Supervisor(io::Error::other(format!("{it} does not run")))
        })
    }
}

/// Stops a process in the middle of its work, by SIGSTOP, and returns when each of its threads has stopped.
///
/// # Errors
/// The process does not exist, belongs to another user, or does not stop.
pub fn freeze(process: u32) -> io::Result<()> {
    signal(process, "STOP")?;
    // The signal may not have arrived when `kill` returns: a thread that waits for a processor can run on for a while.
    let begun = Instant::now();
    while !is_stopped(process) {
        if begun.elapsed() > STOPPED_WITHIN {
            let continues = format!("process {process} continues after SIGSTOP");
            return Err(io::Error::other(continues));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn signal(process: u32, signal: &str) -> io::Result<()> {
    // Uses the `kill` built into the shell, since not every machine has the program of that name.
    let arguments = ["-c", "kill -s \"$0\" \"$1\"", signal, &process.to_string()];
    let sent = Command::new("sh").args(arguments).status()?;
    match sent.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("kill: {sent}"))),
    }
}

/// Copies the content of a directory. The files of a store have their maximum size and are mostly zeros; zeros are not written.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
            continue;
        }
        let bytes = fs::read(entry.path())?;
        let end = bytes.iter().rposition(|byte| *byte != 0);
        let mut file = fs::File::create(target)?;
        file.write_all(&bytes[..end.map_or(0, |end| end + 1)])?;
        file.set_len(bytes.len() as u64)?;
    }
    Ok(())
}

/// Whether the kernel reports every thread of a process as stopped.
fn is_stopped(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return false;
    };
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("stat"));
        // A process name may contain any character; the state follows the closing bracket.
        status.is_ok_and(|text| {
            text.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    })
}
