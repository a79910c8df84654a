//! What this process remembers of an Instance. All of it may be lost: a restart costs listings, never a server.

use crate::api::Binding;
use crate::api::conditions::Reason;
use crate::cloud::{ServerId, TaskId, TaskState};
use crate::inventory::Attention;
use crate::runtime::Backoff;
use crate::runtime::watch::ObjectKey;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long the end of a server that is not recorded is remembered: longer than any listing lags.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// How long our own cache is believed to be behind a write of ours. Watches are late by seconds; beyond, something else
/// is wrong and the object is looked at as it is.
const CATCHING_UP: Duration = Duration::from_secs(30);

/// What became of the one POST of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Post {
    /// The intent is ours and nothing was sent.
    NotSent,
    /// The service refused it, or it never left: nothing was bought.
    Refused {
        /// What the service said.
        message: String,
        /// What that means for the conditions.
        reason: Reason,
    },
    /// It may have happened.
    Unknown,
    /// The service took it.
    Accepted {
        /// The server.
        id: ServerId,
        /// Its task.
        task: TaskId,
    },
}

/// An attempt as this process has seen it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The nonce of its intent.
    pub nonce: String,
    /// The Account that it was made with.
    pub account: String,
    /// This term's first sight of it, or the end of our own POST, the later: its settling time counts from here.
    pub since: Instant,
    /// What became of it, as far as this process knows; an intent that it did not write is `Unknown`.
    pub post: Post,
}

/// A release call of this process.
#[derive(Clone, Debug)]
pub struct ReleaseCall {
    /// When it was answered.
    pub at: Instant,
    /// The task, if the answer named one.
    pub task: Option<TaskId>,
    /// The last call was answered (not merely sent).
    pub accepted: bool,
    /// What stood in the way, for people.
    pub trouble: Option<String>,
    /// Not to be called again before this instant.
    pub not_before: Option<Instant>,
}

/// Why a server is taken for gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The task of its release succeeded.
    Released,
    /// The service does not know it.
    NotFound,
}

/// When a task was asked for.
#[derive(Clone, Debug)]
pub struct Poll {
    /// The task.
    pub task: TaskId,
    /// When it began, as far as this process knows.
    pub since: Instant,
    /// Whether this process saw it begin, so that its duration can be learnt.
    pub whole: bool,
    /// The last query.
    pub last: Option<Instant>,
    /// How it ended; then nobody asks again.
    pub ended: Option<Ended>,
    /// What the listing showed at the last query: each sight of it leads to one query.
    pub led_by: Option<u64>,
}

/// How the queries of a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The service said so.
    As(TaskState),
    /// The service does not know the task any more.
    Forgotten,
}

/// A listing pass that the last plan asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// How often the listing is to be read.
    pub attention: Attention,
    /// A pass that begins after this instant.
    pub pass_after: Option<Instant>,
    /// How many of them, in a row.
    pub passes: u8,
}

/// What this process remembers of one Instance.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The object appeared while we watched: no earlier process can have bought anything for it.
    pub born_here: bool,
    /// First sight of it in this process.
    pub first_seen: Instant,
    /// Since when it has been without a record of ours.
    pub recordless_since: Option<Instant>,
    /// An intent of this process was written for it.
    pub ever_intended: bool,
    /// Attempts by number.
    pub attempts: BTreeMap<u32, Attempt>,
    /// Releases by server.
    pub releases: HashMap<ServerId, ReleaseCall>,
    /// Servers that are gone, and since when that is known.
    pub gone: HashMap<ServerId, (Gone, Instant)>,
    /// The task that is being asked for.
    pub poll: Option<Poll>,
    /// The last time that the detail was asked for.
    pub looked: Option<Instant>,
    /// The last detail could not be read.
    pub unread: bool,
    /// Since when the object is being deleted.
    pub releasing_since: Option<Instant>,
    /// The last detail that was answered said that there is no such server.
    pub not_found: bool,
    /// Since when the detail shows a server at rest whose create is not known to have ended.
    pub at_rest_since: Option<Instant>,
    /// What the listing showed when the detail was read last: a row that a service words differently from its detail is
    /// read once, not at every listing.
    pub led_by: Option<u64>,
    /// What the last plan wanted of the listing.
    pub wants: Wants,
    /// Failures in a row.
    pub backoff: Backoff,
    /// No mutating call before this instant.
    pub not_before: Option<Instant>,
    /// A progress that is shown only when it lasts, and since when it stands.
    pub held: Option<(Reason, Instant)>,
    /// The newest resourceVersion that a write of ours was answered with, and when: an older object in the cache has not
    /// caught up.
    pub written: Option<(u64, Instant)>,
    /// Since when the listing is read at the pace of running operations for this object.
    pub busy_since: Option<Instant>,
    /// The session whose listings look out for this object.
    pub attended: Option<u64>,
    /// The doubts (see [`Memories::doubt_all`]) that this memory has taken in.
    epoch: u64,
}

