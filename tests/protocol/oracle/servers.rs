//! Judges the service's actions, and the requests for them.

use super::requests::Property;
use super::{Oracle, Rule, Verdict, bearing, open_operation, record, speaks};
use crate::apiserver::{Apiserver, INSTANCES, uid};
use crate::fault::Kind;
use cloud_server_operator::api::{self, Marker, Operation, PurchaseRecord, names};
use cloud_simulator::model::{Effect, Request, Verb, World};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// A repetition after this time is no more frequent than a user's requests.
const RARE: Duration = Duration::from_secs(300);

impl Oracle {
    /// A process is about to send this request.
    pub fn on_request(&mut self, request: &Request, kube: &Apiserver) {
        self.cutting = None;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (what, requested) = match request {
            Request::Create(body) => (
                text(&body.instance_name),
                vec![
                    text(&body.package_code),
                    text(&body.firewall),
                    text(&body.image),
                    text(&body.key),
                ],
            ),
            Request::Reinstall(body) => {
                (text(&body.server), vec![text(&body.image), text(&body.key)])
            }
            Request::Stop(body) if body.force_stop == Some(true) => {
                self.cutting.clone_from(&body.server);
                return self.on_power_cut(&text(&body.server), kube);
            }
            _ => return,
        };
        let is_announced = self.announced.contains(&(what.clone(), requested.clone()));
        let why = (!is_announced).then(|| {
            format!("S8: {what} was requested as {requested:?}, which no intent announced")
        });
        self.judge(Rule::Announced, Verdict::of(why, self.is_any_tampered()));
    }

    /// The power of a server is cut: only if its spec allows it, and not before its time.
    fn on_power_cut(&mut self, server: &str, kube: &Apiserver) {
        let mut objects = kube.all().filter(|(key, _)| key.0 == INSTANCES);
        let found = objects.find_map(|(key, object)| {
            let record = record(object).filter(|record| speaks(record, object))?;
            (record.id.as_deref() == Some(server)).then_some((key, object))
        });
        let Some((key, object)) = found else {
            return;
        };
        // A server that must be stopped for a reinstall has other rules.
        let runs = open_operation(object);
        if runs.is_some_and(|runs| runs.verb == api::Verb::Reinstall) {
            return;
        }
        let grace = &object["spec"]["stopPolicy"]["gracePeriodSeconds"];
        let grace = grace.as_u64().unwrap_or(60);
        let stop = self.stops.get(server);
        let is_early = stop.is_none_or(|(at, has_failed)| {
            !has_failed && at.elapsed() + Duration::from_secs(1) < Duration::from_secs(grace)
        });
        let (unforced, graced) = (Property::Unforced, Property::Graced);
        let is_forbidden =
            self.requests_now(&key.1, unforced) || (is_early && self.requests_now(&key.1, graced));
        let is_known = self.holds(&key.1, unforced)
            || (is_early && self.holds(&key.1, graced) && !self.is_outcome_uncertain(&key.1));
        let why = is_forbidden.then(|| {
            format!(
                "the power of {} was cut, which its stopPolicy does not allow",
                key.1
            )
        });
        self.judge(Rule::PowerCut, Verdict::of(why, !is_known));
    }

