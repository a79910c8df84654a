//! The slots for calls to the service of one (endpoint, token), and the line of Instances that wait for a slot.
//!
//! A reconcile that needs the service takes a slot and keeps it until it ends. There are as many slots as the request limit can
//! use. If none is free, the reconcile ends. Only the name of its object waits in line, ordered by priority and then by arrival,
//! and it holds no resource that others need. A slot that becomes free is offered to the first in line, and the line wakes that
//! object. A service that is slow or never answers thus costs its own Account a few slots and a few bytes for each waiting
//! object, and does not slow other Accounts.

use crate::cloud::{CallPriority, Limits};
use crate::inventory::Subject;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Slots in addition to the calls in flight, for reconciles that write a record, receipt or status before or after their call: as
/// many as calls may be in flight, but at least this many.
const SPARE: usize = 8;
/// One slot in this many goes to the object that has waited longest, regardless of priority.
const OLDEST: u32 = 4;
/// How long an offered slot stays reserved. An object that has not reconciled by then may never do so; if it does, it joins the
/// end of the line.
const OFFER: Duration = Duration::from_secs(10);
const PRIORITIES: usize = CallPriority::ALL.len();

/// How many reconciles may hold a slot under these limits.
pub(super) fn slots(limits: Limits) -> usize {
    let concurrent = limits.concurrent.max(1);
    concurrent.saturating_add(concurrent.max(SPARE))
}

/// The line of one (endpoint, token); cheap to clone.
#[derive(Clone)]
pub struct Line(Arc<Inner>);

struct Inner {
    wake: Box<dyn Fn(Subject) + Send + Sync>,
    state: Mutex<State>,
}

struct State {
    slots: usize,
    /// By priority: the slots that are taken or offered.
    held: [usize; PRIORITIES],
    /// The offered slots: since when, and of which priority.
    offers: HashMap<Subject, (Instant, CallPriority)>,
    /// By priority: the waiting objects, by arrival. After each change, none of them can use a free slot.
    queues: [BTreeMap<u64, Subject>; PRIORITIES],
    /// The priority and arrival of each waiting object.
    waiting: HashMap<Subject, (CallPriority, u64)>,
    arrivals: u64,
    granted: u32,
}

/// Permission to call the service. Dropping it passes the slot to the next in line.
#[must_use = "a slot is given up when it is dropped"]
pub struct Slot {
    line: Line,
    priority: CallPriority,
}

