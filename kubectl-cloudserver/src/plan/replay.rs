//! Replays the reconciles that would follow an apply.
//!
//! The object and its server are observed once, read-only. Then the operator's planner plans one step, the effect of this step is
//! applied to the observation, and the planner plans again, until it has nothing left to do or waits.

use super::verdict::{Effect, Finding};
use cloud_server_operator::api::conditions::{Readiness, Reason, State};
use cloud_server_operator::api::names::FINALIZER;
use cloud_server_operator::api::{
    Applied, Instance, InstanceSpec, ManagementPolicy, OnExternalDeletion, Operation, PowerState,
    PurchaseRecord, ResolvedReference, Verb,
};
use cloud_server_operator::cloud::{Detail, Login, Place, ServerId};
use cloud_server_operator::instance::context::Context;
use cloud_server_operator::instance::fact::Fact;
use cloud_server_operator::instance::facts::Facts;
use cloud_server_operator::instance::login::{Credentials, LoginFact};
use cloud_server_operator::instance::memory::kinds::Gone;
use cloud_server_operator::instance::memory::look::Answer;
use cloud_server_operator::instance::memory::{Memory, open};
use cloud_server_operator::instance::observation::{
    AccountFact, Observation, SessionFacts, is_idle, pending, text,
};
use cloud_server_operator::instance::plan::plan;
use cloud_server_operator::instance::plan::step::{Plan, Read, ReleaseReason, SecretStep, Step};
use cloud_server_operator::instance::{observe, times};
use cloud_server_operator::runtime::watch::ObjectKey;
use cloud_server_operator::session::{Access, AccountSession};
use jiff::tz::Offset;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The most steps of one replay: more than any object needs, so that a plan that repeats itself ends.
const STEPS: usize = 20;

/// Longest wait for listings. One of 10,000 servers takes some 40 s at the default request limit.
const WAITS_FOR_LISTING: Duration = Duration::from_secs(90);

/// Recheck for a new listing, in case its notification is missed.
const LISTING_RECHECK: Duration = Duration::from_secs(2);

/// A note about a recorded server that the service does not show.
const OTHER_TOKEN: &str = "only the operator knows whether the Account still has the token that bought the server; if it has another \
     one, the operator reports the server as missing only after a listing that shows one of its own";

/// The effects of an object.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) effects: Vec<Finding>,
    pub(super) notes: Vec<String>,
    /// Why the server could not be read, if the server in status was used instead.
    pub(super) unread: Option<Unread>,
    /// The Account whose service was queried.
    pub(super) account: ObjectKey,
    /// The server's place, if known.
    pub(super) place: Option<Place>,
    /// The operation in progress, which ends before the first step.
    first: Option<String>,
    /// The spec as it is applied, with its pause and policy.
    spec: Arc<InstanceSpec>,
    /// The report of the pause or the policy `Observe` that holds back the first step.
    restriction: Option<Readiness>,
}

/// A failed read.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) reason: Reason,
    pub(super) why: String,
}

