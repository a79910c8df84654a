//! Measures how long this machine stood still: a bound on time proves nothing while the process got no processor.

use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(20);
/// The shortest recorded pause; every scheduler causes shorter ones.
const WORTH: Duration = Duration::from_millis(100);

/// Start and end of every recorded pause between two ticks.
static PAUSES: Mutex<Vec<(Instant, Instant)>> = Mutex::new(Vec::new());

/// Starts to record the times in which a thread that should run every 20 ms does not run.
pub fn watch_stalls() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        thread::spawn(|| {
            let mut last = Instant::now();
            loop {
                thread::sleep(TICK);
                let now = Instant::now();
                if now.duration_since(last) > WORTH {
                    PAUSES.lock().unwrap().push((last, now));
                }
                last = now;
            }
        });
    });
}

/// The longest recorded pause that overlaps this period. [`watch_stalls`] must run before the period.
pub fn longest_stall(from: Instant, to: Instant) -> Duration {
    stalls(from, to).into_iter().max().unwrap_or_default()
}

/// The sum of all recorded pauses that overlap this period. [`watch_stalls`] must run before the period.
pub fn all_stalls(from: Instant, to: Instant) -> Duration {
    stalls(from, to).into_iter().sum()
}

fn stalls(from: Instant, to: Instant) -> Vec<Duration> {
    let pauses = PAUSES.lock().unwrap();
    let within = pauses
        .iter()
        .filter(|(begin, end)| *begin < to && *end > from);
    within
        .map(|(begin, end)| end.duration_since(*begin))
        .collect()
}