impl Line {
    /// An empty line. It calls `wake` for each object that it offers a slot.
    pub fn new(limits: Limits, wake: impl Fn(Subject) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            wake: Box::new(wake),
            state: Mutex::new(State {
                slots: slots(limits),
                held: Default::default(),
                offers: HashMap::new(),
                queues: Default::default(),
                waiting: HashMap::new(),
                arrivals: 0,
                granted: 0,
            }),
        }))
    }

    /// Replaces the number of slots by what these limits can use.
    pub fn set_limits(&self, limits: Limits) {
        self.change(|state| state.slots = slots(limits));
    }

    /// Takes the slot that is offered to this subject, or a free one. Otherwise the subject joins the line; it keeps its position
    /// unless its priority has risen.
    pub fn ask(&self, subject: &Subject, priority: CallPriority) -> Option<Slot> {
        let held = self.change(|state| state.ask(subject, priority));
        held.map(|priority| Slot {
            line: self.clone(),
            priority,
        })
    }

    /// The subject needs no slot any more.
    pub fn leave(&self, subject: &Subject) {
        self.change(|state| state.leave(subject));
    }

    pub fn slots(&self) -> usize {
        self.lock().slots
    }

    /// Changes the state, then offers the slots that are free.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, offered) = {
            let mut state = self.lock();
            let result = change(&mut state);
            (result, state.offer(Instant::now()))
        };
        for subject in offered {
            self.withdraw_later(&subject);
            (self.0.wake)(subject);
        }
        result
    }

    /// Withdraws the offer after its time, so that the next in line gets the slot.
    fn withdraw_later(&self, subject: &Subject) {
        let (inner, subject) = (Arc::downgrade(&self.0), subject.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return; // the process is shutting down
        };
        runtime.spawn(async move {
            tokio::time::sleep(OFFER).await;
            if let Some(inner) = inner.upgrade() {
                Self(inner).change(|state| state.withdraw(&subject, Instant::now()));
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The priority of the slot that the subject gets, if any.
    fn ask(&mut self, subject: &Subject, priority: CallPriority) -> Option<CallPriority> {
        if let Some((_, offered)) = self.offers.remove(subject) {
            return Some(offered);
        }
        let former = self.waiting.get(subject).map(|(priority, _)| *priority);
        // No waiting subject of this priority could use a free slot, or it would have been offered one.
        if self.has_room(priority) {
            self.forget(subject);
            self.held[priority as usize] += 1;
            return Some(priority);
        }
        if former.is_none_or(|former| priority < former) {
            self.forget(subject);
            let arrival = self.arrivals;
            self.arrivals += 1;
            self.queues[priority as usize].insert(arrival, subject.clone());
            self.waiting.insert(subject.clone(), (priority, arrival));
        }
        None
    }

    fn leave(&mut self, subject: &Subject) {
        self.forget(subject);
        if let Some((_, priority)) = self.offers.remove(subject) {
            self.held[priority as usize] -= 1;
        }
    }

    /// Withdraws an offer whose time is over.
    fn withdraw(&mut self, subject: &Subject, now: Instant) {
        let offer = self.offers.get(subject);
        if offer.is_some_and(|(since, _)| now >= *since + OFFER) {
            self.leave(subject);
        }
    }

    fn forget(&mut self, subject: &Subject) {
        if let Some((priority, arrival)) = self.waiting.remove(subject) {
            self.queues[priority as usize].remove(&arrival);
        }
    }

    /// Offers the free slots to the first in line.
    fn offer(&mut self, now: Instant) -> Vec<Subject> {
        let mut offered = Vec::new();
        while let Some(priority) = self.next() {
            let Some((_, subject)) = self.queues[priority as usize].pop_first() else {
                break;
            };
            self.waiting.remove(&subject);
            self.held[priority as usize] += 1;
            self.granted = self.granted.wrapping_add(1);
            self.offers.insert(subject.clone(), (now, priority));
            offered.push(subject);
        }
        offered
    }

    /// The priority whose first subject gets the next slot, if one is free for it.
    fn next(&self) -> Option<CallPriority> {
        let heads = CallPriority::ALL.into_iter().filter_map(|priority| {
            let (arrival, _) = self.queues[priority as usize].first_key_value()?;
            self.has_room(priority).then_some((priority, *arrival))
        });
        let next = if self.granted % OLDEST == OLDEST - 1 {
            heads.min_by_key(|(_, arrival)| *arrival)
        } else {
            heads.min()
        };
        next.map(|(priority, _)| priority)
    }

    /// Purchases may hold half of the slots. A resync gets a slot only while purchases and resyncs together hold less than half.
    /// All calls that are not urgent may hold three quarters. The reserve lets an urgent call begin at once, and the operation
    /// that it begins proceed.
    fn has_room(&self, priority: CallPriority) -> bool {
        let [urgent, purchase, operation, resync] = self.held;
        let has_any = urgent + purchase + operation + resync < self.slots;
        let has_most = purchase + operation + resync < (self.slots * 3 / 4).max(1);
        let has_half = |held: usize| held < (self.slots / 2).max(1);
        match priority {
            CallPriority::Urgent => has_any,
            CallPriority::Purchase => has_any && has_most && has_half(purchase),
            CallPriority::Operation => has_any && has_most,
            CallPriority::Resync => has_any && has_most && has_half(purchase + resync),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let priority = self.priority;
        self.line.change(|state| state.held[priority as usize] -= 1);
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Line")
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slot")
    }
}

#[cfg(test)]
mod tests;
