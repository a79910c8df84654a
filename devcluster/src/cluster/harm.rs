//! What happens to control planes in bad times, for tests that need it done on purpose.

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

/// A machine that is held up takes seconds; milliseconds are usual.
const STANDS_STILL_WITHIN: Duration = Duration::from_secs(120);

impl Cluster {
    /// Stops a component in the middle of whatever it does: its connections stay open and nobody answers. Returns when
    /// each of its threads stands still. See [`Self::thaw_component`].
    ///
    /// # Errors
    /// When it does not run, or goes on all the same.
    pub fn freeze_component(&self, component: Component) -> Result<(), Error> {
        freeze(self.running(component)?).map_err(Error::Supervisor)
    }

    /// Lets a component go on that was frozen.
    ///
    /// # Errors
    /// When it does not run.
    pub fn thaw_component(&self, component: Component) -> Result<(), Error> {
        signal(self.running(component)?, "CONT").map_err(Error::Supervisor)
    }

    /// Copies what etcd has stored to a directory that does not exist yet, as a snapshot would, for
    /// [`Self::restore`]. The API waits for the tenth of a second that it takes.
    ///
    /// # Errors
    /// When etcd does not run, or the copy fails.
    pub fn snapshot(&self, to: &Path) -> Result<(), Error> {
        // Frozen, it changes no file; what it had written is in the files, as after a crash.
        self.freeze_component(Component::Etcd)?;
        let copied = copy(&self.store(), to);
        self.thaw_component(Component::Etcd)?;
        copied.map_err(Error::directory(to))
    }

    /// Puts the control plane back to a snapshot: every object, and the versions that the API counts, as they were then.
    /// Kills the API and its store, and returns when both serve again.
    ///
    /// # Errors
    /// When they do not end or start, or the copy fails.
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

    /// Makes etcd forget every version but the newest: whoever wants to go on from an older one is told that it is gone.
    ///
    /// # Errors
    /// When etcd does not do it.
    pub async fn compact(&self) -> Result<(), Error> {
        crate::ready::compact(self.ports.etcd)
            .await
            .map_err(|error| Error::Client(error.into()))
    }

    /// The bytes of etcd's store that are in use: all versions since the last compaction.
    ///
    /// # Errors
    /// When etcd does not say.
    pub async fn store_bytes(&self) -> Result<u64, Error> {
        crate::ready::store_bytes(self.ports.etcd)
            .await
            .map_err(|error| Error::Client(error.into()))
    }

    /// Makes etcd say that its disk is full: reads are answered, writes are refused (the alarm NOSPACE, which it raises by
    /// itself when its store is as large as `--quota-backend-bytes` allows). See [`Self::make_room`].
    ///
    /// # Errors
    /// When etcd does not do it.
    pub async fn fill(&self) -> Result<(), Error> {
        self.alarm(Reservation::None).await
    }

    /// Ends what [`Self::fill`] began, as an administrator does who has compacted and defragmented the store.
    ///
    /// # Errors
    /// When etcd does not do it.
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

/// Stops a process in the middle of whatever it does, by SIGSTOP, and returns when each of its threads stands still.
///
/// # Errors
/// There is none, it is somebody else's, or it goes on all the same.
pub fn freeze(process: u32) -> io::Result<()> {
    signal(process, "STOP")?;
    // The signal is on its way when `kill` returns: a thread on a processor that is held up goes on for a while.
    let begun = Instant::now();
    while !stands_still(process) {
        if begun.elapsed() > STANDS_STILL_WITHIN {
            let goes_on = format!("process {process} goes on after SIGSTOP");
            return Err(io::Error::other(goes_on));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn signal(process: u32, signal: &str) -> io::Result<()> {
    // The shell's own kill: the program of that name is not on every machine.
    let arguments = ["-c", "kill -s \"$0\" \"$1\"", signal, &process.to_string()];
    let sent = Command::new("sh").args(arguments).status()?;
    match sent.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("kill: {sent}"))),
    }
}

/// Copies what is in a directory. The files of a store are as large as they may become, and full of zeros: those are not
/// written.
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

/// Whether the kernel says of every thread of a process that it is stopped.
fn stands_still(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return false;
    };
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("stat"));
        // A name may hold anything; the state follows its closing bracket.
        status.is_ok_and(|text| {
            text.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    })
}
