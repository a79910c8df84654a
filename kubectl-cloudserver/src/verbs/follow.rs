//! Waits until the requested state is reached: one watch, and a line for each Instance that finishes.

use super::goal::{Goal, Standing, standing};
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

/// The result for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// At least one cannot get there.
    Failed,
    /// The time limit was reached.
    TimedOut,
    /// The user interrupted the wait.
    Interrupted,
}

/// The unfinished ones, by name.
struct Waiting<'a> {
    cluster: &'a Cluster,
    progress: &'a Progress,
    goals: BTreeMap<String, Goal>,
    /// The last known state of each.
    last: BTreeMap<String, String>,
    count: usize,
    has_failed: bool,
}

/// Waits for all of them.
///
/// # Errors
/// The user may not watch Instances.
pub(super) async fn follow(
    cluster: &Cluster,
    goals: BTreeMap<String, Goal>,
    timeout: Duration,
    progress: &Progress,
) -> Result<End, String> {
    let api: Api<DeserializeGuard<Instance>> =
        Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut waiting = Waiting {
        cluster,
        progress,
        last: BTreeMap::new(),
        count: goals.len(),
        has_failed: false,
        goals,
    };
    let events = watcher(api, config(&waiting.goals)).default_backoff();
    let end = Instant::now() + timeout;
    tokio::select! {
        ended = waiting.until_none_is_left(events) => ended,
        () = tokio::time::sleep_until(end) => {
            waiting.tell_the_rest(&format!("not within {} s", timeout.as_secs_f32()));
            Ok(End::TimedOut)
        }
        _ = tokio::signal::ctrl_c() => {
            waiting.tell_the_rest("waited for no longer");
            Ok(End::Interrupted)
        }
    }
}

impl Waiting<'_> {
    async fn until_none_is_left(
        &mut self,
        events: impl Stream<Item = watcher::Result<Event<DeserializeGuard<Instance>>>>,
    ) -> Result<End, String> {
        let mut events = pin!(events);
        let mut listed = BTreeSet::new();
        self.say();
        while !self.goals.is_empty() {
            match events.next().await {
                Some(Ok(event)) => self.meet(event, &mut listed),
                Some(Err(error)) => self.trouble(&error)?,
                None => return Err("the watch of the Instances ended".to_owned()),
            }
            self.say();
        }
        Ok(match self.has_failed {
            true => End::Failed,
            false => End::Done,
        })
    }

    fn meet(&mut self, event: Event<DeserializeGuard<Instance>>, listed: &mut BTreeSet<String>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                listed.insert(object.name_any());
                self.look(&object);
            }
            Event::Apply(object) => self.look(&object),
            Event::Delete(object) => self.judge(&object.name_any(), None),
            Event::InitDone => {
                let gone = self.goals.keys().filter(|name| !listed.contains(*name));
                let gone: Vec<String> = gone.cloned().collect();
                gone.iter().for_each(|name| self.judge(name, None));
            }
        }
    }

    fn look(&mut self, object: &DeserializeGuard<Instance>) {
        let name = object.name_any();
        match &object.0 {
            Ok(instance) => self.judge(&name, Some(instance)),
            Err(error) => {
                let words = format!("this version cannot read it: {}", error.error);
                self.last.insert(name, words);
            }
        }
    }

    fn judge(&mut self, name: &str, instance: Option<&Instance>) {
        let Some(goal) = self.goals.get(name) else {
            return;
        };
        let namespace = &self.cluster.namespace;
        match standing(instance, goal) {
            Standing::Waiting(words) => {
                self.last.insert(name.to_owned(), words);
                return;
            }
            Standing::Done(words) => self
                .progress
                .answer(&format!("{namespace}/{name}: {words}")),
            Standing::Failed(words) => {
                self.has_failed = true;
                self.progress.note(&format!("{namespace}/{name}: {words}"));
            }
        }
        self.goals.remove(name);
    }

    /// Handles an error of the watch. Waiting does not help a user who may not watch.
    fn trouble(&mut self, error: &watcher::Error) -> Result<(), String> {
        let code = match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code,
            _ => 0,
        };
        if matches!(code, 401 | 403) {
            return Err(format!(
                "{}: have yourself allowed to list and watch Instances in namespace {}",
                crate::chain(error),
                self.cluster.namespace
            ));
        }
        let words = format!("the cluster does not answer: {}", crate::chain(error));
        for name in self.goals.keys() {
            self.last.insert(name.clone(), words.clone());
        }
        Ok(())
    }

    /// Shows the progress on a terminal.
    fn say(&self) {
        self.progress.say(|| {
            let open = self.goals.len();
            let of = match self.count {
                1 => String::new(),
                count => format!("{} of {}: ", open, counted(count, "Instance")),
            };
            let first = self.goals.keys().next().cloned().unwrap_or_default();
            let words = self.last.get(&first);
            let words = words.map_or("asking the cluster", String::as_str);
            format!("waiting for {of}{first}: {words}")
        });
    }

    /// Reports the last known state of the unfinished ones.
    fn tell_the_rest(&self, end: &str) {
        for name in self.goals.keys() {
            let words = self.last.get(name);
            let words = words.map_or("the cluster has not answered", String::as_str);
            let namespace = &self.cluster.namespace;
            self.progress
                .note(&format!("{namespace}/{name}: {end}: {words}"));
        }
    }
}

/// The watched objects: a single one, or all of the namespace. A label selector would not do: an object that loses the label would
/// look deleted.
fn config(goals: &BTreeMap<String, Goal>) -> watcher::Config {
    let config = watcher::Config::default().timeout(WATCH_TIMEOUT_SECONDS);
    let mut names = goals.keys();
    match (names.next(), names.next()) {
        (Some(only), None) => config.fields(&format!("metadata.name={only}")),
        _ => config,
    }
}
