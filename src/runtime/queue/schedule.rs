//! Decides which object is reconciled next. It holds keys only, starts no task and reads no clock, so it also runs in virtual time.
//!
//! Objects queue by *flow*: a namespace, and an Account in it. The flows get worker slots in turn. Within a flow the most urgent
//! object goes first, and within a priority the one that came first.
//!
//! A namespace that holds a slot may take another one only while it holds less than twice the number of slots that would then
//! remain; one that holds none may take any free slot. So a few greedy namespaces leave slots for the next one: a single one gets
//! two thirds of the slots; ten get two of every twenty-one each, and one of every twenty-one stays free. Therefore a namespace
//! with many Accounts does not delay other namespaces. Within a flow, objects with the priority Operation or Resync leave a
//! quarter of the flow's bound to more urgent ones.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The priority within a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// The object was woken because a slot for calls to the service became free (see `session::slots`).
    Admitted,
    /// A user edited the object, its status does not show the spec yet, or a Secret that the object refers to changed.
    Change,
    /// An operation or a deletion is in progress, or status names no server yet.
    Operation,
    /// None of the above applies.
    Resync,
}

impl Priority {
    /// All priorities, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Admitted, Self::Change, Self::Operation, Self::Resync];

    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Change => "change",
            Self::Operation => "operation",
            Self::Resync => "resync",
        }
    }
}

/// The unit of fair sharing: the objects of one Account in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    pub namespace: Arc<str>,
    pub account: Arc<str>,
}

/// A namespace that holds slots may take another one while it holds fewer than this number times the slots that would then remain.
const SHARE: usize = 2;

/// Objects that are being reconciled, wait for a reconcile, or sleep until their next one.
#[derive(Debug)]
pub struct Schedule<K> {
    slots: usize,
    running: usize,
    waiting: [usize; Priority::ALL.len()],
    /// Numbers the arrivals: a lower number came first.
    arrivals: u64,
    objects: HashMap<K, Object>,
    /// When sleeping objects wake up.
    timers: BTreeSet<(Instant, K)>,
    flows: HashMap<Flow, Members<K>>,
    /// All flows, in the order of their turns.
    turns: VecDeque<Flow>,
    /// How many objects of each namespace are being reconciled.
    held: HashMap<Arc<str>, usize>,
}

#[derive(Debug)]
enum Object {
    Sleeps {
        until: Instant,
        requested: Option<Priority>,
    },
    Waits {
        flow: Flow,
        priority: Priority,
        arrival: u64,
        since: Instant,
    },
    Runs {
        flow: Flow,
        priority: Priority,
        /// The requests that came during this reconcile, as one.
        again: Option<(Instant, Option<Priority>)>,
    },
}

/// The objects of a flow that wait or are being reconciled.
#[derive(Debug)]
struct Members<K> {
    running: usize,
    /// How many of the running ones are less urgent than [`Priority::Change`].
    running_unchanged: usize,
    waiting: BTreeSet<(Priority, u64, K)>,
}

/// An object whose reconcile begins now.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun<K> {
    /// The key of the object.
    pub key: K,
    /// The priority with which it waited.
    pub priority: Priority,
    /// Since when it has waited.
    pub since: Instant,
}

