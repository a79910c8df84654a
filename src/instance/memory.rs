//! What this process remembers of an Instance. All of it may be lost: a restart costs listings, never a server.

pub mod all;
mod bought;
pub mod kinds;
pub mod version;

use crate::api::conditions::Reason;
use crate::api::{Binding, HistoryEntry, Operation, OperationEnd, Verb};
use crate::cloud::{ServerId, TaskId};
use crate::instance::facts::Facts;
use crate::instance::memory::kinds::{
    Aside, Attempt, Connected, Doubts, Gone, Passwords, Pause, Poll, Post, ReleaseCall, Remains,
    Said, Wants,
};
use crate::instance::memory::version::Lag;
use crate::instance::times;
use crate::runtime::Backoff;
use jiff::Timestamp;
use kinds::Power;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use version::Newest;

/// What this process remembers of one Instance.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The object appeared while we watched: no earlier process can have bought anything for it.
    pub born_here: bool,
    /// First sight of it in this process.
    pub first_seen: Instant,
    /// Since when it has been without a record of ours.
    pub recordless_since: Option<Instant>,
    /// An intent was, or may have been, written for it.
    pub ever_intended: bool,
    /// What the newest record that was seen on it names: its server, and the Account that it is of.
    pub recorded: Option<Remains>,
    /// How many servers were bought in the place of others, by the records that were seen on it, or written.
    pub recreated: u32,
    /// Nothing of it is left: its server is confirmed gone, or there never was one.
    pub is_finished: bool,
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
    /// When the service showed last whether the server is there, by itself or in a listing.
    pub confirmed: Option<Instant>,
    /// When it was last said by a status of its own that the server is confirmed, or is not.
    pub synced: Option<Instant>,
    /// The last detail could not be read.
    pub unread: bool,
    /// Nor did the question reach the service: no connection opened.
    pub unreached: bool,
    /// The last detail showed the server off and at rest.
    pub was_off: bool,
    /// Since when the object is being deleted.
    pub releasing_since: Option<Instant>,
    /// The last detail that was answered said that there is no such server.
    pub not_found: bool,
    /// Since when every detail that was answered said so.
    pub missing_since: Option<Instant>,
    /// The token of spec.reconcile that is not carried out yet, and when it was first seen.
    pub reconcile: Option<(String, Instant)>,
    /// The service has shown an operation on the server since the newest attempt was sent.
    pub pending_seen: bool,
    /// How the operator itself stopped or started the server within the newest attempt since its call was last made.
    pub aside: Option<Aside>,
    /// The attempt for which the operator stopped the server.
    pub stopped_for: Option<i64>,
    /// The attempt for which the operator cut the server's power, or may have.
    pub cut_for: Option<i64>,
    /// What went wrong last, in its words: the same is logged once.
    pub trouble: Option<String>,
    /// When the newest operation on a server that was there ended.
    pub operated: Option<Instant>,
    /// The operation on the server that is under way, as status told it last: should status be lost, it is not forgotten.
    pub followed: Option<Box<Operation>>,
    /// The record of the newest purchase that this process announced, as it was written: should the cluster's state go back to
    /// before it, it is written once more.
    pub purchase: Option<Box<Binding>>,
    /// Wishes that wait, by verb.
    pub pauses: BTreeMap<Verb, Pause>,
    /// The newest start or stop that ended well.
    power: Option<Power>,
    /// A digest of the password that the newest attempt sends, and of the one that the server has.
    pub password: Passwords,
    /// Version of the generated login Secret, and since when it says that its password is in force.
    pub rotation: Option<(String, Option<Timestamp>)>,
    /// The connection Secret as it was last looked at or written.
    pub connection: Option<Connected>,
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
    /// The credential under which the recorded server was last listed: its account is that one's.
    pub shown_by: Option<String>,
    /// What was last said in status.
    pub said: Option<Said>,
    /// A status that was sent, and whose answer was lost: it may stand.
    pub unanswered: Option<Said>,
    /// The generation of the spec that was acknowledged before it was acted upon.
    pub acknowledged: Option<i64>,
    /// When a status was last written over which somebody else had put in the place of what was said.
    pub gainsaid: Option<Instant>,
    /// No status is written before this instant: one could not be.
    pub unsaid_until: Option<Instant>,
    /// A progress that is shown only when it lasts, and since when it stands.
    pub held: Option<(Reason, Instant)>,
    /// The newest resourceVersion that is known: an older object in the cache is not acted upon.
    newest: Option<Newest>,
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
            recorded: None,
            recreated: 0,
            is_finished: false,
            attempts: BTreeMap::new(),
            releases: HashMap::new(),
            gone: HashMap::new(),
            poll: None,
            looked: None,
            confirmed: None,
            synced: None,
            unread: false,
            unreached: false,
            was_off: false,
            releasing_since: None,
            not_found: false,
            missing_since: None,
            reconcile: None,
            pending_seen: false,
            aside: None,
            stopped_for: None,
            cut_for: None,
            trouble: None,
            operated: None,
            followed: None,
            purchase: None,
            pauses: BTreeMap::new(),
            power: None,
            password: Passwords::default(),
            rotation: None,
            connection: None,
            at_rest_since: None,
            led_by: None,
            wants: Wants::default(),
            backoff: Backoff::default(),
            not_before: None,
            shown_by: None,
            said: None,
            unanswered: None,
            acknowledged: None,
            gainsaid: None,
            unsaid_until: None,
            held: None,
            newest: None,
            busy_since: None,
            attended: None,
            epoch: 0,
        }
    }

    /// Takes in what a look brought to a copy of this memory. What was said beside it meanwhile stays, and so does what the watch
    /// showed.
    pub fn has_looked(&mut self, copy: &Self) {
        let former = std::mem::replace(self, copy.clone());
        if former.epoch == self.epoch {
            self.newest = former.newest;
        }
        self.said = former.said;
        self.unanswered = former.unanswered;
        self.acknowledged = former.acknowledged;
    }

    /// A write of ours was answered with this resourceVersion.
    pub fn wrote(&mut self, version: Option<&str>, now: Instant) {
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.newest = Some(Newest::with(self.newest, version, false, now));
        }
    }

    /// The watch showed this resourceVersion.
    fn shown(&mut self, version: u64, now: Instant) {
        self.newest = Some(Newest::with(self.newest, version, true, now));
    }

    /// How an object of this resourceVersion stands to what is known.
    pub fn lag(&mut self, version: &str, now: Instant) -> Lag {
        match (&mut self.newest, version.parse()) {
            (Some(newest), Ok(version)) => newest.lag(version, now),
            _ => Lag::None,
        }
    }

    /// Whether a newer version than this is known.
    pub fn is_newer_than(&self, version: &str) -> bool {
        let newest = self.newest.zip(version.parse().ok());
        newest.is_some_and(|(newest, version)| newest.is_newer_than(version))
    }

    /// Takes in what happened to the cluster's state since this memory was made.
    pub fn take_in(&mut self, doubts: Doubts) {
        if self.epoch == doubts.epoch {
            return;
        }
        self.epoch = doubts.epoch;
        self.newest = None;
        self.born_here = false;
        self.ever_intended = true;
        self.recordless_since = self
            .recordless_since
            .map(|since| doubts.since.map_or(since, |at| at.max(since)));
        // The spec may be from before the wish: followed to its end, the operation would count as applied, and the spec as a
        // wish to undo it.
        self.followed = None;
    }

    /// Status tells of the end of the recorded purchase: other operations may have come after it, should it tell so no more.
    fn purchase_ended(&mut self, record: &Binding) {
        if let Some(attempt) = self.attempts.get_mut(&record.attempt) {
            attempt.is_newest = false;
        }
    }

    /// Takes in what status tells of operations on the server. One that this process follows and that a status does not tell of
    /// which knows no newer number goes on: that status was lost.
    pub fn meet_operation(&mut self, facts: &Facts, now: Instant) {
        if let Some(record) = facts.binding().filter(|it| facts.status.tells_of(it)) {
            self.purchase_ended(record);
        }
        let newest = facts.status.operation.as_ref();
        if let Some(ended) = newest.filter(|newest| !newest.is_open()) {
            // What a process before this one counted.
            self.pauses.entry(ended.verb).or_insert_with(|| Pause {
                until: now,
                generation: ended.generation,
                target: ended.target.clone(),
                end: ended.end.clone(),
            });
        }
        let (Some(told), Some(record)) = (facts.operation(), facts.binding()) else {
            let record = facts.binding().map_or(0, |record| record.attempt);
            let newest = facts.status.attempt.max(i64::from(record));
            self.followed.take_if(|followed| followed.attempt <= newest);
            return;
        };
        let stranger = Attempt {
            nonce: told.nonce.clone(),
            account: record.account.clone(),
            verb: told.verb,
            is_own: false,
            is_newest: false,
            tries: 0,
            since: now,
            doubt: None,
            post: Post::Unknown,
        };
        let number = u32::try_from(told.attempt).unwrap_or_default();
        let attempt = self.attempts.entry(number);
        let attempt = attempt.or_insert_with(|| stranger.clone());
        if attempt.nonce != told.nonce {
            *attempt = stranger;
        }
        let knows_it = matches!(attempt.post, Post::Accepted { .. });
        if let (true, false, Some(id)) = (told.accepted, knows_it, facts.id()) {
            attempt.post = Post::Accepted {
                id,
                task: told.task_id.as_deref().map(TaskId::from),
            };
        }
        self.attempts
            .retain(|other, attempt| attempt.verb == Verb::Create || *other >= number);
        self.followed = Some(Box::new(told.clone()));
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
        self.recorded = Some(Remains {
            id: binding.id.as_deref().map(ServerId::from),
            account: binding.account.clone(),
            is_leaving: false,
        });
        self.recreated = self.recreated.max(binding.recreated);
        self.ever_intended = true;
        // Former attempts have nothing to say any more; the newest one counts the settling time from later.
        self.attempts.retain(|number, _| *number >= binding.attempt);
        self.purchase
            .take_if(|purchase| purchase.attempt < binding.attempt);
        let recorded = |id: &ServerId| binding.id.as_deref() == Some(id.as_str());
        self.gone
            .retain(|id, (_, since)| recorded(id) || now < *since + times::GONE_SERVER_REMEMBERED);
        self.releases
            .retain(|id, call| recorded(id) || now < call.at + times::GONE_SERVER_REMEMBERED);
        // What the service refused to a process before this one is on record.
        let post = binding
            .refused
            .as_ref()
            .map_or(Post::Unknown, |refusal| Post::Refused {
                message: refusal.message.clone(),
                reason: Reason::of(&refusal.reason).unwrap_or(Reason::CreateRefused),
            });
        let stranger = Attempt {
            nonce: binding.nonce.clone(),
            account: binding.account.clone(),
            verb: Verb::Create,
            is_own: false,
            is_newest: false,
            tries: 0,
            since: now,
            doubt: None,
            post,
        };
        let attempt = self
            .attempts
            .entry(binding.attempt)
            .or_insert_with(|| stranger.clone());
        if attempt.nonce != binding.nonce {
            *attempt = stranger;
        } else if !attempt.is_own && binding.refused.is_some() {
            attempt.post = stranger.post;
        }
    }

    /// The attempt that a record speaks of.
    pub fn attempt(&self, binding: &Binding) -> Option<&Attempt> {
        self.known(binding.attempt, &binding.nonce)
    }

    /// What became of the call of an operation.
    pub fn call(&self, operation: &Operation) -> Option<&Attempt> {
        let number = u32::try_from(operation.attempt).ok()?;
        self.known(number, &operation.nonce)
    }

    fn known(&self, number: u32, nonce: &str) -> Option<&Attempt> {
        let attempt = self.attempts.get(&number);
        attempt.filter(|attempt| attempt.nonce == nonce)
    }

    /// The task that the service named to this process for an operation.
    pub fn told_task(&self, operation: &Operation) -> Option<&TaskId> {
        match &self.call(operation)?.post {
            Post::Accepted { task, .. } => task.as_ref(),
            Post::NotSent | Post::Refused { .. } | Post::Unknown => None,
        }
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

    /// Whether this went wrong otherwise than the last time.
    pub fn is_new_trouble(&mut self, words: &str) -> bool {
        let is_new = self.trouble.as_deref() != Some(words);
        self.trouble = Some(words.to_owned());
        is_new
    }

    /// The password of the newest call may be on the server by now.
    pub fn may_have_password(&mut self) {
        self.password.current = None;
    }

    /// An operation of ours ended, and status says so. What the listing shows from here on is news, also if it showed the
    /// same before. `brought_login`: with it came the password that it was called with.
    pub fn operation_ended(&mut self, ended: &HistoryEntry, brought_login: bool, now: Instant) {
        self.led_by = None;
        self.followed = None;
        let number = u32::try_from(ended.attempt).unwrap_or_default();
        match (ended.verb, self.attempts.get_mut(&number)) {
            (Verb::Create, Some(purchase)) => purchase.is_newest = false,
            (Verb::Create, None) => {}
            _ => self.operated = Some(now),
        }
        if ended.verb.bears_login() {
            let sent = self.password.sent.take();
            if ended.succeeded {
                self.password.current = sent.filter(|_| brought_login);
            }
        }
        if ended.succeeded {
            self.pauses.remove(&ended.verb);
        }
    }

    /// What an operation was asked for waits until then, since it ended like this.
    pub fn pause(&mut self, operation: &Operation, end: Option<OperationEnd>, until: Instant) {
        let pause = Pause {
            until,
            generation: operation.generation,
            target: operation.target.clone(),
            end,
        };
        self.pauses.insert(operation.verb, pause);
    }

    /// A start or stop ended well. Gives how often it was needed lately: a server that does not stay as it is wanted is not
    /// started or stopped without end.
    pub fn power_ended(&mut self, verb: Verb, now: Instant) -> usize {
        let former = self
            .power
            .filter(|former| former.verb == verb && now < former.at + times::POWER_RESTLESS_WITHIN);
        let times = former.map_or(1, |former| former.times + 1);
        self.power = Some(Power {
            verb,
            at: now,
            times,
        });
        times
    }

    /// What is left at the service if the object goes now, as far as this process knows.
    pub fn remains(&self) -> Option<Remains> {
        if self.is_finished {
            return None;
        }
        let account = self.account_in_doubt();
        let leaving = |id: &ServerId| self.releases.get(id).is_some_and(|call| call.accepted);
        let recorded = self.recorded.clone();
        let recorded = recorded.and_then(|recorded| Some((recorded.id?, recorded.account)));
        let given = self.given().map(|(_, id, _)| id.clone());
        let given = given.zip(account.map(ToOwned::to_owned));
        match recorded.or(given) {
            Some((id, _)) if self.gone.contains_key(&id) => None,
            Some((id, account)) => Some(Remains {
                is_leaving: leaving(&id),
                id: Some(id),
                account,
            }),
            None => {
                let newest = self.attempts.values().next_back();
                let is_unknown = newest.is_some_and(|attempt| attempt.post == Post::Unknown);
                account.filter(|_| is_unknown).map(|account| Remains {
                    id: None,
                    account: account.to_owned(),
                    is_leaving: false,
                })
            }
        }
    }

    /// What was seen of a server says nothing about another one.
    pub fn forget_looks(&mut self) {
        self.looked = None;
        self.led_by = None;
        self.unread = false;
        self.unreached = false;
        self.not_found = false;
        self.missing_since = None;
        self.shown_by = None;
        self.at_rest_since = None;
        self.poll = None;
        self.password.current = None;
    }

    /// Takes in the token of spec.reconcile, and the one that was carried out last.
    pub fn asked_to_look(&mut self, token: Option<&str>, done: Option<&str>, now: Instant) {
        let token = token.filter(|token| done != Some(*token));
        let known = self.reconcile.as_ref().map(|(known, _)| known.as_str());
        if token != known {
            self.reconcile = token.map(|token| (token.to_owned(), now));
        }
    }

    /// The newest instant from which a settling time counts.
    pub fn newest_attempt(&self) -> Option<Instant> {
        self.attempts.values().map(|attempt| attempt.since).max()
    }

    /// A server is known to be gone.
    pub fn is_gone(&mut self, id: ServerId, how: Gone) {
        // What is only found gone again is no step ahead.
        if self.gone.insert(id, (how, Instant::now())).is_none() {
            self.backoff.reset();
            self.not_before = None;
        }
    }

    /// When an operation began, if this process began it.
    pub fn began(&self, operation: &Operation) -> Option<Instant> {
        let attempt = self.call(operation).filter(|attempt| attempt.tries > 0)?;
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

#[cfg(test)]
mod tests;
