//! Which object is reconciled next: a value without clock, task or object of its own, so that it runs in virtual time as well.
//!
//! Objects are queued by *flow*: a namespace, and an Account in it. Namespaces take turns, and so do the Accounts of a
//! namespace, so that nobody gains by making many of either. Within an Account the more urgent goes first, and within a
//! priority who came first; one place in four goes to whoever has waited longest, so that nothing waits for ever.
//!
//! Whoever holds places may take another one only while he holds less than twice what is left over. So some are always free
//! for whoever comes next: a namespace that is alone gets two thirds of the places, ten greedy ones get two of every
//! twenty-one each, and one of every twenty-one stays free. (Switches share their memory so: dynamic thresholds, Choudhury
//! and Hahn, 1998.)

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What goes first within an Account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A slot for calls of the service is held for it: see `session::line`.
    Admitted,
    /// Somebody changed the object, or what it refers to.
    Change,
    /// An operation is open.
    Operation,
    /// Nothing is known to have changed.
    Resync,
}

impl Priority {
    /// All, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Admitted, Self::Change, Self::Operation, Self::Resync];

    /// The label of metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Change => "change",
            Self::Operation => "operation",
            Self::Resync => "resync",
        }
    }
}

/// Who shares: what one Account of one namespace asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name of the Account.
    pub account: Arc<str>,
}

/// Whoever holds places may have another one while they are less than so many times what is left over.
const SHARE: usize = 2;
/// One place in so many goes to whoever has waited longest.
const OLDEST: u32 = 4;

/// Whether somebody who holds so many places may have another one of those that are left: the last one is for who has none.
fn may_begin(held: usize, left: usize) -> bool {
    left > 0 && (held == 0 || held < SHARE * (left - 1))
}

/// Objects that are reconciled, wait for that, or sleep until they are looked at again.
#[derive(Debug)]
pub struct Schedule<K> {
    places: usize,
    under_way: usize,
    waiting: [usize; Priority::ALL.len()],
    /// Counts what comes in: who has the lower number came first.
    numbers: u64,
    objects: HashMap<K, Object>,
    /// When those that sleep wake up.
    timers: BTreeSet<(Instant, K)>,
    namespaces: HashMap<Arc<str>, Namespace<K>>,
    /// The namespaces in which somebody waits, in the order of their turns.
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
    /// Who waits, by priority. Those that became more urgent since stand here twice: their number tells.
    lines: [VecDeque<(u64, K)>; Priority::ALL.len()],
    begun: u32,
}

/// An object that is to be reconciled now.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun<K> {
    /// Which.
    pub key: K,
    /// As what.
    pub priority: Priority,
    /// Since when it has waited.
    pub since: Instant,
}

impl<K: Clone + Eq + Hash + Ord> Schedule<K> {
    /// Nothing is known yet. `places`: so many are reconciled at the same time.
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

    /// Asks for a reconcile, no later than then. Several wishes before it begins are one, the earliest and most urgent; one
    /// that comes while the object is reconciled is granted after that. Without a priority the object itself tells.
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

    /// Those whose time has come wait from here on. `describe` tells whose they are and how urgent, or none for an object that
    /// is gone.
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

    /// The next that may begin, if any may. `bound`: so many of a flow are reconciled at the same time, whatever is free.
    pub fn begin(&mut self, bound: impl Fn(&Flow) -> usize) -> Option<Begun<K>> {
        for _ in 0..self.ring.len() {
            let free = self.places.saturating_sub(self.under_way);
            if free == 0 {
                return None; // and nobody loses a turn
            }
            let name = self.ring.pop_front()?;
            let Some(namespace) = self.namespaces.get_mut(&name) else {
                continue;
            };
            let others = self.under_way - namespace.under_way;
            let begun = if may_begin(namespace.under_way, free) {
                // As many as it may hold while the others hold what they hold.
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
            return None; // nobody begins but who waits
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

    /// A reconcile ended, and the object is to be looked at again after this time, or as soon as was asked for meanwhile.
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

    /// When the next of those that sleep is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// How many are reconciled now.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// How many wait to be.
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

    /// Takes the first that may begin of the Account whose turn it is. `most`: so many places the namespace may hold now.
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

    /// Whoever became more urgent waits in another line since.
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

    /// Takes the most urgent, or once in a while the one that has waited longest, of those that may begin.
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
        // What stands behind it twice must not be taken for somebody who waits.
        self.drop_stale(objects);
        Some(key)
    }

    /// What is less urgent leaves a part of the bound to what is more so: resync half of it, open operations a quarter.
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
