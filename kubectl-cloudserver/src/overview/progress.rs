//! The progress of an operation, estimated from the durations of earlier ones: the service does not report it.

use super::readiness::about;
use cloud_server_operator::api::{Instance, Operation, Verb};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// Width of a bar, in characters.
const WIDTH: u8 = 10;

/// Durations of successful operations.
#[derive(Default)]
pub(super) struct Durations(BTreeMap<Verb, Vec<SignedDuration>>);

impl Durations {
    /// From the histories of these Instances.
    pub(super) fn of(instances: &[Instance]) -> Self {
        let mut all = Self::default();
        let statuses = instances
            .iter()
            .filter_map(|instance| instance.status.as_ref());
        let ended = statuses.flat_map(|status| &status.history);
        for entry in ended.filter(|entry| entry.succeeded) {
            let took = entry.finished_at.0.duration_since(entry.started_at.0);
            all.0.entry(entry.verb).or_default().push(took);
        }
        all.0.values_mut().for_each(|took| took.sort_unstable());
        all
    }

    /// The median duration; none if the histories have no successful operation of this verb.
    pub(super) fn usual(&self, verb: Verb) -> Option<SignedDuration> {
        let took = self.0.get(&verb)?;
        took.get(took.len() / 2).copied()
    }

    /// A bar and the expected remaining time, or the time since the start once that exceeds the usual duration. Without earlier
    /// durations, only the time since the start.
    pub(super) fn progress(&self, operation: &Operation, now: Timestamp) -> String {
        // The cluster's clock may be ahead of ours.
        let runs = now
            .duration_since(operation.started_at.0)
            .max(SignedDuration::ZERO);
        let Some(usual) = self
            .usual(operation.verb)
            .filter(SignedDuration::is_positive)
        else {
            return format!("for {}", about(runs));
        };
        let share = (runs.as_secs_f64() / usual.as_secs_f64()).clamp(0.0, 1.0);
        if share >= 1.0 {
            return format!(
                "[{}] for {}, longer than the usual {}",
                "#".repeat(WIDTH.into()),
                about(runs),
                about(usual)
            );
        }
        let tenths = (0..WIDTH).map(|tenth| f64::from(tenth) < share * f64::from(WIDTH));
        let bar: String = tenths.map(|done| if done { '#' } else { '-' }).collect();
        format!(
            "[{bar}] {:.0} %, about {} left",
            share * 100.0,
            about(usual - runs)
        )
    }
}