impl Memory {
    fn new(born_here: bool, now: Instant) -> Self {
        Self {
            born_here,
            first_seen: now,
            recordless_since: None,
            ever_intended: false,
            attempts: BTreeMap::new(),
            releases: HashMap::new(),
            gone: HashMap::new(),
            poll: None,
            looked: None,
            unread: false,
            releasing_since: None,
            not_found: false,
            at_rest_since: None,
            led_by: None,
            wants: Wants::default(),
            backoff: Backoff::default(),
            not_before: None,
            held: None,
            written: None,
            busy_since: None,
            attended: None,
            epoch: 0,
        }
    }

    /// A write of ours was answered with this resourceVersion.
    pub fn wrote(&mut self, version: Option<&str>, now: Instant) {
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.written = Some((version, now));
        }
    }

    /// Whether an object of this resourceVersion is older than our own last write. Believed for a while only: after a
    /// restore of etcd, versions start again lower.
    pub fn is_behind(&self, version: &str, now: Instant) -> bool {
        self.written.is_some_and(|(written, at)| {
            version
                .parse::<u64>()
                .is_ok_and(|version| version < written)
                && now < at + CATCHING_UP
        })
    }

    /// Takes in what happened to the cluster's state since this memory was made.
    fn take_in(&mut self, doubts: Doubts) {
        if self.epoch == doubts.epoch {
            return;
        }
        self.epoch = doubts.epoch;
        self.born_here = false;
        self.ever_intended = true;
        self.recordless_since = self
            .recordless_since
            .map(|since| doubts.since.map_or(since, |at| at.max(since)));
    }

    /// Whether this memory was made, or brought up to date, under these doubts.
    pub fn is_of(&self, doubts: Doubts) -> bool {
        self.epoch == doubts.epoch
    }

    /// Takes in the record that stands on the object now, and what happened to the cluster's state.
    pub fn meet(&mut self, record: Option<&Binding>, doubts: Doubts, now: Instant) {
        self.take_in(doubts);
        let Some(binding) = record else {
            self.recordless_since.get_or_insert(now);
            return;
        };
        self.recordless_since = None;
        self.ever_intended = true;
        // Former attempts have nothing to say any more; the newest one counts the settling time from later.
        self.attempts.retain(|number, _| *number >= binding.attempt);
        let recorded = |id: &ServerId| binding.id.as_deref() == Some(id.as_str());
        self.gone
            .retain(|id, (_, since)| recorded(id) || now < *since + REMEMBERED);
        self.releases
            .retain(|id, call| recorded(id) || now < call.at + REMEMBERED);
        let stranger = Attempt {
            nonce: binding.nonce.clone(),
            account: binding.account.clone(),
            since: now,
            post: Post::Unknown,
        };
        let attempt = self
            .attempts
            .entry(binding.attempt)
            .or_insert_with(|| stranger.clone());
        if attempt.nonce != binding.nonce {
            *attempt = stranger;
        }
    }

    /// The attempt that a record speaks of.
    pub fn attempt(&self, binding: &Binding) -> Option<&Attempt> {
        self.attempts
            .get(&binding.attempt)
            .filter(|attempt| attempt.nonce == binding.nonce)
    }

    /// Whether it is certain that no server was bought under a record: this process knows what became of each call.
    pub fn nothing_bought(&self, binding: &Binding) -> bool {
        let harmless =
            |attempt: &Attempt| matches!(attempt.post, Post::NotSent | Post::Refused { .. });
        let unbought = binding.id.is_none() && binding.lost == 0 && binding.failed == 0;
        unbought && self.attempt(binding).is_some_and(harmless)
    }

    /// The Account of an attempt that may have bought a server, when no record tells of it any more.
    pub fn account_in_doubt(&self) -> Option<&str> {
        let newest = self.attempts.values().next_back()?;
        let harmless = matches!(newest.post, Post::NotSent | Post::Refused { .. });
        (!harmless).then_some(newest.account.as_str())
    }

    /// What was seen of a server says nothing about another one.
    pub fn forget_looks(&mut self) {
        self.looked = None;
        self.led_by = None;
        self.unread = false;
        self.not_found = false;
        self.at_rest_since = None;
        self.poll = None;
    }

    /// The newest server that the service gave this process and that is not known to be gone.
    pub fn given(&self) -> Option<(u32, &ServerId, &TaskId)> {
        self.attempts
            .iter()
            .rev()
            .find_map(|(number, attempt)| match &attempt.post {
                Post::Accepted { id, task } if !self.gone.contains_key(id) => {
                    Some((*number, id, task))
                }
                _ => None,
            })
    }

    /// The newest instant from which a settling time counts.
    pub fn newest_attempt(&self) -> Option<Instant> {
        self.attempts.values().map(|attempt| attempt.since).max()
    }

    /// A server is known to be gone.
    pub fn is_gone(&mut self, id: ServerId, how: Gone) {
        self.gone.insert(id, (how, Instant::now()));
        self.backoff.reset();
        self.not_before = None;
    }

    /// When the recorded operation began, if this process began it.
    pub fn began(&self, binding: &Binding) -> Option<Instant> {
        let attempt = self.attempt(binding)?;
        matches!(attempt.post, Post::Accepted { .. }).then_some(attempt.since)
    }

    /// The clock of a task's queries; begun when the task is first met.
    pub fn poll_of(&mut self, task: &TaskId, began: Option<Instant>, now: Instant) -> &mut Poll {
        if self.poll.as_ref().is_none_or(|poll| poll.task != *task) {
            self.poll = None;
        }
        self.poll.get_or_insert_with(|| Poll {
            task: task.clone(),
            since: began.unwrap_or(now),
            whole: began.is_some(),
            last: None,
            ended: None,
            led_by: None,
        })
    }
}

