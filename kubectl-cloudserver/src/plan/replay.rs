//! Replays the reconciles that would follow an apply.
//!
//! The object and its server are observed once, read-only. Then the operator's planner plans one step, the effect of this step is
//! applied to the observation, and the planner plans again, until nothing is left to do, or a wait leaves the next step open.

mod effects;
mod observed;

use super::verdict::{Effect, Finding};
use cloud_server_operator::api::conditions::{Readiness, Reason, State};
use cloud_server_operator::api::names::FINALIZER;
use cloud_server_operator::api::{Instance, InstanceSpec, OnExternalDeletion, Verb};
use cloud_server_operator::credentials::{Chore, LoginFact};
use cloud_server_operator::instance::context::Context;
use cloud_server_operator::instance::fact::Fact;
use cloud_server_operator::instance::facts::Facts;
use cloud_server_operator::instance::memory::call::{Gone, Release};
use cloud_server_operator::instance::memory::lock;
use cloud_server_operator::instance::memory::look::LastAnswer;
use cloud_server_operator::instance::observation::{Observation, is_idle};
use cloud_server_operator::instance::plan::plan;
use cloud_server_operator::instance::plan::step::{NeededRead, Plan, Step};
use cloud_server_operator::instance::times;
use cloud_server_operator::runtime::watch::ObjectKey;
use effects::{as_in_status, cause, complete, is_own, stand_in, unread, without_pauses};
use observed::{observe, planned, unrestricted};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use tokio::time::Instant;

/// The maximum number of plans in one replay, more than any object needs. It ends a replay that neither finishes nor waits.
const STEPS: usize = 20;

/// The replay of one object.
#[derive(Debug)]
pub(super) struct Replay {
    /// The observation, with the effects of all steps so far.
    pub(super) observed: Observation,
    effects: Vec<Finding>,
    notes: Vec<String>,
    /// Why the server could not be read, if the server in status was used instead.
    pub(super) unread: Option<String>,
    /// The operation in progress, which ends before the first step.
    in_progress: Option<String>,
    /// The spec as it is applied, with its pause and policy.
    spec: Arc<InstanceSpec>,
    /// The report of the pause or the policy `Observe` that holds back the first step.
    restriction: Option<Readiness>,
}

/// Observes an object, and replays its reconciles. `is_new`: the cluster does not have the object yet, so nothing can have been
/// bought for it. `unreadable`: Secrets that could not be read.
pub(super) async fn replay(
    context: &Context,
    instance: &Instance,
    is_new: bool,
    unreadable: &BTreeSet<ObjectKey>,
) -> Replay {
    let facts = Facts::of(&context.cluster, &unrestricted(instance));
    let memory = context.memories.met(facts.uid.as_str(), &facts.key, is_new);
    // The replay buys nothing, so it need not wait `LISTED_WITHIN` for a lost purchase to be listed: backdate `since` by that time.
    let backdated = Instant::now().checked_sub(times::LISTED_WITHIN);
    lock(&memory).origin.since = backdated.unwrap_or_else(Instant::now);
    let (observed, session) = observe(context, facts, &memory).await;
    let mut replay = Replay::of(observed, instance);
    let facts = &replay.observed.facts;
    let secret = facts.login_secret();
    let secret = secret.map(|secret| ObjectKey::new(&facts.key.namespace, &secret.name));
    if secret.is_some_and(|secret| unreadable.contains(&secret)) {
        // A note already reports it; the password counts as unchanged.
        let applied = facts.status.applied.as_ref();
        let version = applied.and_then(|applied| applied.password_secret.clone());
        replay.observed.secret_version = version;
    }
    let mut flow = replay.begin();
    for _ in 0..STEPS {
        if flow.is_break() {
            break;
        }
        let plan = planned(context, &mut replay.observed, session.as_ref(), &memory).await;
        if let (true, Some(session)) = (plan.buys(), &session) {
            // Count this server, so that the quota has one less for the Instances that are replayed later.
            let (facts, account) = (&replay.observed.facts, &replay.observed.account_key);
            let owners = context.sessions.owners();
            if !owners.admit(&facts.uid, account, session.limits) {
                replay.observed.quota = owners.check(&facts.uid, account, session.limits);
                continue;
            }
        }
        flow = replay.step(&plan);
    }
    replay
}

