//! Decides which object is reconciled next: a value without clock, task or objects, so that it also runs in virtual time.
//!
//! Objects are queued by *flow*: a namespace, and an Account in it. Worker slots are handed out round-robin among namespaces,
//! and among the Accounts of a namespace, so that many namespaces or Accounts give no advantage. Within an Account the more
//! urgent object goes first, and within a priority the one that came first. One slot in four goes to the object that has waited
//! longest, so that none waits forever.
//!
//! A holder of slots may take another one only while it holds less than twice the number of slots that remain. So some slots
//! are always free for the next one: a single namespace gets two thirds of the slots; ten greedy ones get two of every
//! twenty-one each, and one of every twenty-one stays free. (Switches share their memory in this way: dynamic thresholds,
//! Choudhury and Hahn, 1998.)

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The priority within an Account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A slot of the queue for calls to the service is reserved for it: see `session::line`.
    Admitted,
    /// The object, or an object that it refers to, was changed.
    Change,
    /// An operation is in flight.
    Operation,
    /// No change is known.
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

/// The unit of fair sharing: the requests of one Account in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    pub namespace: Arc<str>,
    pub account: Arc<str>,
}

/// A holder of slots may take another one while it holds fewer than this many times the slots that remain.
const SHARE: usize = 2;
/// One slot in this many goes to the object that has waited longest.
const OLDEST: u32 = 4;

/// Whether a holder of `held` slots may take another one if `left` are free. The last slot is reserved for holders of none.
fn may_begin(held: usize, left: usize) -> bool {
    left > 0 && (held == 0 || held < SHARE * (left - 1))
}

/// Objects that are being reconciled, wait for a reconcile, or sleep until their next one.
#[derive(Debug)]
pub struct Schedule<K> {
    places: usize,
    under_way: usize,
    waiting: [usize; Priority::ALL.len()],
    /// Numbers the arrivals: a lower number came first.
    numbers: u64,
    objects: HashMap<K, Object>,
    /// When sleeping objects wake up.
    timers: BTreeSet<(Instant, K)>,
    namespaces: HashMap<Arc<str>, Namespace<K>>,
    /// The namespaces with waiting objects, in round-robin order.
    ring: VecDeque<Arc<str>>,
}

#[derive(Debug)]
enum Object {
    Sleeps {
        until: Instant,
        wish: Option<Priority>,
    },
    Waits {
        flow: Flow,
        priority: Priority,
        number: u64,
        since: Instant,
    },
    Runs {
        flow: Flow,
        priority: Priority,
        again: Option<(Instant, Option<Priority>)>,
    },
}

#[derive(Debug)]
struct Namespace<K> {
    under_way: usize,
    accounts: HashMap<Arc<str>, Account<K>>,
    ring: VecDeque<Arc<str>>,
}

#[derive(Debug)]
struct Account<K> {
    under_way: [usize; Priority::ALL.len()],
    /// The waiting objects by priority. An object that became more urgent is in two queues; its number shows which entry is
    /// valid.
    lines: [VecDeque<(u64, K)>; Priority::ALL.len()],
    begun: u32,
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
    /// An empty schedule. At most `places` objects are reconciled at the same time.
    pub fn new(places: usize) -> Self {
        Self {
            places: places.max(1),
            under_way: 0,
            waiting: Default::default(),
            numbers: 0,
            objects: HashMap::new(),
            timers: BTreeSet::new(),
            namespaces: HashMap::new(),
            ring: VecDeque::new(),
        }
    }

