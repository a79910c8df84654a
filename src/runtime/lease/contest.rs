//! Standing by for Leases, and sharing them out.
//!
//! Each process looks at all Leases of the operator, in one list twice in a period of renewal. A free one is taken by whoever has
//! fewest: who has some already waits half a period for each. Where none is free, and somebody has two more than we have, one of
//! those is asked for by an annotation; its holder sees that in its own list, lets what it does there end, and releases it. So no
//! process needs to know which others there are. How fair that is decides nothing: who acts, the Leases alone say.

use super::table::{Row, Seen, Standing, Table};
use super::{Lease, Leases, Object, Settings, record};
use crate::runtime::kubernetes::KubeError;
use crate::runtime::{Heartbeat, Shard, chain};
use jiff::Timestamp;
use kube::{Api, Client};
use rand::RngExt;
use rand::seq::IndexedRandom;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Who has so many more than we is asked for one: with less of a difference it would only go back and forth.
const FAIR: usize = 2;

/// Who has more than so many waits no longer for the next one.
const STEPS: usize = 5;

/// One process that stands by.
#[derive(Debug)]
pub struct Contest {
    leases: Leases,
    settings: Settings,
    heartbeat: Heartbeat,
    pub(super) holdings: Holdings,
    seen: Seen,
    /// Since when we see a Lease free.
    free: HashMap<Shard, Instant>,
    /// Whom we stand by for, as far as the log tells.
    told: String,
}

/// What this process does with which shard; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Holdings(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    active: BTreeSet<Shard>,
    /// What is given up as soon as nothing is under way in it any more.
    leaving: BTreeSet<Shard>,
    /// When it was given up: whoever asked for it has the first right to it.
    left: BTreeMap<Shard, Instant>,
    has_looked: bool,
}

impl Holdings {
    /// It was given up: its Lease is released.
    pub fn left(&self, shard: Shard) {
        let mut held = self.lock();
        if held.leaving.remove(&shard) {
            held.left.insert(shard, Instant::now());
        }
    }

    /// Whether the Leases could be looked at.
    pub fn has_looked(&self) -> bool {
        self.lock().has_looked
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn has(&self, shard: Shard) -> bool {
        self.active.contains(&shard) || self.leaving.contains(&shard)
    }
}

/// A Lease that is ours.
#[derive(Debug)]
pub struct Won {
    pub shard: Shard,
    /// To be kept.
    pub lease: Lease,
    /// The end of the term, counted from the beginning of the write.
    pub until: Instant,
}

/// What a process that stands by has to do.
#[derive(Debug)]
pub enum Event {
    /// To act on a shard.
    Won(Box<Won>),
    /// To give up a shard, which another process wants that has fewer.
    Wanted(Shard),
}

/// What came of one look.
enum Round {
    Event(Event),
    /// Nothing changes before this time has passed, as far as it is known.
    Nothing(Duration),
}

impl Contest {
    /// Nothing is asked for yet. The client should be one that nobody else uses: neither its connections nor a term.
    pub fn new(
        client: Client,
        settings: Settings,
        heartbeat: Heartbeat,
        holdings: Holdings,
    ) -> Self {
        Self {
            leases: Leases {
                api: Api::namespaced(client, &settings.namespace),
                deadline: settings.request_deadline(),
            },
            settings,
            heartbeat,
            holdings,
            seen: Seen::default(),
            free: HashMap::new(),
            told: String::new(),
        }
    }

    /// Stands by until there is something to do.
    pub async fn next(&mut self) -> Event {
        loop {
            let pause = match self.round().await {
                Ok(Round::Event(event)) => return event,
                Ok(Round::Nothing(pause)) => pause,
                Err(error) => {
                    tracing::warn!(
                        error = chain(&error),
                        "the Leases could not be asked for: the Role of deploy/operator/leader-election.yaml has the rights"
                    );
                    self.told.clear();
                    self.settings.retry_period
                }
            };
            self.heartbeat.beat();
            // Twice in a period of renewal: what is seen late is taken late.
            let often = self.often();
            sleep(pause.clamp(often / 10, often)).await;
        }
    }