/// How often, and when last, the cluster's state was found to have gone back in time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubts {
    epoch: u64,
    since: Option<Instant>,
}

/// The memories of all Instances, by UID; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Memories {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    by_uid: HashMap<String, Remembered>,
    doubts: Doubts,
}

#[derive(Clone, Debug)]
struct Remembered {
    key: ObjectKey,
    memory: Arc<Mutex<Memory>>,
}

impl Memories {
    /// An object was seen by the watch; `born_here` counts only at the first sight.
    pub fn saw(&self, uid: &str, key: &ObjectKey, born_here: bool) {
        let mut inner = self.lock();
        if inner.by_uid.contains_key(uid) {
            return;
        }
        let mut memory = Memory::new(born_here, Instant::now());
        memory.epoch = inner.doubts.epoch;
        let memory = Arc::new(Mutex::new(memory));
        inner.by_uid.insert(
            uid.to_owned(),
            Remembered {
                key: key.clone(),
                memory,
            },
        );
    }

    /// What is remembered of an object; none when it is gone.
    pub fn get(&self, uid: &str) -> Option<Arc<Mutex<Memory>>> {
        self.lock()
            .by_uid
            .get(uid)
            .map(|remembered| remembered.memory.clone())
    }

    /// The state went back in time (etcd was restored): no object is known to be new any more. Each memory takes it in
    /// at its next turn, and a turn that is under way finds out before it buys.
    pub fn doubt_all(&self) {
        let mut inner = self.lock();
        inner.doubts = Doubts {
            epoch: inner.doubts.epoch + 1,
            since: Some(Instant::now()),
        };
    }

    /// The doubts so far.
    pub fn doubts(&self) -> Doubts {
        self.lock().doubts
    }

    /// An object is gone for good.
    pub fn forget(&self, uid: &str) {
        self.lock().by_uid.remove(uid);
    }

    /// Which object has this UID.
    pub fn key_of(&self, uid: &str) -> Option<ObjectKey> {
        self.lock()
            .by_uid
            .get(uid)
            .map(|remembered| remembered.key.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens one memory. A turn that panicked while it held it left at worst a hint behind, so the poison is ignored.
pub fn open(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}
