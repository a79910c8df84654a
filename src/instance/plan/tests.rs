//! Tests of single situations: an observation in, a step and a reason out.

mod buy;
mod cause;
mod chores;
mod delete;
mod diff;
mod follow;
mod import;
mod policies;
mod reads;
mod replace;
mod resolve;
mod secret;
mod steady;

use super::step::{NeededRead, Plan, ReleaseReason, StatusChanges, Step};
use super::*;
use crate::api::conditions::State;
use crate::api::{
    Applied, Before, EndReason, HistoryEntry, Imports, Instance, InstanceStatus, Marker, Operation,
    OperationEnd, PurchaseRecord, Retry, Verb,
};
use crate::cloud::{Detail, Place, ServerId, TaskId, TaskState};
use crate::credentials::{Chore, KnownLogin, LoginFact};
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::memory::all::Memories;
use crate::instance::memory::call::{CallState, Gone, Intent, NewestCall, Release, ReleaseCall};
use crate::instance::memory::look::{LastAnswer, Look};
use crate::instance::memory::{Memory, lock};
use crate::instance::observation::{SessionFacts, of_purchase};
use crate::instance::outcome::ReleaseFailure;
use crate::instance::pins::{LookUpScope, LookUps};
use crate::instance::poll_schedule::PollSchedule;
use crate::instance::status::render;
use crate::inventory::{Attention, Wants, ZoneViews, testing};
use crate::runtime::chance::Day;
use crate::runtime::watch::ObjectKey;
use crate::session::{ConflictingOwner, QuotaState};
use diff::as_bought;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::Instant;

const SETTLE: Duration = Duration::from_secs(180);
const UID: &str = "0d1c9d4e-0000-4000-8000-000000000001";
const ID: &str = "ecs-1";

/// An observation that tests change step by step.
#[derive(Clone)]
struct Scene(Observation);

impl Scene {
    /// An object that appeared a moment ago, a usable Account, and no listing yet.
    fn fresh() -> Self {
        Self::of(&instance(), true)
    }

    fn of(instance: &Instance, created_in_this_term: bool) -> Self {
        let facts = Facts::of("cluster", instance);
        let memories = Memories::default();
        memories.met(UID, &facts.key, created_in_this_term);
        let mut memory = lock(&memories.get(UID).unwrap()).clone();
        let now = memory.origin.since;
        memory.apply(facts.purchase(), now);
        Self(Observation {
            facts,
            account: AccountFact::AccountSession(SessionFacts {
                settle: SETTLE,
                imports: Imports::Allowed,
                utc_offset: jiff::tz::Offset::UTC,
                credential: "secret/1".into(),
                former_credential: Some("former/1".into()),
                knows_our_account: false,
            }),
            listing: Some(ZoneViews::of(here(), testing::view(None, None))),
            task: Fact::NotRead,
            schedule: PollSchedule::default(),
            account_key: ObjectKey::new("ns", "default"),
            detail: Fact::NotRead,
            secret_version: Some("login/1".into()),
            secret_is_unmarked: false,
            login: LoginFact::Ready(KnownLogin {
                secret: Some("login/1".into()),
                generated: None,
            }),
            found: LookUps::default(),
            connection_version: None,
            quota: QuotaState::Free,
            candidate: Fact::NotRead,
            conflicting_owner: ConflictingOwner::None,
            recorded_by_other_cluster: None,
            memory,
            epoch: 0,
            now,
            wall_clock: Timestamp::UNIX_EPOCH,
            day: Day {
                instant: now,
                time: Timestamp::UNIX_EPOCH,
            },
        })
    }

    /// The same object with a record that this process wrote.
    fn recorded(id: Option<&str>, change: impl FnOnce(&mut PurchaseRecord)) -> Self {
        let mut record = record();
        record.id = id.map(ToOwned::to_owned);
        change(&mut record);
        let mut instance = instance();
        instance.metadata.finalizers = Some(vec![crate::api::names::FINALIZER.into()]);
        instance.metadata.annotations =
            Some([(crate::api::names::BINDING.to_owned(), record.to_text())].into());
        Self::of(&instance, true)
    }

    /// A server that was bought and observed long ago.
    fn converged() -> Self {
        let mut scene = Self::recorded(Some(ID), |record| record.task = Some("t-1".into()));
        let mut status = InstanceStatus {
            id: Some(ID.into()),
            applied: Some(as_bought()),
            attempt: 1,
            ..InstanceStatus::default()
        };
        status.detail = detail(&[]).fields;
        status.history = vec![HistoryEntry {
            verb: Verb::Create,
            attempt: 1,
            succeeded: true,
            reason: None,
            message: None,
            cause: None,
            generation: None,
            password_secret: None,
            power_cut: false,
            started_at: Time(Timestamp::UNIX_EPOCH),
            finished_at: Time(Timestamp::UNIX_EPOCH),
        }];
        scene.0.facts.status = status.into();
        scene
    }

