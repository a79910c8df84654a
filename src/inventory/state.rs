//! Combines subscriptions and passes: which passes are due, and which subjects a pass wakes. Synchronous; the clock is a
//! parameter.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::breaker::ExpectedServer;
use super::pass::{Pass, PassError};
use super::tombstones::Tombstones;
use super::view::View;
use super::watched::{Watched, credential_shown_by, fingerprint, wanted};
use super::{Attention, InstanceUid, Settings, Sighting, Subscription, Wants, times};
use crate::cloud::{CallPriority, Place, ServerId};
use crate::runtime::chance;

#[derive(Default)]
pub(super) struct State {
    pub settings: Settings,
    /// Boxed: a hash table keeps unused slots, and an unboxed subscriber would enlarge each of them.
    held: HashMap<InstanceUid, Box<Subscriber>>,
    pub places: BTreeMap<Place, Watched>,
    /// How many subscriptions expect a change of a server on record.
    pub expecting_change: usize,
    pub tombstones: Tombstones,
    /// When expired tombstones were last removed.
    pub tombstones_checked: Option<Instant>,
    /// For each credential in a record: the regions in which a pass has shown a server of such a record.
    pub shown: HashMap<Arc<str>, BTreeSet<String>>,
}

struct Subscriber {
    subscription: Subscription,
    /// The service itself reported the server on record as gone.
    is_gone: bool,
}

/// The driver's next actions.
#[derive(Debug, Default)]
pub(super) struct DuePasses {
    /// Places whose pass begins now, with the former pass.
    pub now: Vec<(Place, Option<Arc<Pass>>)>,
    /// When to check again.
    pub next: Option<Instant>,
}

impl State {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    pub(super) fn subscribe(&mut self, subject: &InstanceUid, subscription: Subscription) {
        let former = self.held.get(subject);
        if former.is_some_and(|held| held.subscription == subscription) {
            return;
        }
        let former = self.held.remove(subject);
        let former_id = former
            .as_ref()
            .and_then(|held| held.subscription.id.as_ref());
        let is_same_server = former_id == subscription.id.as_ref();
        if let Some(former) = &former {
            let (former, keep) = (&former.subscription, &subscription.places);
            self.withdraw(subject, former, keep, !is_same_server);
        }
        self.expecting_change += usize::from(subscription.expects_change());
        for place in &subscription.places {
            self.join(subject, &subscription, place, !is_same_server);
        }
        if let Some(id) = subscription.id.as_ref().filter(|_| subscription.releasing) {
            self.account_for(id);
        }
        let held = Subscriber {
            subscription,
            is_gone: is_same_server && former.is_some_and(|held| held.is_gone),
        };
        self.held.insert(subject.clone(), Box::new(held));
    }

    /// Removes the server from the missing and suspected servers of every place.
    fn account_for(&mut self, id: &ServerId) {
        for watched in self.places.values_mut() {
            watched.account_for(id);
        }
    }

    /// The passes that the subject's subscription requests.
    pub(super) fn wants(&self, subject: &InstanceUid) -> Wants {
        let held = self.held.get(subject);
        held.map(|held| held.subscription.wants).unwrap_or_default()
    }

    /// Makes the subject stay subscribed, but request no pass and expect no change.
    pub(super) fn expect_no_change(&mut self, subject: &InstanceUid) {
        let Some(held) = self.held.get(subject) else {
            return;
        };
        let quiet = Subscription {
            wants: Wants::default(),
            ..held.subscription.clone()
        };
        self.subscribe(subject, quiet);
    }

