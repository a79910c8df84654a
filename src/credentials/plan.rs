//! Decides when a generated login Secret must be written although no operation is due. Pure rules over values.

use super::connection::Connection;
use super::login::LoginMetadata;
use crate::api::GeneratedLogin;
use jiff::Timestamp;
use std::time::Duration;

/// A write of a Secret that belongs to the Instance. `version`: the current version of the login Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Create the login Secret with a first password.
    Generate,
    /// Add another password next to the one in force, to be set on the server next.
    Renew { version: String },
    /// Mark the password of this version as the one in force.
    Settle { version: String },
    /// Restore owner, labels and annotations of the login Secret. Its values stay.
    Keep { version: String },
    /// Write the connection Secret if its content differs.
    Connect(Box<Connection>),
}

/// The next step for a generated login whose password is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Its metadata must be read.
    Read,
    Write(Chore),
    /// Another password is due after this time.
    RenewIn(Duration),
}

/// The next step, if any: the Secret gets its marker and the labels and annotations of the spec, and an expired password is
/// followed by another one.
/// `is_unmarked`: whether the Secret has the operator's label, but not that of the marker.
/// `renews`: whether the server is in a state in which another password can be set, and the spec allows it.
pub fn upkeep(
    generate: &GeneratedLogin,
    version: &str,
    is_unmarked: bool,
    renews: bool,
    known: Option<&LoginMetadata>,
    now: Timestamp,
) -> Option<Upkeep> {
    let template = generate.template.as_ref();
    let every = generate.rotates_every().filter(|_| renews);
    let version = version.to_owned();
    if is_unmarked {
        return Some(Upkeep::Write(Chore::Keep { version }));
    }
    if every.is_none() && template.is_none() {
        return None;
    }
    let Some(known) = known.filter(|known| known.version == version) else {
        return Some(Upkeep::Read);
    };
    if template.is_some() && known.template.as_ref() != template {
        return Some(Upkeep::Write(Chore::Keep { version }));
    }
    Some(match due_in(known.rotated_at, every?, now) {
        // The recorded time cannot be used: the current time replaces it, and the period begins again.
        None => Upkeep::Write(Chore::Settle { version }),
        Some(left) if left.is_zero() => Upkeep::Write(Chore::Renew { version }),
        Some(left) => Upkeep::RenewIn(left),
    })
}

/// The time until the next password is due; None if the recorded time is missing or impossible.
///
/// Uses only the time in the Secret, which a restart does not lose. A time that is more than a whole period in the future comes
/// from a wrong clock: the caller corrects it, and generates no password because of it.
fn due_in(stamp: Option<Timestamp>, every: Duration, now: Timestamp) -> Option<Duration> {
    let age = now.as_second().saturating_sub(stamp?.as_second());
    let every = i64::try_from(every.as_secs()).unwrap_or(i64::MAX);
    let left = every.saturating_sub(age).max(0);
    (age >= every.saturating_neg()).then(|| Duration::from_secs(left.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap()
    }

    #[test]
    fn the_next_rotation_depends_on_the_time_on_the_secret() {
        let day = 24 * HOUR;
        for (stamp, now, due) in [
            (Some(at(0)), at(0), Some(day)),
            (Some(at(0)), at(23), Some(HOUR)),
            (Some(at(0)), at(24), Some(Duration::ZERO)),
            (Some(at(0)), at(900_000), Some(Duration::ZERO)),
            // The clocks of two machines differ, or a clock was set back by less than a period.
            (Some(at(5)), at(0), Some(29 * HOUR)),
            (Some(at(24)), at(0), Some(2 * day)),
            (Some(at(25)), at(0), None),
            (None, at(0), None),
        ] {
            assert_eq!(due_in(stamp, day, now), due, "{stamp:?} {now}");
        }
    }

    #[test]
    fn a_clock_that_jumps_causes_at_most_one_rotation() {
        let (mut stamp, mut made) = (at(0), 0);
        // The clock jumps ahead by years, runs on, and jumps back; each result is written as returned.
        for now in [at(1), at(90_000), at(90_001), at(2), at(3), at(10)] {
            match due_in(Some(stamp), 24 * HOUR, now) {
                Some(Duration::ZERO) => (made, stamp) = (made + 1, now),
                None => stamp = now,
                Some(_) => {}
            }
        }
        assert_eq!((made, stamp), (1, at(2)));
    }
}
