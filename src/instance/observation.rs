//! The observation that a plan is made from: values, and conclusions from several of them.

use crate::api::{Before, EndReason, Imports, Operation, PurchaseRecord, Verb};
use crate::cloud::{Detail, ServerId, TaskId, TaskState};
use crate::credentials::LoginFact;
pub use crate::instance::detail::{is_idle, pending, text};
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::memory::Memory;
use crate::instance::memory::call::CallState;
use crate::instance::memory::look::{LastAnswer, Look, RowDigest};
use crate::instance::pins::LookUps;
use crate::instance::poll_schedule::PollSchedule;
use crate::instance::temporary_state::Temporary;
use crate::instance::times;
use crate::inventory::{Sighting, ZoneViews};
use crate::runtime::chance::Day;
use crate::runtime::watch::ObjectKey;
use crate::session::{ConflictingOwner, Problem, QuotaState};
use jiff::Timestamp;
use jiff::tz::Offset;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value};
use std::iter;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub enum AccountFact {
    /// It can be used. If the Instance was deleted, this may be the last account session that could be used.
    AccountSession(SessionFacts),
    /// Its first reconcile has not finished.
    Pending,
    /// It cannot be used.
    Unusable(Problem),
    /// There is no such Account.
    NotFound,
}

/// The part of an account session that plans need.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    pub settle: Duration,
    /// Whether Instances may import existing servers.
    pub imports: Imports,
    /// Identifies endpoint and token in records that are written now.
    pub credential: Arc<str>,
    /// Identifies them in records of an earlier version.
    pub former_credential: Option<Arc<str>>,
    /// The time zone in which the service writes its times.
    pub utc_offset: Offset,
    /// The token sees the account of this Instance's record: in every region where the Instance may have a server, a listing with
    /// this token has shown a server that was recorded under the record's credential.
    pub knows_our_account: bool,
}

impl SessionFacts {
    /// Whether the attempt on record was made with this endpoint and token.
    pub fn made(&self, record: &PurchaseRecord) -> bool {
        let mut ours = iter::once(&self.credential).chain(&self.former_credential);
        ours.any(|ours| **ours == *record.credential)
    }
}

/// All values that a plan is made from.
#[derive(Clone, Debug)]
pub struct Observation {
    pub facts: Facts,
    pub account: AccountFact,
    pub account_key: ObjectKey,
    /// The listings; None without an account session.
    pub listing: Option<ZoneViews>,
    /// The task that the reconcile waits for.
    pub task: Fact<TaskState>,
    /// How often task and detail are read while an operation is in progress.
    pub schedule: PollSchedule,
    pub detail: Fact<Detail>,
    /// The Secret that the login names and its version (see [`named_version`](crate::credentials::named_version)), if it exists.
    pub secret_version: Option<String>,
    /// Whether an older version of the operator wrote that Secret, without a marker.
    pub secret_is_unmarked: bool,
    /// The login, read only if a plan needs it.
    pub login: LoginFact,
    /// The results of resolving the spec's selectors.
    pub found: LookUps,
    /// UID and resourceVersion of the connection Secret, if the spec names one and it exists.
    pub connection_version: Option<String>,
    /// Whether the Account's limits allow a server.
    pub quota: QuotaState,
    /// The detail of the server to import, read only when one is found.
    pub candidate: Fact<Detail>,
    /// Another Instance with the better right to the imported server, or to the one to import.
    pub conflicting_owner: ConflictingOwner,
    /// The record that another cluster wrote on this object, if no other Instance here has the server in it.
    pub recorded_by_other_cluster: Option<Box<PurchaseRecord>>,
    /// The memory of this process about the Instance, including this observation.
    pub memory: Memory,
    /// The epoch of the [`Memories`](crate::instance::memory::all::Memories) when the observation began.
    pub epoch: u64,
    /// Monotonic time of the observation.
    pub now: Instant,
    /// Wall-clock time, for users.
    pub wall_clock: Timestamp,
    /// Converts an instant into a time of day.
    pub day: Day,
}

/// A purchase as an operation, from its record.
pub fn of_purchase(record: &PurchaseRecord) -> Operation {
    Operation {
        verb: Verb::Create,
        attempt: i64::from(record.attempt),
        nonce: record.nonce.clone(),
        generation: record.generation,
        cause: record.cause,
        stage: None,
        power_cut: false,
        target: record.target.clone(),
        waiting_password: record.waiting_password,
        before: Before::default(),
        accepted: record.id.is_some(),
        task_id: record.task.clone(),
        started_at: Time(record.started_at),
        end: None,
    }
}

