//! One watched place: when its next pass is due, and which requests a pass fulfils.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::breaker::Breaker;
use super::pass::{Pass, PassError};
use super::times;
use super::view::{NoEvidence, View};
use super::{InstanceUid, ListingFailure, Settings, Subscription};
use crate::cloud::ServerId;
use crate::runtime::chance;

/// A place with subscribers or tombstones.
#[derive(Default)]
pub(super) struct Watched {
    /// The subjects of the subscriptions, each with the fingerprint with which the next pass is compared. None before the first
    /// pass.
    pub members: HashMap<InstanceUid, Option<u64>>,
    /// The number of members that expect a change that only a listing shows.
    pub in_flight: usize,
    /// The number of members with an operation that is followed by queries.
    pub followed: usize,
    /// Requests that no pass has fulfilled yet, by the instant after which the pass must begin.
    pub unmet: BTreeSet<(Instant, InstanceUid)>,
    pub has_tombstone: bool,
    pub view: View,
    pub breaker: Breaker,
    pub running: bool,
    pub began: Option<Instant>,
    pub ended: Option<Instant>,
    /// Factor for the next interval.
    pub stretch: f64,
    pub failures_in_a_row: u32,
    /// How many passes in a row were no evidence for a request.
    pub in_vain: u32,
    /// When the newest pass ended, for status.
    pub listed: Option<Timestamp>,
}

impl Watched {
    pub(super) fn is_wanted(&self) -> bool {
        self.has_tombstone || self.running || !self.members.is_empty()
    }

    pub(super) fn suspect(&mut self, id: &ServerId, on_record: usize) {
        self.breaker.suspect(id, on_record);
        self.view.breaker_open = self.breaker.is_open();
    }

    pub(super) fn account_for(&mut self, id: &ServerId) {
        self.breaker.account_for(id);
        self.view.breaker_open = self.breaker.is_open();
    }

    /// The number of pages in the newest complete pass: about the calls that the next one will cost.
    pub(super) fn pages(&self) -> usize {
        let newest = self.view.newest.as_ref();
        newest.map_or(0, |pass| pass.pages)
    }

    /// Whether passes come at the short interval for operations: a member waits for a listing, or a pass costs no more calls than
    /// it saves the members that are followed by queries. While passes fail or the circuit breaker is open, those members wait
    /// for a listing, too.
    fn is_urgent(&self) -> bool {
        let is_in_doubt = self.failures_in_a_row > 0 || self.view.breaker_open;
        let is_cheap = self.followed >= self.pages() || is_in_doubt;
        self.in_flight > 0 || (self.followed > 0 && is_cheap)
    }

    /// Whether an Instance waits for the next pass.
    pub(super) fn is_waited_for(&self) -> bool {
        self.is_urgent() || !self.unmet.is_empty()
    }

    /// When to begin the next pass; None while one is running or none is needed. `min_interval`: the least time between the
    /// starts of two passes for which no Instance waits. Passes of a failing place, and those for tombstones alone, keep their
    /// interval.
    pub(super) fn due(
        &self,
        settings: &Settings,
        min_interval: Duration,
        now: Instant,
    ) -> Option<Instant> {
        if self.running || !self.is_wanted() {
            return None;
        }
        let interval = if self.is_urgent() {
            settings.in_flight
        } else if self.members.is_empty() {
            settings.tombstone_pause
        } else if self.failures_in_a_row > 0 {
            settings.quiet
        } else {
            settings.quiet.max(min_interval)
        };
        let Some(began) = self.began else {
            return Some(now);
        };
        let mut due = began + interval.mul_f64(self.stretch);
        if let Some((after, _)) = self.unmet.first() {
            // Begin strictly after that instant. If passes turn out to be no evidence, do not begin the next one at once.
            let gap = doubled(settings.min_gap, self.in_vain, settings.in_flight);
            let earliest = self.ended.map_or(now, |ended| ended + gap);
            due = due.min(earliest.max(*after + Duration::from_millis(1)));
        }
        if self.failures_in_a_row > 0 {
            // A refused token usually stays refused until a user replaces it, so retry slowly. But the refusal may also be a
            // fault of the service, and no event will show the end of that fault.
            let failing = self.view.failing.as_ref();
            let most = match failing.is_some_and(|failing| failing.is_refused) {
                true => times::REFUSED_PASS_RETRY_MAX,
                false => times::FAILED_PASS_RETRY_MAX,
            };
            let earlier = self.failures_in_a_row - 1;
            let pause = doubled(settings.failure_pause, earlier, most.min(settings.quiet));
            due = due.max(self.ended.unwrap_or(now) + pause.mul_f64(self.stretch));
        }
        Some(due)
    }

    /// A pass failed. Keeps the message of the first failure of its kind: the service may put a new request identifier into each
    /// refusal.
    pub(super) fn fail(&mut self, error: &PassError, now: Instant) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let kind = error.kind();
        if error.is_no_such_place() {
            self.view.nowhere = [self.view.nowhere[1], self.began];
        }
        let former = self.view.failing.as_ref();
        if former.is_some_and(|former| former.kind == kind) {
            return;
        }
        let (since, began) = match former {
            Some(former) => (former.since, former.began),
            None => (now, chance::time_of_day()),
        };
        let is_refused = matches!(error, PassError::Cloud(error) if error.is_unauthorized());
        self.view.failing = Some(Arc::new(ListingFailure {
            since,
            began,
            message: error.to_string(),
            is_refused,
            kind,
        }));
    }

    /// Removes the requests that this pass fulfils, and returns their subjects.
    pub(super) fn meet(
        &mut self,
        pass: &Pass,
        passes_of: impl Fn(&InstanceUid) -> u8,
    ) -> HashSet<InstanceUid> {
        let asked: Vec<_> = self
            .unmet
            .iter()
            .take_while(|(after, _)| *after < pass.began)
            .cloned()
            .collect();
        let mut met = HashSet::new();
        let mut in_vain = false;
        for (after, subject) in asked {
            let passes = passes_of(&subject);
            match self.view.evidence(after, passes) {
                Ok(()) => {
                    self.unmet.remove(&(after, subject.clone()));
                    met.insert(subject);
                }
                // The first of two passes; the second follows after a short pause.
                Err(NoEvidence::Stale) => {}
                Err(_) => in_vain = true,
            }
        }
        self.in_vain = if in_vain {
            self.in_vain.saturating_add(1)
        } else {
            0
        };
        met
    }
}

/// A fingerprint of a subscriber's part of a pass: the row of the server on record, and every row that bears the marker.
pub(super) fn fingerprint(subscription: &Subscription, pass: &Pass) -> u64 {
    let mut hasher = DefaultHasher::new();
    let own = subscription.id.as_ref().and_then(|id| pass.rows.get(id));
    own.map(|row| row.digest).hash(&mut hasher);
    for id in pass.bearing(&subscription.marker) {
        (id, pass.rows.get(id).map(|row| row.digest)).hash(&mut hasher);
    }
    hasher.finish()
}

/// The subscription's credential, if the pass shows a server with its id or marker.
pub(super) fn credential_shown_by(subscription: &Subscription, pass: &Pass) -> Option<Arc<str>> {
    let shows = pass.shows(subscription.id.as_ref(), &subscription.marker);
    subscription.credential.clone().filter(|_| shows)
}

/// How many passes in a row the subscription requests.
pub(super) fn wanted(subscription: &Subscription) -> u8 {
    subscription.wants.passes.clamp(1, 2)
}

/// The first pause, doubled this many times, and at most `most`.
fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    first
        .saturating_mul(2u32.saturating_pow(times.min(16)))
        .min(most.max(first))
}
