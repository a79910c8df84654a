//! Who may call the service now, and who waits for that: the slots of one (endpoint, token), and the line before them.
//!
//! A reconcile that has something to ask of the service needs a slot, and keeps it to its end. There are as many as the request
//! limit can use. Where none is left, the reconcile ends: what waits is the name of its object, in the order in which it came and
//! behind what is more urgent, and holds nothing that others need. As soon as a slot is free it is held for the first in line,
//! who is woken. So a service that is slow, or never answers, costs its own Account a few slots and some bytes for each object
//! in line, and nobody else anything.

use crate::cloud::{CallPriority, Limits};
use crate::inventory::Subject;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Beyond the calls in flight so many reconciles are on their way to or from a call: they write their record, receipt or
/// status meanwhile. As many again as may be in flight, and at least so many.
const SPARE: usize = 8;
/// One slot in so many goes to whoever has waited longest, however little urgent.
const OLDEST: u32 = 4;
/// How long a slot is held for who was woken for it. Whoever does not come by then may well never do.
const OFFER: Duration = Duration::from_secs(10);
const PRIORITIES: usize = CallPriority::ALL.len();

/// So many reconciles may call the service at the same time.
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
    /// By priority: those that are taken, and those that are held for somebody.
    held: [usize; PRIORITIES],
    /// For whom one is held, and since when.
    offers: HashMap<Subject, (Instant, Stands)>,
    /// Where those stood that did not come for theirs: there they stand again once they ask.
    lapsed: HashMap<Subject, u64>,
    queues: [VecDeque<(u64, Subject)>; PRIORITIES],
    /// Where those stand that wait.
    waiting: HashMap<Subject, Stands>,
    numbers: u64,
    given: u32,
}

/// A place in the line: the priority, and a number that is lower for who came first.
type Stands = (CallPriority, u64);

/// Leave to call the service. Dropping it gives the slot to the next in line.
#[must_use = "a slot is given up when it is dropped"]
pub struct Slot {
    line: Line,
    priority: CallPriority,
}

impl Line {
    /// One in which nobody waits. `wake` is called for whom a slot is held from then on.
    pub fn new(limits: Limits, wake: impl Fn(Subject) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            wake: Box::new(wake),
            state: Mutex::new(State {
                slots: slots(limits),
                held: Default::default(),
                offers: HashMap::new(),
                lapsed: HashMap::new(),
                queues: Default::default(),
                waiting: HashMap::new(),
                numbers: 0,
                given: 0,
            }),
        }))
    }

    /// The slots that these limits can use, from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.change(|state| state.slots = slots(limits));
    }

    /// A slot, if one is held for this subject, or is left and nobody as urgent waits who would have room. Else the subject stands in line,
    /// where it stood before, unless it has become more urgent.
    pub fn ask(&self, subject: &Subject, priority: CallPriority) -> Option<Slot> {
        let held = self.change(|state| state.ask(subject, priority));
        held.map(|priority| Slot {
            line: self.clone(),
            priority,
        })
    }

    /// It needs no slot any more.
    pub fn leave(&self, subject: &Subject) {
        self.change(|state| state.leave(subject));
    }

    /// How many may call at the same time.
    pub fn slots(&self) -> usize {
        self.lock().slots
    }

    /// Changes the state, and offers the slots that are free after that.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, offered) = {
            let mut state = self.lock();
            let result = change(&mut state);
            (result, state.offer(Instant::now()))
        };
        for subject in offered {
            self.take_back_later(&subject);
            (self.0.wake)(subject);
        }
        result
    }

    /// An offer that is not taken up in time goes to the next.
    fn take_back_later(&self, subject: &Subject) {
        let (inner, subject) = (Arc::downgrade(&self.0), subject.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return; // the process ends
        };
        runtime.spawn(async move {
            tokio::time::sleep(OFFER).await;
            if let Some(inner) = inner.upgrade() {
                Self(inner).change(|state| state.lapse(&subject, Instant::now()));
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The priority whose slot it has now, if it has one.
    fn ask(&mut self, subject: &Subject, priority: CallPriority) -> Option<CallPriority> {
        if let Some((_, (offered, _))) = self.offers.remove(subject) {
            return Some(offered);
        }
        let stood = self.lapsed.remove(subject);
        // Those that are more urgent and find no room themselves are not passed by.
        let is_first = CallPriority::ALL[..=priority as usize].iter().all(|ahead| {
            let waiting = &self.queues[*ahead as usize];
            !self.has_room(*ahead) || waiting.iter().all(|(_, other)| other == subject)
        });
        if is_first && self.has_room(priority) {
            self.forget(subject);
            self.held[priority as usize] += 1;
            return Some(priority);
        }
        let stands = self.waiting.get(subject).map(|(priority, _)| *priority);
        if stands.is_none_or(|stands| priority < stands) {
            self.forget(subject);
            let number = stood.unwrap_or(self.numbers);
            self.numbers += 1;
            let waiting = &mut self.queues[priority as usize];
            let at = waiting.partition_point(|(other, _)| *other < number);
            waiting.insert(at, (number, subject.clone()));
            self.waiting.insert(subject.clone(), (priority, number));
        }
        None
    }

    fn leave(&mut self, subject: &Subject) {
        self.forget(subject);
        self.lapsed.remove(subject);
        if let Some((_, (priority, _))) = self.offers.remove(subject) {
            self.held[priority as usize] -= 1;
        }
    }

    fn lapse(&mut self, subject: &Subject, now: Instant) {
        let offer = self.offers.get(subject).copied();
        if let Some((_, (_, number))) = offer.filter(|(since, _)| now >= *since + OFFER) {
            self.leave(subject);
            self.lapsed.insert(subject.clone(), number);
        }
    }

    /// Takes it out of the line.
    fn forget(&mut self, subject: &Subject) {
        if let Some((priority, number)) = self.waiting.remove(subject) {
            let waiting = &mut self.queues[priority as usize];
            // In the order of their numbers.
            if let Ok(at) = waiting.binary_search_by_key(&number, |(number, _)| *number) {
                waiting.remove(at);
            }
        }
    }

    /// Holds what is free for the first in line.
    fn offer(&mut self, now: Instant) -> Vec<Subject> {
        let mut offered = Vec::new();
        while let Some(priority) = self.next() {
            let Some((number, subject)) = self.queues[priority as usize].pop_front() else {
                break;
            };
            self.waiting.remove(&subject);
            self.held[priority as usize] += 1;
            self.given = self.given.wrapping_add(1);
            self.offers
                .insert(subject.clone(), (now, (priority, number)));
            offered.push(subject);
        }
        offered
    }

    /// The priority whose first gets the next slot, if one is free for anybody who waits.
    fn next(&self) -> Option<CallPriority> {
        let heads = CallPriority::ALL.into_iter().filter_map(|priority| {
            let (number, _) = self.queues[priority as usize].front()?;
            self.has_room(priority).then_some((priority, *number))
        });
        let next = if self.given % OLDEST == OLDEST - 1 {
            heads.min_by_key(|(_, number)| *number)
        } else {
            heads.min()
        };
        next.map(|(priority, _)| priority)
    }

    /// Purchases leave half of the slots to others, resync half together with purchases, and open operations a quarter: what is
    /// asked for goes on beside them, and does not only begin.
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
