//! One process of the operator: its real reconciles, listings and memories, on watches that may be late. The schedule of the real
//! queues decides which reconcile is next.
//!
//! [`wiring`] builds its parts, [`hearing`] feeds watch events to them.

mod hearing;
mod wiring;

use crate::apiserver::{Change, INSTANCES, Key, is_neighbours};
use crate::link::Link;
use crate::universe::Shared;
use cloud_server_operator::api::{Account, Instance};
use cloud_server_operator::runtime::queue::schedule::Schedule;
use cloud_server_operator::runtime::queue::{Flow, Priority, RECONCILE_LIMIT};
use cloud_server_operator::runtime::{Shard, Term};
use cloud_server_operator::wiring::feed::Feed;
use cloud_server_operator::{account, instance};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use wiring::Heard;

/// The object of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Who {
    Account(String),
    Instance(String),
}

/// A process that runs, or did.
pub struct Process {
    /// Its connection to everything else.
    pub link: Link,
    term: Term,
    stop: CancellationToken,
    inbox: Arc<Inbox>,
    memories: instance::memory::all::Memories,
    feed: Feed,
    leads: AtomicBool,
    is_ending: AtomicBool,
    exit: Arc<Exit>,
    task: JoinHandle<()>,
}

/// How it ends on request.
#[derive(Default)]
struct Exit {
    is_requested: AtomicBool,
    is_done: AtomicBool,
}

/// Time from the moment in which a process finds its term over until it has ended.
const ENDING: Duration = Duration::from_millis(100);

/// The duration of a term that is not ended.
const FOR_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The watch events that it has yet to receive.
#[derive(Default)]
struct Inbox {
    changes: Mutex<VecDeque<(Instant, Change)>>,
    arrived: Notify,
}

impl Process {
    /// Starts a process for a shard. It reads all objects at once, and reconciles from the time when it leads.
    pub fn start(universe: &Shared, seed: u64, shard: Shard) -> Self {
        let (term, stop) = (Term::awaited(), CancellationToken::new());
        let link = Link::new(universe, seed, &term, shard);
        let inbox = Arc::<Inbox>::default();
        let listed = universe.lock().kube.listing();
        let running = Running::new(&link, &term, &stop);
        let (memories, feed) = (running.instances.memories.clone(), running.feed.clone());
        let exit = Arc::<Exit>::default();
        let task = tokio::spawn(running.live(listed, inbox.clone(), link.clone(), exit.clone()));
        Self {
            link,
            term,
            stop,
            inbox,
            memories,
            feed,
            leads: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            exit,
            task,
        }
    }

    /// From here on it reconciles. An object newer than this version was created in its term.
    pub fn lead(&self, version: u64) {
        self.feed.begin_term();
        self.feed.set_born_after(version);
        self.leads.store(true, Ordering::SeqCst);
        // The harness ends the term, as the loss of a Lease would.
        let _ = self.term.extend_until(Instant::now() + FOR_LIFE);
        self.inbox.arrived.notify_one();
    }

    /// Whether it reconciles, or did until its term was over.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::SeqCst)
    }

    /// Ends its term: no mutating call begins any more.
    pub fn depose(&self) {
        self.term.end("the schedule ends it");
    }

    /// It finds its term over and ends; requests that were sent by then continue.
    pub fn end_soon(&self) {
        if self.is_ending.swap(true, Ordering::SeqCst) {
            return;
        }
        let link = self.link.clone();
        tokio::spawn(async move {
            sleep(ENDING).await;
            link.die();
        });
    }

    /// It gets the request to end, as by SIGTERM: running reconciles finish, and none begins.
    pub fn terminate(&self) {
        self.exit.is_requested.store(true, Ordering::SeqCst);
        self.inbox.arrived.notify_one();
    }

    /// Whether it ended on request, and released the Lease.
    pub fn has_left(&self) -> bool {
        self.exit.is_done.load(Ordering::SeqCst)
    }

    /// Whether its term is over.
    pub fn is_deposed(&self) -> bool {
        self.leads() && !self.term.holds()
    }

    /// Its watch will deliver this change, not earlier than this time.
    pub fn will_hear(&self, at: Instant, change: Change) {
        let mut changes = self.inbox.lock();
        let last = changes.back().map_or(at, |(last, _)| *last);
        changes.push_back((at.max(last), change));
        drop(changes);
        self.inbox.arrived.notify_one();
    }

    /// Whether its watch has yet to deliver a stored change of an Instance: it does not reconcile an object that is older than
    /// its own last write.
    pub fn is_behind(&self) -> bool {
        let changes = self.inbox.lock();
        let is_ours = |key: &Key| key.0 == INSTANCES && !is_neighbours(&key.1);
        changes.iter().any(|(_, change)| is_ours(&change.key))
    }

    /// Whether it ended because of a defect.
    pub fn is_broken(&self) -> bool {
        self.task.is_finished() && !self.link.is_dead()
    }

    /// Whether it believes that the cluster was restored.
    pub fn believes_in_a_restore(&self) -> bool {
        self.memories.epoch() > 0
    }

    /// Kills it at once, as SIGKILL does.
    pub fn kill(&self) {
        self.link.die();
        self.stop.cancel();
        self.task.abort();
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, Change)>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The changes that are due now, and when the next is due.
    fn take(&self, now: Instant) -> (Vec<Change>, Option<Instant>) {
        let mut changes = self.lock();
        let mut due = Vec::new();
        while changes.front().is_some_and(|(at, _)| *at <= now) {
            due.extend(changes.pop_front().map(|(_, change)| change));
        }
        (due, changes.front().map(|(at, _)| *at))
    }
}

