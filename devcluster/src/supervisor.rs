//! The process that ends a cluster when its owner ends, in any way.
//!
//! The kernel can notify a child when its parent dies, but this notification is bound to the thread that started the child, and
//! the threads of a test runner end with each test. A pipe is bound to the process: when the last holder of its write end is
//! gone, the reader gets the end of file, also after a SIGKILL. A small shell script therefore reads such a pipe, starts the
//! processes as its own children, and at the end of file kills them and removes their directory.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::Component;

const SCRIPT: &str = include_str!("supervisor.sh");

/// How long the script may take to kill three processes and remove a directory. It needs a tenth of a second, plus any stall of
/// the machine. A hanging disk must not block the owner's exit.
const END_DEADLINE: Duration = Duration::from_secs(60);

/// How long the removal of the directory is retried: a process that was just killed may still write to it.
const REMOVE_DEADLINE: Duration = Duration::from_secs(10);

/// How often to check whether the script has ended.
const END_POLL: Duration = Duration::from_millis(5);

/// The treatment of the cluster's directory at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Remove,
    Keep,
}

#[derive(Debug)]
pub(crate) struct Supervisor {
    directory: PathBuf,
    ending: Ending,
    script: Child,
    /// The write end of the pipe. `None` once the end has begun.
    commands: Mutex<Option<ChildStdin>>,
}

impl Supervisor {
    /// Starts the script in an existing directory. The error `WouldBlock` means that another cluster's script is running there.
    pub(crate) fn start(directory: &Path, ending: Ending) -> io::Result<Self> {
        fs::create_dir_all(directory.join("log"))?;
        // The script does not inherit the owner's output, since a reader of that output waits until the last holder closes it.
        let log = File::options()
            .create(true)
            .append(true)
            .open(directory.join("log").join("supervisor.log"))?;
        // The script's output is this open file, so that the lock lasts until the script has ended, regardless of its owner.
        log.try_lock()?;
        match fs::remove_dir_all(directory.join("run")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(directory.join("run"))?,
        }
        let mut script = Command::new("sh")
            .args(["-c", SCRIPT, "devcluster-supervisor"])
            .arg(directory)
            .arg(match ending {
                Ending::Remove => "remove",
                Ending::Keep => "keep",
            })
            // Go collects garbage when the heap has grown fivefold, not twofold: CPU time is scarcer here than memory.
            .env("GOGC", "400")
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let commands = Mutex::new(script.stdin.take());
        Ok(Self {
            directory: directory.to_owned(),
            ending,
            script,
            commands,
        })
    }

