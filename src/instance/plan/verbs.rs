//! The verbs: one row each, with the evidence, deadlines, reason and words of a call. `diff` has its target, `cause` its cause, and
//! `due` when it is due.

use crate::api::Verb;
use crate::api::conditions::Reason;
use crate::cloud::ServerPower;
use crate::instance::times;
use std::time::Duration;

/// The evidence that a call took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// The server shows this power state (`ecsStatus`).
    PowerState(ServerPower),
    /// The server shows the requested image and had another one before. If it had the same image before: like `Work`.
    Image,
    /// The service was busy with the server after the call.
    Work,
    /// Nothing shows it.
    Nothing,
}

impl Evidence {
    /// Whether the effect, once the server shows it, ends the wait for a lost answer: it does not matter who caused it, and a late
    /// call changes nothing more. The stop before a reinstall is an exception (`unanswered` in `follow/end.rs`).
    pub(super) fn is_enough(self) -> bool {
        match self {
            Self::PowerState(_) => true,
            Self::Image | Self::Work | Self::Nothing => false,
        }
    }
}

/// The properties of a verb that the planner uses.
#[derive(Debug)]
pub(in crate::instance) struct VerbRow {
    pub(super) evidence: Evidence,
    /// After this time the operation is reported as overdue.
    pub(super) overdue: Duration,
    /// The reason of the condition Ready while the operation runs.
    pub(in crate::instance) reason: Reason,
    /// The words before "server ecs-1" in the message about a running operation.
    pub(super) running: &'static str,
    /// Reason and words of the Event after its success.
    pub(super) done: (&'static str, &'static str),
}

/// The row of a verb. A purchase and a release have plans of their own (`buy`, `steady`, `delete`), which do not use it; the Event
/// of a create call uses reason and words.
pub(in crate::instance) const fn row(verb: Verb) -> VerbRow {
    match verb {
        Verb::Create => VerbRow {
            evidence: Evidence::Nothing,
            overdue: times::CREATE_OVERDUE,
            reason: Reason::Creating,
            running: "creating",
            done: ("Created", "was created"),
        },
        Verb::Release => VerbRow {
            evidence: Evidence::Nothing,
            overdue: times::RELEASE_OVERDUE,
            reason: Reason::Releasing,
            running: "releasing",
            done: ("Released", "was released"),
        },
        Verb::Reinstall => VerbRow {
            evidence: Evidence::Image,
            overdue: times::REINSTALL_OVERDUE,
            reason: Reason::Reinstalling,
            running: "erasing the disk and reinstalling",
            done: ("Reinstalled", "was reinstalled"),
        },
        Verb::ModifyPassword => VerbRow {
            evidence: Evidence::Nothing,
            overdue: times::OPERATION_OVERDUE,
            reason: Reason::ChangingPassword,
            running: "setting a new password on",
            done: ("PasswordChanged", "has the password in its Secret"),
        },
        Verb::Start => VerbRow {
            evidence: Evidence::PowerState(ServerPower::Started),
            overdue: times::OPERATION_OVERDUE,
            reason: Reason::Starting,
            running: "starting",
            done: ("Started", "was started"),
        },
        Verb::Stop => VerbRow {
            evidence: Evidence::PowerState(ServerPower::Stopped),
            overdue: times::OPERATION_OVERDUE,
            reason: Reason::Stopping,
            running: "stopping",
            done: ("Stopped", "was stopped"),
        },
        Verb::Restart => VerbRow {
            evidence: Evidence::Work,
            overdue: times::OPERATION_OVERDUE,
            reason: Reason::Restarting,
            running: "restarting",
            done: ("Restarted", "was restarted"),
        },
    }
}