    /// The service acted.
    pub fn happened(&mut self, effect: &Effect, cloud: &World, kube: &Apiserver) {
        if let (true, Some(server)) = (effect.is_acceptance(), effect.server()) {
            let former = self.accepted.insert(server.to_owned(), Instant::now());
            if former.is_none_or(|at| at.elapsed() > RARE) {
                // An operation may take the requests that it needs, one operation at a time.
                self.has_changes();
            }
        }
        self.may_be_change(effect);
        match effect {
            Effect::Created { server, name } => self.on_created(server, name, cloud, kube),
            Effect::ReleaseAccepted { server, name } => self.on_release(server, name, kube),
            Effect::Reinstalled { server, .. } => self.on_erased(server, cloud),
            Effect::PasswordChanged { server } => {
                self.broken_passwords.remove(server);
            }
            Effect::Restarted { server } => self.on_restarted(server, cloud),
            Effect::Deployed { server } => self.on_deployed(server, cloud),
            Effect::StopAccepted { server } => {
                self.on_restrained(effect, cloud, kube);
                // A power cut that arrives late gives the server no additional time: the time began with the stop request.
                let is_cut = self.cutting.take().as_ref() == Some(server);
                if !(is_cut && self.stops.contains_key(server)) {
                    self.stops.insert(server.clone(), (Instant::now(), false));
                }
            }
            Effect::TaskFailed { server, verb, .. } => match verb {
                Verb::Create => {
                    self.failed_creates.insert(server.clone());
                }
                Verb::Password => {
                    self.broken_passwords.insert(server.clone());
                }
                Verb::Reinstall => {
                    let info = cloud.server(server);
                    if info.is_some_and(|server| self.is_reinstall_unseen(&server)) {
                        self.broken_passwords.insert(server.clone());
                    }
                }
                Verb::Stop => {
                    self.stops.insert(server.clone(), (Instant::now(), true));
                }
                _ => {}
            },
            effect if effect.is_acceptance() => self.on_restrained(effect, cloud, kube),
            _ => {}
        }
        self.judge_copies(cloud, kube);
    }

    /// The service accepted an operation on a server of an object that is paused or observed only.
    fn on_restrained(&mut self, effect: &Effect, cloud: &World, kube: &Apiserver) {
        let server = effect.server().unwrap_or_default();
        let name = cloud.server(server).map(|server| server.name);
        let Some(owner) = owner(server, &name.unwrap_or_default(), kube) else {
            return;
        };
        if !self.was_ever_restrained(&owner) {
            return;
        }
        let why = self.is_restrained_now(&owner).then(|| {
            format!("{owner} is paused or only observed, and the service took {effect:?}")
        });
        let is_excused = !self.is_restrained(&owner)
            || self.is_outcome_uncertain(&owner)
            || self.troubles.copied;
        self.judge(Rule::RestrainedCall, Verdict::of(why, is_excused));
    }

    fn on_created(&mut self, server: &str, name: &str, cloud: &World, kube: &Apiserver) {
        let Some(marker) = Marker::in_name(name) else {
            let why = format!("server {server} is called {name}, without a marker");
            return self.judge(Rule::OneServer, Verdict::Wrong(why));
        };
        self.newest.insert(marker.clone(), server.to_owned());
        self.judge_one_server(&marker, cloud);
        let owner = self.names.get(&marker).cloned().unwrap_or_default();
        if self.released_at_console.contains(&marker) {
            self.judge_bought_again(&marker, &owner, kube);
        }
        // A late purchase may be for an object that is deleted and has a namesake by now.
        let is_there = self::owner(server, name, kube).as_ref() == Some(&owner);
        let t = &self.troubles;
        let is_unclear = t.no_lease || t.takeovers > 0 || !is_there;
        if self.requests_now(&owner, Property::Imported) {
            let why = format!("a server was bought for {owner}, which imports one");
            let is_excused = is_unclear || !self.holds(&owner, Property::Imported);
            self.judge(Rule::ImportBuys, Verdict::of(Some(why), is_excused));
        }
        if self.was_ever_restrained(&owner) {
            let why = self.is_restrained_now(&owner).then(|| {
                format!("a server was bought for {owner}, which is paused or only observed")
            });
            let is_excused = is_unclear || !self.is_restrained(&owner);
            self.judge(Rule::RestrainedCall, Verdict::of(why, is_excused));
        }
    }