/// Observes an object, and replays its reconciles. `is_new`: the cluster does not have it yet, so nothing can have been bought for
/// it. `unreadable`: Secrets that the user may not read.
pub(super) async fn replay(
    context: &Context,
    instance: &Instance,
    is_new: bool,
    unreadable: &BTreeSet<ObjectKey>,
) -> Replay {
    // Users want to know the effects that a pause or a policy holds back, so plan without them.
    let mut freed = instance.clone();
    freed.spec.pause = None;
    freed.spec.management_policy = ManagementPolicy::Manage;
    let facts = Facts::of(&context.settings.cluster, &freed);
    let memory = context.memories.met(facts.uid.as_str(), &facts.key, is_new);
    // Nothing is bought here, so a purchase that may have been lost a moment ago needs no wait.
    open(&memory).origin.recordless_since = Instant::now().checked_sub(times::LISTED_WITHIN);
    let (mut observed, session) = observe(context, facts, &memory).await;
    let secret = observed.facts.login_secret();
    let key = secret.map(|secret| ObjectKey::new(&observed.facts.key.namespace, &secret.name));
    if key.is_some_and(|key| unreadable.contains(&key)) {
        // A note already reports it; the password counts as unchanged.
        let applied = observed.facts.status.applied.as_ref();
        observed.secret_version = applied.and_then(|applied| applied.password_secret.clone());
    }
    let mut replay = Replay::of(&observed, Arc::new(instance.spec.clone()));
    if replay.begin(&mut observed).is_continue() {
        for _ in 0..STEPS {
            let plan = planned(context, &mut observed, session.as_ref(), &memory).await;
            if let (true, Some(session)) = (plan.buys(), &session) {
                // Instances that are replayed later find one place less.
                let (uid, account) = (&observed.facts.uid, &observed.account_key);
                let quota = context.sessions.quota();
                quota.admit(uid, account, session.limits);
            }
            if replay.step(&mut observed, &plan).is_break() {
                break;
            }
        }
    }
    replay
}

/// Observes until no further listing is needed, and always reads the server, since users expect current information.
async fn observe(
    context: &Context,
    facts: Facts,
    memory: &Mutex<Memory>,
) -> (Observation, Option<Access>) {
    let ends = Instant::now() + WAITS_FOR_LISTING;
    loop {
        let (mut observed, session) = observe::observe(context, facts.clone(), memory).await;
        if observed.facts.id().is_some() {
            let (read, session) = (Some(&Read::Detail), session.as_ref());
            let _ = observe::learn(context, &mut observed, read, session, memory).await;
        }
        let plan = planned(context, &mut observed, session.as_ref(), memory).await;
        match &session {
            Some(session) if needs_listing(&observed, &plan) && Instant::now() < ends => {
                open(memory).pace.wants = plan.wants;
                listed(session).await;
            }
            _ => return (observed, session),
        }
    }
}

/// The plan, after everything was read that it needs.
async fn planned(
    context: &Context,
    observed: &mut Observation,
    session: Option<&Access>,
    memory: &Mutex<Memory>,
) -> Plan {
    let mut next = plan(observed);
    while observe::learn(context, observed, next.needs.as_ref(), session, memory).await {
        next = plan(observed);
    }
    next
}

/// Whether a listing would add information: before a purchase or an import. A recorded server is read itself.
fn needs_listing(observed: &Observation, plan: &Plan) -> bool {
    let listing = observed.listing.as_ref();
    // A listing that failed will fail again.
    let is_hopeless = listing.is_some_and(|listing| listing.trouble().is_some());
    let reason = plan.reason();
    observed.facts.id().is_none()
        && !is_hopeless
        && matches!(
            reason,
            Some(Reason::CheckingForExistingServer | Reason::Importing)
        )
        && plan.wants.pass_after.is_some()
}

/// Waits for the end of a listing pass, or until it is time to observe again.
async fn listed(session: &AccountSession) {
    let mut passes = session.shared.inventory.passes();
    let _ = tokio::time::timeout(LISTING_RECHECK, passes.changed()).await;
}

impl Replay {
    fn of(observed: &Observation, spec: Arc<InstanceSpec>) -> Self {
        let id = observed.facts.id();
        let listing = observed.listing.as_ref();
        let is_listed = id.is_some_and(|id| listing.is_some_and(|it| it.row(&id).is_some()));
        let is_seen = is_listed || matches!(observed.detail, Fact::Known(_));
        let is_doubtful = observed.facts.purchase().is_some() && !is_seen;
        Self {
            effects: Vec::new(),
            notes: is_doubtful
                .then(|| OTHER_TOKEN.to_owned())
                .into_iter()
                .collect(),
            unread: None,
            account: observed.account_key.clone(),
            place: observed.facts.here.clone(),
            first: None,
            spec,
            restriction: None,
        }
    }

