//! Control groups of the kernel, to limit the resources of a program. Supports both versions. They require root and a kernel
//! that permits them. If they cannot be created, the tests that need them fail, unless [`NONE_HERE`] is set.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Set to any value on machines without control groups: the tests that need them are then skipped on purpose.
const NONE_HERE: &str = "TORTURE_WITHOUT_CGROUPS";

/// A control group, which is removed when this value is dropped.
pub struct Cgroup {
    path: PathBuf,
    unified: bool,
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Only an empty group can be removed. Its processes have ended by now; otherwise the group stays until the next boot.
        fs::remove_dir(&self.path).ok();
    }
}

impl Cgroup {
    /// Creates a group for this controller; none if the variable declares that there are no groups.
    pub fn new(controller: &str) -> Option<Self> {
        if std::env::var_os(NONE_HERE).is_some() {
            println!("LEFT OUT: {NONE_HERE} is set, so nothing is tested here");
            return None;
        }
        let made = Self::make(controller);
        Some(made.unwrap_or_else(|why| {
            panic!("no control group for {controller} can be made ({why}): as root it can; {NONE_HERE}=1 leaves this test out")
        }))
    }

    /// Creates a group if this machine permits it; for tests that also measure without one.
    pub fn if_possible(controller: &str) -> Option<Self> {
        let made = Self::make(controller);
        if let Err(why) = &made {
            println!("NO CONTROL GROUP: the limit of {controller} is not in force here: {why}");
        }
        made.ok()
    }

    fn make(controller: &str) -> Result<Self, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let name = format!("cso-e2e-{}-{number}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let unified = root.join("cgroup.controllers").exists();
        let path = match unified {
            true => root.join(name),
            false => root.join(controller).join(name),
        };
        if unified {
            let control = root.join("cgroup.subtree_control");
            fs::write(&control, format!("+{controller}"))
                .map_err(|error| format!("{}: {error}", control.display()))?;
        }
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Self { path, unified };
        let knob = match (controller, unified) {
            ("memory", true) => "memory.max",
            ("memory", false) => "memory.limit_in_bytes",
            (_, true) => "cpu.max",
            (_, false) => "cpu.cfs_quota_us",
        };
        match group.path.join(knob).exists() {
            true => Ok(group),
            false => Err(format!("{} has no {knob}", group.path.display())),
        }
    }

    fn set(&self, unified: (&str, String), legacy: (&str, String)) {
        let (name, value) = if self.unified { unified } else { legacy };
        fs::write(self.path.join(name), value).unwrap();
    }

    /// Limits the memory.
    pub fn limit_memory(&self, bytes: u64) {
        let value = bytes.to_string();
        self.set(
            ("memory.max", value.clone()),
            ("memory.limit_in_bytes", value),
        );
    }

    /// The peak memory, including the page cache.
    pub fn most_memory(&self) -> u64 {
        let name = if self.unified {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        };
        let text = fs::read_to_string(self.path.join(name)).unwrap();
        text.trim().parse().unwrap()
    }

    /// Limits the CPU time, in percent of one processor.
    pub fn limit_processor(&self, percent: u32) {
        let quota = 1_000 * percent;
        self.set(
            ("cpu.max", format!("{quota} 100000")),
            ("cpu.cfs_quota_us", quota.to_string()),
        );
    }

    /// How often the group was throttled.
    pub fn waits(&self) -> u64 {
        let text = fs::read_to_string(self.path.join("cpu.stat")).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("nr_throttled "));
        line.unwrap().parse().unwrap()
    }

    /// Removes the limit on CPU time.
    pub fn free_processor(&self) {
        self.set(
            ("cpu.max", "max".to_owned()),
            ("cpu.cfs_quota_us", "-1".to_owned()),
        );
    }

    /// A shell that enters the group, sets its own priority for the kernel's OOM killer, and then executes the following
    /// command.
    pub fn around(&self, first: bool) -> [String; 3] {
        let file = self.path.join("cgroup.procs");
        let victim = if first {
            "echo 1000 > /proc/self/oom_score_adj;"
        } else {
            ""
        };
        let script = format!("echo $$ > {}; {victim} exec \"$0\" \"$@\"", file.display());
        ["sh".to_owned(), "-c".to_owned(), script]
    }
}