    fn with(mut self, change: impl FnOnce(&mut Observation)) -> Self {
        change(&mut self.0);
        self
    }

    fn memory(self, change: impl FnOnce(&mut Memory)) -> Self {
        self.with(|observed| change(&mut observed.memory))
    }

    /// Changes the last read of the server; it is given when the object was first seen, and the time of the observation.
    fn look(self, change: impl FnOnce(&mut Look, Instant, Instant)) -> Self {
        self.with(|observed| {
            let first_seen = observed.memory.origin.since;
            let look = &mut observed.memory.observations.look;
            change(look, first_seen, observed.now);
        })
    }

    fn record(self, change: impl FnOnce(&mut PurchaseRecord)) -> Self {
        self.with(|observed| {
            let Record::Speaks(record) = &mut observed.facts.record else {
                unreachable!()
            };
            change(record);
            observed.memory.note_record(record);
        })
    }

    fn status(self, change: impl FnOnce(&mut InstanceStatus)) -> Self {
        self.with(|observed| change(std::sync::Arc::make_mut(&mut observed.facts.status)))
    }

    /// Status was lost: a user cleared it, or a backup lacked it.
    fn wiped(self) -> Self {
        self.status(|status| *status = InstanceStatus::default())
    }

    /// Status has not shown the end of the create yet.
    fn without_the_end_of_its_create(self) -> Self {
        self.status(|status| {
            (status.applied, status.attempt) = (None, 0);
            status.history.clear();
        })
    }

    /// Status as this reconcile's plan writes it.
    fn written(self) -> Self {
        self.with(|observed| {
            let plan = plan(observed);
            let operation = begun(&plan).or(plan.changes.operation.as_ref()).cloned();
            let changes = StatusChanges {
                operation,
                ..plan.changes
            };
            let (facts, now) = (&observed.facts, observed.wall_clock);
            let status = render(facts, Some(observed), now, &changes, plan.why.as_ref());
            observed.facts.status = status.into();
        })
    }

    fn call_state(self, state: CallState) -> Self {
        let record = self.0.facts.purchase().unwrap().clone();
        self.memory(|memory| memory.call = Some(purchased(&record, state, memory)))
    }

    /// The server is known to be gone.
    fn known_gone(self, how: Gone) -> Self {
        self.memory(|memory| {
            let gone = Release::Gone(how, memory.origin.since);
            memory.releases.insert(ServerId::from(ID), gone);
        })
    }

    /// Two listings that began after this time, and show these servers.
    fn listed(self, after: Duration, servers: &[(&str, &str)]) -> Self {
        self.with(|observed| {
            let began = observed.now + after + Duration::from_secs(1);
            let rows = || servers.iter().map(|(id, name)| row(id, name)).collect();
            let count = u64::try_from(servers.len()).ok();
            let first = testing::pass(began, rows(), count);
            let second = testing::pass(began + Duration::from_secs(5), rows(), count);
            observed.listing = Some(ZoneViews::of(
                here(),
                testing::view(Some(first), Some(second)),
            ));
            observed.now = began + Duration::from_secs(10);
        })
    }

    fn deleting(self) -> Self {
        self.with(|observed| {
            observed.facts.deleting = true;
            observed.facts.deleted_at = Some(observed.wall_clock);
        })
    }

    fn plan(&self) -> Plan {
        plan(&self.0)
    }
}

/// A call of this process for a purchase, with this outcome.
fn purchased(record: &PurchaseRecord, state: CallState, memory: &Memory) -> Box<NewestCall> {
    Box::new(NewestCall {
        tries: 1,
        was_busy_after_call: false,
        is_own: true,
        ..NewestCall::of_purchase(record, state, memory.origin.since)
    })
}

fn instance() -> Instance {
    serde_json::from_value(json!({
        "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": "web", "namespace": "ns", "uid": UID, "resourceVersion": "7", "generation": 1},
        "spec": {"region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "img-1"},
                 "firewall": {"id": "fw-1"}, "login": {"passwordSecretRef": {"name": "s", "key": "k"}}},
    }))
    .unwrap()
}

fn record() -> PurchaseRecord {
    PurchaseRecord {
        cluster: "cluster".into(),
        namespace: "ns".into(),
        name: "web".into(),
        uid: UID.into(),
        marker: Marker::of_uid(UID),
        attempt: 1,
        nonce: "n1".into(),
        id: None,
        imported: None,
        task: None,
        started_at: Timestamp::UNIX_EPOCH,
        generation: 1,
        cause: None,
        target: Applied {
            power_state: None,
            ..as_bought()
        },
        waiting_password: false,
        package: "p".into(),
        firewall: Some("fw-1".into()),
        resolved: None,
        places: vec!["r/z".into()],
        lost: 0,
        failed: 0,
        refused: None,
        recreated: 0,
        account: "default".into(),
        credential: "secret/1".into(),
    }
}

