//! Events: facts that a user would want to know. An Event that only repeats the last one of its object is not published for a
//! while. A failure to publish is only logged.

use super::times;
use crate::api::names::REPORTING_CONTROLLER;
use crate::api::printable;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// Longest name of an Event, as of any object.
const NAME_MAX: usize = 253;
/// Longest note of an Event, in bytes.
const NOTE_MAX: usize = 1024;

#[derive(Clone)]
pub struct Events {
    client: Client,
    /// The name of this process.
    instance: String,
    recent: Arc<Mutex<Recent>>,
}

/// The last Event of each object, and when it was sent.
#[derive(Default)]
struct Recent {
    last: HashMap<Digest, (Digest, Instant)>,
    hasher: RandomState,
}

/// The hash of an object's UID, or of UID, reason and note: the texts themselves would take much memory for thousands of
/// objects.
type Digest = u64;

/// The content of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventNote {
    /// Whether it is of type Warning.
    pub warning: bool,
    /// A constant in CamelCase.
    pub reason: &'static str,
    /// A sentence for people, without secrets.
    pub note: String,
}

impl EventNote {
    /// An Event of type Normal.
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            note: note.into(),
        }
    }

    /// An Event of type Warning, for a problem that a user should look at.
    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason,
            note: note.into(),
        }
    }
}

impl Events {
    /// Publishes under the operator's reporting controller; `instance` is the name of this process.
    pub fn new(client: Client, instance: Option<String>) -> Self {
        Self {
            client,
            instance: instance.unwrap_or_else(|| REPORTING_CONTROLLER.to_owned()),
            recent: Arc::default(),
        }
    }

    /// Publishes the Event, unless it repeats the object's last one within `EVENT_REPEATED_AFTER`.
    pub async fn publish(&self, about: &ObjectReference, event: &EventNote) {
        let uid = about.uid.as_deref().unwrap_or_default();
        let recent = self.recent.lock();
        let is_new = recent
            .unwrap_or_else(PoisonError::into_inner)
            .record_if_new((uid, event.reason, &event.note), Instant::now());
        if !is_new {
            return;
        }
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let (event, params) = (
            self.event(about, event, Timestamp::now()),
            PostParams::default(),
        );
        let published =
            tokio::time::timeout(times::KUBE_CALL_DEADLINE, events.create(&params, &event)).await;
        if !matches!(published, Ok(Ok(_))) {
            tracing::debug!(
                reason = event.reason,
                "the apiserver did not store an Event"
            );
        }
    }

    /// The Event in the form that the apiserver stores. The Recorder of the client library is not used: it makes the Event's name
    /// from the object's without a length check, so that an object with a long name would have no Events.
    fn event(&self, about: &ObjectReference, event: &EventNote, now: Timestamp) -> Event {
        let object = about.name.as_deref().unwrap_or(REPORTING_CONTROLLER);
        let note = printable(&event.note);
        Event {
            metadata: ObjectMeta {
                namespace: about.namespace.clone(),
                name: Some(name_of(object, now)),
                ..ObjectMeta::default()
            },
            type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(event.reason.to_owned()),
            action: Some(event.reason.to_owned()),
            note: Some(note[..note.floor_char_boundary(NOTE_MAX)].to_owned()),
            event_time: Some(MicroTime(now)),
            regarding: Some(about.clone()),
            reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

impl Recent {
    /// Records an Event, identified by UID of the object, reason and note, if it differs from the object's last one or that one is
    /// old. Returns whether it did.
    fn record_if_new(&mut self, words: (&str, &str, &str), now: Instant) -> bool {
        let (object, words) = (self.hasher.hash_one(words.0), self.hasher.hash_one(words));
        let is_old = |since: Instant| now.duration_since(since) >= times::EVENT_REPEATED_AFTER;
        if self.last.len() == self.last.capacity() {
            // The table grows only if too few entries are old.
            self.last.retain(|_, (_, since)| !is_old(*since));
            self.last.reserve(self.last.len() / 4);
        }
        let last = self.last.get(&object);
        if last.is_some_and(|(last, since)| *last == words && !is_old(*since)) {
            return false;
        }
        self.last.insert(object, (words, now));
        true
    }
}

/// The name of an Event about an object: as much of the object's name as fits, and the time, as in client-go.
fn name_of(object: &str, now: Timestamp) -> String {
    let time = format!("{:x}", now.as_nanosecond());
    let fits: String = object.chars().take(NAME_MAX - 1 - time.len()).collect();
    // Before the dot, a name must end with a letter or digit.
    format!("{}.{time}", fits.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::valid;
    use std::time::Duration;

    #[test]
    fn an_event_of_an_object_with_the_longest_name_has_a_valid_name() {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
        let dot_at_the_cut = format!(
            "{label}.{label}.{label}.{}.{}",
            "b".repeat(43),
            "c".repeat(17)
        );
        let hyphens_at_the_cut = format!(
            "{label}.{label}.{label}.{}--{}",
            "b".repeat(42),
            "c".repeat(17)
        );
        for object in ["web-1", &longest, &dot_at_the_cut, &hyphens_at_the_cut] {
            let name = name_of(object, now);
            assert_eq!(valid::object_name(&name), Ok(()), "{name}");
        }
        assert_eq!(name_of("web-1", now), "web-1.17979cfe362a0000");
    }

    #[tokio::test]
    async fn a_note_has_as_many_bytes_as_the_apiserver_accepts() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1"));
        let events = Events::new(Client::try_from(config).unwrap(), None);
        let note = EventNote::normal("Long", "\u{670d}".repeat(500));
        let event = events.event(&ObjectReference::default(), &note, Timestamp::UNIX_EPOCH);
        assert_eq!(event.note.unwrap(), "\u{670d}".repeat(341));
    }

    #[test]
    fn an_event_is_repeated_after_another_one_or_after_a_while() {
        let mut recent = Recent::default();
        let now = Instant::now();
        let mut is_new = |reason: &'static str, after: u64| {
            recent.record_if_new(("uid", reason, "note"), now + Duration::from_secs(after))
        };
        assert!(is_new("Starting", 0));
        assert!(!is_new("Starting", 1), "nothing came in between");
        assert!(is_new("Available", 2));
        assert!(is_new("Starting", 3));
        assert!(!is_new("Starting", 302));
        assert!(is_new("Starting", 303));
    }

    #[test]
    fn old_entries_are_dropped() {
        let mut recent = Recent::default();
        let now = Instant::now();
        for minute in 0..100 {
            let now = now + Duration::from_secs(minute * 60);
            for n in 0..2_000 {
                let uid = format!("uid-{minute}-{n}");
                assert!(recent.record_if_new((&uid, "Starting", "note"), now));
            }
        }
        // Six minutes have 12,000 entries. With a quarter in reserve, the table has room for at most 28,672.
        assert!(recent.last.len() <= 28_672, "{}", recent.last.len());
    }
}
