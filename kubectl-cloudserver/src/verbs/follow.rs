//! Waits until the requested state is reached: one watch, and a line for each Instance that finishes.

use super::goal::{Goal, Outcome, judge};
use crate::progress::Progress;
use crate::service::Cluster;
use cloud_server_operator::api::{Instance, counted};
use cloud_server_operator::runtime::times::WATCH_TIMEOUT_SECONDS;
use futures::{Stream, StreamExt};
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// Exit statuses: at least one failed, the time limit was reached, or the user interrupted the wait (as shells report it).
const FAILED: u8 = 2;
const TIMED_OUT: u8 = 3;
pub(super) const INTERRUPTED: u8 = 130;

/// The Instances that have not reached their goals.
struct Waiting<'a> {
    cluster: &'a Cluster,
    progress: &'a Progress,
    /// By name: the goal, and the last known state.
    goals: BTreeMap<String, (Goal, String)>,
    count: usize,
    has_failed: bool,
}

/// Waits for all of them. Returns the exit status.
///
/// # Errors
/// The user may not watch Instances.
pub(super) async fn follow(
    cluster: &Cluster,
    goals: BTreeMap<String, Goal>,
    timeout: Duration,
    progress: &Progress,
) -> Result<u8, String> {
    let api: Api<DeserializeGuard<Instance>> =
        Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let unknown = |goal| (goal, "the cluster has not answered".to_owned());
    let goals = goals.into_iter().map(|(name, goal)| (name, unknown(goal)));
    let mut waiting = Waiting {
        cluster,
        progress,
        count: goals.len(),
        has_failed: false,
        goals: goals.collect(),
    };
    let events = watcher(api, config(&waiting.goals)).default_backoff();
    let end = Instant::now() + timeout;
    tokio::select! {
        ended = waiting.all(events) => ended,
        () = tokio::time::sleep_until(end) => {
            waiting.note_unfinished(&format!("not within {} s", timeout.as_secs_f32()));
            Ok(TIMED_OUT)
        }
        _ = tokio::signal::ctrl_c() => {
            waiting.note_unfinished("the wait was interrupted");
            Ok(INTERRUPTED)
        }
    }
}

impl Waiting<'_> {
    /// Waits until none is left.
    async fn all(
        &mut self,
        events: impl Stream<Item = watcher::Result<Event<DeserializeGuard<Instance>>>>,
    ) -> Result<u8, String> {
        let mut events = pin!(events);
        let mut listed = BTreeSet::new();
        self.show();
        while !self.goals.is_empty() {
            match events.next().await {
                Some(Ok(Event::Init)) => listed.clear(),
                Some(Ok(Event::InitApply(object))) => {
                    listed.insert(object.name_any());
                    self.judge(&object.name_any(), Some(&object));
                }
                Some(Ok(Event::Apply(object))) => self.judge(&object.name_any(), Some(&object)),
                Some(Ok(Event::Delete(object))) => self.judge(&object.name_any(), None),
                Some(Ok(Event::InitDone)) => {
                    let gone = self.goals.keys().filter(|name| !listed.contains(*name));
                    for name in gone.cloned().collect::<Vec<_>>() {
                        self.judge(&name, None);
                    }
                }
                Some(Err(error)) => self.failed(&error)?,
                None => return Err("the watch of the Instances ended".to_owned()),
            }
            self.show();
        }
        Ok(if self.has_failed { FAILED } else { 0 })
    }

    fn judge(&mut self, name: &str, object: Option<&DeserializeGuard<Instance>>) {
        let Some((goal, state)) = self.goals.get_mut(name) else {
            return;
        };
        let instance = match object.map(|object| &object.0) {
            Some(Err(error)) => {
                *state = format!("this version cannot read it: {}", error.error);
                return;
            }
            Some(Ok(instance)) => Some(instance),
            None => None,
        };
        let namespace = &self.cluster.namespace;
        match judge(instance, goal) {
            Outcome::Waiting(words) => {
                *state = words;
                return;
            }
            Outcome::Done(words) => self
                .progress
                .answer(&format!("{namespace}/{name}: {words}")),
            Outcome::Failed(words) => {
                self.has_failed = true;
                self.progress.note(&format!("{namespace}/{name}: {words}"));
            }
        }
        self.goals.remove(name);
    }

    /// Handles an error of the watch. Waiting does not help a user who may not watch.
    fn failed(&mut self, error: &watcher::Error) -> Result<(), String> {
        let why = crate::chain(error);
        if let watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error
            && matches!(status.code, 401 | 403)
        {
            let namespace = &self.cluster.namespace;
            return Err(format!(
                "{why}: have yourself allowed to list and watch Instances in namespace {namespace}"
            ));
        }
        for (_, state) in self.goals.values_mut() {
            *state = format!("the cluster does not answer: {why}");
        }
        Ok(())
    }

    /// Shows the progress on a terminal.
    fn show(&self) {
        let Some((name, (_, state))) = self.goals.iter().next() else {
            return;
        };
        self.progress.show(|| {
            let of = match self.count {
                1 => String::new(),
                count => format!("{} of {}: ", self.goals.len(), counted(count, "Instance")),
            };
            format!("waiting for {of}{name}: {state}")
        });
    }

    /// Reports the last known state of the unfinished ones.
    fn note_unfinished(&self, end: &str) {
        let namespace = &self.cluster.namespace;
        for (name, (_, state)) in &self.goals {
            self.progress
                .note(&format!("{namespace}/{name}: {end}: {state}"));
        }
    }
}

/// The watched objects: a single one, or all of the namespace. A label selector would not do: an object that loses the label would
/// look deleted.
fn config<T>(goals: &BTreeMap<String, T>) -> watcher::Config {
    let config = watcher::Config::default().timeout(WATCH_TIMEOUT_SECONDS);
    let mut names = goals.keys();
    match (names.next(), names.next()) {
        (Some(only), None) => config.fields(&format!("metadata.name={only}")),
        _ => config,
    }
}
