//! Judges the operator's writes.

use super::requests::Property;
use super::{
    Oracle, ProcessId, Rule, Verdict, WATCHES_LATE, condition, is_alive, is_ready, marker_of,
    name_of, newest_attempt, open_operation, operation, record, servers_of, speaks,
};
use crate::apiserver::{Apiserver, INSTANCES, finalizers, others_conditions, uid};
use crate::fault::Kind;
use cloud_server_operator::api::names::FINALIZER;
use cloud_server_operator::api::{Operation, PurchaseRecord, Verb};
use cloud_simulator::model::{ServerInfo, World};
use serde_json::Value;
use std::time::Duration;

/// By then every process knows of a limit: no watch is later than 25 s, and no reconcile takes longer than this.
const LIMIT_KNOWN: Duration = Duration::from_secs(150);

impl Oracle {
    /// The operator wrote an object.
    pub fn wrote(
        &mut self,
        (process, kind, is_status): (ProcessId, Kind, bool),
        former: &Value,
        now: &Value,
        cloud: &World,
        kube: &Apiserver,
    ) {
        match kind {
            Kind::Intent | Kind::Receipt if !is_status => {
                self.announced_by(process, now);
                self.judge_record(former, now, cloud, kube);
            }
            Kind::Status | Kind::Intent | Kind::Receipt => {
                if kind == Kind::Status {
                    self.judge_silence(process, former, now);
                }
                self.announced_by(process, now);
                self.judge_operation(former, now);
                self.judge_status(former, now, cloud);
                self.judge_truth(process, former, now, cloud);
            }
            Kind::Finalizer => self.judge_finalizer(former, cloud, kube),
            Kind::Secret => self.changed_secret(former, now, cloud, kube),
            _ => {}
        }
    }

    /// A status was written, of an Instance or an Account.
    pub fn judge_others_conditions(&mut self, former: &Value, now: &Value) {
        let (before, after) = (others_conditions(former), others_conditions(now));
        if before.is_empty() {
            return;
        }
        let why = (before != after).then(|| {
            let name = name_of(now);
            format!("{name}: conditions of another controller became {after:?}, of {before:?}")
        });
        self.judge(Rule::OthersConditions, Verdict::of(why, false));
    }

    fn judge_record(&mut self, former: &Value, now: &Value, cloud: &World, kube: &Apiserver) {
        let Some(after) = record(now) else { return };
        self.announces(name_of(now), &after);
        self.judge_import(former, now, &after, kube);
        self.judge_restriction(former, &after);
        self.nonces
            .insert((after.marker.clone(), after.nonce.clone()));
        self.judge_limit(former, now, &after, kube);
        self.judge_copies(cloud, kube);
        let Some(before) = record(former) else { return };
        let is_other = before.nonce != after.nonce;
        if speaks(&before, former) && is_other {
            self.judge_number(before.attempt, after.attempt);
        }
        if before.id.is_some() && !is_other {
            let is_forgotten = after.id.is_none();
            let why = is_forgotten.then(|| "S4: the recorded server was forgotten".to_owned());
            self.judge(Rule::Forgotten, Verdict::of(why, false));
        }
    }

    fn judge_number(&mut self, before: u32, after: u32) {
        let why =
            (after <= before).then(|| format!("S8: attempt {before} was followed by {after}"));
        self.judge(Rule::Numbers, Verdict::of(why, self.may_count_anew()));
    }

    /// After the store was restored, each of two processes restores the state that it knows; and until its late watch event, a
    /// version that is assigned again may be confused with the earlier one (docs: `--bump-revision`).
    fn may_count_anew(&self) -> bool {
        let t = &self.troubles;
        (t.no_lease && t.restores > 0) || self.is_just_restored()
    }

    fn is_just_restored(&self) -> bool {
        let restored = self.troubles.restored;
        restored.is_some_and(|at| at.elapsed() < WATCHES_LATE)
    }