    /// Releases what a write that was under way may have brought. Best effort, within the deadline of one request.
    pub async fn leave(mut self) {
        let deadline = self.settings.request_deadline();
        let released = timeout(deadline, async {
            let rows = self.look().await.map(|table| table.rows);
            for row in rows.into_iter().flatten().filter(|row| self.is_stray(row)) {
                if let Some(lease) = row.lease {
                    let begun = Instant::now();
                    self.held(row.shard, lease, begun).release().await;
                }
            }
        });
        if released.await.is_err() {
            tracing::warn!("the Lease was not looked at: others may wait until it is stale");
        }
    }

    fn often(&self) -> Duration {
        self.settings.retry_period / 2
    }

    async fn round(&mut self) -> Result<Round, KubeError> {
        let table = self.look().await?;
        if let Some((holder, until)) = &table.otherwise {
            self.tell(holder.clone());
            return Ok(Round::Nothing(until.duration_since(Instant::now())));
        }
        if let Some(shard) = self.wanted(&table) {
            let mut held = self.holdings.lock();
            held.active.remove(&shard);
            held.leaving.insert(shard);
            return Ok(Round::Event(Event::Wanted(shard)));
        }
        let (turn, pause) = self.turn(&table);
        if let Some(shard) = turn {
            let rows = table.rows.into_iter();
            let lease = rows
                .filter(|row| row.shard == shard)
                .find_map(|row| row.lease);
            return self.take(shard, lease).await;
        }
        if table.rows.iter().all(|row| row.standing != Standing::Free) {
            self.wish(&table).await?;
        }
        Ok(Round::Nothing(pause))
    }

    async fn look(&mut self) -> Result<Table, KubeError> {
        let leases = self.leases.list().await?;
        self.heartbeat.beat();
        self.holdings.lock().has_looked = true;
        Ok(Table::of(leases, &self.settings, &mut self.seen))
    }

    /// Ours by a write of which we had no answer.
    fn is_stray(&self, row: &Row) -> bool {
        row.standing == Standing::Ours && !self.holdings.lock().has(row.shard)
    }

    /// Which Lease is to be taken now, or how long that takes at least.
    fn turn(&mut self, table: &Table) -> (Option<Shard>, Duration) {
        let now = Instant::now();
        let often = self.often();
        let held = self.holdings.lock();
        let steps = held.active.len().min(STEPS);
        let after = often * u32::try_from(steps).unwrap_or_default();
        let (mut pause, mut due, mut holders) = (often, Vec::new(), BTreeSet::new());
        for row in &table.rows {
            match &row.standing {
                Standing::Others { holder, until } => {
                    self.free.remove(&row.shard);
                    pause = pause.min(*until - now);
                    holders.insert(holder.as_str());
                }
                Standing::Free if !held.has(row.shard) => {
                    let since = *self.free.entry(row.shard).or_insert(now);
                    let left = held.left.get(&row.shard);
                    let ours_again = left.map(|left| *left + self.settings.lease_duration);
                    if now >= (since + after).max(ours_again.unwrap_or(now)) {
                        due.push(row.shard);
                    }
                }
                // By a write of which we had no answer.
                Standing::Ours if !held.has(row.shard) => due.push(row.shard),
                // Also where the Lease of a shard on which we act was emptied or deleted: that is its keeper's matter.
                Standing::Free | Standing::Ours => {}
            }
        }
        let is_idle = held.active.is_empty();
        drop(held);
        if is_idle && !holders.is_empty() {
            self.tell(Vec::from_iter(holders).join(", "));
        }
        // Not all the same one.
        (due.choose(&mut rand::rng()).copied(), pause)
    }

    fn tell(&mut self, holders: String) {
        if self.told != holders {
            tracing::info!(holder = holders, "standing by");
            self.told = holders;
        }
    }

