//! The verbs: one row each, with everything that planning must know about a call, except for when it is due.

use crate::api::Verb;
use crate::api::conditions::Reason;
use crate::instance::times;
use std::time::Duration;

/// The evidence that a call took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The server shows this power state (`ecsStatus`).
    PowerState(&'static str),
    /// The server shows the requested image and had another one before. Otherwise like `Work`.
    Image,
    /// The service was busy with the server after the call.
    Work,
    /// Nothing shows it.
    Nothing,
}

/// The consequence if no answer arrived and the server shows no effect after the settling time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The operation ends, and is requested again if the spec still asks for it.
    AskAgain,
    /// A repeat could do harm: if nothing can show the effect, a user must decide.
    Undecided,
}

/// The properties of a verb that the planner uses.
#[derive(Debug)]
pub(in crate::instance) struct Row {
    /// The call is planned only from a detail that was read in the same reconcile.
    pub(super) needs_fresh_detail: bool,
    pub(super) effect: Effect,
    pub(super) lost: Lost,
    /// After this time the operation is reported as overdue.
    pub(super) overdue: Duration,
    /// The reason of the condition Ready while the operation runs.
    pub(in crate::instance) reason: Reason,
    /// The words before "server ecs-1" in the message about a running operation.
    pub(super) running: &'static str,
    /// Reason and words of the Event after its success.
    pub(super) done: (&'static str, &'static str),
}

/// The row of a verb. Every verb may be repeated, except for a reinstall: it erases the disk.
pub(in crate::instance) const fn row(verb: Verb) -> &'static Row {
    match verb {
        Verb::Create => &CREATE,
        Verb::Release => &RELEASE,
        Verb::Reinstall => &REINSTALL,
        Verb::ModifyPassword => &MODIFY_PASSWORD,
        Verb::Start => &START,
        Verb::Stop => &STOP,
        Verb::Restart => &RESTART,
    }
}

// A purchase and a release have plans of their own (`buy`, `delete`); only their reasons and words are used.
static CREATE: Row = Row {
    needs_fresh_detail: false,
    effect: Effect::Nothing,
    lost: Lost::Undecided,
    overdue: times::CREATE_OVERDUE,
    reason: Reason::Creating,
    running: "creating",
    done: ("Created", "was created"),
};

static RELEASE: Row = Row {
    needs_fresh_detail: true,
    effect: Effect::Nothing,
    lost: Lost::AskAgain,
    overdue: times::RELEASE_OVERDUE,
    reason: Reason::Releasing,
    running: "releasing",
    done: ("Released", "was released"),
};

static REINSTALL: Row = Row {
    needs_fresh_detail: true,
    effect: Effect::Image,
    lost: Lost::Undecided,
    overdue: times::REINSTALL_OVERDUE,
    reason: Reason::Reinstalling,
    running: "erasing the disk and reinstalling",
    done: ("Reinstalled", "was reinstalled"),
};

static MODIFY_PASSWORD: Row = Row {
    needs_fresh_detail: false,
    effect: Effect::Nothing,
    lost: Lost::AskAgain,
    overdue: times::OPERATION_OVERDUE,
    reason: Reason::ChangingPassword,
    running: "setting a new password on",
    done: ("PasswordChanged", "has the password in its Secret"),
};

static START: Row = Row {
    needs_fresh_detail: false,
    effect: Effect::PowerState("STARTED"),
    lost: Lost::AskAgain,
    overdue: times::OPERATION_OVERDUE,
    reason: Reason::Starting,
    running: "starting",
    done: ("Started", "was started"),
};

static STOP: Row = Row {
    needs_fresh_detail: false,
    effect: Effect::PowerState("STOPPED"),
    lost: Lost::AskAgain,
    overdue: times::OPERATION_OVERDUE,
    reason: Reason::Stopping,
    running: "stopping",
    done: ("Stopped", "was stopped"),
};

static RESTART: Row = Row {
    needs_fresh_detail: false,
    effect: Effect::Work,
    lost: Lost::AskAgain,
    overdue: times::OPERATION_OVERDUE,
    reason: Reason::Restarting,
    running: "restarting",
    done: ("Restarted", "was restarted"),
};