    /// An operation was announced in status.
    fn judge_operation(&mut self, former: &Value, now: &Value) {
        let Some(after) = open_operation(now) else {
            return;
        };
        let before = operation(former);
        // A refusal announces nothing.
        let is_same = before.as_ref().is_some_and(|it| it.nonce == after.nonce);
        if is_same || after.is_refused() {
            return;
        }
        let name = name_of(now);
        let record = record(now).filter(|record| speaks(record, now));
        let marker = marker_of(now);
        if let (Verb::Reinstall, Some(record)) = (after.verb, &record) {
            self.announces_reinstall(record, &after);
        }
        // Written again after its status was lost, with the store or by force.
        let attempt = (marker, after.nonce.clone());
        if !self.nonces.insert(attempt) {
            return;
        }
        let number = u32::try_from(after.attempt).unwrap_or(0);
        // Another call of the same operation: a stop before its reinstall, a power cut.
        let is_next_call = before.is_some_and(|before| {
            let of = |it: &Operation| (it.verb, it.attempt, it.target.reinstall.clone());
            of(&before) == of(&after)
                // A reinstall that was refused is called again.
                && (before.is_refused()
                    || (before.stage, before.power_cut) != (after.stage, after.power_cut))
        });
        if !is_next_call {
            self.judge_number(newest_attempt(former), number);
        }
        // An operation of another generation is not carried out: the answer to the write shows the difference.
        let is_of_now = now["metadata"]["generation"] == after.generation;
        if self.is_just_restored() && is_of_now && is_unasked(&after, &now["spec"]) {
            *self.announced_unseen.entry(name.to_owned()).or_default() += 1;
        }
        if self.was_ever_restrained(name) || is_restrained(&now["spec"]) {
            let why = is_restrained(&now["spec"]).then(|| {
                format!(
                    "a {} was announced for {name}, which is paused or only observed",
                    after.verb
                )
            });
            self.judge(Rule::RestrainedIntent, Verdict::of(why, false));
        }
    }

    /// Judges an attempt that is announced for an object whose current version forbids it.
    fn judge_restriction(&mut self, object: &Value, after: &PurchaseRecord) {
        let before = record(object).filter(|record| speaks(record, object));
        // A record that was lost, with the store or by `kubectl replace`, is written again, regardless of the current spec: it
        // was announced before.
        let attempt = (after.marker.clone(), after.nonce.clone());
        let was_lost = self.troubles.restores + self.troubles.drops > 0
            && !after.nonce.is_empty()
            && self.nonces.contains(&attempt);
        let is_new = before.as_ref().map(|before| &before.nonce) != Some(&after.nonce) && !was_lost;
        let is_call = after.id.is_none();
        let (spec, name) = (&object["spec"], name_of(object));
        let is_purchase = is_new && is_call;
        if self.was_ever_restrained(name) || is_restrained(spec) {
            let why = (is_purchase && is_restrained(spec)).then(|| {
                format!("a create was announced for {name}, which is paused or only observed")
            });
            self.judge(Rule::RestrainedIntent, Verdict::of(why, false));
        }
        if Property::Imported.is_in(spec) {
            let why = is_purchase
                .then(|| format!("a purchase was announced for {name}, which imports a server"));
            self.judge(Rule::ImportBuys, Verdict::of(why, false));
        }
    }

    /// A first purchase is announced for an Instance: only while the Account's limit allows it.
    fn judge_limit(
        &mut self,
        former: &Value,
        now: &Value,
        after: &PurchaseRecord,
        kube: &Apiserver,
    ) {
        let is_first = after.id.is_none() && record(former).is_none();
        if !is_first || self.most.is_none() {
            return;
        }
        // Watches deliver a new limit with a delay.
        let is_known = self
            .most
            .is_some_and(|(_, since)| since.is_none_or(|since| since.elapsed() > LIMIT_KNOWN));
        let t = &self.troubles;
        let is_clear = !self.is_any_outcome_uncertain() && !t.copied && !self.is_fresh();
        let why = self.is_full(now, kube).then(|| {
            format!(
                "a purchase was announced for {} beyond the Account's limit",
                name_of(now)
            )
        });
        self.judge(Rule::Limit, Verdict::of(why, !is_known || !is_clear));
    }

