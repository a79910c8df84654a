//! The random values and the time of day that reconciles and listings use, so that a run in virtual time can be repeated from its
//! seed. Passwords, Leases and Events have other sources.

use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use tokio::time::Instant;

/// The time of day at which a thread with a seed begins, in seconds of Unix time: an arbitrary value.
pub const SEEDED_DAY: i64 = 1_700_000_000;

thread_local! {
    /// The generator of this thread, if the thread has a seed.
    static SEEDED: RefCell<Option<StdRng>> = const { RefCell::new(None) };
    /// When the time of day was first read after the thread got its seed.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// From here on, all values of this module on this thread follow from the seed. For runs that must be repeatable. Others can
/// predict the values, so no secret may depend on them.
pub fn seed(seed: u64) {
    SEEDED.set(Some(StdRng::seed_from_u64(seed)));
    BEGAN.set(None);
}

/// The time of day in whole seconds, for times that are written into objects. On a thread with a seed it begins at the same time in
/// every run and follows the runtime's clock.
pub fn time_of_day() -> Timestamp {
    let now = seeded_day().map_or_else(Timestamp::now, |day| day.at(Instant::now()));
    Timestamp::from_second(now.as_second()).unwrap_or_default()
}

/// An instant with its time of day. From this pair, each instant gets a time of day that does not depend on when it is computed.
#[derive(Clone, Copy, Debug)]
pub struct Day {
    pub instant: Instant,
    pub time: Timestamp,
}

impl Day {
    /// The time of day of an instant, for display.
    pub fn at(self, instant: Instant) -> Timestamp {
        let later = SignedDuration::try_from(instant.saturating_duration_since(self.instant));
        let sooner = SignedDuration::try_from(self.instant.saturating_duration_since(instant));
        let (later, sooner) = (later.unwrap_or_default(), sooner.unwrap_or_default());
        let at = self.time.checked_add(later - sooner);
        at.unwrap_or(self.time)
    }
}

/// A day that stays the same for the life of the process, or while this thread keeps its seed.
pub fn day() -> Day {
    static STARTED: OnceLock<Day> = OnceLock::new();
    seeded_day().unwrap_or_else(|| {
        *STARTED.get_or_init(|| Day {
            instant: Instant::now(),
            time: Timestamp::now(),
        })
    })
}

/// The day of this thread, if the thread has a seed. It begins when it is first read.
fn seeded_day() -> Option<Day> {
    let is_seeded = SEEDED.with_borrow(Option::is_some);
    is_seeded.then(|| {
        let instant = BEGAN.get().unwrap_or_else(Instant::now);
        BEGAN.set(Some(instant));
        let time = Timestamp::from_second(SEEDED_DAY).unwrap_or_default();
        Day { instant, time }
    })
}

/// A random value that is unique in practice.
pub fn word() -> u64 {
    draw(|rng| rng.random())
}

/// A random number between -1 and 1.
pub fn share() -> f64 {
    draw(|rng| rng.random_range(-1.0..=1.0))
}

fn draw<T>(from: impl FnOnce(&mut dyn Rng) -> T) -> T {
    SEEDED.with_borrow_mut(|seeded| match seeded {
        Some(rng) => from(rng),
        None => from(&mut rand::rng()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_always_has_the_same_time_of_day() {
        let today = day();
        let later = today.instant + std::time::Duration::from_millis(1500);
        let time = today.at(later);
        assert_eq!(time.duration_since(today.time).as_millis(), 1500);
        assert_eq!(day().at(later), time);
        let of_another = Day {
            instant: later,
            time,
        };
        assert_eq!(
            of_another.at(today.instant),
            today.time,
            "before it as well"
        );
    }

    #[test]
    fn a_seed_repeats_the_values_and_without_one_they_differ() {
        let three = || [word(), word(), word()];
        assert_ne!(three(), three());
        seed(7);
        let (first, shares) = (three(), [share(), share()]);
        seed(7);
        assert_eq!((three(), [share(), share()]), (first, shares));
        assert!(shares.iter().all(|share| (-1.0..=1.0).contains(share)));
        SEEDED.set(None);
    }
}