impl Replay {
    fn of(observed: Observation, instance: &Instance) -> Self {
        Self {
            observed,
            effects: Vec::new(),
            notes: Vec::new(),
            unread: None,
            in_progress: None,
            spec: Arc::new(instance.spec.clone()),
            restriction: None,
        }
    }

    /// Brings the observation to the point where the first step begins: an operation in progress has succeeded, and the server of
    /// status stands in for one that could not be read.
    fn begin(&mut self) -> ControlFlow<()> {
        if self.observed.facts.deleted_at.is_some() {
            let message = "this Instance is being deleted, together with each change that is applied to it: wait until it is gone, \
                           then apply the file";
            let readiness = Readiness::stalled(Reason::Releasing, message);
            self.effects.push(Finding::waits(&readiness));
            return Break(());
        }
        let Some(id) = self.observed.facts.id() else {
            return Continue(());
        };
        let is_unread = matches!(self.observed.detail, Fact::NotRead | Fact::Unknown(_));
        if is_unread && self.observed.create_failed().is_none() {
            let why = unread(&self.observed, &id);
            if self.observed.facts.status.detail.is_empty() {
                return self.unknown(why, Reason::ServerReadFailed);
            }
            self.unread = Some(why);
            as_in_status(&mut self.observed, id);
        }
        if !matches!(self.observed.detail, Fact::Known(_)) {
            return Continue(());
        }
        // A temporary state counts as over.
        self.observed.memory.observations.look.answer = LastAnswer::Exists {
            idle_since: None,
            temporary: None,
        };
        if let Some(open) = self.observed.open() {
            self.in_progress = Some(format!("the {} in progress", open.verb));
            complete(&mut self.observed, &open);
        }
        if let Fact::Known(detail) = &mut self.observed.detail
            && let Some(Value::String(word)) = detail.fields.remove("ecsPendingStatus")
            && !is_idle(Some(&word))
        {
            let words = || format!("the service's own operation on the server ({word})");
            self.in_progress.get_or_insert_with(words);
        }
        Continue(())
    }

    /// Takes the step of a plan, and applies its effect to the observation.
    fn step(&mut self, plan: &Plan) -> ControlFlow<()> {
        match &plan.step {
            Step::Rest => return self.rest(plan),
            Step::Buy { record, .. } => {
                let zone = record.places.last().map_or("", String::as_str);
                let image = &record.target.image;
                let why = format!("package {} in {zone}, image {image}", record.package);
                self.add_step(Effect::NewServer, Some(Verb::Create), why)?;
                return Break(());
            }
            Step::Operate { operation, .. } => {
                let effect = match operation.verb {
                    // `Create` and `Release` are never planned as `Operate`.
                    Verb::Reinstall | Verb::Create | Verb::Release => Effect::ErasesDisk,
                    Verb::Restart => Effect::Restart,
                    Verb::ModifyPassword | Verb::Start | Verb::Stop => Effect::InPlace,
                };
                let why = cause(&self.observed, operation);
                self.add_step(effect, Some(operation.verb), why)?;
                complete(&mut self.observed, operation);
            }
            Step::Release { id, .. } => {
                let why = format!("server {id} is surplus, or its create failed: it is released");
                self.add_step(Effect::ErasesDisk, Some(Verb::Release), why)?;
                let gone = Release::Gone(Gone::Released, self.observed.now);
                let releases = &mut self.observed.memory.releases;
                releases.insert(id.clone(), gone);
            }
            Step::Record { record } => {
                let id = record.id.as_deref().unwrap_or_default();
                let recorded = self.observed.facts.purchase();
                if recorded.is_none_or(|recorded| recorded.id != record.id) {
                    let name = record.imported.as_deref();
                    let name = name.map_or_else(String::new, |name| format!(" ({name})"));
                    self.add_step(Effect::TakesOver, None, format!("server {id}{name}"))?;
                    return Break(());
                }
                // The record stays, and the operator adds its missing finalizer.
                self.observed.facts.finalizers.push(FINALIZER.to_owned());
            }
            Step::Secret(chore) => return self.secret(chore, plan),
            Step::Finish | Step::Retain { .. } => return Break(()),
        }
        Continue(())
    }