/// An object to be reconciled, and its priority unless the object determines it.
type Trigger = (Who, Option<Priority>);

/// The objects to be reconciled; shared with the code that wakes objects.
#[derive(Clone, Default)]
struct Due {
    triggers: Arc<Mutex<Vec<Trigger>>>,
    woken: Arc<Notify>,
}

impl Due {
    fn now(&self, who: Who, priority: Option<Priority>) {
        let mut triggers = self.lock();
        triggers.push((who, priority));
        drop(triggers);
        self.woken.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Trigger>> {
        self.triggers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of concurrent reconciles of each kind: the operator's default, used if there are no neighbours.
const PLACES: usize = 256;
/// A smaller maximum with neighbours, so that they could occupy all slots.
const FEW_PLACES: usize = 32;

/// The schedules of both kinds, as in the operator.
struct Schedules {
    accounts: Schedule<Who>,
    instances: Schedule<Who>,
}

impl Schedules {
    fn of(&mut self, who: &Who) -> &mut Schedule<Who> {
        match who {
            Who::Account(_) => &mut self.accounts,
            Who::Instance(_) => &mut self.instances,
        }
    }
}

/// The objects that a process knows, by name.
#[derive(Default)]
struct Known {
    instances: BTreeMap<String, Arc<Instance>>,
    accounts: BTreeMap<String, Arc<Account>>,
}

/// The inside of a process.
struct Running {
    instances: instance::context::Context,
    accounts: account::AccountContext,
    feed: Feed,
    link: Link,
    heard: Heard,
    term: Term,
}

impl Running {
    async fn live(self, listed: Vec<Change>, inbox: Arc<Inbox>, link: Link, exit: Arc<Exit>) {
        for change in listed {
            self.hear(change);
        }
        self.instances.sessions.owners().set_listed_all();
        let mut reconciles: FuturesUnordered<BoxFuture<'static, (Who, Duration)>> =
            FuturesUnordered::new();
        let places = match link.has_neighbours() {
            true => FEW_PLACES,
            false => PLACES,
        };
        let mut schedules = Schedules {
            accounts: Schedule::new(places),
            instances: Schedule::new(places),
        };
        loop {
            if let Some(until) = link.paused_until() {
                sleep_until(until).await;
            }
            let now = Instant::now();
            let (changes, next_change) = inbox.take(now);
            for change in changes {
                self.hear(change);
            }
            let is_leaving = exit.is_requested.load(Ordering::SeqCst);
            if is_leaving && reconciles.is_empty() {
                self.term.end("the schedule ends it");
                exit.is_done.store(true, Ordering::SeqCst);
                link.die();
            }
            let next_reconcile = if is_leaving {
                None
            } else {
                self.begin_reconciles(&mut reconciles, &mut schedules, now)
            };
            let next = [next_change, next_reconcile].into_iter().flatten().min();
            let timer = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some((who, again)) = reconciles.next() => {
                    schedules.of(&who).end(&who, Instant::now(), again);
                }
                () = inbox.arrived.notified() => {}
                () = self.heard.due.woken.notified() => {}
                () = timer => {}
            }
        }
    }

    /// Begins every reconcile that is due, and returns when the next one is.
    fn begin_reconciles(
        &self,
        reconciles: &mut FuturesUnordered<BoxFuture<'static, (Who, Duration)>>,
        schedules: &mut Schedules,
        now: Instant,
    ) -> Option<Instant> {
        for (who, priority) in self.heard.due.lock().drain(..) {
            schedules.of(&who).wake(&who, now, priority);
        }
        if !self.term.holds() {
            return None;
        }
        let sessions = &self.instances.sessions;
        let Schedules {
            accounts,
            instances,
        } = schedules;
        for schedule in [&mut *accounts, &mut *instances] {
            schedule.advance(now, |who| self.describe(who));
            while let Some(begun) = schedule.begin(|flow| instance::bound(sessions, flow)) {
                match self.reconcile(&begun.key) {
                    Some(reconcile) => reconciles.push(reconcile),
                    // The object was deleted while it waited.
                    None => schedule.end(&begun.key, now, Duration::ZERO),
                }
            }
        }
        let next = [accounts.next_due(), instances.next_due()];
        next.into_iter().flatten().min()
    }

    fn describe(&self, who: &Who) -> Option<(Flow, Priority)> {
        match who {
            Who::Account(name) => Some(account::flow(self.known().accounts.get(name)?)),
            Who::Instance(name) => Some(instance::flow(self.known().instances.get(name)?)),
        }
    }

    fn reconcile(&self, who: &Who) -> Option<BoxFuture<'static, (Who, Duration)>> {
        let me = who.clone();
        match who {
            Who::Account(name) => {
                let (context, object) = (
                    self.accounts.clone(),
                    self.known().accounts.get(name)?.clone(),
                );
                Some(Box::pin(async move {
                    let reconcile = account::reconcile(&context, &object);
                    (
                        me,
                        tokio::time::timeout(RECONCILE_LIMIT, reconcile)
                            .await
                            .unwrap_or(RECONCILE_LIMIT),
                    )
                }))
            }
            Who::Instance(name) => {
                let (context, object) = (
                    self.instances.clone(),
                    self.known().instances.get(name)?.clone(),
                );
                self.link.begins_reconcile(name);
                Some(Box::pin(async move {
                    let reconcile = instance::reconcile(&context, &object);
                    (
                        me,
                        tokio::time::timeout(RECONCILE_LIMIT, reconcile)
                            .await
                            .unwrap_or(RECONCILE_LIMIT),
                    )
                }))
            }
        }
    }
}
