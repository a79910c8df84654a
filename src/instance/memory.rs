//! What this process remembers of an Instance. All of it may be lost: a restart costs listings, never a server.

use crate::api::Binding;
use crate::api::conditions::Reason;
use crate::cloud::{ServerId, TaskId, TaskState};
use crate::inventory::Attention;
use crate::runtime::Backoff;
use crate::runtime::watch::ObjectKey;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

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
    /// How often this server's release was called.
    pub calls: u32,
    /// The last call was answered (not merely sent).
    pub accepted: bool,
    /// What stood in the way, for people.
    pub trouble: Option<String>,
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
    pub ended: Option<TaskState>,
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
    /// The last detail read.
    pub looked: Option<Instant>,
    /// The digest of the listing row that stood when the detail was read last: a row that a service words differently
    /// from its detail is read once, not at every listing.
    pub row_at_look: Option<u64>,
    /// What the last plan wanted of the listing.
    pub wants: Wants,
    /// Failures in a row.
    pub backoff: Backoff,
    /// No mutating call before this instant.
    pub not_before: Option<Instant>,
    /// A progress that is shown only when it lasts, and since when it stands.
    pub held: Option<(Reason, Instant)>,
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
            row_at_look: None,
            wants: Wants::default(),
            backoff: Backoff::default(),
            not_before: None,
            held: None,
        }
    }

    /// Takes in the record that stands on the object now.
    pub fn meet(&mut self, record: Option<&Binding>, now: Instant) {
        let Some(binding) = record else {
            self.recordless_since.get_or_insert(now);
            return;
        };
        self.recordless_since = None;
        self.ever_intended = true;
        let stranger = Attempt {
            nonce: binding.nonce.clone(),
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

    /// A server that the service gave us and that no record names.
    pub fn unrecorded(&self) -> Option<(u32, &ServerId, &TaskId)> {
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
        })
    }
}

/// The memories of all Instances, by UID; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Memories {
    by_uid: Arc<Mutex<HashMap<String, Remembered>>>,
}

#[derive(Clone, Debug)]
struct Remembered {
    key: ObjectKey,
    memory: Arc<Mutex<Memory>>,
}

impl Memories {
    /// An object was seen; `born_here` counts only at the first sight.
    pub fn saw(&self, uid: &str, key: &ObjectKey, born_here: bool) -> Arc<Mutex<Memory>> {
        let mut by_uid = self.lock();
        if let Some(known) = by_uid.get(uid) {
            return known.memory.clone();
        }
        let memory = Arc::new(Mutex::new(Memory::new(born_here, Instant::now())));
        by_uid.insert(
            uid.to_owned(),
            Remembered {
                key: key.clone(),
                memory: memory.clone(),
            },
        );
        memory
    }

    /// The state went back in time (etcd was restored): no object is known to be new any more.
    pub fn doubt_all(&self) {
        let now = Instant::now();
        let all: Vec<Remembered> = self.lock().values().cloned().collect();
        for remembered in all {
            let mut memory = open(&remembered.memory);
            memory.born_here = false;
            memory.ever_intended = true;
            if memory.recordless_since.is_some() {
                memory.recordless_since = Some(now);
            }
        }
    }

    /// An object is gone for good.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Which object has this UID.
    pub fn key_of(&self, uid: &str) -> Option<ObjectKey> {
        self.lock()
            .get(uid)
            .map(|remembered| remembered.key.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens one memory. A turn that panicked while it held it left at worst a hint behind, so the poison is ignored.
pub fn open(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}