impl<K: Clone + Eq + Hash + Ord> Schedule<K> {
    /// An empty schedule. At most `slots` objects are reconciled at the same time.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: slots.max(1),
            running: 0,
            waiting: Default::default(),
            arrivals: 0,
            objects: HashMap::new(),
            timers: BTreeSet::new(),
            flows: HashMap::new(),
            turns: VecDeque::new(),
            held: HashMap::new(),
        }
    }

    /// Requests a reconcile that is due at `at` at the latest. Several requests before it begins count as one, the earliest and
    /// most urgent. A request during a reconcile takes effect after it. Without a priority, the object's own state determines it.
    pub fn wake(&mut self, key: &K, at: Instant, requested: Option<Priority>) {
        match self.objects.get_mut(key) {
            None => self.sleep(key.clone(), at, requested),
            Some(Object::Sleeps {
                until,
                requested: former,
            }) => {
                let (former_until, requested) = (*until, more_urgent(*former, requested));
                self.timers.remove(&(former_until, key.clone()));
                self.sleep(key.clone(), at.min(former_until), requested);
            }
            Some(Object::Waits { priority, .. }) => {
                if let Some(requested) = requested.filter(|requested| requested < priority) {
                    self.hurry(key, requested);
                }
            }
            Some(Object::Runs { again, .. }) => {
                let (first, former) = again.unwrap_or((at, None));
                *again = Some((first.min(at), more_urgent(former, requested)));
            }
        }
    }

    /// Moves objects that are due from sleeping to waiting. `describe` returns the flow and the priority, or none for an object
    /// that is gone.
    pub fn advance(&mut self, now: Instant, describe: impl Fn(&K) -> Option<(Flow, Priority)>) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.timers.pop_first() else {
                return;
            };
            let Some(Object::Sleeps { requested, .. }) = self.objects.remove(&key) else {
                continue;
            };
            if let Some((flow, usual)) = describe(&key) {
                let priority = requested.map_or(usual, |requested| requested.min(usual));
                self.queue(key, flow, priority, now);
            }
        }
    }

    /// The next object that may begin, if any. At most `bound` objects of a flow are reconciled at the same time, regardless of
    /// free slots.
    pub fn begin(&mut self, bound: impl Fn(&Flow) -> usize) -> Option<Begun<K>> {
        let left_after = self.slots.checked_sub(self.running + 1)?;
        for _ in 0..self.turns.len() {
            self.turns.rotate_left(1);
            let flow = self.turns.back()?.clone();
            let held = self.held.get(&flow.namespace).copied().unwrap_or_default();
            // A namespace that already holds slots must leave more than `held / SHARE` free (see the module).
            if held > 0 && held >= SHARE * left_after {
                continue;
            }
            let members = self.flows.get_mut(&flow)?;
            if let Some((priority, _, key)) = members.begin(|| bound(&flow).max(1)) {
                self.running += 1;
                self.waiting[priority as usize] -= 1;
                self.held.insert(flow.namespace.clone(), held + 1);
                let runs = Object::Runs {
                    flow,
                    priority,
                    again: None,
                };
                // Always matches: only `Waits` objects are in `Members::waiting`.
                if let Some(Object::Waits { since, .. }) = self.objects.insert(key.clone(), runs) {
                    return Some(Begun {
                        key,
                        priority,
                        since,
                    });
                }
            }
        }
        None
    }

    /// Ends a reconcile. The next reconcile of the object is after this time, or earlier if one was requested meanwhile.
    pub fn end(&mut self, key: &K, now: Instant, after: Duration) {
        let Some(Object::Runs {
            flow,
            priority,
            again,
        }) = self.objects.remove(key)
        else {
            return;
        };
        self.running -= 1;
        if let Some(held) = self.held.get_mut(&flow.namespace) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&flow.namespace);
            }
        }
        if let Some(members) = self.flows.get_mut(&flow) {
            members.running -= 1;
            members.running_unchanged -= usize::from(priority > Priority::Change);
            if members.running == 0 && members.waiting.is_empty() {
                self.flows.remove(&flow);
                self.turns.retain(|turn| *turn != flow);
            }
        }
        let later = now + after;
        let (until, requested) =
            again.map_or((later, None), |(at, requested)| (at.min(later), requested));
        self.sleep(key.clone(), until, requested);
    }

    /// When the next sleeping object is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// How many objects are being reconciled.
    pub fn running(&self) -> usize {
        self.running
    }

    /// How many objects of this priority wait.
    pub fn waiting(&self, priority: Priority) -> usize {
        self.waiting[priority as usize]
    }

    fn sleep(&mut self, key: K, until: Instant, requested: Option<Priority>) {
        self.timers.insert((until, key.clone()));
        self.objects
            .insert(key, Object::Sleeps { until, requested });
    }

    /// Raises the priority of a waiting object, which then comes last within its new priority.
    fn hurry(&mut self, key: &K, requested: Priority) {
        let Some(Object::Waits {
            flow,
            priority,
            arrival,
            since,
        }) = self.objects.remove(key)
        else {
            return;
        };
        self.waiting[priority as usize] -= 1;
        if let Some(members) = self.flows.get_mut(&flow) {
            members.waiting.remove(&(priority, arrival, key.clone()));
        }
        self.queue(key.clone(), flow, requested, since);
    }

    fn queue(&mut self, key: K, flow: Flow, priority: Priority, since: Instant) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.waiting[priority as usize] += 1;
        let members = self.flows.entry(flow.clone()).or_insert_with(|| {
            self.turns.push_back(flow.clone());
            Members {
                running: 0,
                running_unchanged: 0,
                waiting: BTreeSet::new(),
            }
        });
        members.waiting.insert((priority, arrival, key.clone()));
        let waits = Object::Waits {
            flow,
            priority,
            arrival,
            since,
        };
        self.objects.insert(key, waits);
    }
}

fn more_urgent(one: Option<Priority>, other: Option<Priority>) -> Option<Priority> {
    one.into_iter().chain(other).min()
}

impl<K: Ord> Members<K> {
    /// Takes the most urgent object, if the bound leaves it a slot.
    fn begin(&mut self, bound: impl FnOnce() -> usize) -> Option<(Priority, u64, K)> {
        let is_unchanged = self.waiting.first()?.0 > Priority::Change;
        let bound = bound();
        let most_unchanged = bound - bound / 4;
        if self.running >= bound || (is_unchanged && self.running_unchanged >= most_unchanged) {
            return None;
        }
        self.running += 1;
        self.running_unchanged += usize::from(is_unchanged);
        self.waiting.pop_first()
    }
}

#[cfg(test)]
mod tests;
