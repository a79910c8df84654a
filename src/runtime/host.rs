//! The memory available to this process: the limit of its control groups, and its usage. Only Linux has the files.

use std::fs::read_to_string;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// The memory limit of the process, in bytes: the lowest limit of its control group and of those above it. None if no limit is
/// set.
///
/// # Errors
/// A file cannot be read, as on any system but Linux.
pub fn memory_limit() -> Result<Option<u64>, Error> {
    let mut limits = Vec::new();
    // The lines have the form `number:controllers:path`.
    for line in read_to_string("/proc/self/cgroup")?.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
            continue;
        };
        let at = match controllers.split(',').any(|name| name == "memory") {
            true => "memory",
            false if controllers.is_empty() => "",
            false => continue,
        };
        limits.extend(least(&Path::new("/sys/fs/cgroup").join(at), group)?);
    }
    Ok(limits.into_iter().min())
}

/// The lowest limit of the groups from this one up to the root. A container often sees its own group as the root.
fn least(root: &Path, group: &str) -> Result<Option<u64>, Error> {
    let group = root.join(group.trim_start_matches('/'));
    let mut least = None;
    for at in group.ancestors().filter(|at| at.starts_with(root)) {
        for name in ["memory.max", "memory.limit_in_bytes"] {
            let text = match read_to_string(at.join(name)) {
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
pub fn resident_memory() -> Option<u64> {
    let status = read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let resident = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_lowest_cgroup_limit_counts_and_an_absent_limit_does_not() {
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
    fn the_process_has_resident_memory() {
        assert!(resident_memory().unwrap() > 1 << 20);
    }
}