    /// Adds a subscription to the counts and indexes of a place. `is_other`: the server is not that of the former subscription.
    fn join(
        &mut self,
        subject: &InstanceUid,
        subscription: &Subscription,
        place: &Place,
        is_other: bool,
    ) {
        let watched = self.places.entry(place.clone()).or_default();
        let newest = watched.view.newest.clone();
        let print = || Some(fingerprint(subscription, newest.as_ref()?));
        let member = watched.members.entry(subject.clone());
        member.or_insert_with(print);
        watched.in_flight += usize::from(subscription.wants.attention == Attention::InFlight);
        watched.followed += usize::from(subscription.wants.attention == Attention::Followed);
        // If a pass needs several calls, a subject whose operation is followed by queries waits for the next regular pass.
        let is_hurried =
            subscription.wants.attention != Attention::Followed || watched.pages() <= 1;
        if let Some(after) = subscription
            .wants
            .pass_after
            .filter(|_| is_hurried)
            .filter(|after| watched.view.evidence(*after, wanted(subscription)).is_err())
        {
            watched.unmet.insert((after, subject.clone()));
        }
        let Some(newest) = newest else {
            return;
        };
        let shown = credential_shown_by(subscription, &newest);
        note_shown(&mut self.shown, shown, &place.region);
        let quiet = subscription.wants.attention == Attention::Quiet && !subscription.releasing;
        let expected = subscription.server_in(place).filter(|_| quiet && is_other);
        if let Some(id) = expected.filter(|id| !newest.rows.contains_key(*id)) {
            let members = watched.members.len();
            watched.suspect(id, members);
        }
    }

    pub(super) fn leave(&mut self, subject: &InstanceUid) {
        if let Some(held) = self.held.remove(subject) {
            self.withdraw(subject, &held.subscription, &[], true);
        }
    }

    /// Removes a subscription from all counts and indexes. The subject stays a member of the places in `keep`. `is_other`: the
    /// server is not that of the next subscription.
    fn withdraw(
        &mut self,
        subject: &InstanceUid,
        former: &Subscription,
        keep: &[Place],
        is_other: bool,
    ) {
        self.expecting_change -= usize::from(former.expects_change());
        if let Some(id) = former.id.as_ref().filter(|_| is_other) {
            self.account_for(id);
        }
        for place in &former.places {
            let Some(watched) = self.places.get_mut(place) else {
                continue;
            };
            watched.in_flight -= usize::from(former.wants.attention == Attention::InFlight);
            watched.followed -= usize::from(former.wants.attention == Attention::Followed);
            if let Some(after) = former.wants.pass_after {
                watched.unmet.remove(&(after, subject.clone()));
            }
            if !keep.contains(place) {
                watched.members.remove(subject);
            }
        }
        // Drop places without subscribers, which would otherwise hold their last listing forever.
        self.places.retain(|_, watched| watched.is_wanted());
    }

    pub(super) fn view(&self, place: &Place) -> View {
        let watched = self.places.get(place);
        let view = watched.map(|watched| watched.view.clone());
        view.unwrap_or_default()
    }

    pub(super) fn shows(&self, id: &ServerId) -> bool {
        let mut views = self.places.values().map(|watched| &watched.view);
        views.any(|view| matches!(view.sighting(id), Sighting::Present(..)))
    }

    pub(super) fn confirmed_gone(&mut self, uid: &str, id: &ServerId) {
        let held = self.held.get_mut(uid);
        if let Some(held) = held.filter(|held| held.subscription.id.as_ref() == Some(id)) {
            held.is_gone = true;
            self.account_for(id);
        }
    }

    /// The passes that are due now, marked as begun, and when to check again. Passes for which no Instance waits take at most
    /// [`times::LISTING_SHARE`] of `per_second` requests together, as far as [`times::LISTING_INTERVAL_MAX`] permits. Passes of a
    /// failing place, and those for tombstones alone, keep their interval.
    pub(super) fn due(&mut self, per_second: f64, now: Instant) -> DuePasses {
        self.expire(now);
        // Drop a place whose last subscriber left during a pass.
        self.places.retain(|_, watched| watched.is_wanted());
        let mut due = DuePasses::default();
        let pages = self.places.values().map(|watched| watched.pages() + 1);
        let pages = u32::try_from(pages.sum::<usize>()).unwrap_or(u32::MAX);
        let seconds = f64::from(pages) / (per_second * times::LISTING_SHARE);
        let min_interval = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let min_interval = min_interval.min(times::LISTING_INTERVAL_MAX);
        for (place, watched) in &mut self.places {
            match watched.due(&self.settings, min_interval, now) {
                Some(instant) if instant <= now => {
                    watched.running = true;
                    watched.began = Some(now);
                    due.now.push((place.clone(), watched.view.newest.clone()));
                }
                Some(instant) => {
                    due.next = Some(due.next.map_or(instant, |next| next.min(instant)));
                }
                None => {}
            }
        }
        due
    }

