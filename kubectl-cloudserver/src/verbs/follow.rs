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

/// Exit status if at least one Instance failed.
const FAILED: u8 = 2;
/// Exit status if the time limit was reached.
const TIMED_OUT: u8 = 3;
/// Exit status if the user interrupted the wait, as shells report it.
pub(super) const INTERRUPTED: u8 = 130;

/// The Instances that have not reached their goals.
struct Waiting<'a> {
    namespace: &'a str,
    progress: &'a Progress,
    /// By name: the goal, and the last known state.
    goals: BTreeMap<String, (Goal, String)>,
    /// Why the watch was interrupted. An Instance that does not change meanwhile has no event afterwards, so its state stays.
    interruption: Option<String>,
    count: usize,
    has_failed: bool,
}

/// Waits until each Instance reaches its goal or fails, at most for `timeout`. Returns the exit status.
///
/// # Errors
/// The user may not watch Instances, or the watch ended.
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
        namespace: &cluster.namespace,
        progress,
        count: goals.len(),
        has_failed: false,
        goals: goals.collect(),
        interruption: None,
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
    /// Waits until no goal is left. Returns the exit status.
    async fn all(
        &mut self,
        events: impl Stream<Item = watcher::Result<Event<DeserializeGuard<Instance>>>>,
    ) -> Result<u8, String> {
        let mut events = pin!(events);
        let mut listed = BTreeSet::new();
        self.show();
        while !self.goals.is_empty() {
            let event = events.next().await;
            self.interruption.take_if(|_| matches!(event, Some(Ok(_))));
            match event {
                Some(Ok(Event::Init)) => listed.clear(),
                Some(Ok(Event::InitApply(object))) => {
                    listed.insert(object.name_any());
                    self.update(&object.name_any(), Some(&object));
                }
                Some(Ok(Event::Apply(object))) => self.update(&object.name_any(), Some(&object)),
                Some(Ok(Event::Delete(object))) => self.update(&object.name_any(), None),
                Some(Ok(Event::InitDone)) => {
                    let gone = self.goals.keys().filter(|name| !listed.contains(*name));
                    for name in gone.cloned().collect::<Vec<_>>() {
                        self.update(&name, None);
                    }
                }
                Some(Err(error)) => self.watch_failed(&error)?,
                None => return Err("the watch of the Instances ended".to_owned()),
            }
            self.show();
        }
        Ok(if self.has_failed { FAILED } else { 0 })
    }

    fn update(&mut self, name: &str, object: Option<&DeserializeGuard<Instance>>) {
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
        let namespace = self.namespace;
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
    fn watch_failed(&mut self, error: &watcher::Error) -> Result<(), String> {
        let why = crate::chain(error);
        if let watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error
            && matches!(status.code, 401 | 403)
        {
            let namespace = self.namespace;
            return Err(format!(
                "{why}: renew your credential (401), or have yourself allowed to list and watch Instances in {namespace} (403)"
            ));
        }
        self.interruption = Some(why);
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
            format!("waiting for {of}{name}: {}", self.last_known(state))
        });
    }

    /// Reports each Instance that is not finished.
    fn note_unfinished(&self, end: &str) {
        for (name, (_, state)) in &self.goals {
            let state = self.last_known(state);
            self.progress
                .note(&format!("{}/{name}: {end}: {state}", self.namespace));
        }
    }

    fn last_known(&self, state: &str) -> String {
        match &self.interruption {
            None => state.to_owned(),
            Some(why) => format!("{state} (the cluster has not answered since: {why})"),
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

#[cfg(test)]
mod tests {
    use super::super::goal::Aim;
    use super::*;
    use futures::stream;
    use serde_json::json;

    #[tokio::test]
    async fn an_interruption_of_the_watch_leaves_the_last_known_state() {
        let object = json!({
            "apiVersion": "cloudserver.dev/v1alpha1",
            "kind": "Instance",
            "metadata": {"name": "web", "namespace": "team-a", "uid": "u1", "generation": 4},
            "spec": {
                "region": "r", "zone": "z", "package": {"code": "p"}, "image": {"id": "img-1"},
                "firewall": {"id": "fw"}, "login": {"sshKey": {"id": "key"}},
            },
        });
        let listed = || {
            Ok(Event::InitApply(
                serde_json::from_value(object.clone()).unwrap(),
            ))
        };
        let goal = Goal {
            uid: "u1".to_owned(),
            generation: 4,
            aim: Aim::Ready,
        };
        let progress = Progress::begin("waiting");
        let mut waiting = Waiting {
            namespace: "team-a",
            progress: &progress,
            goals: BTreeMap::from([("web".to_owned(), (goal, "unknown".to_owned()))]),
            interruption: None,
            count: 1,
            has_failed: false,
        };
        let mut shown = async |events: Vec<watcher::Result<_>>| {
            waiting.all(stream::iter(events)).await.unwrap_err(); // the watch ended
            waiting.last_known(&waiting.goals["web"].1)
        };
        let state = shown(vec![listed(), Ok(Event::InitDone)]).await;
        assert_ne!(state, "unknown");
        let interrupted = shown(vec![Err(watcher::Error::NoResourceVersion)]).await;
        let begin = format!("{state} (the cluster has not answered since: ");
        assert!(interrupted.starts_with(&begin), "{interrupted}");
        // Any event ends the interruption, also one of another Instance.
        assert_eq!(shown(vec![Ok(Event::Init), listed()]).await, state);
    }
}
