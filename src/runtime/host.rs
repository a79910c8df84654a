//! What the machine leaves this process of memory: the limit of its control groups, and what it has of that.

/// The memory that the process may have, in bytes: the least that its control groups allow, its own and those above it. None
/// where nobody set a limit, or the system knows none.
#[cfg(target_os = "linux")]
pub fn memory_limit() -> Option<u64> {
    let groups = procfs::process::Process::myself().ok()?.cgroups().ok()?;
    let of_memory = |group: &procfs::ProcessCGroup| {
        let is_legacy = group.controllers.iter().any(|name| name == "memory");
        let at = if is_legacy {
            "memory"
        } else {
            group.controllers.is_empty().then_some("")?
        };
        Some(least(
            &std::path::Path::new("/sys/fs/cgroup").join(at),
            &group.pathname,
        ))
    };
    groups.0.iter().filter_map(of_memory).flatten().min()
}

/// The least limit of the groups from this one up to the root. A container often sees its own group as the root.
#[cfg(target_os = "linux")]
fn least(root: &std::path::Path, group: &str) -> Option<u64> {
    let group = root.join(group.trim_start_matches('/'));
    let groups = group.ancestors().filter(|at| at.starts_with(root));
    let limits = groups.flat_map(|at| {
        ["memory.max", "memory.limit_in_bytes"].map(|name| {
            let text = std::fs::read_to_string(at.join(name)).ok()?;
            // "max", and a number as large as the legacy kernel has, are no limit.
            text.trim().parse().ok().filter(|limit| *limit < 1 << 60)
        })
    });
    limits.flatten().min()
}

/// What the process has of it, in bytes.
#[cfg(target_os = "linux")]
pub fn resident_memory() -> Option<u64> {
    let stat = procfs::process::Process::myself().ok()?.stat().ok()?;
    Some(stat.rss.saturating_mul(procfs::page_size()))
}

/// No other system is known to have one.
#[cfg(not(target_os = "linux"))]
pub fn memory_limit() -> Option<u64> {
    None
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
        assert_eq!(least(root, group), None);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        assert_eq!(least(root, group), None);
        fs::write(root.join("pods/one/memory.max"), "134217728\n").unwrap();
        assert_eq!(least(root, group), Some(128 << 20));
        fs::write(inner.join("memory.max"), "67108864\n").unwrap();
        assert_eq!(least(root, group), Some(64 << 20));
        // A container that has a namespace of groups sees the path of the machine, and its own group at the root.
        fs::write(root.join("memory.max"), "33554432\n").unwrap();
        assert_eq!(least(root, "/elsewhere"), Some(32 << 20));
    }

    #[test]
    fn the_process_has_some() {
        assert!(resident_memory().unwrap() > 1 << 20);
    }
}