    /// Takes a step that writes a Secret.
    fn secret(&mut self, chore: &Chore, plan: &Plan) -> ControlFlow<()> {
        let name = self.observed.facts.login_secret().map(|secret| secret.name);
        let name = name.unwrap_or_default();
        if matches!(chore, Chore::Generate | Chore::Renew { .. }) {
            let why = format!("a password is generated in Secret {name}");
            self.add_step(Effect::InPlace, None, why)?;
            self.observed.secret_version = Some(format!("{name}/generated"));
            return self.with_stand_in();
        }
        // If other steps precede this write, it is only their consequence.
        if self.effects.is_empty() && !matches!(chore, Chore::Connect(_)) {
            let why = "a Secret of the operator gets its current content".to_owned();
            self.add_step(Effect::InPlace, None, why)?;
        }
        let is_reclaimable = matches!(self.observed.login, LoginFact::Reclaimable(_));
        let flow = self.with_stand_in();
        match is_reclaimable {
            true => flow,
            // The write was added to a plan without a step, whose readiness may be a wait.
            false => self.rest(plan),
        }
    }

    /// Handles a plan without a step for the server: nothing is left to do, or the plan waits. The replay continues after a wait
    /// that does not change the later steps.
    fn rest(&mut self, plan: &Plan) -> ControlFlow<()> {
        match &plan.needs {
            None => {}
            // The login is known or has a stand-in. Only the metadata of its Secret is missing, which changes no step.
            Some(NeededRead::Login) if matches!(self.observed.login, LoginFact::Ready(_)) => {}
            Some(NeededRead::Login) => return self.with_stand_in(),
            Some(
                NeededRead::References(_)
                | NeededRead::Task
                | NeededRead::Detail
                | NeededRead::Candidate(_),
            ) => {
                let why = "the service could not be read".to_owned();
                return self.unknown(why, Reason::ServiceUnreachable);
            }
        }
        match (&plan.why, &self.observed.detail) {
            (Some(readiness), _) => self.waits_for_reason(readiness),
            (None, Fact::Known(_)) => Break(()),
            (None, _) => self.missing("a server may or may not exist", Reason::AccountPending),
        }
    }

    /// Handles a plan without a step for the server that reports this readiness.
    fn waits_for_reason(&mut self, readiness: &Readiness) -> ControlFlow<()> {
        let (reason, message) = (readiness.reason, readiness.message.clone());
        let waits = Finding::waits(readiness);
        let is_login_unknown = !matches!(self.observed.login, LoginFact::Ready(_));
        let mut retries = self.observed.facts.status.retries.iter();
        // A pause after a failure ends automatically.
        let is_retried = retries.any(|retry| retry.not_before.is_some());
        match reason {
            // The operator may be able to read a Secret that the user may not read.
            Reason::SecretReadFailed if is_login_unknown => {
                self.notes.push(message);
                return self.with_stand_in();
            }
            // A missing or unusable login is shown together with the steps that need it.
            Reason::LoginSecretNotFound
            | Reason::LoginPasswordInvalid
            | Reason::SecretNameConflict
                if is_login_unknown =>
            {
                self.effects.push(waits);
                return self.with_stand_in();
            }
            // A failed operation is retried after a pause.
            Reason::OperationFailed if is_retried => {
                self.notes.push(message);
                return without_pauses(&mut self.observed);
            }
            Reason::OperationRefused if is_retried => {
                self.effects.push(waits);
                return without_pauses(&mut self.observed);
            }
            // A purchase follows later, without action by a user.
            Reason::CreateRateReached | Reason::CreateFailed | Reason::RecordedByOtherCluster => {
                self.add_step(Effect::NewServer, Some(Verb::Create), message)?;
            }
            Reason::ServerMissing if readiness.state == State::Reconciling => {
                return self.missing(&message, reason);
            }
            // Nothing to do: the server is as the spec describes it, or a note reports the difference.
            Reason::Available => {}
            Reason::PowerStateDiffers if self.in_progress.is_some() => {}
            Reason::ImageDiffers | Reason::PowerStateDiffers => self.notes.push(message),
            Reason::NameDiffers if is_own(&self.observed) => self.notes.push(message),
            // The next step depends on an answer of the service that is still missing.
            Reason::Creating
            | Reason::CreateUnconfirmed
            | Reason::CheckingForExistingServer
            | Reason::Importing
            | Reason::ReferenceLookupFailed
            | Reason::ServerReadFailed
            | Reason::ServiceUnreachable
            | Reason::ServiceBusy
            | Reason::RateLimited
            | Reason::InventoryUnreliable => return self.unknown(message, reason),
            _ => self.effects.push(waits),
        }
        Break(())
    }

