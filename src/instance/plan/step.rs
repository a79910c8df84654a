//! A plan: one step, and what is said about it.

use crate::api::conditions::{Readiness, Reason, State, Synced};
use crate::api::{Applied, HistoryEntry, Operation, PurchaseRecord, Resolved};
use crate::cloud::{CreateRequest, PasswordRequest, ReinstallRequest, ServerId};
use crate::instance::memory::kinds::Wants;
use crate::instance::observation::Observation;
use crate::instance::resolved_references::Scope;
use crate::instance::times;
use crate::inventory::Attention;
use crate::runtime::events::EventNote;
use jiff::tz::Offset;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

/// One step and what to say about it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to do now.
    pub step: Step,
    /// What to say.
    pub update: StatusUpdate,
    /// When to look again, at the latest.
    pub again: Duration,
    /// What the listings should show by then.
    pub wants: Wants,
    /// What has to be read before there is a plan.
    pub needs: Needs,
    /// An operation ended badly in this turn: the same is not asked for again before this time is over.
    pub pause: Option<Duration>,
}

/// What a plan has to know and nobody has read yet: to be planned again with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    #[default]
    Nothing,
    /// The login.
    Login,
    /// A place among the Instances of the Account that may have a server.
    Reservation,
    /// The server as the service shows it now.
    Detail,
    /// The server that is to be taken over, as the service shows it now.
    Candidate(ServerId),
    /// Whether it may be taken over.
    Claim(ServerId),
    /// What selectors of the spec mean.
    References(Scope),
    /// Metadata of the generated login Secret.
    LoginMetadata,
    /// The connection Secret.
    Connection,
}

/// What is written into a Secret of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretStep {
    /// A first password, where no Secret is.
    Generate,
    /// Another password beside the one in force, which is to be set next.
    Renew {
        /// The version of the Secret that stands.
        version: String,
    },
    /// The password of this version is in force.
    Settle {
        /// The version of the Secret that stands.
        version: String,
    },
    /// The owner, labels and annotations that the login Secret is to have. Its values stay.
    Keep {
        /// The version of the Secret that stands.
        version: String,
    },
    /// What a client needs to connect.
    Connect,
}

/// The one thing that a reconcile does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Nothing: a named wait, or all is well.
    Rest,
    /// Announce an attempt to buy a server and make its one call; or, without an announcement, repeat the call of an attempt of
    /// this very process of which it is certain that nothing was done.
    Buy {
        /// The record of the attempt.
        record: Box<PurchaseRecord>,
        /// Whether the record has to be written first. False: it stands, and is read again before the call.
        announce: bool,
        /// What to ask for.
        request: Box<CreateRequest>,
    },
    /// The same of an operation on the recorded server, which is announced in status.
    Operate {
        /// The operation.
        operation: Box<Operation>,
        /// Whether it has to be announced first.
        announce: bool,
        /// What to ask for.
        request: Box<Request>,
    },
    /// Stop or start the server within an attempt that needs it: harmless, repeatable, and not recorded.
    Auxiliary {
        /// What to ask for.
        request: Box<Request>,
    },
    /// Write the record of a server that exists.
    Record {
        /// The record.
        record: Box<PurchaseRecord>,
    },
    /// Release a server.
    Release {
        /// Which one.
        id: ServerId,
        /// Why.
        why: ReleaseReason,
    },
    /// Write a Secret of ours.
    Secret(SecretStep),
    /// Take the finalizer away: the server is confirmed gone.
    Finish,
    /// Take the finalizer away and leave what there is at the service.
    LetGo {
        /// What is told about it.
        event: Option<EventNote>,
    },
}

/// What is asked of the service.
#[derive(Clone, Debug)]
pub enum Request {
    /// Reinstall operating system.
    Reinstall(ReinstallRequest),
    /// Modify password.
    ModifyPassword(PasswordRequest),
    /// Start.
    Start(ServerId),
    /// Stop.
    Stop {
        /// The server.
        id: ServerId,
        /// Without asking its operating system.
        force: bool,
    },
    /// Restart.
    Restart(ServerId),
}

/// Why a server is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Its Instance is being deleted.
    Deleted,
    /// Its create failed and left it behind.
    Failed,
    /// Another server is recorded for its Instance.
    Surplus,
}

/// What a reconcile says in status and Events.
#[derive(Clone, Debug, Default)]
pub struct StatusUpdate {
    /// The conditions. None: nothing was learnt, what stands is still the best that is known.
    pub readiness: Option<Readiness>,
    /// The readiness is a progress that need not be shown unless it lasts.
    pub progress: bool,
    /// The server.
    pub id: Option<ServerId>,
    /// The server is gone for good: its identifier and detail leave the status.
    pub forget_server: bool,
    /// The service's detail, when it was read.
    pub detail: Option<Map<String, Value>>,
    /// The operation that is under way, or that ended in this reconcile and not well.
    pub operation: Option<Operation>,
    /// What the service has taken, when that moved.
    pub applied: Option<Applied>,
    /// The token of spec.reconcile that was carried out.
    pub reconciled: Option<String>,
    /// Whether the server was confirmed lately, if that is known; filled in when it is told.
    pub synced: Option<Synced>,
    /// The time zone of the service, where the Account can be used; set when the status is written.
    pub utc_offset: Option<Offset>,
    /// What the selectors of the spec mean; filled in when it is told.
    pub resolved: Option<Resolved>,
    /// The package of the server, as far as it is known; filled in when it is told.
    pub package: Option<String>,
    /// An operation that ended.
    pub ended: Option<HistoryEntry>,
    /// Events beside the one that every change of the Ready reason brings.
    pub events: Vec<EventNote>,
}

