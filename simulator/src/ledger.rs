//! The ledger: every call and its effect, for the assertions of tests. It never contains a token or a password.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::Effect;
use crate::time::Timestamp;

/// Entries kept in memory. A day of a thousand servers makes fewer; the counters continue beyond this number.
const KEPT: usize = 200_000;

/// Number of paths with their own counter. The service has fifteen; all others are mistakes of a caller.
const PATHS_COUNTED: usize = 500;

/// The counter of all further paths.
const OTHER_PATHS: &str = "(other)";

/// The origin of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A call of the service.
    Call,
    /// The end of a task.
    Clock,
    /// An action at the console.
    Console,
}

/// One line of the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its number. Numbers increase without gaps.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The origin of the entry.
    pub source: Source,
    /// The method of a call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// The path of a call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The account that called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Query and body of the request, without secrets: a password appears only as `passwordGiven`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub request: Value,
    /// The HTTP status that the client gets; `None` if the client gets no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The change that it made.
    #[serde(default, skip_serializing_if = "Effect::is_none")]
    pub effect: Effect,
    /// The faults that were applied to the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

impl Entry {
    /// An entry that was not caused by a call.
    #[must_use]
    pub fn event(source: Source, at: Timestamp, effect: Effect) -> Self {
        Self {
            seq: 0,
            at,
            source,
            method: String::new(),
            path: String::new(),
            account: None,
            request: Value::Null,
            status: None,
            code: None,
            effect,
            faults: Vec::new(),
        }
    }
}

/// All calls and their effects, in order. A clone is a cheap snapshot.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: VecDeque<Arc<Entry>>,
    next: u64,
    counts: BTreeMap<String, u64>,
}

impl Ledger {
    /// Appends an entry and gives it its number.
    pub fn enter(&mut self, mut entry: Entry) -> Arc<Entry> {
        self.next += 1;
        entry.seq = self.next;
        let entry = Arc::new(entry);
        self.keep(Arc::clone(&entry));
        entry
    }

    /// Restores a ledger from its entries, in order.
    pub fn restore(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut ledger = Self::default();
        for entry in entries {
            ledger.next = entry.seq;
            ledger.keep(Arc::new(entry));
        }
        ledger
    }

    fn keep(&mut self, entry: Arc<Entry>) {
        if entry.source == Source::Call {
            let full = self.counts.len() >= PATHS_COUNTED && !self.counts.contains_key(&entry.path);
            let path = if full {
                OTHER_PATHS
            } else {
                entry.path.as_str()
            };
            match self.counts.get_mut(path) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(path.to_owned(), 1);
                }
            }
        }
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// The entries that are still in memory, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().map(Arc::as_ref)
    }

    /// The calls of one path.
    #[must_use]
    pub fn calls(&self, path: &str) -> Vec<&Entry> {
        self.entries()
            .filter(|entry| entry.source == Source::Call && entry.path == path)
            .collect()
    }

    /// The calls that request a change, including refused ones.
    #[must_use]
    pub fn mutating(&self) -> Vec<&Entry> {
        self.entries()
            .filter(|entry| entry.source == Source::Call && entry.method == "POST")
            .collect()
    }

    /// All changes, in order, regardless of their origin.
    #[must_use]
    pub fn effects(&self) -> Vec<&Effect> {
        self.entries()
            .map(|entry| &entry.effect)
            .filter(|effect| !effect.is_none())
            .collect()
    }

    /// The entries after this number.
    #[must_use]
    pub fn since(&self, seq: u64) -> Vec<&Entry> {
        self.entries().filter(|entry| entry.seq > seq).collect()
    }

    /// How often a path was called since the beginning.
    #[must_use]
    pub fn count(&self, path: &str) -> u64 {
        self.counts.get(path).copied().unwrap_or(0)
    }

    /// How often each path was called since the beginning.
    #[must_use]
    pub const fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    /// The number of the last entry; 0 if there is none.
    #[must_use]
    pub const fn last_seq(&self) -> u64 {
        self.next
    }
}
