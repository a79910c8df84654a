//! Everything that looks random, and the time of day, from one place, so that a run in virtual time can be repeated from its
//! seed.

use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use tokio::time::Instant;

/// The day of a thread that was given a seed: some day, in seconds of Unix time.
pub const SEEDED_DAY: i64 = 1_700_000_000;

thread_local! {
    /// The generator of this thread, if somebody gave it a seed.
    static SEEDED: RefCell<Option<StdRng>> = const { RefCell::new(None) };
    /// The first time of day that was asked for since then.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// From here on, everything on this thread that looks random follows from the seed. For runs that are to be repeated; what
/// has to be unpredictable to others must not come from a thread that was given one.
pub fn seed(seed: u64) {
    SEEDED.set(Some(StdRng::seed_from_u64(seed)));
    BEGAN.set(None);
}

/// The time of day in whole seconds, to show to people. On a thread that was given a seed it begins at the same time in every
/// run, and goes on with the runtime's clock.
pub fn time_of_day() -> Timestamp {
    let is_seeded = SEEDED.with_borrow(Option::is_some);
    let second = if is_seeded {
        let began = BEGAN.get().unwrap_or_else(Instant::now);
        BEGAN.set(Some(began));
        SEEDED_DAY.saturating_add_unsigned(began.elapsed().as_secs())
    } else {
        Timestamp::now().as_second()
    };
    Timestamp::from_second(second).unwrap_or_default()
}

/// An instant and its time of day: with it, each instant has a time of day that does not move, whenever it is told.
#[derive(Clone, Copy, Debug)]
pub struct Day {
    /// The instant.
    pub instant: Instant,
    /// Its time of day.
    pub time: Timestamp,
}

impl Day {
    /// The time of day of an instant, to show to people.
    pub fn at(self, instant: Instant) -> Timestamp {
        let later = SignedDuration::try_from(instant.saturating_duration_since(self.instant));
        let sooner = SignedDuration::try_from(self.instant.saturating_duration_since(instant));
        let (later, sooner) = (later.unwrap_or_default(), sooner.unwrap_or_default());
        let at = self.time.checked_add(later - sooner);
        at.unwrap_or(self.time)
    }
}

/// The same day for as long as the process lives, or as the seed of this thread holds.
pub fn day() -> Day {
    static STARTED: OnceLock<Day> = OnceLock::new();
    if SEEDED.with_borrow(Option::is_some) {
        let instant = BEGAN.get().unwrap_or_else(Instant::now);
        BEGAN.set(Some(instant));
        return Day {
            instant,
            time: Timestamp::from_second(SEEDED_DAY).unwrap_or_default(),
        };
    }
    *STARTED.get_or_init(|| Day {
        instant: Instant::now(),
        time: Timestamp::now(),
    })
}

/// A word that nobody else has drawn.
pub fn word() -> u64 {
    draw(|rng| rng.random())
}

/// A share between -1 and 1.
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
    fn an_instant_has_one_time_of_day_whenever_it_is_told() {
        let today = day();
        let later = today.instant + std::time::Duration::from_millis(1500);
        let told = today.at(later);
        assert_eq!(told.duration_since(today.time).as_millis(), 1500);
        assert_eq!(day().at(later), told);
        let of_another = Day {
            instant: later,
            time: told,
        };
        assert_eq!(
            of_another.at(today.instant),
            today.time,
            "before it as well"
        );
    }

    #[test]
    fn a_seed_repeats_what_follows_and_without_one_nothing_repeats() {
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