    /// Requests a reconcile, no later than `at`. Several requests before it begins count as one, the earliest and most urgent.
    /// A request during a reconcile takes effect after it. Without a priority, the object's own state determines it.
    pub fn wake(&mut self, key: &K, at: Instant, wish: Option<Priority>) {
        match self.objects.get_mut(key) {
            None => self.sleep(key.clone(), at, wish),
            Some(Object::Sleeps {
                until,
                wish: former,
            }) => {
                let (former_until, wish) = (*until, more_urgent(*former, wish));
                self.timers.remove(&(former_until, key.clone()));
                self.sleep(key.clone(), at.min(former_until), wish);
            }
            Some(Object::Waits { priority, .. }) => {
                if let Some(wish) = wish.filter(|wish| wish < priority) {
                    self.hurry(key, wish);
                }
            }
            Some(Object::Runs { again, .. }) => {
                let (first, former) = again.unwrap_or((at, None));
                *again = Some((first.min(at), more_urgent(former, wish)));
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
            let Some(Object::Sleeps { wish, .. }) = self.objects.remove(&key) else {
                continue;
            };
            if let Some((flow, usual)) = describe(&key) {
                let priority = wish.map_or(usual, |wish| wish.min(usual));
                self.queue(key, flow, priority, now);
            }
        }
    }

    /// The next object that may begin, if any. At most `bound` objects of a flow are reconciled at the same time, regardless of
    /// free slots.
    pub fn begin(&mut self, bound: impl Fn(&Flow) -> usize) -> Option<Begun<K>> {
        for _ in 0..self.ring.len() {
            let free = self.places.saturating_sub(self.under_way);
            if free == 0 {
                return None; // and the round-robin order stays
            }
            let name = self.ring.pop_front()?;
            let Some(namespace) = self.namespaces.get_mut(&name) else {
                continue;
            };
            let others = self.under_way - namespace.under_way;
            let begun = if may_begin(namespace.under_way, free) {
                // As many as it may hold with the current slots of the others.
                let most = (SHARE * (self.places - others - 1)).div_ceil(SHARE + 1);
                let most = most.max(1);
                namespace.begin(&name, most, &bound, &self.objects)
            } else {
                None
            };
            let is_waiting = !namespace.ring.is_empty();
            if is_waiting {
                self.ring.push_back(name.clone());
            } else if namespace.under_way == 0 {
                self.namespaces.remove(&name);
            }
            if let Some((account, key)) = begun {
                return self.run(key, name, account);
            }
        }
        None
    }

    fn run(&mut self, key: K, namespace: Arc<str>, account: Arc<str>) -> Option<Begun<K>> {
        let flow = Flow { namespace, account };
        let Some(Object::Waits {
            priority, since, ..
        }) = self.objects.get(&key)
        else {
            return None; // only waiting objects may begin
        };
        let (priority, since) = (*priority, *since);
        let runs = Object::Runs {
            flow,
            priority,
            again: None,
        };
        self.objects.insert(key.clone(), runs);
        self.waiting[priority as usize] -= 1;
        self.under_way += 1;
        Some(Begun {
            key,
            priority,
            since,
        })
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
        self.under_way -= 1;
        if let Some(namespace) = self.namespaces.get_mut(&flow.namespace) {
            namespace.end(&flow.account, priority);
            if namespace.under_way == 0 && namespace.ring.is_empty() {
                self.namespaces.remove(&flow.namespace);
            }
        }
        let later = now + after;
        let (until, wish) = again.map_or((later, None), |(at, wish)| (at.min(later), wish));
        self.sleep(key.clone(), until, wish);
    }

    /// When the next sleeping object is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// How many objects are being reconciled.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// How many objects of this priority wait.
    pub fn waiting(&self, priority: Priority) -> usize {
        self.waiting[priority as usize]
    }

    fn sleep(&mut self, key: K, until: Instant, wish: Option<Priority>) {
        self.timers.insert((until, key.clone()));
        self.objects.insert(key, Object::Sleeps { until, wish });
    }

    fn hurry(&mut self, key: &K, wish: Priority) {
        let Some(Object::Waits {
            flow,
            priority,
            since,
            ..
        }) = self.objects.remove(key)
        else {
            return;
        };
        self.waiting[priority as usize] -= 1;
        self.queue(key.clone(), flow, wish, since);
    }

    fn queue(&mut self, key: K, flow: Flow, priority: Priority, since: Instant) {
        let number = self.numbers;
        self.numbers += 1;
        self.waiting[priority as usize] += 1;
        let namespace = self.namespaces.entry(flow.namespace.clone());
        let namespace = namespace.or_insert_with(Namespace::new);
        if namespace.ring.is_empty() {
            self.ring.push_back(flow.namespace.clone());
        }
        namespace.queue(&flow.account, priority, (number, key.clone()));
        let waits = Object::Waits {
            flow,
            priority,
            number,
            since,
        };
        self.objects.insert(key, waits);
    }
}

fn more_urgent(one: Option<Priority>, other: Option<Priority>) -> Option<Priority> {
    one.into_iter().chain(other).min()
}

impl<K: Clone + Eq + Hash> Namespace<K> {
    fn new() -> Self {
        Self {
            under_way: 0,
            accounts: HashMap::new(),
            ring: VecDeque::new(),
        }
    }