impl Observation {
    /// The state of a server in the newest listing, and when it was listed; for an absent one, when the listing began.
    pub fn listed(&self, id: &ServerId) -> Option<(Instant, RowDigest)> {
        match self.listing.as_ref()?.sighting(id) {
            Sighting::Present(row, at) => Some((at, RowDigest::Row(row.digest))),
            Sighting::Absent { began } => Some((began, RowDigest::Absent)),
            Sighting::Unknown(_) => None,
        }
    }

    /// The fields of the server's detail, as read in this reconcile, or else as status shows them.
    pub fn fields(&self) -> &Map<String, Value> {
        let read = self.detail.known();
        read.map_or(&self.facts.status.detail, |detail| &detail.fields)
    }

    /// The last read of the recorded server.
    pub fn look(&self) -> &Look {
        &self.memory.observations.look
    }

    /// Whether the last request for the detail is older than this, or there was none.
    pub fn is_look_older_than(&self, time: Duration) -> bool {
        let at = self.look().at;
        at.is_none_or(|at| self.now >= at + time)
    }

    /// Whether every read has shown an idle server for so long that the service counts as done with it.
    pub fn has_been_idle(&self) -> bool {
        let since = self.look().idle_since();
        since.is_some_and(|since| self.now >= since + times::IDLE_COUNTS_AS_DONE)
    }

    /// The temporary state of the server, as this process read it, or else as status shows it.
    pub fn temporary(&self) -> Option<Temporary> {
        match self.look().answer {
            LastAnswer::Exists { temporary, .. } => temporary,
            LastAnswer::Absent { .. } => None,
            LastAnswer::None => {
                let status = &self.facts.status;
                Temporary::next(None, status, &status.detail, self.memory.origin.since)
            }
        }
    }

    /// The server's state, if the operator does not know it and waits for another one.
    pub fn unknown_state<'a>(&self, detail: &'a Map<String, Value>) -> Option<&'a str> {
        let is_waiting = self.temporary()?.is_unknown_state(self.now);
        text(detail, "ecsStatus").filter(|_| is_waiting)
    }

    /// The open operation on the recorded server: from status, or from this process if status was lost, combined with the service's
    /// answer to this process. If there is none, the create from the record, while that is open.
    pub fn open(&self) -> Option<Operation> {
        let record = self.facts.purchase().filter(|record| record.id.is_some())?;
        let reported = self.facts.operation();
        let followed = reported.or(self.memory.followed());
        let mut open = match followed {
            Some(operation) => operation.clone(),
            None if self.facts.is_creating() => of_purchase(record),
            None => return None,
        };
        let call = self.memory.call_of(&open);
        if let Some(CallState::Accepted { task, .. }) = call.map(|call| &call.state) {
            open.accepted = true;
            open.task_id = open
                .task_id
                .or_else(|| task.as_ref().map(ToString::to_string));
        }
        Some(open)
    }

    /// Whether an operation on the recorded server is open, or an attempt to buy one.
    pub fn is_open(&self) -> bool {
        let has_none = self.facts.id().is_none();
        self.open().is_some() || (has_none && self.facts.is_creating())
    }

    /// The task of the open operation.
    pub fn task_id(&self) -> Option<TaskId> {
        self.open()?.task_id.as_deref().map(TaskId::from)
    }

    /// The recorded server, unless another Instance has the better right to it: then the operator does nothing to it.
    pub fn own_id(&self) -> Option<ServerId> {
        let is_free = self.conflicting_owner == ConflictingOwner::None;
        self.facts.id().filter(|_| is_free)
    }

    /// The server to release next: the recorded one, then one that the service gave this process, then any with the marker.
    /// Servers that are known to be gone are skipped.
    pub fn release_target(&self) -> Option<ServerId> {
        let given = self.memory.accepted_server().map(|(_, id, _)| id.clone());
        let listed = self
            .listing
            .iter()
            .flat_map(|listing| listing.bearing(&self.facts.marker));
        let alive = |id: &ServerId| self.memory.gone(id).is_none();
        self.own_id()
            .into_iter()
            .chain(given)
            .chain(listed)
            .find(alive)
    }

    /// The service's message if the task of the recorded create failed, from this reconcile or from status.
    pub fn create_failed(&self) -> Option<String> {
        if let Some(end) = self.facts.create_end() {
            let has_failed = end.reason == EndReason::Failed;
            return has_failed.then(|| end.message.clone().unwrap_or_default());
        }
        let open = self.open().filter(|open| open.verb == Verb::Create);
        match &self.task {
            Fact::Known(TaskState::Failed { reason }) if open.is_some() => {
                let reason = reason.as_deref();
                Some(reason.unwrap_or("the service gave no reason").to_owned())
            }
            _ => None,
        }
    }
}