    /// A server with this marker was created.
    fn judge_one_server(&mut self, marker: &Marker, cloud: &World) {
        let alive = bearing(cloud, marker).len();
        if alive > 1 && self.troubles.doubled > 0 {
            self.troubles.doubled_markers.insert(marker.clone());
        }
        let t = &self.troubles;
        let may = 1 + t.doubled + t.takeovers;
        // This cannot be guaranteed at every moment without a Lease, after finalizer and record were removed by force together
        // with a lost memory, or if two consecutive listings omit the server (docs: two operators, QBe, lies); but it must
        // heal.
        let is_lied_to = t.lies > 1;
        let has_ended = t.crashes + t.ended + t.takeovers > 0;
        // The record of a purchase that replaced a failed or released server was lost with the store; the process that knew of
        // the purchase then ended before any listing showed the new server (docs).
        let is_of_it = |id: &String| {
            let failed = cloud.server(id);
            failed.is_some_and(|failed| Marker::in_name(&failed.name).as_ref() == Some(marker))
        };
        let was_replaced =
            self.released_at_console.contains(marker) || self.failed_creates.iter().any(is_of_it);
        let is_forgotten = (t.drops > 0 && (has_ended || t.handed_over.is_some()))
            || (self.put_back.contains(marker) && was_replaced && has_ended);
        let why = (alive > 1).then(|| {
            format!("S1: {alive} servers bear marker {marker:?} at once, at most {may} may")
        });
        let is_excused = alive <= may || t.no_lease || is_forgotten || t.too_late || is_lied_to;
        self.judge(Rule::OneServer, Verdict::of(why, is_excused));
    }

    /// A server was bought with the marker of a server that was released at the console.
    fn judge_bought_again(&mut self, marker: &Marker, owner: &str, kube: &Apiserver) {
        let t = &self.troubles;
        // Record and status were removed or restored while no process remembers them, or status did not show a server yet: to a
        // process that starts then, and to the other one of two without a Lease, the object is new (docs).
        let object = kube.get(&(INSTANCES, owner.to_owned()));
        let is_unreported = object.is_some_and(|object| object["status"]["id"].is_null());
        let is_lost = t.wiped || t.unwritten || is_unreported;
        let is_another = t.no_lease || t.crashes + t.ended + t.takeovers > 0;
        let is_unknown =
            (self.is_tampered(owner) && is_lost && is_another) || self.put_back.contains(marker);
        let stays = self.requests_now(owner, Property::NotRecreated) || self.is_spent(marker, 0);
        let is_known = self.holds(owner, Property::NotRecreated) || self.is_over_budget(marker);
        // A process that was stopped before the first purchase may make it after another process made it, and after that
        // server's release. So may one of two processes without a Lease that is held up.
        let whole = self.whole.get(marker).copied().unwrap_or(0);
        let late = t.takeovers + usize::from(t.no_lease && t.slow);
        let is_late = late > 0 && whole <= late;
        let why = stays.then(|| {
            format!(
                "S4: a server was bought again for {marker:?}, whose server was released at the console"
            )
        });
        let is_excused = !is_known || is_unknown || is_late || t.copied;
        self.judge(Rule::BoughtAgain, Verdict::of(why, is_excused));
    }

    /// Whether this marker has had all servers that its Instance may have over its life, plus `more`.
    fn is_spent(&self, marker: &Marker, more: usize) -> bool {
        let owner = self
            .names
            .get(marker)
            .and_then(|name| self.requests.get(name));
        let whole = self.whole.get(marker).copied().unwrap_or(0);
        whole > owner.map_or(0, |requests| requests.recreations) + more
    }

    /// Whether one more server exceeds the limit.
    fn is_over_budget(&self, marker: &Marker) -> bool {
        let t = &self.troubles;
        !t.no_lease && !t.too_late && self.is_spent(marker, t.doubled + t.takeovers)
    }

    fn on_deployed(&mut self, server: &str, cloud: &World) {
        let info = cloud.server(server);
        let marker = info.and_then(|server| Marker::in_name(&server.name));
        if let Some(marker) = marker {
            *self.whole.entry(marker).or_default() += 1;
        }
    }

