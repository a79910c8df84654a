//! Judges what the operator wrote.

use super::wishes::Property;
use super::{
    Oracle, ProcessId, WATCHES_LATE, condition, is_alive, is_ready, marker_of, name_of,
    newest_attempt, open_operation, operation, record, servers_of, speaks,
};
use crate::apiserver::{Apiserver, INSTANCES, finalizers, uid};
use crate::fault::Kind;
use cloud_server_operator::api::names::FINALIZER;
use cloud_server_operator::api::{Binding, Operation, Verb};
use cloud_simulator::model::World;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// By then every process knows of a limit: no watch is later than 25 s, and no turn takes longer than this.
const LIMIT_KNOWN: Duration = Duration::from_secs(150);
/// So soon after the service took an operation status says that it runs, where nothing comes between.
const SAID_WITHIN: Duration = Duration::from_secs(1);

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

    fn judge_record(&mut self, former: &Value, now: &Value, cloud: &World, kube: &Apiserver) {
        let Some(after) = record(now) else { return };
        self.announces(name_of(now), &after);
        self.judge_import(former, now, &after, kube);
        self.judge_restraint(former, &after);
        self.nonces
            .insert((after.marker.clone(), after.nonce.clone()));
        self.judge_limit(former, now, &after, kube);
        self.judge_copies(cloud, kube);
        let Some(before) = record(former) else { return };
        let is_other = before.nonce != after.nonce;
        let is_excused = self.may_count_anew();
        if speaks(&before, former) && is_other && after.attempt <= before.attempt && !is_excused {
            self.violations.push(format!(
                "S8: attempt {} was followed by {}",
                before.attempt, after.attempt
            ));
        }
        if before.id.is_some() && after.id.is_none() && !is_other {
            self.violations
                .push("S4: the recorded server was forgotten".to_owned());
        }
    }

    /// After the store went back, each of two processes puts back what it knows; and until its late watch tells, a version that
    /// comes again may be taken for the one before (docs: `--bump-revision`).
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
        if before.is_some_and(|before| before.nonce == after.nonce) {
            return;
        }
        let name = name_of(now);
        let record = record(now).filter(|record| speaks(record, now));
        let marker = marker_of(now);
        if let (Verb::Reinstall, Some(record)) = (after.verb, &record) {
            self.announces_reinstall(record, &after);
        }
        // Put back after its status was lost, with the store or by force.
        let attempt = (marker, after.nonce.clone());
        if !self.nonces.insert(attempt) {
            return;
        }
        let number = u32::try_from(after.attempt).unwrap_or(0);
        if number <= newest_attempt(former) && !self.may_count_anew() {
            self.violations.push(format!(
                "S8: attempt {} was followed by {number}",
                newest_attempt(former)
            ));
        }
        // Of another generation it is not carried out: the answer to the write shows it.
        let is_of_now = now["metadata"]["generation"] == after.generation;
        if self.is_just_restored() && is_of_now && is_unasked(&after, &now["spec"]) {
            *self.announced_unseen.entry(name.to_owned()).or_default() += 1;
        }
        let restrained = [Property::Paused, Property::Observed];
        if restrained.iter().any(|each| each.is_in(&now["spec"])) {
            self.violations.push(format!(
                "a {} was announced for {name}, which is paused or only looked at",
                after.verb
            ));
        }
    }

    /// An attempt is announced for an object that says, in this very version, that none is to be.
    fn judge_restraint(&mut self, object: &Value, after: &Binding) {
        let before = record(object).filter(|record| speaks(record, object));
        // A record that was lost, with the store or by `kubectl replace`, is put back, whatever the spec says by now: it was
        // announced before.
        let attempt = (after.marker.clone(), after.nonce.clone());
        let was_lost = self.troubles.restores + self.troubles.drops > 0
            && !after.nonce.is_empty()
            && self.nonces.contains(&attempt);
        let is_new = before.as_ref().map(|before| &before.nonce) != Some(&after.nonce) && !was_lost;
        let is_call = after.id.is_none();
        let (spec, name) = (&object["spec"], name_of(object));
        let restrained = [Property::Paused, Property::Observed];
        if is_new && is_call && restrained.iter().any(|each| each.is_in(spec)) {
            self.violations.push(format!(
                "a create was announced for {name}, which is paused or only looked at"
            ));
        }
        if is_new && is_call && Property::Imported.is_in(spec) {
            self.violations.push(format!(
                "a purchase was announced for {name}, which imports a server"
            ));
        }
    }

    /// A first purchase is announced for an Instance: only as long as the Account's limit leaves room.
    fn judge_limit(&mut self, former: &Value, now: &Value, after: &Binding, kube: &Apiserver) {
        let is_first = after.id.is_none();
        // Watches tell of a new limit in their time.
        let is_known = self
            .most
            .is_some_and(|(_, since)| since.is_none_or(|since| since.elapsed() > LIMIT_KNOWN));
        let t = &self.troubles;
        let is_clear = !self.is_anything_murky() && !t.copied && !self.is_fresh();
        if is_first && is_known && is_clear && record(former).is_none() && self.is_full(now, kube) {
            self.violations.push(format!(
                "a purchase was announced for {} beyond the Account's limit",
                name_of(now)
            ));
        }
    }

    /// Whether as many other Instances as may have a server have one on record, or in status where the record was dropped, or are
    /// about to.
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

    /// A server was taken over: by one object at the most.
    fn judge_import(&mut self, former: &Value, now: &Value, after: &Binding, kube: &Apiserver) {
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
            self.violations.push(format!(
                "server {id} was taken over for {}, and the Account has never allowed it",
                name_of(now)
            ));
        }
        let (is_doubled, t) = (self.may_be_imported_twice(), &self.troubles);
        let is_excused = self.is_any_tampered() || t.copied;
        for (key, other) in kube.all().filter(|(key, _)| key.0 == INSTANCES) {
            let record = record(other).filter(|record| speaks(record, other));
            let has_it = record.is_some_and(|record| record.id.as_ref() == Some(id));
            if has_it && uid(other) != uid(now) && is_doubled {
                self.were_imported_twice.insert(id.clone());
            } else if has_it && uid(other) != uid(now) && !is_excused {
                self.violations.push(format!(
                    "server {id} was taken over for {}, and {} has it",
                    name_of(now),
                    key.1
                ));
            }
        }
    }

    fn judge_status(&mut self, former: &Value, now: &Value, cloud: &World) {
        let number = |object: &Value| {
            object["status"]["observedGeneration"]
                .as_i64()
                .unwrap_or(-1)
        };
        let generation = now["metadata"]["generation"].as_i64().unwrap_or(0);
        // A store that went back while a status was on its way: it is put right by the next one.
        if number(now) > generation && self.troubles.restores == 0 {
            self.violations
                .push("S6: observedGeneration is ahead".to_owned());
        }
        let t = &self.troubles;
        if number(now) < number(former) && t.restores == 0 && !t.copied {
            self.violations
                .push("S6: observedGeneration went back".to_owned());
        }
        if is_ready(now) && number(now) == generation && !self.is_murky(name_of(now)) {
            let id = now["status"]["id"].as_str().unwrap_or_default();
            let is_there = cloud.server(id).is_some_and(|server| is_alive(&server));
            if !is_there && !self.touched_at_console.contains(id) && t.late == 0 {
                self.violations
                    .push(format!("S6: Ready, and there is no server {id}"));
            }
        }
        let id = now["status"]["id"].as_str().unwrap_or_default();
        let works = cloud
            .server(id)
            .is_some_and(|server| server.pending != "NONE");
        let is_ours = !self.touched_at_console.contains(id) && t.late == 0;
        let is_clear = !self.is_murky(name_of(now)) && !t.copied;
        if is_ready(now) && number(now) == generation && works && is_ours && is_clear {
            self.violations
                .push(format!("S6: Ready, and server {id} is at work"));
        }
        let ready = condition(now, "Ready");
        // Of the server before it the message may go on telling until this one shows.
        let is_missed = ready["reason"] == "ServerMissing"
            && ready["message"]
                .as_str()
                .is_some_and(|text| text.contains(id));
        let is_there = cloud.server(id).is_some_and(|server| is_alive(&server));
        // What a lie of the service made of it is looked at again later.
        if is_missed && is_there && self.troubles.lies == 0 && is_clear && !self.troubles.slow {
            self.violations
                .push(format!("S4: server {id} is there, and told as missing"));
        }
        let was_ready = is_ready(former) && number(former) == generation;
        let is_taken = now["status"]["operation"]["accepted"] == true;
        let begins = was_ready && !is_ready(now) && is_under_way(now) && is_taken;
        let late = self.accepted.get(id).map(Instant::elapsed);
        if begins && is_ours && is_clear && !t.disturbed && late > Some(SAID_WITHIN) {
            self.violations.push(format!(
                "S6: Ready for {late:?} after the service took an operation of server {id}"
            ));
        }
        if is_ready(now) && is_under_way(now) {
            self.violations
                .push("S6: Ready while an operation runs".to_owned());
        }
    }

    /// Whether a server was imported twice, and an Instance beside this one has it on record.
    fn is_left_to_another(&self, server: &str, but: &str, kube: &Apiserver) -> bool {
        let mut objects = kube.all().filter(|(key, _)| key.0 == INSTANCES);
        self.were_imported_twice.contains(server)
            && objects.any(|(_, other)| {
                let record = record(other).filter(|record| speaks(record, other));
                uid(other) != but
                    && record.is_some_and(|record| record.id.as_deref() == Some(server))
            })
    }

    /// The finalizer leaves: nothing of it may be left at the service.
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
        let mut alive = servers_of(former, cloud);
        // Of two that imported it under two processes, the one without the better right leaves it to the other one (docs).
        alive.retain(|server| !self.is_left_to_another(&server.id, &uid(former), kube));
        let t = &self.troubles;
        // A doubled request, and two processes, are healed by the memory of finalised UIDs; two lies in a row are not seen.
        let is_doubled = t.doubled_markers.contains(&marker);
        let excused = is_doubled || self.is_murky(name_of(former)) || self.is_lied_to();
        if let (Some(server), false) = (alive.first(), excused) {
            self.violations.push(format!(
                "S5: the finalizer left while server {} was there",
                server.id
            ));
        }
    }
}

/// Whether status tells of an operation that has not ended.
fn is_under_way(object: &Value) -> bool {
    let told = &object["status"]["operation"];
    told.is_object() && told["end"].is_null()
}

/// Whether a reinstall was announced that this spec does not ask for.
fn is_unasked(announced: &Operation, spec: &Value) -> bool {
    let target = &announced.target;
    let image = spec["image"]["id"].as_str();
    let token = spec["reinstall"]["token"].as_str();
    announced.verb == Verb::Reinstall
        && (image.is_some_and(|image| image != target.image)
            || token != target.reinstall.as_deref())
}