    async fn take(&mut self, shard: Shard, found: Option<Object>) -> Result<Round, KubeError> {
        self.free.remove(&shard);
        let begun = Instant::now();
        let name = shard.lease(&self.settings.name);
        let taken = match found {
            None => {
                let fresh = record::fresh(name, &self.settings, Timestamp::now());
                self.leases.create(&fresh).await
            }
            Some(found) => {
                let taken = record::taken(found, &self.settings, Timestamp::now());
                let take = self.leases.replace("take the Lease", &name, &taken);
                take.await
            }
        };
        let lease = match taken {
            Ok(own) => self.held(shard, own, begun),
            // Somebody else wrote at the same time.
            Err(error) if error.is_conflict() || error.is_not_found() => {
                return Ok(Round::Nothing(Duration::ZERO));
            }
            Err(error) => return Err(error),
        };
        let until = begun + self.settings.renew_deadline;
        let alone = self.look().await.map(|table| table.otherwise);
        // Two requests took that long: there must be time for a third one, or the term is over before it is prolonged.
        let is_late = begun.elapsed().mul_f64(1.5) > self.settings.renew_deadline;
        if is_late || !matches!(alone, Ok(None)) {
            lease.release().await;
            return alone.map(|_| Round::Nothing(self.at_odds()));
        }
        let mut held = self.holdings.lock();
        held.active.insert(shard);
        held.left.remove(&shard);
        Ok(Round::Event(Event::Won(Box::new(Won {
            shard,
            lease,
            until,
        }))))
    }

    /// Two that saw each other and gave way do not come back at the same time.
    fn at_odds(&self) -> Duration {
        let part = rand::rng().random_range(0.1..1.0);
        self.often().mul_f64(part)
    }

    fn held(&self, shard: Shard, own: Object, begun: Instant) -> Lease {
        Lease {
            leases: self.leases.clone(),
            name: shard.lease(&self.settings.name),
            settings: self.settings.clone(),
            // Where there are several, this task goes on and shows its own life. A keeper that hangs costs the term.
            heartbeat: match self.settings.shards {
                1 => self.heartbeat.clone(),
                _ => Heartbeat::unexpected(),
            },
            begun,
            own: Some(own),
        }
    }

    /// One of ours that is wanted by somebody who has fewer.
    fn wanted(&self, table: &Table) -> Option<Shard> {
        let held = self.holdings.lock();
        let counts = table.counts();
        let is_due = |by: &String| {
            let theirs = counts.get(by.as_str()).copied().unwrap_or_default();
            *by != self.settings.identity && theirs + FAIR <= held.active.len()
        };
        let mut rows = table.rows.iter();
        let row = rows.find(|row| {
            row.standing == Standing::Ours
                && held.active.contains(&row.shard)
                && row.wanted_by.as_ref().is_some_and(is_due)
        });
        row.map(|row| row.shard)
    }

    /// Asks for one of whoever has most, unless that was done lately.
    async fn wish(&self, table: &Table) -> Result<(), KubeError> {
        let ours = self.holdings.lock().active.len();
        let counts = table.counts();
        let theirs = |row: &Row| match &row.standing {
            Standing::Others { holder, .. } => counts.get(holder.as_str()).copied(),
            Standing::Free | Standing::Ours => None,
        };
        let most = table.rows.iter().filter_map(theirs).max();
        let Some(most) = most.filter(|most| *most >= ours + FAIR) else {
            return Ok(());
        };
        let rows = table.rows.iter().filter(|row| theirs(row) == Some(most));
        let rows: Vec<&Row> = rows.collect();
        let is_ours = |row: &&Row| row.wanted_by.as_ref() == Some(&self.settings.identity);
        let mut unasked = rows.iter().filter(|row| row.wanted_by.is_none());
        let Some(row) = unasked.next().filter(|_| !rows.iter().any(is_ours)) else {
            return Ok(());
        };
        let Some(lease) = row.lease.clone() else {
            return Ok(());
        };
        let wanted = record::wanted(lease, &self.settings);
        let name = row.shard.lease(&self.settings.name);
        let write = self.leases.replace("ask for the Lease", &name, &wanted);
        match write.await {
            // Its holder renewed it meanwhile: there is another look.
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
            asked => asked.map(drop),
        }
    }
}