    /// Whether the limit is reached by other Instances that have a server in their record, or in status after the record was
    /// dropped, or that are about to buy one.
    pub(super) fn is_full(&self, object: &Value, kube: &Apiserver) -> bool {
        let others = kube.all().filter(|(key, _)| key.0 == INSTANCES);
        let have = others
            .filter(|(_, other)| uid(other) != uid(object))
            .filter(|(_, other)| {
                record(other).is_some_and(|record| speaks(&record, other))
                    || other["status"]["id"].is_string()
            });
        let have = have.count();
        self.most.is_some_and(|(most, _)| have >= most)
    }

    /// A server was imported: by one object at most.
    fn judge_import(
        &mut self,
        former: &Value,
        now: &Value,
        after: &PurchaseRecord,
        kube: &Apiserver,
    ) {
        let (Some(id), true) = (&after.id, after.imported.is_some()) else {
            return;
        };
        self.foreign
            .insert(id.clone(), Some(name_of(now).to_owned()));
        let before = record(former).filter(|record| speaks(record, former));
        if before.is_some_and(|before| before.id.as_ref() == Some(id)) {
            return;
        }
        if self.denies_imports {
            let why = format!(
                "server {id} was taken over for {}, and the Account has never allowed it",
                name_of(now)
            );
            self.judge(Rule::ImportAllowed, Verdict::Wrong(why));
        }
        let mut others = kube.all().filter(|(key, _)| key.0 == INSTANCES);
        let owner = others.find(|(_, other)| {
            let record = record(other).filter(|record| speaks(record, other));
            let has_it = record.is_some_and(|record| record.id.as_ref() == Some(id));
            has_it && uid(other) != uid(now)
        });
        let is_doubled = self.may_be_imported_twice();
        if owner.is_some() && is_doubled {
            self.were_imported_twice.insert(id.clone());
        }
        let why = owner.map(|(key, _)| {
            format!(
                "server {id} was taken over for {}, and {} has it",
                name_of(now),
                key.1
            )
        });
        let is_excused = is_doubled || self.is_any_tampered() || self.troubles.copied;
        self.judge(Rule::ImportedOnce, Verdict::of(why, is_excused));
    }

    fn judge_status(&mut self, former: &Value, now: &Value, cloud: &World) {
        self.judge_generation(former, now);
        let server = cloud.server(status_id(now));
        let is_current = observed(now) == generation(now);
        if is_ready(now) && is_current {
            self.judge_ready_server(now, server.as_ref());
        }
        self.judge_missing(now, server.as_ref());
        if is_ready(now) {
            let why = is_under_way(now).then(|| "S6: Ready while an operation runs".to_owned());
            self.judge(Rule::ReadyAlone, Verdict::of(why, false));
        }
    }

    fn judge_generation(&mut self, former: &Value, now: &Value) {
        let is_ahead = observed(now) > generation(now);
        let went_back = observed(now) < observed(former);
        let t = &self.troubles;
        // The store was restored while a status write was under way; the next write corrects it.
        let is_excused = t.restores > 0 || (t.copied && !is_ahead);
        let why = match (is_ahead, went_back) {
            (true, _) => Some("S6: observedGeneration is ahead"),
            (_, true) => Some("S6: observedGeneration went back"),
            _ => None,
        };
        let why = why.map(ToOwned::to_owned);
        self.judge(Rule::Generation, Verdict::of(why, is_excused));
    }

    /// Status shows Ready for the current spec: its server exists and is idle.
    fn judge_ready_server(&mut self, now: &Value, server: Option<&ServerInfo>) {
        let id = status_id(now);
        let is_excused = self.is_outcome_uncertain(name_of(now)) || !self.is_ours_alone(id);
        let is_gone = server.is_none_or(|server| !is_alive(server));
        let why = is_gone.then(|| format!("S6: Ready, and there is no server {id}"));
        self.judge(Rule::ReadyThere, Verdict::of(why, is_excused));
        let works = server.is_some_and(|server| server.pending != "NONE");
        let why = works.then(|| format!("S6: Ready, and server {id} is at work"));
        let is_excused = is_excused || self.troubles.copied;
        self.judge(Rule::ReadyIdle, Verdict::of(why, is_excused));
    }

