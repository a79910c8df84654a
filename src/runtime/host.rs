//! The memory available to this process: the limit of its control groups, and its usage.

#[cfg(target_os = "linux")]
use procfs::process::Process;
use std::io::Error;
#[cfg(target_os = "linux")]
use std::io::ErrorKind;
#[cfg(target_os = "linux")]
use std::path::Path;

/// The memory limit of the process, in bytes: the lowest limit of its control group and of those above it. None if no limit is
/// set, or if the system has no limits.
///
/// # Errors
/// The limit cannot be read now.
#[cfg(target_os = "linux")]
pub fn memory_limit() -> Result<Option<u64>, Error> {
    let groups = Process::myself().and_then(|process| process.cgroups());
    let groups = groups.map_err(Error::other)?;
    let mut limits = Vec::new();
    for group in groups.0 {
        let at = match group.controllers.iter().any(|name| name == "memory") {
            true => "memory",
            false if group.controllers.is_empty() => "",
            false => continue,
        };
        limits.extend(least(
            &Path::new("/sys/fs/cgroup").join(at),
            &group.pathname,
        )?);
    }
    Ok(limits.into_iter().min())
}

/// The lowest limit of the groups from this one up to the root. A container often sees its own group as the root.
#[cfg(target_os = "linux")]
fn least(root: &Path, group: &str) -> Result<Option<u64>, Error> {
    let group = root.join(group.trim_start_matches('/'));
    let mut least = None;
    for at in group.ancestors().filter(|at| at.starts_with(root)) {
        for name in ["memory.max", "memory.limit_in_bytes"] {
            let text = match std::fs::read_to_string(at.join(name)) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                text => text?,
            };
            // "max" means no limit, and so does the huge number that the legacy kernel interface reports.
            let limit = text.trim().parse().ok().filter(|limit| *limit < 1 << 60);
            least = least.into_iter().chain(limit).min();
        }
    }
    Ok(least)
}

/// The resident memory of the process, in bytes.
#[cfg(target_os = "linux")]
pub fn resident_memory() -> Option<u64> {
    let stat = Process::myself().ok()?.stat().ok()?;
    Some(stat.rss.saturating_mul(procfs::page_size()))
}

/// No limit is known on other systems.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn memory_limit() -> Result<Option<u64>, Error> {
    Ok(None)
}

/// Not known on other systems.
#[cfg(not(target_os = "linux"))]
pub fn resident_memory() -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_least_of_the_groups_counts_and_what_is_no_limit_does_not() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let inner = root.join("pods/one/container");
        fs::create_dir_all(&inner).unwrap();
        let group = "/pods/one/container";
        assert_eq!(least(root, group).unwrap(), None);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        assert_eq!(least(root, group).unwrap(), None);
        fs::write(root.join("pods/one/memory.max"), "134217728\n").unwrap();
        assert_eq!(least(root, group).unwrap(), Some(128 << 20));
        fs::write(inner.join("memory.max"), "67108864\n").unwrap();
        assert_eq!(least(root, group).unwrap(), Some(64 << 20));
        // A container with its own cgroup namespace sees the machine's path, but its own group at the root.
        fs::write(root.join("memory.max"), "33554432\n").unwrap();
        assert_eq!(least(root, "/elsewhere").unwrap(), Some(32 << 20));
    }

    #[test]
    fn the_process_has_some() {
        assert!(resident_memory().unwrap() > 1 << 20);
    }
}