    /// Starts a process. Refuses arguments with line breaks.
    pub(crate) fn launch(
        &self,
        component: Component,
        executable: &Path,
        arguments: &[String],
    ) -> io::Result<()> {
        let mut lines = String::new();
        for argument in [&executable.display().to_string()]
            .into_iter()
            .chain(arguments)
        {
            if argument.contains('\n') {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("a line break in {argument:?}"),
                ));
            }
            lines.push_str(argument);
            lines.push('\n');
        }
        fs::write(self.run_file(component, "args"), lines)?;
        // The script removes these files as well, but a moment later; the caller checks them at once.
        remove_if_there(&self.run_file(component, "exit"))?;
        remove_if_there(&self.run_file(component, "pid"))?;
        self.command("start", component)
    }

    /// Requests that a process be killed. [`Self::exit_code`] shows when it has ended.
    pub(crate) fn kill(&self, component: Component) -> io::Result<()> {
        self.command("stop", component)
    }

    /// The exit code, as a shell reports it, if the process has ended since it was launched.
    pub(crate) fn exit_code(&self, component: Component) -> Option<String> {
        let text = fs::read_to_string(self.run_file(component, "exit")).ok()?;
        Some(text.trim().to_owned())
    }

    /// Whether the process was ever launched.
    pub(crate) fn was_launched(&self, component: Component) -> bool {
        self.run_file(component, "args").exists()
    }

    /// The id of a running process.
    pub(crate) fn process_id(&self, component: Component) -> Option<u32> {
        if self.exit_code(component).is_some() {
            return None;
        }
        fs::read_to_string(self.run_file(component, "pid"))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// The last lines that a process wrote.
    pub(crate) fn log_tail(&self, component: Component) -> String {
        const LINES: usize = 5;
        let path = self
            .directory
            .join("log")
            .join(format!("{}.log", component.name()));
        let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    fn run_file(&self, component: Component, suffix: &str) -> PathBuf {
        self.directory
            .join("run")
            .join(format!("{}.{suffix}", component.name()))
    }

    fn command(&self, verb: &str, component: Component) -> io::Result<()> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        match commands.as_mut() {
            Some(pipe) => pipe.write_all(format!("{verb} {}\n", component.name()).as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Whether the script ends in time once the pipe is closed.
    fn ended_in_time(&mut self) -> bool {
        let deadline = Instant::now() + END_DEADLINE;
        loop {
            match self.script.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if Instant::now() < deadline => thread::sleep(END_POLL),
                _ => return false,
            }
        }
    }
}

impl Drop for Supervisor {
    /// Ends every process and, if configured, removes the directory. Takes a tenth of a second.
    fn drop(&mut self) {
        drop(
            self.commands
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        if self.ended_in_time() {
            return;
        }
        // The script was killed, or the disk hangs. Its process group still contains everything that it started. Uses the
        // `kill` built into the shell, since not every machine has the program of that name.
        let _ = Command::new("sh")
            .args([
                "-c",
                "kill -s KILL -- \"-$0\"",
                &self.script.id().to_string(),
            ])
            .status();
        let _ = self.script.wait();
        if self.ending == Ending::Remove {
            let deadline = Instant::now() + REMOVE_DEADLINE;
            while fs::remove_dir_all(&self.directory).is_err()
                && self.directory.exists()
                && Instant::now() < deadline
            {
                thread::sleep(END_POLL);
            }
        }
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(process: u32) -> bool {
        let check = ["-c", "kill -0 \"$0\"", &process.to_string()];
        Command::new("sh")
            .args(check)
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    }

    fn wait_for<T>(mut check: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + END_DEADLINE;
        loop {
            if let Some(found) = check() {
                return found;
            }
            assert!(Instant::now() < deadline, "never came true");
            thread::sleep(END_POLL);
        }
    }

    /// A supervisor with a process that sleeps for a long time.
    fn with_sleeper() -> (PathBuf, Supervisor, u32) {
        let directory = tempfile::Builder::new()
            .prefix("it's a \"$HOME\" ")
            .tempdir()
            .unwrap()
            .keep();
        let supervisor = Supervisor::start(&directory, Ending::Remove).unwrap();
        supervisor
            .launch(Component::Etcd, Path::new("sleep"), &["600".to_owned()])
            .unwrap();
        let process = wait_for(|| supervisor.process_id(Component::Etcd));
        (directory, supervisor, process)
    }

    #[test]
    fn the_end_of_the_owner_ends_the_processes_and_the_directory() {
        let (directory, supervisor, process) = with_sleeper();
        drop(supervisor);
        assert!(!alive(process) && !directory.exists());
    }

    #[test]
    fn an_end_right_after_a_start_leaves_nothing_behind() {
        for _ in 0..20 {
            let directory = tempfile::tempdir().unwrap().keep();
            let mut supervisor = Supervisor::start(&directory, Ending::Remove).unwrap();
            supervisor
                .launch(Component::Etcd, Path::new("sleep"), &["600".to_owned()])
                .unwrap();
            drop(supervisor.commands.get_mut().unwrap().take());
            assert!(
                supervisor.ended_in_time(),
                "the script waits for a process that was not killed"
            );
            assert!(!directory.exists());
        }
    }

    #[test]
    fn a_killed_script_is_cleaned_up_after() {
        let (directory, mut supervisor, process) = with_sleeper();
        supervisor.script.kill().unwrap();
        drop(supervisor);
        assert!(!directory.exists());
        wait_for(|| (!alive(process)).then_some(()));
    }

    #[test]
    fn the_end_of_a_process_is_reported_with_its_code_and_last_lines() {
        let (_, supervisor, _) = with_sleeper();
        let words = [
            "-c".to_owned(),
            "echo first; echo last >&2; exit 7".to_owned(),
        ];
        supervisor
            .launch(Component::Apiserver, Path::new("sh"), &words)
            .unwrap();
        assert_eq!(wait_for(|| supervisor.exit_code(Component::Apiserver)), "7");
        assert_eq!(supervisor.log_tail(Component::Apiserver), "first\nlast");
        assert_eq!(supervisor.process_id(Component::Apiserver), None);
    }

    #[test]
    fn a_killed_process_can_be_started_again() {
        let (_, supervisor, first) = with_sleeper();
        supervisor.kill(Component::Etcd).unwrap();
        wait_for(|| supervisor.exit_code(Component::Etcd));
        assert!(!alive(first));
        supervisor
            .launch(Component::Etcd, Path::new("sleep"), &["600".to_owned()])
            .unwrap();
        let second = wait_for(|| supervisor.process_id(Component::Etcd));
        assert!(alive(second));
    }
}