    /// The driver panicked, so no pass is running.
    pub(super) fn abandon(&mut self) {
        self.places
            .values_mut()
            .for_each(|watched| watched.running = false);
    }

    pub(super) fn priority(&self, place: &Place) -> CallPriority {
        match self.places.get(place) {
            Some(watched) if watched.is_waited_for() => CallPriority::Operation,
            Some(_) | None => CallPriority::Resync,
        }
    }

    /// Records the result of a pass. Returns the subjects to wake.
    pub(super) fn completed(
        &mut self,
        place: &Place,
        result: Result<Pass, PassError>,
        stretch: f64,
        now: Instant,
    ) -> Vec<InstanceUid> {
        let Some(watched) = self.places.get_mut(place) else {
            return Vec::new();
        };
        watched.running = false;
        watched.ended = Some(now);
        watched.stretch = stretch;
        let pass = match result {
            Ok(pass) => Arc::new(pass),
            Err(error) => {
                watched.fail(&error, now);
                return Vec::new();
            }
        };
        watched.failures_in_a_row = 0;
        watched.listed = Some(chance::time_of_day());
        watched.view.failing = None;
        watched.view.nowhere = [None; 2];
        watched.view.previous = watched.view.newest.replace(pass.clone());
        let (mut shown, mut counted) = (HashSet::new(), Vec::new());
        for subject in watched.members.keys() {
            let Some(held) = self.held.get_mut(subject) else {
                continue;
            };
            let subscription = &held.subscription;
            shown.extend(credential_shown_by(subscription, &pass));
            let Some(id) = subscription.server_in(place) else {
                continue;
            };
            // A server that the service reported as gone and that is listed again is not gone.
            held.is_gone &= !pass.rows.contains_key(id);
            if !held.is_gone && !subscription.releasing {
                let quiet = subscription.wants.attention == Attention::Quiet;
                let id = id.clone();
                counted.push(ExpectedServer { id, quiet });
            }
        }
        watched.breaker.judge(&pass, &counted);
        watched.view.breaker_open = watched.breaker.is_open();
        note_shown(&mut self.shown, shown, &place.region);
        self.wakes(place, &pass)
    }

    /// The subjects to which one of these applies: it expects a change; its requested passes are complete; its server changed; its
    /// server is missing while the circuit breaker is open.
    fn wakes(&mut self, place: &Place, pass: &Pass) -> Vec<InstanceUid> {
        let Some(watched) = self.places.get_mut(place) else {
            return Vec::new();
        };
        let met = watched.meet(pass, |subject| {
            self.held
                .get(subject)
                .map_or(1, |held| wanted(&held.subscription))
        });
        let doubtful = watched.view.breaker_open || !pass.steady;
        let mut wake = Vec::new();
        for (subject, print) in &mut watched.members {
            let Some(held) = self.held.get(subject) else {
                continue;
            };
            let subscription = &held.subscription;
            let expected = subscription.server_in(place);
            let missing = expected.is_some_and(|id| !pass.rows.contains_key(id));
            let before = *print;
            // A server that is missing from a doubtful pass does not count as changed.
            if !(doubtful && missing) {
                *print = Some(fingerprint(subscription, pass));
            }
            let changed = *print != before;
            // Each missing server must be queried by its Instance, or the circuit breaker of the place stays open.
            let suspect = missing && watched.view.breaker_open;
            let expects_change = subscription.wants.attention != Attention::Quiet;
            if changed || suspect || expects_change || met.contains(subject) {
                wake.push(subject.clone());
            }
        }
        wake
    }
}

/// Notes that a pass of this region showed servers that were recorded under these credentials.
fn note_shown(
    shown: &mut HashMap<Arc<str>, BTreeSet<String>>,
    credentials: impl IntoIterator<Item = Arc<str>>,
    region: &str,
) {
    for credential in credentials {
        let regions = shown.entry(credential).or_default();
        if !regions.contains(region) {
            regions.insert(region.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