/// An operation on the recorded server, as announced.
fn operation(verb: Verb, target: Applied) -> Operation {
    Operation {
        verb,
        attempt: 2,
        nonce: "n2".into(),
        generation: 1,
        cause: None,
        stage: None,
        power_cut: false,
        target,
        waiting_password: false,
        before: Before {
            image: Some("img-1".into()),
            running: true,
        },
        accepted: false,
        task_id: None,
        started_at: Time(Timestamp::UNIX_EPOCH),
        end: None,
    }
}

/// This end, this many times in a row.
fn bad_end(reason: EndReason, times: u32) -> Option<OperationEnd> {
    Some(OperationEnd {
        reason,
        message: Some("no".into()),
        times,
        finished_at: Time(Timestamp::UNIX_EPOCH),
    })
}

/// An operation with this target that ended badly, this many times in a row, and waits for this long.
fn retry(verb: Verb, reason: EndReason, times: u32, wait: Duration) -> Retry {
    Retry {
        verb,
        generation: 2,
        target: as_bought(),
        reason,
        message: Some("no".into()),
        times,
        not_before: Some(Time(Timestamp::UNIX_EPOCH + wait)),
    }
}

/// The pause that a plan puts before the next try.
fn pause(plan: &Plan) -> Option<Duration> {
    let at = plan.changes.retry.as_ref()?.not_before.as_ref()?;
    u64::try_from(at.0.as_second())
        .ok()
        .map(Duration::from_secs)
}

fn here() -> Place {
    Place::new("r", "z")
}

fn ours() -> String {
    format!("web-{}", Marker::of_uid(UID))
}

fn row(id: &str, name: &str) -> Map<String, Value> {
    let row = json!({"ecsResourceUUID": id, "instanceName": name, "ecsStatus": "STARTED",
        "ecsPendingStatus": "NONE", "imageResourceUUID": "img-1"});
    row.as_object().cloned().unwrap()
}

fn detail(changes: &[(&str, &str)]) -> Detail {
    let mut fields = row(ID, &ours());
    for (field, value) in changes {
        fields.insert((*field).to_owned(), json!(value));
    }
    Detail {
        id: ServerId::from(ID),
        fields,
    }
}

/// The answer of a server that has been idle since then.
fn idle(since: Instant) -> LastAnswer {
    LastAnswer::Exists {
        idle_since: Some(since),
        temporary: None,
    }
}

fn reason(plan: &Plan) -> Option<(State, Reason)> {
    plan.why
        .as_ref()
        .map(|readiness| (readiness.state, readiness.reason))
}

fn rests(plan: &Plan) -> bool {
    matches!(plan.step, Step::Rest)
}

/// The attempt to buy a server that a plan announces.
fn announced(plan: &Plan) -> Option<&PurchaseRecord> {
    match &plan.step {
        Step::Buy {
            record,
            announce: true,
            ..
        } => Some(record),
        _ => None,
    }
}

/// The operation on the recorded server that a plan announces.
fn begun(plan: &Plan) -> Option<&Operation> {
    match &plan.step {
        Step::Operate {
            operation,
            announce: true,
            ..
        } => Some(operation),
        _ => None,
    }
}

fn begins(scene: &Scene) -> Option<Verb> {
    begun(&scene.plan()).map(|operation| operation.verb)
}

#[test]
fn without_an_account_status_keeps_the_observed_server() {
    let away = |scene: Scene| scene.with(|observed| observed.account = AccountFact::NotFound);
    assert_eq!(
        reason(&away(Scene::fresh()).plan()),
        Some((State::Reconciling, Reason::AccountNotFound))
    );
    let observed = Scene::converged().with(|observed| {
        let status = InstanceStatus {
            observed_generation: 1,
            ..InstanceStatus::clone(&observed.facts.status)
        };
        observed.facts.status = status.into();
    });
    assert_eq!(reason(&away(observed).plan()), None);
}

#[test]
fn an_invalid_record_stops_every_step() {
    let mut scene = Scene::converged();
    scene.0.facts.record = Record::Invalid("edited".into());
    assert_eq!(
        reason(&scene.plan()),
        Some((State::Stalled, Reason::RecordInvalid))
    );
    assert!(rests(&scene.plan()));
    let deleting = scene.deleting();
    assert!(
        rests(&deleting.plan()),
        "a server that may not be ours is not released"
    );
}

#[test]
fn a_key_is_made_of_namespace_and_name() {
    let facts = Scene::fresh().0.facts;
    assert_eq!(facts.key, ObjectKey::new("ns", "web"));
}