    /// Continues as if the login had been read.
    fn with_stand_in(&mut self) -> ControlFlow<()> {
        self.observed.login = stand_in(&self.observed);
        Continue(())
    }

    /// The plan waits for evidence. If the service does not know the server and the spec requests another one, the operator buys it
    /// once the evidence is complete; otherwise the effect is unknown.
    fn missing(&mut self, why: &str, reason: Reason) -> ControlFlow<()> {
        let spec = &self.observed.facts.spec;
        let is_replaced = spec.on_external_deletion == OnExternalDeletion::Recreate
            && spec.import.is_none()
            && matches!(self.observed.detail, Fact::Absent)
            && !self.observed.is_open();
        if !is_replaced {
            return self.unknown(why.to_owned(), reason);
        }
        let why = "its server is gone, and spec.onExternalDeletion is Recreate".to_owned();
        self.add_step(Effect::NewServer, Some(Verb::Create), why)?;
        Break(())
    }

    /// Plans with the spec's own pause and policy. If they hold back the next step, records what the operator would report.
    fn note_restriction(&mut self) {
        let mut restricted = self.observed.clone();
        restricted.facts.spec = self.spec.clone();
        let Plan { step, why, .. } = plan(&restricted);
        let waits = |it: &Readiness| matches!(step, Step::Rest) && it.state != State::Ready;
        self.restriction = why.filter(waits);
    }

    /// Adds a step. If the replay has the same step already, the plan repeats itself, and the replay ends.
    fn add_step(&mut self, effect: Effect, verb: Option<Verb>, why: String) -> ControlFlow<()> {
        let is_restricted = self.spec != self.observed.facts.spec;
        if is_restricted && !self.effects.iter().any(Finding::is_step) {
            self.note_restriction();
        }
        let finding = Finding {
            operation: verb.map(|verb| verb.to_string()),
            ..Finding::of(effect, why)
        };
        if self.effects.contains(&finding) {
            return Break(());
        }
        self.effects.push(finding);
        Continue(())
    }

    fn unknown(&mut self, why: String, reason: Reason) -> ControlFlow<()> {
        let unknown = Finding::reported(Effect::Unknown, reason, why);
        self.effects.push(unknown);
        Break(())
    }

    /// All effects, and notes. `is_changed`: the manifest changes the object.
    pub(super) fn findings(self, is_changed: bool) -> (Vec<Finding>, Vec<String>) {
        let mut notes = self.notes;
        if let Some(why) = self.unread {
            notes.push(format!(
                "the plan assumes the server as status shows it, because {why}"
            ));
        }
        let (steps, others): (Vec<Finding>, Vec<Finding>) =
            self.effects.into_iter().partition(Finding::is_step);
        if let Some(operation) = self.in_progress {
            notes.push(match steps.is_empty() {
                true => format!("{operation} continues"),
                false => format!("these steps begin after {operation}"),
            });
        }
        let mut all = match self.restriction {
            None => steps,
            Some(restriction) => {
                let held: Vec<String> = steps.iter().map(Finding::to_words).collect();
                notes.push(format!("held back: {}", held.join("; ")));
                vec![Finding::waits(&restriction)]
            }
        };
        all.extend(others);
        if all.is_empty() {
            let (effect, why) = match is_changed {
                false => (Effect::Nothing, "object and server are as in the file"),
                true => (
                    Effect::InPlace,
                    "only the object changes; nothing is sent to the service",
                ),
            };
            all.push(Finding::of(effect, why));
        }
        (all, notes)
    }
}

#[cfg(test)]
mod tests;
