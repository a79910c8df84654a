//! A plan: one step, the reason for it, and the changes of status that go with it.

use crate::api::conditions::{Readiness, Reason, State};
use crate::api::{Applied, HistoryEntry, Operation, PurchaseRecord, Retry};
use crate::cloud::ServerId;
use crate::credentials::Chore;
use crate::instance::observation::{Observation, of_purchase};
use crate::instance::pins::LookUpScope;
use crate::instance::times;
use crate::inventory::{Attention, Wants};
use crate::runtime::events::EventNote;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

/// One step, the reason for it, and the changes of status that go with it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The step to carry out now.
    pub step: Step,
    /// The reason for the conditions. None: the current conditions stay.
    pub why: Option<Readiness>,
    /// The changes of the other fields of status.
    pub changes: StatusChanges,
    /// Events in addition to the one for every change of the Ready reason.
    pub events: Vec<EventNote>,
    /// The time until the next reconcile, unless an event or another wait brings it forward.
    pub again: Duration,
    /// The listing passes that the plan needs meanwhile.
    pub wants: Wants,
    /// A read after which the plan is made again.
    pub needs: Option<NeededRead>,
}

/// A value, or the plan that takes its place: `?` returns that plan.
pub(in crate::instance) type OrPlan<T> = Result<T, Box<Plan>>;

/// The plan, or the one that takes its place.
pub(in crate::instance) fn either(plan: OrPlan<Plan>) -> Plan {
    plan.unwrap_or_else(|instead| *instead)
}

/// Returns this plan early if there is one: `first(plan)?`.
pub(in crate::instance) fn first(plan: Option<Plan>) -> OrPlan<()> {
    plan.map_or(Ok(()), |plan| Err(Box::new(plan)))
}

/// One read. If a plan needs it, the plan is made again with the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeededRead {
    /// The state of the task that the reconcile waits for.
    Task,
    Login,
    /// The server's current detail.
    Detail,
    /// The current detail of the server to import, and whether another Instance has it.
    Candidate(ServerId),
    /// The results of resolving the spec's selectors.
    References(LookUpScope),
}

/// The one action of a reconcile.
#[derive(Clone, Debug)]
pub enum Step {
    /// Do nothing: the Instance waits, or everything is as specified.
    Rest,
    /// Announce an attempt to buy a server, and make its one call. Without an announcement: make the call of an attempt that this
    /// process announced before, since no call of that attempt had an effect.
    Buy {
        /// The record of the attempt.
        record: Box<PurchaseRecord>,
        /// Whether the record must be written first. If false, it exists, and is read again before the call.
        announce: bool,
    },
    /// The same for an operation on the recorded server. Its intent is written to status.
    Operate {
        operation: Box<Operation>,
        /// Whether the intent must be written first.
        announce: bool,
    },
    /// Write this record, of an existing server or of one that is being bought, and add the finalizer if it is missing.
    Record { record: Box<PurchaseRecord> },
    Release {
        /// The server to release.
        id: ServerId,
        why: ReleaseReason,
    },
    /// Write a Secret that belongs to the Instance.
    Secret(Chore),
    /// Remove the finalizer: no server is left, or certainly none was bought.
    Finish,
    /// Remove the finalizer, and keep the server at the service, if there is one.
    Retain { event: Option<EventNote> },
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

/// The changes that a reconcile makes to status, except for its conditions.
#[derive(Clone, Debug, Default)]
pub struct StatusChanges {
    /// The server to show. None: the recorded one, unless status has dropped it.
    pub id: Option<ServerId>,
    /// Whether status drops everything about the server: it is gone for good, or belongs to another Instance.
    pub forget_server: bool,
    /// The server's detail, if it was read.
    pub detail: Option<Map<String, Value>>,
    /// The operation in progress, or the one that ended badly in this reconcile. None: the one in status stays until it is over.
    pub operation: Option<Operation>,
    /// The state that the service last accepted, if this plan determined it. None: the value in status stays.
    pub applied: Option<Applied>,
    /// Whether a reinstall has left the server off. None: the value in status stays.
    pub left_off: Option<bool>,
    /// The token of `spec.reconcile` that was carried out.
    pub reconciled: Option<String>,
    /// An operation that ended.
    pub ended: Option<HistoryEntry>,
    /// When the operation that ended badly may begin again.
    pub retry: Option<Retry>,
}

impl Step {
    /// The operation whose call the step makes. A release is none.
    pub fn operation(&self) -> Option<Operation> {
        match self {
            Self::Buy { record, .. } => Some(of_purchase(record)),
            Self::Operate { operation, .. } => Some(Operation::clone(operation)),
            _ => None,
        }
    }
}

impl NeededRead {
    /// Whether the service must be called for it.
    pub fn is_call(&self) -> bool {
        match self {
            Self::Task | Self::Detail | Self::Candidate(_) | Self::References(_) => true,
            Self::Login => false,
        }
    }
}

impl Plan {
    /// No step, and nothing new to report.
    pub(in crate::instance) fn wait(again: Duration) -> Self {
        Self {
            step: Step::Rest,
            why: None,
            changes: StatusChanges::default(),
            events: Vec::new(),
            again,
            wants: Wants::default(),
            needs: None,
        }
    }