    fn queue(&mut self, account: &Arc<str>, priority: Priority, entry: (u64, K)) {
        let line = self.accounts.entry(account.clone());
        let line = line.or_insert_with(Account::new);
        if line.is_empty() {
            self.ring.push_back(account.clone());
        }
        line.lines[priority as usize].push_back(entry);
    }

    /// Takes the first object that may begin from the Account whose turn it is. The namespace may hold at most `most` slots
    /// now.
    fn begin(
        &mut self,
        namespace: &Arc<str>,
        most: usize,
        bound: impl Fn(&Flow) -> usize,
        objects: &HashMap<K, Object>,
    ) -> Option<(Arc<str>, K)> {
        for _ in 0..self.ring.len() {
            let name = self.ring.pop_front()?;
            let Some(account) = self.accounts.get_mut(&name) else {
                continue;
            };
            account.drop_stale(objects);
            let held = account.held();
            let left = most.saturating_sub(self.under_way);
            let begun = if may_begin(held, left) {
                let flow = Flow {
                    namespace: namespace.clone(),
                    account: name.clone(),
                };
                account.begin(bound(&flow).max(1), objects)
            } else {
                None
            };
            self.under_way += usize::from(begun.is_some());
            if !account.is_empty() {
                self.ring.push_back(name.clone());
            } else if account.held() == 0 {
                self.accounts.remove(&name);
            }
            if let Some(key) = begun {
                return Some((name, key));
            }
        }
        None
    }

    fn end(&mut self, name: &Arc<str>, priority: Priority) {
        self.under_way -= 1;
        if let Some(account) = self.accounts.get_mut(name) {
            account.under_way[priority as usize] -= 1;
            if account.held() == 0 && account.is_empty() {
                self.accounts.remove(name);
            }
        }
    }
}

impl<K: Clone + Eq + Hash> Account<K> {
    fn new() -> Self {
        Self {
            under_way: Default::default(),
            lines: Default::default(),
            begun: 0,
        }
    }

    fn held(&self) -> usize {
        self.under_way.iter().sum()
    }

    fn is_empty(&self) -> bool {
        self.lines.iter().all(VecDeque::is_empty)
    }

    /// An object that became more urgent waits in another queue now; drops its old entries.
    fn drop_stale(&mut self, objects: &HashMap<K, Object>) {
        for line in &mut self.lines {
            while line.front().is_some_and(|(number, key)| {
                let waits = |object: &Object| matches!(object, Object::Waits { number: now, .. } if now == number);
                !objects.get(key).is_some_and(waits)
            }) {
                line.pop_front();
            }
        }
    }

    /// Takes the most urgent object that may begin or, once in a while, the one that has waited longest.
    fn begin(&mut self, bound: usize, objects: &HashMap<K, Object>) -> Option<K> {
        let heads = Priority::ALL.into_iter().filter_map(|priority| {
            let (number, _) = self.lines[priority as usize].front()?;
            self.has_room(priority, bound)
                .then_some((priority, *number))
        });
        let is_for_the_oldest = self.begun % OLDEST == OLDEST - 1;
        let (priority, _) = if is_for_the_oldest {
            heads.max_by_key(|(_, number)| Reverse(*number))?
        } else {
            heads.min()?
        };
        let (_, key) = self.lines[priority as usize].pop_front()?;
        self.begun = self.begun.wrapping_add(1);
        self.under_way[priority as usize] += 1;
        // Drop further entries of the same object, which must not count as waiting objects.
        self.drop_stale(objects);
        Some(key)
    }

    /// Less urgent work leaves part of the bound to more urgent work: resync leaves half, and open operations a quarter.
    fn has_room(&self, priority: Priority, bound: usize) -> bool {
        let of = |priorities: &[Priority]| -> usize {
            let each = priorities.iter().map(|p| self.under_way[*p as usize]);
            each.sum()
        };
        let resync = of(&[Priority::Resync]);
        let slow = of(&[Priority::Operation, Priority::Resync]);
        let has_half = resync < (bound / 2).max(1);
        let has_most = slow < (bound - bound / 4).max(1);
        let has_any = self.held() < bound;
        match priority {
            Priority::Admitted | Priority::Change => has_any,
            Priority::Operation => has_most && has_any,
            Priority::Resync => has_half && has_most && has_any,
        }
    }
}

#[cfg(test)]
mod tests;
