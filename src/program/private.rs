//! What the process holds in memory stays there.

use rustix::io::Result;
use rustix::process::{Resource, Rlimit, setrlimit};

/// No core dump, and no process of the same user that reads this one's memory: tokens and passwords stand in it. Whoever may
/// trace any process (root with its capabilities) still can.
pub fn keep_private() -> Result<()> {
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
