//! Conditions for kstatus and for people: `Ready` is always present; `Synced` once the operator knows whether status is up to date;
//! all others only while they are true.

pub use super::reasons::Reason;

use super::printable;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize as _, Deserializer};
use serde_json::{Value, json};

/// The desired state is reached, including the desired state Stopped.
pub const READY: &str = "Ready";
/// An operation or a wait is in progress.
pub const RECONCILING: &str = "Reconciling";
/// Human action is needed; waiting is not expected to help. The operator keeps retrying most operations at a slow pace.
pub const STALLED: &str = "Stalled";
/// The server differs from the spec in a way that only a human may resolve.
pub const DRIFTED: &str = "Drifted";

/// The service recently showed whether the server exists. False if it did not for five minutes, or if the Account of the Instance
/// is missing or has a problem that a user must fix.
pub const SYNCED: &str = "Synced";

/// The service will expire the server within a week, or has expired it. A warning: the server may still run.
pub const EXPIRING: &str = "Expiring";

/// On an Account: the operator has permissions that it must not have. Until that is fixed, it creates no Secrets for Instances.
pub const EXCESSIVE_PERMISSIONS: &str = "ExcessivePermissions";
/// The Account's token is sent over the network unencrypted. A warning, independent of whether the Account is usable.
pub const INSECURE_ENDPOINT: &str = "InsecureEndpoint";

/// The name of [`EXCESSIVE_PERMISSIONS`] in version 0.1. The operator only removes it.
pub const UNSAFE_RIGHTS: &str = "UnsafeRights";

/// Every type above. The operator writes and removes conditions of these types; conditions of all other types belong to other
/// controllers.
pub const OWN_TYPES: [&str; 9] = [
    READY,
    RECONCILING,
    STALLED,
    DRIFTED,
    SYNCED,
    EXPIRING,
    EXCESSIVE_PERMISSIONS,
    INSECURE_ENDPOINT,
    UNSAFE_RIGHTS,
];

/// A longer message is cut after this number of characters, and an ellipsis is added.
const MESSAGE_MAX: usize = 1024;

/// The schema's default status, which the apiserver shows until the operator has written one. It costs no write.
pub fn unwritten() -> Value {
    json!({
        "observedGeneration": -1,
        "conditions": [{
            "type": READY,
            "status": "Unknown",
            "reason": Reason::Pending.as_str(),
            "message": "the operator has not observed the object yet",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }],
    })
}

/// Reads a list of conditions. The default status reads as an empty list.
pub(super) fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Condition>, D::Error> {
    let mut all = Vec::<Condition>::deserialize(from)?;
    if matches!(&all[..], [only] if only.type_ == READY && only.reason == Reason::Pending.as_str())
    {
        all.clear();
    }
    Ok(all)
}

/// A condition in addition to those of [`Readiness`]: a problem that should be fixed, or whether status is up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdditionalCondition {
    /// Its type.
    pub type_: &'static str,
    /// Whether it is true.
    pub is_true: bool,
    /// Its reason.
    pub reason: Reason,
    /// A sentence for people, as in [`Readiness`].
    pub message: String,
}

impl AdditionalCondition {
    /// The condition. It keeps the transition time of `former` if the status is the same.
    pub fn to_condition(&self, former: &[Condition], generation: i64, now: Timestamp) -> Condition {
        let status = if self.is_true { "True" } else { "False" };
        let what = (self.type_, status);
        condition(what, self.reason, &self.message, former, generation, now)
    }
}

/// The state of an object, from which its main conditions are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The overall state.
    pub state: State,
    /// The reason of the conditions.
    pub reason: Reason,
    /// A sentence for people. It names the object and the remedy, without clocks, counters or request ids.
    pub message: String,
    /// The state may pass quickly, so status shows it only once it has lasted.
    pub is_progress: bool,
}

/// The overall state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Ready=True.
    Ready,
    /// Ready=False, Reconciling=True: waiting is expected to help.
    Reconciling,
    /// Ready=False, Stalled=True: human action is needed.
    Stalled,
    /// Ready=False, Stalled=True, Drifted=True: only a human may resolve the difference.
    Drifted,
}

