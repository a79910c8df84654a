//! Resource usage of the process, under the metric names of Prometheus client libraries.

use super::register::Register;
#[cfg(target_os = "linux")]
use crate::runtime::host;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory, CPU time and file descriptors, as the kernel reports them.
#[derive(Clone)]
pub(super) struct Usage {
    processor: Counter<f64, AtomicU64>,
    resident: Gauge,
    allocated: Gauge,
    started: Gauge<f64, AtomicU64>,
    files: Gauge,
    most_files: Gauge,
    limit: Gauge,
    pub room: Gauge,
}

impl Usage {
    pub(super) fn of(all: &mut Register) -> Self {
        Self {
            processor: all.known(
                "process_cpu_seconds",
                &[],
                "CPU time of the process",
                Counter::default(),
            ),
            resident: all.known(
                "process_resident_memory_bytes",
                &[],
                "Resident memory of the process",
                Gauge::default(),
            ),
            allocated: all.own(
                "allocated_bytes",
                &[],
                "Memory that the program has allocated; resident memory also includes partly used pages and the program itself",
                Gauge::default(),
            ),
            started: all.known(
                "process_start_time_seconds",
                &[],
                "Start time of the process, in seconds since 1970",
                Gauge::default(),
            ),
            files: all.known(
                "process_open_fds",
                &[],
                "Open file descriptors",
                Gauge::default(),
            ),
            most_files: all.known("process_max_fds", &[], "Maximum number of open file descriptors", Gauge::default()),
            limit: all.own(
                "memory_limit_bytes",
                &[],
                "Memory limit of the process's control groups; 0 without a limit",
                Gauge::default(),
            ),
            room: all.own(
                "response_memory_available_bytes",
                &[],
                "Memory available for answers of services, at most 48 MiB; calls wait if it is too little",
                Gauge::default(),
            ),
        }
    }

    /// Reads limits and usage. Values that the system does not provide stay 0.
    #[cfg(target_os = "linux")]
    pub(super) fn read(&self) {
        use procfs::process::{LimitValue, Process};
        use procfs::{boot_time_secs, page_size, ticks_per_second};
        if tikv_jemalloc_ctl::epoch::advance().is_ok()
            && let Ok(allocated) = tikv_jemalloc_ctl::stats::allocated::read()
        {
            self.allocated.set(signed(allocated as u64));
        }
        let limit = host::memory_limit().ok().flatten();
        self.limit.set(limit.map_or(0, signed));
        let Ok(process) = Process::myself() else {
            return;
        };
        if let Ok(stat) = process.stat() {
            let seconds = |ticks: u64| ticks as f64 / ticks_per_second() as f64;
            let used = seconds(stat.utime.saturating_add(stat.stime));
            self.processor
                .inner()
                .store(used.to_bits(), Ordering::Relaxed);
            self.resident
                .set(signed(stat.rss.saturating_mul(page_size())));
            // Set only once, since a later change of the clock does not change the start of the process.
            if self.started.get() == 0.0
                && let Ok(boot) = boot_time_secs()
            {
                self.started.set(boot as f64 + seconds(stat.starttime));
            }
        }
        if let Ok(open) = process.fd_count() {
            self.files.set(signed(open as u64));
        }
        let most = process.limits().map(|limits| limits.max_open_files);
        if let Ok(LimitValue::Value(most)) = most.map(|most| most.soft_limit) {
            self.most_files.set(signed(most));
        }
    }

    /// No other system has `/proc`.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn read(&self) {}
}

#[cfg(target_os = "linux")]
fn signed(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Other tests of this process allocate and free meanwhile, so one matching result out of several suffices.
    fn shows(what: &str, shown: impl Fn() -> bool) {
        assert!((0..20).any(|_| shown()), "{what}");
    }

    #[test]
    fn the_figures_are_those_of_this_process() {
        let usage = Usage::of(&mut Register::default());
        let after = |gauge: &Gauge| {
            usage.read();
            gauge.get()
        };
        shows("memory", || {
            let before = after(&usage.resident);
            let kept = vec![1_u8; 64 << 20];
            let grown = after(&usage.resident) - before;
            grown > 48 << 20 && kept.last() == Some(&1)
        });
        shows("files", || {
            let before = after(&usage.files);
            let open: Vec<_> = (0..64)
                .map(|_| std::fs::File::open("/dev/null").unwrap())
                .collect();
            after(&usage.files) >= before + 32 && open.len() == 64
        });
        assert!(usage.most_files.get() > usage.files.get());
        let now = jiff::Timestamp::now().as_second() as f64;
        let age = now - usage.started.get();
        assert!((-2.0..86_400.0).contains(&age), "began {age} s ago");
        assert!(usage.processor.get() > 0.0);
    }
}
