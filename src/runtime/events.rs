//! Events: what a user would want to know, told once. An Event that fails is never an error of ours.

use super::kubernetes;
use crate::api::names::REPORTING_CONTROLLER;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The same Event of the same object is told again only after this time, so that a flapping cause costs a few writes.
const AGAIN: Duration = Duration::from_secs(300);
/// Entries after which old ones are dropped.
const REMEMBERED: usize = 4096;

/// Publishes Events.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    told: Arc<Mutex<HashMap<Told, Instant>>>,
}

/// UID of the object, reason and note.
type Told = (String, &'static str, String);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Whether somebody should look.
    pub warning: bool,
    /// A constant in CamelCase.
    pub reason: &'static str,
    /// A sentence for people, without secrets.
    pub note: String,
}

impl News {
    /// Something as it should be.
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            note: note.into(),
        }
    }

    /// Something that somebody should look at.
    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason,
            note: note.into(),
        }
    }
}

impl Events {
    /// Events under our reporting controller; `instance` names this process.
    pub fn new(client: Client, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: REPORTING_CONTROLLER.to_owned(),
            instance,
        };
        Self {
            recorder: Recorder::new(client, reporter),
            told: Arc::default(),
        }
    }

    /// Tells it, unless the same was told lately.
    pub async fn tell(&self, about: &ObjectReference, news: &News) {
        if !self.is_new(about, news) {
            return;
        }
        let event = Event {
            type_: if news.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: news.reason.to_owned(),
            note: Some(news.note.chars().take(1000).collect()),
            action: news.reason.to_owned(),
            secondary: None,
        };
        let published =
            tokio::time::timeout(kubernetes::DEADLINE, self.recorder.publish(&event, about)).await;
        if !matches!(published, Ok(Ok(()))) {
            tracing::debug!(reason = news.reason, "an Event was not taken");
        }
    }

    fn is_new(&self, about: &ObjectReference, news: &News) -> bool {
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= REMEMBERED {
            told.retain(|_, at| now.duration_since(*at) < AGAIN);
        }
        let key = (
            about.uid.clone().unwrap_or_default(),
            news.reason,
            news.note.clone(),
        );
        let lately = told
            .get(&key)
            .is_some_and(|at| now.duration_since(*at) < AGAIN);
        if !lately {
            told.insert(key, now);
        }
        !lately
    }
}
