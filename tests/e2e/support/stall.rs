//! How long this machine stood still: a bound on time says nothing while nobody had a processor.

use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

/// Between two ticks.
const TICK: Duration = Duration::from_millis(20);
/// A pause that is worth keeping; shorter ones are every scheduler's.
const WORTH: Duration = Duration::from_millis(100);

/// Begin and end of every pause between two ticks that was longer than it should be.
static PAUSES: Mutex<Vec<(Instant, Instant)>> = Mutex::new(Vec::new());

/// From now on it is noted when a thread that wants to run every 20 ms does not get to.
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

/// The longest pause that was noted and that touches this time. Needs [`watch_stalls`] before it.
pub fn longest_stall(from: Instant, to: Instant) -> Duration {
    stalls(from, to).into_iter().max().unwrap_or_default()
}

/// All pauses that were noted and that touch this time, together. Needs [`watch_stalls`] before it.
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