/// The request limit is used up by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The Instance stands in line, and is woken when it may call.
    InLine,
    /// It had its turn to call, and did not come to it in good time: nobody wakes it.
    Late,
}

impl Needs {
    /// Whether the service is asked for it, or is about to be: nobody takes another's place who may not call yet.
    pub fn is_for_a_call(&self) -> bool {
        match self {
            Self::Detail | Self::Candidate(_) | Self::References(_) | Self::Reservation => true,
            Self::Nothing
            | Self::Login
            | Self::Claim(_)
            | Self::LoginMetadata
            | Self::Connection => false,
        }
    }
}

impl StatusUpdate {
    /// A readiness that is shown at once.
    pub(in crate::instance) fn of(readiness: Readiness) -> Self {
        Self {
            readiness: Some(readiness),
            ..Self::default()
        }
    }

    /// A progress that is shown when it lasts.
    pub(in crate::instance) fn progress(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            readiness: Some(Readiness::reconciling(reason, message)),
            progress: true,
            ..Self::default()
        }
    }

    pub(in crate::instance) fn with_id(mut self, id: Option<ServerId>) -> Self {
        self.id = id;
        self
    }
}

impl Plan {
    pub(in crate::instance) fn rest(update: StatusUpdate, again: Duration) -> Self {
        Self {
            step: Step::Rest,
            update,
            again,
            wants: Wants::default(),
            needs: Needs::Nothing,
            pause: None,
        }
    }

    pub(in crate::instance) fn act(step: Step, update: StatusUpdate) -> Self {
        Self {
            step,
            ..Self::rest(update, times::PASS_RECHECK)
        }
    }

    /// Waits for proof that a server is not there: until `settled`, when a call in doubt is over, at the pace of what runs; from
    /// then on for two listings in a row, as soon as they can be had.
    pub(in crate::instance) fn until_proven(
        update: StatusUpdate,
        observed: &Observation,
        settled: Instant,
    ) -> Self {
        let rest = settled.saturating_duration_since(observed.now);
        if rest.is_zero() {
            Self::rest(update, times::PASS_RECHECK).wanting(settled, 2)
        } else {
            Self::rest(update, rest.min(times::PASS_RECHECK)).in_flight()
        }
    }

    /// Whether it says that all is as the spec wants it.
    pub fn is_ready(&self) -> bool {
        let readiness = self.update.readiness.as_ref();
        readiness.is_some_and(|readiness| readiness.state == State::Ready)
    }

    /// Whether it does nothing, and says that waiting does not help.
    pub(in crate::instance) fn waits_for_a_human(&self) -> bool {
        let readiness = self.update.readiness.as_ref();
        matches!(self.step, Step::Rest)
            && self.needs == Needs::Nothing
            && readiness.is_some_and(|readiness| readiness.state == State::Stalled)
    }

    /// Whether its step may buy a server.
    pub fn buys(&self) -> bool {
        matches!(self.step, Step::Buy { .. })
    }

    /// Whether its intent is a write of status.
    pub fn announces(&self) -> bool {
        matches!(self.step, Step::Operate { announce: true, .. })
    }

    /// Whether there may be a server on record after its step that was not there before.
    pub fn begins(&self) -> bool {
        self.buys() || matches!(self.step, Step::Record { .. })
    }

    /// Looked at again within this time, whatever else the plan says.
    pub(in crate::instance) fn within(mut self, time: Duration) -> Self {
        self.again = self.again.min(time);
        self
    }

    /// The same while a server's detail can be read: listings do not make it readable.
    pub(in crate::instance) fn in_flight_while_readable(self, observed: &Observation) -> Self {
        if observed.memory.observations.unread {
            self
        } else {
            self.in_flight()
        }
    }

    /// The listing is to be read at the pace of running operations.
    pub(in crate::instance) fn in_flight(mut self) -> Self {
        self.wants.attention = Attention::InFlight;
        self
    }

    /// A pass that begins after this instant is wanted: soon, where passes come at the pace of operations, else with the next one
    /// that comes by itself.
    pub(in crate::instance) fn wanting_sometime(mut self, after: Instant) -> Self {
        self.wants = Wants {
            attention: Attention::Followed,
            pass_after: Some(after),
            passes: 1,
        };
        self
    }

    /// Passes that begin after this instant are wanted as soon as possible.
    pub(in crate::instance) fn wanting(mut self, after: Instant, passes: u8) -> Self {
        self.wants = Wants {
            attention: Attention::InFlight,
            pass_after: Some(after),
            passes,
        };
        self
    }
}