    /// No step, for this reason.
    pub(in crate::instance) fn rest(why: Readiness, again: Duration) -> Self {
        Self::wait(again).because(Some(why))
    }

    /// No step before this read.
    pub(in crate::instance) fn needing(read: NeededRead) -> Self {
        Self {
            needs: Some(read),
            ..Self::wait(times::PASS_RECHECK)
        }
    }

    pub(in crate::instance) fn act(step: Step) -> Self {
        Self {
            step,
            ..Self::wait(times::PASS_RECHECK)
        }
    }

    pub(in crate::instance) fn because(self, why: Option<Readiness>) -> Self {
        Self { why, ..self }
    }

    pub(in crate::instance) fn with_id(mut self, id: ServerId) -> Self {
        self.changes.id = Some(id);
        self
    }

    pub(in crate::instance) fn with_operation(mut self, operation: Option<Operation>) -> Self {
        self.changes.operation = operation;
        self
    }

    pub(in crate::instance) fn with_event(mut self, event: EventNote) -> Self {
        self.events.push(event);
        self
    }

    /// Reads the server's detail, unless that has just failed.
    pub(in crate::instance) fn reading_detail(mut self, observed: &Observation) -> Self {
        let has_failed = observed.look().is_unreadable;
        if !has_failed || observed.is_look_older_than(times::UNREADABLE_RETRY) {
            self.needs = Some(NeededRead::Detail);
        }
        self
    }

    /// Waits for a proof of absence. Until `settled`, when a doubtful call is over, listings come at the short interval; after
    /// that the plan waits for two listings in a row, as soon as possible.
    pub(in crate::instance) fn until_proven(
        why: Option<Readiness>,
        observed: &Observation,
        settled: Instant,
    ) -> Self {
        let rest = settled.saturating_duration_since(observed.now);
        let plan = Self::wait(times::PASS_RECHECK).because(why);
        if rest.is_zero() {
            plan.requesting_passes(settled, 2)
        } else {
            plan.within(rest).listing_often()
        }
    }

    /// The reason of its condition Ready, if it reports one.
    pub fn reason(&self) -> Option<Reason> {
        self.why.as_ref().map(|why| why.reason)
    }

    fn state(&self) -> Option<State> {
        self.why.as_ref().map(|why| why.state)
    }

    /// Whether it reports the server as Ready.
    pub fn is_ready(&self) -> bool {
        self.state() == Some(State::Ready)
    }

    /// Whether it does nothing, and reports Stalled; a drift does not count.
    pub(in crate::instance) fn rests_stalled(&self) -> bool {
        matches!(self.step, Step::Rest)
            && self.needs.is_none()
            && self.state() == Some(State::Stalled)
    }

    /// Whether its step may buy a server.
    pub fn buys(&self) -> bool {
        matches!(self.step, Step::Buy { .. })
    }

    /// Whether its step may put a new server on record.
    pub fn begins(&self) -> bool {
        self.buys() || matches!(self.step, Step::Record { .. })
    }

    /// Reconciles again after this time at the latest.
    pub(in crate::instance) fn within(mut self, time: Duration) -> Self {
        self.again = self.again.min(time);
        self
    }

    /// As [`Self::listing_often`], but only while the server's detail can be read: listings do not make it readable.
    pub(in crate::instance) fn listing_often_while_readable(self, observed: &Observation) -> Self {
        match observed.look().is_unreadable {
            true => self,
            false => self.listing_often(),
        }
    }

    /// Requests listings at the short interval.
    pub(in crate::instance) fn listing_often(mut self) -> Self {
        self.wants.attention = Attention::InFlight;
        self
    }

    /// Requests a pass that begins after this instant: soon if passes come at the short interval, or else the next regular one.
    pub(in crate::instance) fn requesting_pass_sometime(mut self, after: Instant) -> Self {
        self.wants = Wants {
            attention: Attention::Followed,
            pass_after: Some(after),
            passes: 1,
        };
        self
    }

    /// Requests passes that begin after this instant as soon as possible.
    pub(in crate::instance) fn requesting_passes(mut self, after: Instant, passes: u8) -> Self {
        self.wants = Wants {
            attention: Attention::InFlight,
            pass_after: Some(after),
            passes,
        };
        self
    }
}