    /// Brings the observation to the point where the first step begins: an operation in progress has succeeded, and the server of
    /// status stands in for one that could not be read.
    fn begin(&mut self, observed: &mut Observation) -> ControlFlow<()> {
        if observed.facts.deleting {
            let message = "this Instance is being deleted, and what is applied to it is deleted with it: wait until it is gone, and \
                           apply it then";
            self.waits(&Readiness::stalled(Reason::Releasing, message));
            return ControlFlow::Break(());
        }
        let Some(id) = observed.facts.id() else {
            return ControlFlow::Continue(());
        };
        let is_unread = matches!(observed.detail, Fact::NotAsked | Fact::Unknown(_));
        if is_unread && observed.create_failed().is_none() {
            let unread = unread(observed, &id);
            if observed.facts.status.detail.is_empty() {
                return self.unknown(unread.why, Some(unread.reason));
            }
            self.unread = Some(unread);
            as_in_status(observed, id);
        }
        if !matches!(observed.detail, Fact::Known(_)) {
            return ControlFlow::Continue(());
        }
        // A temporary state counts as over.
        observed.memory.observations.look.answer = Answer::Exists {
            is_off: false,
            idle_since: None,
            temporary: None,
        };
        if let Some(open) = observed.open() {
            self.first = Some(format!("the {} in progress", open.verb));
            complete(observed, &open);
        }
        if let Fact::Known(detail) = &mut observed.detail {
            let busy = pending(&detail.fields).filter(|word| !is_idle(Some(word)));
            if let (None, Some(word)) = (&self.first, busy) {
                self.first = Some(format!(
                    "the service's own operation on the server ({word})"
                ));
            }
            detail.fields.remove("ecsPendingStatus");
        }
        ControlFlow::Continue(())
    }

