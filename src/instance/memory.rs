//! What this process remembers of an Instance. All of it may be lost: a restart costs listings, never a server.

mod all;
mod kinds;

pub use all::{Doubts, Memories};
pub use kinds::{
    Aside, Attempt, Ended, Gone, Odd, Passwords, Pause, Poll, Post, ReleaseCall, Wants,
};

use crate::api::conditions::Reason;
use crate::api::{Binding, HistoryEntry, OpenOperation, Verb};
use crate::cloud::{ServerId, TaskId};
use crate::runtime::Backoff;
use kinds::Power;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long the end of a server that is not recorded is remembered: longer than any listing lags.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// How long our own cache is believed to be behind a write of ours. Watches are late by seconds; beyond, something else
/// is wrong and the object is looked at as it is.
const CATCHING_UP: Duration = Duration::from_secs(30);

/// Starts or stops within this time are too many for a server that stays as it is put.
const LATELY: Duration = Duration::from_secs(600);

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
    /// The service has shown an operation on the server since the newest attempt was sent.
    pub pending_seen: bool,
    /// How the operator itself stopped or started the server within the newest attempt since its call was last made.
    pub aside: Option<Aside>,
    /// The attempt for which the operator stopped the server.
    pub stopped_for: Option<u32>,
    /// When the newest operation on a server that was there ended.
    pub operated: Option<Instant>,
    /// The record of the newest operation that this process announced, until that ended: should the annotation be lost
    /// or put back, the operation is not forgotten.
    pub announced: Option<Box<Binding>>,
    /// Wishes that wait, by verb.
    pub pauses: BTreeMap<Verb, Pause>,
    /// The newest start or stop that ended well.
    power: Option<Power>,
    /// A digest of the password that the newest attempt sends, and of the one that the server has.
    pub password: Passwords,
    /// Since when the detail shows a server at rest whose operation is not known to have ended.
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
            pending_seen: false,
            aside: None,
            stopped_for: None,
            operated: None,
            announced: None,
            pauses: BTreeMap::new(),
            power: None,
            password: Passwords::default(),
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
            verb: binding.operation.verb,
            is_own: false,
            tries: 0,
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

    /// The task that the service named to this process for a recorded attempt.
    pub fn told_task(&self, binding: &Binding) -> Option<&TaskId> {
        match &self.attempt(binding)?.post {
            Post::Accepted { task, .. } => task.as_ref(),
            Post::NotSent | Post::Refused { .. } | Post::Unknown => None,
        }
    }

    /// Whether this process wrote the recorded attempt.
    pub fn wrote_attempt(&self, binding: &Binding) -> bool {
        self.attempt(binding).is_some_and(|attempt| attempt.is_own)
    }

    /// A call is about to be made: what was seen of the server before says nothing about it.
    pub fn calls(&mut self, verb: Verb, digest: Option<[u8; 32]>) {
        self.pending_seen = false;
        self.aside = None;
        self.at_rest_since = None;
        self.poll = None;
        if verb.bears_login() {
            self.password.sent = digest;
        }
    }

    /// The password of the newest call may be on the server by now.
    pub fn may_have_password(&mut self) {
        self.password.current = None;
    }

    /// An operation of ours ended, and status says so. What the listing shows from here on is news, also if it showed the
    /// same before.
    pub fn operation_ended(&mut self, ended: &HistoryEntry, now: Instant) {
        self.led_by = None;
        self.announced = None;
        if ended.verb != Verb::Create {
            self.operated = Some(now);
        }
        if ended.verb.bears_login() {
            let sent = self.password.sent.take();
            if ended.succeeded {
                self.password.current = sent;
            }
        }
        if ended.succeeded {
            self.pauses.remove(&ended.verb);
        }
    }

    /// What an operation was asked for waits until then.
    pub fn pause(&mut self, operation: &OpenOperation, until: Instant) {
        let pause = Pause {
            until,
            generation: operation.generation,
            target: operation.target.clone(),
        };
        self.pauses.insert(operation.verb, pause);
    }

    /// A start or stop ended well. Gives how often it was needed lately: a server that does not stay as it is wanted is not
    /// started or stopped without end.
    pub fn power_ended(&mut self, verb: Verb, now: Instant) -> usize {
        let former = self
            .power
            .filter(|former| former.verb == verb && now < former.at + LATELY);
        let times = former.map_or(1, |former| former.times + 1);
        self.power = Some(Power {
            verb,
            at: now,
            times,
        });
        times
    }

    /// Whether it is certain that no server was bought under a record: this process knows what became of each call.
    pub fn nothing_bought(&self, binding: &Binding) -> bool {
        let harmless =
            |attempt: &Attempt| matches!(attempt.post, Post::NotSent | Post::Refused { .. });
        let is_create = binding.operation.verb == Verb::Create;
        let unbought =
            is_create && binding.id.is_none() && binding.lost == 0 && binding.failed == 0;
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
    pub fn given(&self) -> Option<(u32, &ServerId, Option<&TaskId>)> {
        self.attempts
            .iter()
            .rev()
            .filter(|(_, attempt)| attempt.verb == Verb::Create)
            .find_map(|(number, attempt)| match &attempt.post {
                Post::Accepted { id, task } if !self.gone.contains_key(id) => {
                    Some((*number, id, task.as_ref()))
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
            odd: None,
        })
    }
}

/// Opens one memory. A turn that panicked while it held it left at worst a hint behind, so the poison is ignored.
pub fn open(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}