impl Readiness {
    fn new(state: State, reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            state,
            reason,
            message,
            is_progress: false,
        }
    }

    /// The desired state is reached.
    pub fn ready(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(State::Ready, reason, message)
    }

    /// An operation or a wait is in progress.
    pub fn reconciling(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(State::Reconciling, reason, message)
    }

    /// An operation or a wait that may pass quickly: status shows it only once it has lasted.
    pub fn progress(reason: Reason, message: impl Into<String>) -> Self {
        let is_progress = true;
        Self {
            is_progress,
            ..Self::reconciling(reason, message)
        }
    }

    /// A failed call with this reason. Status shows it at once, except a refusal by rate and an outage: those only once they have
    /// lasted.
    pub fn refused(message: &str, reason: Reason) -> Self {
        match reason {
            Reason::CreateRefused | Reason::OperationRefused => Self::stalled(reason, message),
            Reason::RateLimited | Reason::ServiceUnreachable => Self::progress(reason, message),
            _ => Self::reconciling(reason, message),
        }
    }

    /// This state, which status shows at once if `is_urgent`, even if it may pass quickly.
    pub fn at_once_if(self, is_urgent: bool) -> Self {
        let is_progress = self.is_progress && !is_urgent;
        Self {
            is_progress,
            ..self
        }
    }

    /// Human action is needed.
    pub fn stalled(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(State::Stalled, reason, message)
    }

    /// The server differs from the spec in a way that only a human may resolve.
    pub fn drifted(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(State::Drifted, reason, message)
    }

    /// The conditions for this state, with the message in Ready and the first sentence of the reason's meaning in the others. A
    /// transition time of `former` is kept if the status value is the same.
    pub fn to_conditions(
        &self,
        former: &[Condition],
        generation: i64,
        now: Timestamp,
    ) -> Vec<Condition> {
        let wanted: &[(&str, &str)] = match self.state {
            State::Ready => &[(READY, "True")],
            State::Reconciling => &[(READY, "False"), (RECONCILING, "True")],
            State::Stalled => &[(READY, "False"), (STALLED, "True")],
            State::Drifted => &[(READY, "False"), (STALLED, "True"), (DRIFTED, "True")],
        };
        wanted
            .iter()
            .map(|&what| {
                // Only Ready carries the message. The other conditions contain enough for a reader who sees one of them alone.
                let message = match what.0 {
                    READY => self.message.clone(),
                    _ => format!("{}; see condition {READY}", self.reason.gist()),
                };
                condition(what, self.reason, &message, former, generation, now)
            })
            .collect()
    }
}

fn condition(
    (type_, status): (&str, &str),
    reason: Reason,
    message: &str,
    former: &[Condition],
    generation: i64,
    now: Timestamp,
) -> Condition {
    let message = printable(message);
    let mut cut: String = message.chars().take(MESSAGE_MAX).collect();
    if cut.len() < message.len() {
        cut.push('…');
    }
    let since = former
        .iter()
        .find(|c| c.type_ == type_ && c.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.as_str().to_owned(),
        message: cut,
        observed_generation: Some(generation),
        last_transition_time: since.map_or(Time(now), |c| c.last_transition_time.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_time_moves_only_with_the_status() {
        let t0 = Timestamp::UNIX_EPOCH;
        let t1 = Timestamp::from_second(60).unwrap();
        let waiting = Readiness::reconciling(Reason::Creating, "a").to_conditions(&[], 1, t0);
        let still = Readiness::reconciling(Reason::Releasing, "b").to_conditions(&waiting, 2, t1);
        assert!(
            still
                .iter()
                .all(|c| c.last_transition_time.0 == t0 && c.reason == "Releasing")
        );
        let ready = Readiness::ready(Reason::Available, "").to_conditions(&still, 2, t1);
        assert_eq!(
            ready.len(),
            1,
            "abnormal conditions exist only while they are true"
        );
        assert_eq!(
            (ready[0].status.as_str(), ready[0].last_transition_time.0),
            ("True", t1)
        );
    }

    #[test]
    fn a_message_is_in_one_condition_and_the_others_refer_to_it() {
        let message = "create was refused with 404: fix spec.image.id (img-1)";
        let of = |readiness: Readiness| readiness.to_conditions(&[], 1, Timestamp::UNIX_EPOCH);
        for (conditions, types) in [
            (
                of(Readiness::stalled(Reason::CreateRefused, message)),
                [READY, STALLED].as_slice(),
            ),
            (
                of(Readiness::reconciling(Reason::CreateRefused, message)),
                &[READY, RECONCILING],
            ),
            (
                of(Readiness::drifted(Reason::CreateRefused, message)),
                &[READY, STALLED, DRIFTED],
            ),
        ] {
            let found: Vec<&str> = conditions.iter().map(|c| c.type_.as_str()).collect();
            assert_eq!(found, types);
            assert_eq!(conditions[0].message, message);
            for other in &conditions[1..] {
                assert_eq!(
                    other.message,
                    "The service refused the create; nothing was bought; see condition Ready"
                );
                assert_eq!(other.reason, "CreateRefused");
            }
        }
    }

    #[test]
    fn every_reason_has_a_meaning_and_a_remedy() {
        for reason in Reason::ALL {
            assert!(
                reason.meaning().ends_with('.') && !reason.remedy().is_empty(),
                "{reason:?}"
            );
        }
    }
}