    fn judge_missing(&mut self, now: &Value, server: Option<&ServerInfo>) {
        let (id, ready) = (status_id(now), condition(now, "Ready"));
        // The message may still name the previous server until the new one shows.
        let is_missed = ready["reason"] == "ServerMissing"
            && ready["message"]
                .as_str()
                .is_some_and(|text| text.contains(id));
        if !is_missed || id.is_empty() {
            return;
        }
        let t = &self.troubles;
        // A conclusion from a false report of the service is checked again later.
        let is_lied_to = t.lies > 0 || t.limited;
        let is_excused =
            is_lied_to || t.slow || t.copied || self.is_outcome_uncertain(name_of(now));
        let is_there = server.is_some_and(is_alive);
        let why = is_there.then(|| format!("S4: server {id} is there, and reported as missing"));
        self.judge(Rule::Missing, Verdict::of(why, is_excused));
    }

    /// Whether the server was not changed at the console, and no late call may arrive.
    fn is_ours_alone(&self, server: &str) -> bool {
        !self.touched_at_console.contains(server) && self.troubles.late == 0
    }

    /// Whether a server was imported twice, and another Instance has it recorded.
    fn is_left_to_another(&self, server: &str, but: &str, kube: &Apiserver) -> bool {
        let mut objects = kube.all().filter(|(key, _)| key.0 == INSTANCES);
        self.were_imported_twice.contains(server)
            && objects.any(|(_, other)| {
                let record = record(other).filter(|record| speaks(record, other));
                uid(other) != but
                    && record.is_some_and(|record| record.id.as_deref() == Some(server))
            })
    }

    /// The finalizer is removed: none of the Instance's servers may be left at the service.
    fn judge_finalizer(&mut self, former: &Value, cloud: &World, kube: &Apiserver) {
        if !finalizers(former).contains(&FINALIZER) {
            return;
        }
        let recorded = record(former).filter(|record| speaks(record, former));
        let marker = marker_of(former);
        let spec = &former["spec"];
        if Property::Retained.is_in(spec) || Property::Observed.is_in(spec) {
            let id = recorded.and_then(|record| record.id);
            return self.keeps(id.as_deref(), &marker, cloud);
        }
        let alive = servers_of(former, cloud);
        // If two Instances imported it under two processes, the one without the better right leaves it to the other (docs).
        let is_left = |server: &ServerInfo| self.is_left_to_another(&server.id, &uid(former), kube);
        let is_left = alive.iter().all(is_left);
        let t = &self.troubles;
        // The memory of finalized UIDs heals a doubled request and the effects of two processes; two consecutive falsehoods
        // cannot be noticed.
        let is_doubled = t.doubled_markers.contains(&marker);
        let is_excused = is_left
            || is_doubled
            || self.is_outcome_uncertain(name_of(former))
            || self.is_lied_to();
        let why = alive.first().map(|server| {
            format!(
                "S5: the finalizer left while server {} was there",
                server.id
            )
        });
        self.judge(Rule::Finalizer, Verdict::of(why, is_excused));
    }
}

/// Whether this spec restrains the operator.
fn is_restrained(spec: &Value) -> bool {
    Property::Paused.is_in(spec) || Property::Observed.is_in(spec)
}

/// The generation in status.
fn observed(object: &Value) -> i64 {
    let generation = object["status"]["observedGeneration"].as_i64();
    generation.unwrap_or(-1)
}

fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or(0)
}

/// The server in status.
fn status_id(object: &Value) -> &str {
    object["status"]["id"].as_str().unwrap_or_default()
}

/// Whether status shows an operation that has not ended.
fn is_under_way(object: &Value) -> bool {
    let operation = &object["status"]["operation"];
    operation.is_object() && operation["end"].is_null()
}

/// Whether a reinstall was announced that this spec does not request.
fn is_unasked(announced: &Operation, spec: &Value) -> bool {
    let target = &announced.target;
    let image = spec["image"]["id"].as_str();
    let token = spec["reinstall"]["token"].as_str();
    announced.verb == Verb::Reinstall
        && (image.is_some_and(|image| image != target.image)
            || token != target.reinstall.as_deref())
}