    /// Takes the step of a plan, and applies its effect to the observation.
    fn step(&mut self, observed: &mut Observation, plan: &Plan) -> ControlFlow<()> {
        match &plan.step {
            Step::Rest => return self.rest(observed, plan),
            Step::Buy { record, .. } => {
                self.acts(observed, Effect::NewServer, Verb::Create, purchase(record))?;
                return ControlFlow::Break(());
            }
            Step::Operate { operation, .. } => {
                let effect = match operation.verb {
                    Verb::Reinstall | Verb::Create | Verb::Release => Effect::ErasesDisk,
                    Verb::Restart => Effect::Restart,
                    Verb::ModifyPassword | Verb::Start | Verb::Stop => Effect::InPlace,
                };
                self.acts(observed, effect, operation.verb, cause(observed, operation))?;
                complete(observed, operation);
            }
            Step::Release { id, why } => {
                let what = match why {
                    ReleaseReason::Failed => "a failed create left it behind",
                    ReleaseReason::Surplus => "another server is recorded for this Instance",
                    ReleaseReason::Deleted => "this Instance is being deleted",
                };
                let why = format!("server {id}: {what}");
                self.acts(observed, Effect::ErasesDisk, Verb::Release, why)?;
                let gone = (Gone::Released, observed.now);
                observed.memory.calls.gone.insert(id.clone(), gone);
            }
            Step::Record { record }
                if record.id == observed.facts.id().map(|id| id.to_string()) =>
            {
                // The operator first adds its finalizer again.
                observed.facts.finalizers.push(FINALIZER.to_owned());
            }
            Step::Record { record } => {
                let why = match &record.imported {
                    Some(name) => format!("spec.import names it; the service calls it {name}"),
                    None => "its name ends in the marker of this Instance".to_owned(),
                };
                let id = record.id.as_deref().unwrap_or_default();
                let operation = Some(format!("take over {id}"));
                self.finding(observed, Effect::TakesOver, operation, why)?;
                return ControlFlow::Break(());
            }
            Step::Secret(step) => return self.secret(observed, step),
            Step::Auxiliary { .. } | Step::Finish | Step::LetGo { .. } => {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Takes a step that writes a Secret.
    fn secret(&mut self, observed: &mut Observation, step: &SecretStep) -> ControlFlow<()> {
        let name = observed.facts.login_secret().map(|secret| secret.name);
        let name = name.unwrap_or_default();
        let why = match step {
            SecretStep::Generate => format!("a password is generated in Secret {name}"),
            SecretStep::Renew { .. } => {
                format!(
                    "the generated password in Secret {name} has expired, and another one is generated"
                )
            }
            SecretStep::Keep { .. } => {
                format!("Secret {name} gets its owner, labels and annotations again")
            }
            SecretStep::Settle { .. } | SecretStep::Connect if !self.effects.is_empty() => {
                return ControlFlow::Break(());
            }
            SecretStep::Settle { .. } => format!("Secret {name} gets the time of its password"),
            SecretStep::Connect => "the connection Secret gets the current values".to_owned(),
        };
        self.finding(observed, Effect::InPlace, None, why)?;
        match step {
            SecretStep::Generate | SecretStep::Renew { .. } => {
                observed.secret_version = Some(format!("{name}/generated"));
            }
            SecretStep::Keep { .. } if matches!(observed.login, LoginFact::Unowned(_)) => {}
            SecretStep::Keep { .. } | SecretStep::Settle { .. } | SecretStep::Connect => {
                return ControlFlow::Break(());
            }
        }
        observed.login = stand_in(observed);
        ControlFlow::Continue(())
    }

    /// The plan has no step: it is done, or it waits. The replay goes on beyond a wait that does not change what follows.
    fn rest(&mut self, observed: &mut Observation, plan: &Plan) -> ControlFlow<()> {
        match &plan.needs {
            None | Some(Read::LoginMetadata | Read::Connection) => {}
            Some(Read::Login) => {
                observed.login = stand_in(observed);
                return ControlFlow::Continue(());
            }
            Some(Read::References(_)) => {
                let why = "the selectors in the spec could not be resolved".to_owned();
                return self.unknown(why, Some(Reason::ReferenceLookupFailed));
            }
            Some(Read::Task | Read::Detail | Read::Candidate(_)) => {
                return self.unknown("the service could not be read".to_owned(), None);
            }
        }
        let is_missing = matches!(observed.detail, Fact::Absent) && observed.facts.id().is_some();
        let Some(readiness) = plan.readiness() else {
            return match &observed.detail {
                _ if is_missing => self.missing(observed, None),
                Fact::Known(_) => ControlFlow::Break(()),
                _ => self.unknown("the operator has not read its Account yet".to_owned(), None),
            };
        };
        let message = &readiness.message;
        match readiness.reason {
            Reason::Available => {}
            Reason::LoginSecretNotFound
            | Reason::LoginPasswordInvalid
            | Reason::SecretNameConflict
            | Reason::SecretReadFailed
                if !matches!(observed.login, LoginFact::Ready(_)) =>
            {
                match readiness.reason {
                    Reason::SecretReadFailed => self.notes.push(message.clone()),
                    _ => self.waits(readiness),
                }
                observed.login = stand_in(observed);
                return ControlFlow::Continue(());
            }
            // A pause after a failure ends automatically.
            Reason::OperationRefused | Reason::OperationFailed if has_pause(observed) => {
                match readiness.reason {
                    Reason::OperationRefused => self.waits(readiness),
                    _ => self.notes.push(message.clone()),
                }
                let status = Arc::make_mut(&mut observed.facts.status);
                status.operation = None;
                status.retries.retain(|retry| retry.not_before.is_none());
                return ControlFlow::Continue(());
            }
            // These waits end without human action, and a purchase follows.
            Reason::CreateRateReached | Reason::CreateFailed | Reason::RecordedByOtherCluster => {
                self.acts(observed, Effect::NewServer, Verb::Create, message.clone())?;
            }
            _ if is_missing => return self.missing(observed, Some(readiness)),
            Reason::NameDiffers if !is_own(observed) => self.waits(readiness),
            Reason::ImageDiffers | Reason::NameDiffers => self.notes.push(message.clone()),
            Reason::PowerStateDiffers if self.first.is_none() => self.notes.push(message.clone()),
            Reason::PowerStateDiffers => {}
            Reason::Creating
            | Reason::CreateUnconfirmed
            | Reason::CheckingForExistingServer
            | Reason::Importing
            | Reason::ReferenceLookupFailed
            | Reason::SecretReadFailed
            | Reason::ServerReadFailed
            | Reason::ServiceUnreachable
            | Reason::ServiceBusy
            | Reason::RateLimited
            | Reason::InventoryUnreliable => {
                return self.unknown(message.clone(), Some(readiness.reason));
            }
            _ => self.waits(readiness),
        }
        ControlFlow::Break(())
    }

    /// The service does not know the recorded server.
    fn missing(
        &mut self,
        observed: &Observation,
        readiness: Option<&Readiness>,
    ) -> ControlFlow<()> {
        let spec = &observed.facts.spec;
        let id = observed
            .facts
            .id()
            .map(|id| id.to_string())
            .unwrap_or_default();
        let recreated = observed
            .facts
            .purchase()
            .map_or(0, |record| record.recreated);
        let is_replaced = spec.on_external_deletion == OnExternalDeletion::Recreate
            && i64::from(recreated) < i64::from(spec.recreate_limit);
        let is_waiting = readiness.filter(|it| it.state == State::Reconciling);
        if let (true, Some(readiness)) = (observed.is_open(), is_waiting) {
            // The end of the open operation decides whether another server is bought.
            return self.unknown(readiness.message.clone(), Some(readiness.reason));
        }
        if is_replaced && spec.import.is_none() && !observed.is_open() {
            let why = format!(
                "server {id} is not at the service any more, and spec.onExternalDeletion is Recreate"
            );
            return self.acts(observed, Effect::NewServer, Verb::Create, why);
        }
        let stalled = readiness
            .filter(|it| it.state != State::Reconciling)
            .cloned();
        self.waits(&stalled.unwrap_or_else(|| {
            let message = format!(
                "server {id} is not at the service any more, and none is bought in its place: delete this Instance and apply it \
                 again, without spec.import, to get a new server"
            );
            Readiness::stalled(Reason::ServerMissing, message)
        }));
        ControlFlow::Break(())
    }

    fn acts(
        &mut self,
        observed: &Observation,
        effect: Effect,
        verb: Verb,
        why: String,
    ) -> ControlFlow<()> {
        self.finding(observed, effect, Some(verb.to_string()), why)
    }

    /// Adds an effect. Before the first one, the plan with the spec's own pause and policy shows whether they hold it back.
    fn finding(
        &mut self,
        observed: &Observation,
        effect: Effect,
        operation: Option<String>,
        why: String,
    ) -> ControlFlow<()> {
        if !self.effects.iter().any(Finding::is_step) {
            let mut restricted = observed.clone();
            restricted.facts.spec = self.spec.clone();
            let restricted = plan(&restricted);
            if matches!(restricted.step, Step::Rest) && self.spec != observed.facts.spec {
                let shown = restricted.readiness().filter(|it| it.state != State::Ready);
                self.restriction = Some(shown.cloned().unwrap_or_else(|| {
                    let message = "spec.managementPolicy or spec.pause holds back the next step";
                    Readiness::drifted(Reason::ObservedOnly, message)
                }));
            }
        }
        let finding = Finding {
            operation,
            ..Finding::of(effect, why)
        };
        if self.effects.contains(&finding) {
            return ControlFlow::Break(());
        }
        self.effects.push(finding);
        ControlFlow::Continue(())
    }

    fn waits(&mut self, readiness: &Readiness) {
        self.effects.push(Finding::waits(readiness));
    }

    fn unknown(&mut self, why: String, reason: Option<Reason>) -> ControlFlow<()> {
        self.effects.push(Finding {
            reason: reason.map(Reason::as_str),
            ..Finding::of(Effect::Unknown, why)
        });
        ControlFlow::Break(())
    }

    /// All effects, and notes. `is_changed`: the manifest changes the object.
    pub(super) fn findings(mut self, is_changed: bool) -> (Vec<Finding>, Vec<String>) {
        if let Some(unread) = &self.unread {
            let why = &unread.why;
            self.notes
                .push(format!("the server counts as status shows it: {why}"));
        }
        let (steps, mut others): (Vec<Finding>, Vec<Finding>) =
            self.effects.into_iter().partition(Finding::is_step);
        if let Some(first) = self.first {
            self.notes.push(match steps.is_empty() {
                true => format!("{first} continues"),
                false => format!("these steps begin after {first}"),
            });
        }
        let mut all = match self.restriction {
            None => steps,
            Some(restriction) => {
                let held = steps.into_iter().map(|step| match &step.operation {
                    Some(operation) => {
                        format!("{operation} ({}, {})", step.effect.words(), step.why)
                    }
                    None => step.why,
                });
                let held: Vec<String> = held.collect();
                self.notes.push(format!("held back: {}", held.join("; ")));
                vec![Finding::waits(&restriction)]
            }
        };
        all.append(&mut others);
        if all.is_empty() {
            all.push(match is_changed {
                false => Finding::of(Effect::Nothing, "object and server are as the file says"),
                true => Finding::of(
                    Effect::InPlace,
                    "only the object changes; nothing is sent to the service",
                ),
            });
        }
        (all, self.notes)
    }
}

/// Whether an operation waits after a failure.
fn has_pause(observed: &Observation) -> bool {
    let mut retries = observed.facts.status.retries.iter();
    retries.any(|retry| retry.not_before.is_some())
}

/// Whether the server has a name of this Instance.
fn is_own(observed: &Observation) -> bool {
    let Fact::Known(detail) = &observed.detail else {
        return true;
    };
    let name = text(&detail.fields, "instanceName");
    name.is_none_or(|name| observed.facts.is_own_name(&detail.id, name))
}

/// A login in place of one that was not read. It is sent nowhere.
fn stand_in(observed: &Observation) -> LoginFact {
    LoginFact::Ready(Credentials {
        login: Login::Password("".into()),
        secret: observed.secret_version.clone(),
        digest: None,
        generated: None,
    })
}

/// Why the server was not read.
fn unread(observed: &Observation, id: &ServerId) -> Unread {
    let (reason, why) = match (&observed.account, &observed.detail) {
        (AccountFact::NotFound(name), _) => (
            Reason::AccountNotFound,
            format!(": there is no Account {name}"),
        ),
        (AccountFact::Unusable(problem), _) => (problem.reason, format!(": {}", problem.message)),
        (_, Fact::Unknown(why)) => (Reason::ServerReadFailed, format!(": {why}")),
        _ => (Reason::ServerReadFailed, String::new()),
    };
    let why = format!("server {id} could not be read{why}");
    Unread { reason, why }
}

/// The server counts as status shows it, and its Account as usable.
fn as_in_status(observed: &mut Observation, id: ServerId) {
    let fields = observed.facts.status.detail.clone();
    observed.detail = Fact::Known(Detail { id, fields });
    if !matches!(observed.account, AccountFact::AccountSession(_)) {
        let credential = observed
            .facts
            .purchase()
            .map(|record| record.credential.as_str());
        observed.account = AccountFact::AccountSession(SessionFacts {
            settle: Duration::ZERO,
            imports: Default::default(),
            credential: credential.unwrap_or_default().into(),
            former_credential: None,
            utc_offset: Offset::UTC,
            shown_ours: false,
        });
    }
}

/// The operation has succeeded: what it applied, and the server that it left.
fn complete(observed: &mut Observation, operation: &Operation) {
    let id = observed.facts.id().map(|id| id.to_string());
    let status = Arc::make_mut(&mut observed.facts.status);
    let mut applied = operation.target.clone();
    let former = status.applied.take().unwrap_or_default();
    if applied.image.is_empty() {
        applied.image = former.image;
    }
    // The spec no longer names the Secret with the pending password, so the password that it names must be set.
    if operation.waiting_password && observed.facts.spec.login.generate.is_none() {
        applied.password_secret = None;
    }
    let shows = match operation.verb {
        Verb::Reinstall => Some(("imageResourceUUID", applied.image.as_str())),
        Verb::Create | Verb::Start | Verb::Restart => Some(("ecsStatus", "STARTED")),
        Verb::Stop => Some(("ecsStatus", "STOPPED")),
        Verb::Release | Verb::ModifyPassword => None,
    };
    if let (Fact::Known(detail), Some((field, value))) = (&mut observed.detail, shows) {
        let is_shown = operation.verb == Verb::Create && detail.fields.contains_key(field);
        if !is_shown {
            detail.fields.insert(field.to_owned(), Value::from(value));
        }
        status.detail.clone_from(&detail.fields);
    }
    status.applied = Some(applied);
    status.operation = None;
    status.unfinished_image = None;
    status.attempt = operation.attempt;
    status.id = id;
    observed.memory.calls.followed = None;
    observed.task = Fact::NotAsked;
}

/// The parameters of a purchase.
fn purchase(record: &PurchaseRecord) -> String {
    let pins = record.resolved.clone().unwrap_or_default();
    let shown = |id: &str, pin: Option<ResolvedReference>| match pin {
        Some(pin) => format!("{id} ({})", pin.from),
        None => id.to_owned(),
    };
    format!(
        "package {} in {}, image {}",
        shown(&record.package, pins.package),
        record
            .places
            .last()
            .map_or("an unknown zone", String::as_str),
        shown(&record.target.image, pins.image)
    )
}

/// The cause of an operation: from what to what.
fn cause(observed: &Observation, operation: &Operation) -> String {
    let Applied {
        image,
        key,
        restart,
        reinstall,
        password_secret: _,
        power_state: _,
    } = &operation.target;
    let former = observed.facts.status.applied.clone().unwrap_or_default();
    let or = |text: &Option<String>, none: &str| text.clone().unwrap_or_else(|| none.to_owned());
    let token = |now, was| format!("token {} → {}", or(was, "none"), or(now, "none"));
    match operation.verb {
        Verb::Reinstall => {
            let shown = or(&operation.before.image, "unknown");
            let was = match former.image.is_empty() {
                true => shown,
                false => former.image,
            };
            let mut why = Vec::new();
            if *image != was {
                why.push(format!("image {was} → {image}"));
            }
            if *key != former.key {
                let [was, now] = [&former.key, key].map(|key| match key {
                    Some(key) => format!("key pair {key}"),
                    None => "password".to_owned(),
                });
                why.push(format!("login {was} → {now}"));
            }
            if *reinstall != former.reinstall {
                why.push(format!(
                    "spec.reinstall.{}",
                    token(reinstall, &former.reinstall)
                ));
            }
            why.join(", ")
        }
        Verb::ModifyPassword => match observed.facts.login_secret() {
            Some(secret) if observed.facts.spec.login.generate.is_none() => format!(
                "Secret {} changed since its password was set; if it still holds the same password, nothing is sent",
                secret.name
            ),
            secret => format!(
                "the server gets the password in Secret {}",
                secret.map(|secret| secret.name).unwrap_or_default()
            ),
        },
        Verb::Restart => format!("spec.restart.{}", token(restart, &former.restart)),
        Verb::Create | Verb::Release | Verb::Start | Verb::Stop => {
            let wanted = match observed.facts.spec.power_state {
                PowerState::Running => "Running",
                PowerState::Stopped => "Stopped",
                PowerState::Unmanaged => "Unmanaged",
            };
            let none = &Map::new();
            let fields = match &observed.detail {
                Fact::Known(detail) => &detail.fields,
                Fact::NotAsked | Fact::Absent | Fact::Unknown(_) => none,
            };
            let state = text(fields, "ecsStatus").unwrap_or("in an unknown state");
            format!("the server is {state}, spec.powerState is {wanted}")
        }
    }
}

#[cfg(test)]
mod tests;
