//! Keeps the memory of the process private.

use super::note;
use rustix::io::Result;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Turns off core dumps of `program`, and keeps other processes of the same user from reading its memory, since it holds tokens and
/// passwords. A process that may trace any other, such as one of root with its capabilities, still can. A failure is reported only.
pub fn keep_private(program: &str) {
    if let Err(error) = turn_off_core_dumps() {
        note(&format!(
            "{program}: core dumps could not be turned off: {error}"
        ));
    }
}

fn turn_off_core_dumps() -> Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    // The limit does not count where cores go to a program (`core_pattern` with a pipe); this does.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}
