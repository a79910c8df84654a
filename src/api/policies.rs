//! The policies in an Instance's spec, which limit the operator's actions on a server, and the requests that the spec makes by
//! token.

use jiff::{SignedDuration, Timestamp};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When a change of image or login may erase the disk.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReinstallPolicy {
    /// A change of image, key or spec.reinstall.token starts the reinstall.
    #[default]
    Automatic,
    /// A reinstall starts only with a new spec.reinstall.token, and only if spec.reinstall.image is the identifier of the desired
    /// image (spec.image.id or status.resolved.image.id).
    OnRequest,
    /// The operator never reinstalls the server.
    Never,
}

/// The fate of the server when its Instance is deleted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// The server is released.
    #[default]
    Release,
    /// The server is left at the service, where it is still billed.
    Retain,
}

/// Whether the operator changes anything at the service.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagementPolicy {
    /// The operator buys the server, keeps it as the spec describes, and releases it.
    #[default]
    Manage,
    /// The operator only observes the server and makes no call that changes anything.
    Observe,
}

/// When a server's power is cut instead of asking its operating system to shut down.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForceStop {
    /// The operating system is asked to shut down, and the power is not cut. The exception is a stop before a reinstall, which
    /// erases the disk anyway: there, the power is cut after 30 seconds, or once the stop fails, with every policy.
    #[default]
    Never,
    /// The power is cut if the server is not stopped within gracePeriodSeconds after the service accepted the stop, or if the
    /// stop failed.
    AfterGracePeriod,
    /// The power is cut at once.
    Always,
}

/// The reaction to a server that was released externally.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExternalDeletion {
    /// The operator reports it and buys nothing.
    #[default]
    Fail,
    /// The operator buys another server once the old one is proven gone, at most spec.recreateLimit times.
    Recreate,
}

/// How a server is stopped.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct StopPolicy {
    /// When the power is cut.
    pub force: ForceStop,
    /// Seconds that the operating system has to shut down, with AfterGracePeriod. A restart of the operator may start them
    /// again.
    #[schemars(range(min = 1, max = 3600))]
    pub grace_period_seconds: i32,
}

impl Default for StopPolicy {
    fn default() -> Self {
        Self {
            force: ForceStop::default(),
            grace_period_seconds: 60,
        }
    }
}

impl StopPolicy {
    /// How long an accepted stop may take before the power is cut; none unless `force` is AfterGracePeriod.
    pub fn grace(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.grace_period_seconds).unwrap_or(1);
        (self.force == ForceStop::AfterGracePeriod).then(|| Duration::from_secs(seconds.max(1)))
    }
}

/// A pause: the operator begins nothing while it lasts.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// When the pause ends automatically, for example 2026-12-24T18:00:00Z. If absent, the pause lasts until it is removed from
    /// the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    #[x_kube(validation = Rule::new(
        "self.matches('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$')"
    ).message("spec.pause.until must be a time with its zone as of RFC 3339, for example 2026-12-24T18:00:00Z"))]
    pub until: Option<String>,
}

/// The remaining time of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// Until it is removed from the spec.
    Open,
    /// For this time.
    For(Duration),
    /// It is over.
    Over,
}

impl Pause {
    /// The remaining time of the pause. An invalid time (such as a day that the month does not have) does not end the pause: it
    /// lasts until a user fixes the time.
    pub fn lasts(&self, now: Timestamp) -> Lasts {
        let until = self.until.as_ref().map(|until| until.parse::<Timestamp>());
        let Some(Ok(until)) = until else {
            return Lasts::Open;
        };
        match Duration::try_from(until.duration_since(now)) {
            Ok(left) if !left.is_zero() => Lasts::For(left),
            _ => Lasts::Over,
        }
    }
}

/// A request to reinstall once.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Reinstall {
    /// Any text. Each change reinstalls the server once, which erases its disk, if reinstallPolicy allows it.
    #[schemars(length(min = 1, max = 253))]
    pub token: String,
    /// The image that this token confirms. If it is set, and always with reinstallPolicy OnRequest, the token has an effect
    /// only if this is the identifier of the desired image (spec.image.id or status.resolved.image.id).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub image: Option<String>,
}

/// A request to restart once.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Any text. Each change restarts the server once if it is running; a start or a reinstall counts as the restart.
    #[schemars(length(min = 1, max = 253))]
    pub token: String,
}

/// A request to observe everything now.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Reconcile {
    /// Any text. Each change triggers one read of the server's detail and of its zone's listing; the token then appears in
    /// status.lastReconcileToken.
    #[schemars(length(min = 1, max = 253))]
    pub token: String,
}

/// Parses a duration of hours, minutes and seconds.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let duration = text.parse::<SignedDuration>().ok()?;
    Duration::try_from(duration).ok()
}

/// Shortest and longest resync period.
const RESYNC: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));

/// The resync period of a spec; none if the text is not a duration or violates the rule of the field.
pub fn resync_period(text: &str) -> Option<Duration> {
    let period = duration(text)?;
    (RESYNC.0..=RESYNC.1).contains(&period).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(until: &str) -> Lasts {
        let pause = Pause {
            until: Some(until.to_owned()),
        };
        pause.lasts("2026-11-22T10:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_pause_lasts_until_its_time_or_until_it_is_removed() {
        assert_eq!(Pause::default().lasts(Timestamp::UNIX_EPOCH), Lasts::Open);
        let minute = Lasts::For(Duration::from_secs(60));
        assert_eq!(pause("2026-11-22T10:01:00Z"), minute);
        assert_eq!(pause("2026-11-22T12:01:00+02:00"), minute);
        assert_eq!(pause("2026-11-22T10:00:00Z"), Lasts::Over);
        assert_eq!(pause("2020-01-01T00:00:00Z"), Lasts::Over);
    }

    #[test]
    fn a_time_that_is_no_date_ends_no_pause() {
        assert_eq!(pause("2020-02-30T00:00:00Z"), Lasts::Open);
    }

    #[test]
    fn a_resync_period_is_a_duration_between_a_minute_and_a_day() {
        let minutes = |n: u64| Some(Duration::from_secs(60 * n));
        assert_eq!(resync_period("10m"), minutes(10));
        assert_eq!(resync_period("1h30m"), minutes(90));
        assert_eq!(resync_period("60s"), minutes(1));
        assert_eq!(resync_period("24h"), minutes(24 * 60));
        for none in ["59s", "25h", "10", "soon", "-10m", ""] {
            assert_eq!(resync_period(none), None, "{none}");
        }
    }

    #[test]
    fn only_a_stop_with_a_grace_period_has_one() {
        let policy = |force| StopPolicy {
            force,
            grace_period_seconds: 5,
        };
        assert_eq!(policy(ForceStop::Never).grace(), None);
        assert_eq!(policy(ForceStop::Always).grace(), None);
        let grace = policy(ForceStop::AfterGracePeriod).grace();
        assert_eq!(grace, Some(Duration::from_secs(5)));
    }
}