    fn on_erased(&mut self, server: &str, cloud: &World) {
        let Some(name) = self.owner_of(server, cloud) else {
            return;
        };
        let former = usize::from(self.may_be_for_a_former_owner(server));
        let done = self.erasures_done.entry(name.clone()).or_default();
        *done += 1;
        let t = &self.troubles;
        // Until a late watch event, a version that is assigned again after a restore may be confused with the earlier one, and
        // a request from before the restore is announced and undone (docs: `--bump-revision`).
        let unseen = 2 * self.announced_unseen.get(&name).copied().unwrap_or(0);
        // While the outcome of a reinstall is unknown, a user who restores the old image makes it look as if the reinstall had
        // not happened (docs).
        let calls = t.unknown.get(&Kind::Reinstall).copied().unwrap_or(0);
        let undone = match self.touched_at_console.contains(server) {
            true => calls,
            false => 0,
        };
        // A process that was stopped before its call may make it after another process made it. A reinstall that keeps the
        // image, or whose image was replaced at the console, is repeated if its record is gone: with the restored store, or
        // dropped together with the memory (docs).
        let forgotten = if t.crashes + t.ended > 0 { t.drops } else { 0 };
        let is_hidden = t.same_image || self.touched_at_console.contains(server);
        let again = if is_hidden { t.restores + forgotten } else { 0 };
        let requests = self
            .requests
            .get(&name)
            .map_or(0, |requests| requests.erasures);
        let allowed = requests + t.takeovers + again + unseen + undone + former;
        let why = (*done > requests).then(|| {
            format!("S3: {name} was erased {done} times, at most {allowed} times are allowed")
        });
        let is_excused = *done <= allowed || t.no_lease || t.too_late;
        self.judge(Rule::Erased, Verdict::of(why, is_excused));
    }

    fn on_restarted(&mut self, server: &str, cloud: &World) {
        let Some(name) = self.owner_of(server, cloud) else {
            return;
        };
        let is_outcome_uncertain = self.is_outcome_uncertain(&name);
        let done = self.restarts_done.entry(name.clone()).or_default();
        *done += 1;
        let t = &self.troubles;
        // A restart whose answer was lost with the process may be repeated (docs).
        let unknown = t.unknown.get(&Kind::Power).copied().unwrap_or(0);
        let requests = self
            .requests
            .get(&name)
            .map_or(0, |requests| requests.restarts);
        let allowed = requests + unknown + t.crashes + t.pauses;
        let why = (*done > requests).then(|| {
            format!("S3: {name} was restarted {done} times, at most {allowed} are allowed")
        });
        let is_excused = *done <= allowed || is_outcome_uncertain;
        self.judge(Rule::Restarted, Verdict::of(why, is_excused));
    }

    /// Records the announcement of an intent: see `announced`.
    pub(super) fn announces(&mut self, object_name: &str, record: &PurchaseRecord) {
        let target = &record.target;
        let name = names::server_name(object_name, &record.marker);
        let announced = vec![
            record.package.clone(),
            record.firewall.clone().unwrap_or_default(),
            target.image.clone(),
            target.key.clone().unwrap_or_default(),
        ];
        self.announced.insert((name, announced));
    }

    /// Records the announcement of a reinstall's intent.
    pub(super) fn announces_reinstall(&mut self, record: &PurchaseRecord, operation: &Operation) {
        let server = record.id.clone().unwrap_or_default();
        let target = &operation.target;
        let announced = vec![target.image.clone(), target.key.clone().unwrap_or_default()];
        self.announced.insert((server, announced));
    }
}

/// The object that owns a server, by its record or by the marker in its name.
fn owner(server: &str, name: &str, kube: &Apiserver) -> Option<String> {
    let marker = Marker::in_name(name);
    let mut objects = kube.all().filter(|(key, _)| key.0 == INSTANCES);
    let is_its = |object: &Value| {
        let record = record(object).filter(|record| speaks(record, object));
        match record {
            Some(record) if record.id.as_deref() == Some(server) => true,
            Some(record) => Some(record.marker) == marker,
            None => Some(Marker::of_uid(&uid(object))) == marker,
        }
    };
    objects.find_map(|(key, object)| is_its(object).then(|| key.1.clone()))
}
