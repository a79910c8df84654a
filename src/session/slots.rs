//! The slots for calls to the service of one (endpoint, token), and the Instances that wait for one.
//!
//! A reconcile that needs the service takes a slot and keeps it until the reconcile ends. There are more slots than calls may be
//! in flight (`SPARE`). If none is free, the reconcile ends, and only the UID of its object stays in the queue. A slot that
//! becomes free is not reserved: the first objects that may use it are woken and ask again. A service that is slow or never
//! answers thus costs its own Accounts a few slots and a few bytes for each waiting object, and does not slow other Accounts.

use crate::cloud::{CallPriority, Limits};
use crate::inventory::InstanceUid;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The least number of slots beyond the calls in flight, for reconciles that write a record, receipt or status before or after
/// their call.
const SPARE: usize = 8;
const PRIORITIES: usize = CallPriority::ALL.len();

/// How many reconciles may hold a slot under these limits.
fn slots_for(limits: Limits) -> usize {
    let concurrent = limits.concurrent.max(1);
    concurrent.saturating_add(concurrent.max(SPARE))
}

/// The slots of one (endpoint, token); cheap to clone.
#[derive(Clone)]
pub struct CallSlots(Arc<Inner>);

struct Inner {
    wake: Box<dyn Fn(InstanceUid) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: usize,
    /// By priority: the slots that are taken.
    held: [usize; PRIORITIES],
    /// The waiting objects: the most urgent first, then by arrival.
    waiting: BTreeMap<Position, InstanceUid>,
    positions: HashMap<InstanceUid, Position>,
    arrivals: u64,
}

/// The priority of a waiting object, and a number that grows with arrival.
type Position = (CallPriority, u64);

/// Permission to call the service. Dropping it wakes the next waiting objects.
#[must_use = "a slot is given up when it is dropped"]
pub struct Slot {
    slots: CallSlots,
    priority: CallPriority,
}

impl CallSlots {
    /// Every slot is free. `wake` is called with each object that should ask again.
    pub fn new(limits: Limits, wake: impl Fn(InstanceUid) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            wake: Box::new(wake),
            state: Mutex::new(State {
                slots: slots_for(limits),
                ..State::default()
            }),
        }))
    }

    /// Replaces the number of slots by the number for these limits.
    pub fn set_limits(&self, limits: Limits) {
        self.lock().slots = slots_for(limits);
        self.wake_next();
    }

    /// Takes a slot if one is free for this priority, or for that with which the subject already waits. Otherwise the subject
    /// waits; it keeps its position unless its priority has risen.
    pub fn ask(&self, subject: &InstanceUid, priority: CallPriority) -> Option<Slot> {
        let mut state = self.lock();
        let former = state.positions.get(subject).map(|(former, _)| *former);
        let priority = former.map_or(priority, |former| former.min(priority));
        if state.has_slot(&state.held, priority) {
            state.forget(subject);
            state.held[priority as usize] += 1;
            return Some(Slot {
                slots: self.clone(),
                priority,
            });
        }
        if former != Some(priority) {
            state.forget(subject);
            state.arrivals += 1;
            let position = (priority, state.arrivals);
            state.waiting.insert(position, subject.clone());
            state.positions.insert(subject.clone(), position);
        }
        None
    }

    /// Removes the subject from the queue.
    pub fn leave(&self, subject: &InstanceUid) {
        let has_waited = self.lock().forget(subject);
        if has_waited {
            self.wake_next();
        }
    }

    /// How many reconciles may hold a slot.
    pub fn number(&self) -> usize {
        self.lock().slots
    }

    /// Wakes as many of the first waiting objects as slots are free for them.
    fn wake_next(&self) {
        let woken: Vec<InstanceUid> = {
            let state = self.lock();
            let mut held = state.held;
            let next = state.waiting.iter().filter(|((priority, _), _)| {
                let has_slot = state.has_slot(&held, *priority);
                held[*priority as usize] += usize::from(has_slot);
                has_slot
            });
            let next = next.take(state.free(&state.held));
            next.map(|(_, subject)| subject.clone()).collect()
        };
        woken.into_iter().for_each(&*self.0.wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes a waiting subject. Returns whether it waited.
    fn forget(&mut self, subject: &InstanceUid) -> bool {
        let position = self.positions.remove(subject);
        position.is_some_and(|position| self.waiting.remove(&position).is_some())
    }

    fn free(&self, held: &[usize; PRIORITIES]) -> usize {
        self.slots.saturating_sub(held.iter().sum())
    }

    /// Whether a call of this priority gets a slot. Purchases may hold half of the slots. A resync gets a slot only while
    /// purchases and resyncs together hold less than half. All calls that are not urgent may hold three quarters; the last
    /// quarter lets an urgent call begin at once.
    fn has_slot(&self, held: &[usize; PRIORITIES], priority: CallPriority) -> bool {
        let [_, purchase, operation, resync] = *held;
        let has_any = self.free(held) > 0;
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
        self.slots.lock().held[self.priority as usize] -= 1;
        self.slots.wake_next();
    }
}

impl std::fmt::Debug for CallSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallSlots")
    }
}

#[cfg(test)]
mod tests;
