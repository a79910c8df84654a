//! Applies faults to requests, and makes dependencies unavailable.

use super::Universe;
use crate::apiserver::INSTANCES;
use crate::fault::{Act, Dependency, Kind, On, Rule};
use crate::oracle::{self, Verdict};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// Within this time after a dependency is available again, all waiting work has used it (L2 in `docs/maintainers/proof.md`).
const RECOVERY: Duration = Duration::from_secs(30);

/// How a dependency is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// No connection opens.
    Silent,
    /// Everything is answered with this status.
    Answers(u16),
}

/// A dependency that is available again and has not been used yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unheard {
    dependency: Dependency,
    /// When it came back.
    back: Instant,
    /// Since when waiting work has had the time to use it: later than `back` if something prevented that.
    since: Instant,
}

impl Unheard {
    fn tardy(self) -> String {
        let dependency = self.dependency;
        format!("L2: {dependency:?} is back for {RECOVERY:?} and no process has called it")
    }
}

impl Universe {
    /// No fault happens from here on.
    pub fn end_faults(&mut self) {
        let unmet = self.rules.drain(..);
        let unmet = unmet.map(|rule| format!("{:?} {:?}", rule.on, rule.act));
        self.unmet.extend(unmet);
        (self.tasks_fail, self.hides) = (false, false);
        self.rotates_no_more();
        for (dependency, ..) in self.away.clone() {
            self.back(dependency);
        }
    }

    /// The absence that keeps this request from its answer, if any.
    pub fn absence(&mut self, kind: Kind) -> Option<Absence> {
        let mut away = self.away.iter_mut();
        let (_, how, is_noticed) = away.find(|(dependency, ..)| dependency.serves(kind))?;
        *is_noticed = true;
        let how = *how;
        self.note(|| format!("   {kind:?} finds {how:?}"));
        Some(how)
    }

    /// A dependency becomes unavailable.
    pub(super) fn goes(&mut self, dependency: Dependency, how: Absence) {
        self.away.retain(|(away, ..)| *away != dependency);
        self.away.push((dependency, how, false));
        self.unheard.retain(|it| it.dependency != dependency);
    }

    /// A request is answered.
    pub fn answers(&mut self, kind: Kind) {
        let is_served = |it: &mut Unheard| it.dependency.serves(kind);
        for unheard in self.unheard.extract_if(.., is_served) {
            let is_late = unheard.back.elapsed() > RECOVERY;
            let why = is_late.then(|| unheard.tardy());
            let is_excused = unheard.since.elapsed() <= RECOVERY;
            let verdict = Verdict::of(why, is_excused);
            self.oracle.judge(oracle::Rule::Recovered, verdict);
        }
    }

    /// No process can make requests: waiting for an available dependency counts from now on.
    pub fn cannot_ask(&mut self) {
        for it in &mut self.unheard {
            it.since = Instant::now();
        }
    }

    /// A dependency that became available again and was not used in time, although work waits for it: its description.
    pub fn unheard(&mut self) -> Option<String> {
        let mut unheard = std::mem::take(&mut self.unheard);
        unheard.retain(|it| self.does_work_wait(it.dependency));
        self.unheard = unheard;
        if !self.away.is_empty() || self.slow_until.is_some_and(|until| Instant::now() < until) {
            // An available dependency is useless without the other.
            self.cannot_ask();
        }
        let mut unheard = self.unheard.iter();
        let late = unheard.find(|it| it.since.elapsed() > RECOVERY)?;
        Some(late.tardy())
    }

    /// Whether an Instance has not reached its desired state, and needs this dependency for it.
    fn does_work_wait(&self, dependency: Dependency) -> bool {
        let waits = |object: &Value| {
            let is_observed =
                object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let reason = &object["status"]["conditions"][0]["reason"];
            // An Instance that may not be deleted, or not yet, waits for a user and for nothing at the service.
            let is_protected = object["spec"]["deletionProtection"] == true;
            let is_paused = object["spec"]["pause"].is_object();
            // Also while status cannot be written, which only needs the apiserver.
            let is_no_matter =
                oracle::is_paused(&object["spec"]) && dependency == Dependency::Service;
            let is_held = is_observed
                && (is_protected && reason == "DeletionProtected"
                    || is_paused && reason == "Paused");
            let is_unsettled = object["metadata"]["deletionTimestamp"].is_string() || !is_observed;
            (is_unsettled && !is_held && !is_no_matter) || reason == "Creating"
        };
        let mut instances = self.kube.all().filter(|(key, _)| key.0 == INSTANCES);
        instances.any(|(_, object)| waits(object))
    }

    /// A dependency becomes available again.
    pub(super) fn back(&mut self, dependency: Dependency) {
        let mut away = self.away.iter();
        let was_noticed = away.any(|(away, _, is_noticed)| *away == dependency && *is_noticed);
        self.away.retain(|(away, ..)| *away != dependency);
        if was_noticed && self.does_work_wait(dependency) {
            let now = Instant::now();
            self.unheard.push(Unheard {
                dependency,
                back: now,
                since: now,
            });
        }
    }

    /// Counts a request, and returns its fault. A rule applies once.
    pub fn count(&mut self, kind: Kind) -> Option<Act> {
        self.total += 1;
        if self.last_change.elapsed() < self.lately {
            self.kinds.push((self.total, kind));
        }
        let nth = self.counts.entry(kind).or_default();
        *nth += 1;
        let (total, nth) = (self.total, *nth);
        let met = |rule: &Rule| match rule.on {
            On::Any(n) => n == total,
            On::Nth(of, n) => of == kind && n == nth,
        };
        let index = self.rules.iter().position(met)?;
        let rule = self.rules.remove(index);
        // If the fault prevents the answer, the time to use the dependency begins again.
        let keeps_silent = rule.act.keeps_silent();
        for it in &mut self.unheard {
            if keeps_silent && it.dependency.serves(kind) {
                it.since = Instant::now();
            }
        }
        if let Act::Slow(seconds) = rule.act {
            self.slow_until = Some(Instant::now() + Duration::from_secs(u64::from(seconds)));
        }
        self.note(|| format!("!! {:?} at {kind:?}", rule.act));
        self.oracle.acts(kind, &rule.act);
        self.last_fault = Instant::now();
        Some(rule.act)
    }
}
