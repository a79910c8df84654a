//! Records the versions of an Instance, and when the write of each one arrived, by the apiserver's own clock.

use super::change::Mark;
use super::cluster::Shared;
use super::objects::{condition, outline, reason};
use super::wait::eventually;
use super::world::World;
use cloud_server_operator::api::Instance;
use devcluster::audit::Entry;
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use kube::runtime::{WatchStreamExt, watcher};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// A version, and when the watch delivered it.
#[derive(Clone)]
pub struct Seen {
    pub at: Timestamp,
    pub instance: Instance,
}

/// The arrival times at the apiserver of a user's edit and of the operator's first reaction to it.
pub struct Answer {
    pub requested_at: Timestamp,
    pub at: Timestamp,
    pub reason: String,
}

impl Answer {
    /// How long the user waited.
    pub fn late(&self) -> SignedDuration {
        self.at.duration_since(self.requested_at)
    }
}

/// Follows an Instance.
pub struct Follower {
    name: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    /// Follows an existing Instance from here on.
    pub async fn of(world: &World, name: &str) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let (api, versions) = (world.instances(), seen.clone());
        let task = tokio::spawn(async move {
            let stream = watcher(api, config).default_backoff();
            let mut shown = pin!(stream.applied_objects());
            while let Some(shown) = shown.next().await {
                let at = Timestamp::now();
                if let Ok(instance) = shown {
                    versions.lock().unwrap().push(Seen { at, instance });
                }
            }
        });
        let name = name.to_owned();
        let follower = Self { name, seen, task };
        eventually("it is followed", async || match follower.versions().len() {
            0 => Err(follower.name.clone()),
            _ => Ok(()),
        })
        .await;
        follower
    }

    /// Every version so far.
    pub fn versions(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until status refers to the edit that made this generation; that status must not report the edit as done already.
    pub async fn answered(&self, world: &World, since: &Mark, generation: i64) -> Answer {
        let requested_at = self.requested_at(world, since).await;
        let first = |now: &Instance| observed(now) >= Some(generation);
        let what = format!("generation {generation} is answered");
        let (shown, at) = self
            .first(world, requested_at, generation, (&what, &first), false)
            .await;
        let ready = condition(&shown, "Ready").map(|ready| ready.status.as_str());
        assert_ne!(ready, Some("True"), "not done: {}", outline(&shown));
        let reason = reason(&shown).to_owned();
        Answer {
            requested_at,
            at,
            reason,
        }
    }

    /// Waits until status reports that this generation is Ready; returns when that write arrived.
    pub async fn done(&self, world: &World, since: &Mark, generation: i64) -> Timestamp {
        let requested_at = self.requested_at(world, since).await;
        let ready = |now: &Instance| {
            let ready = condition(now, "Ready").is_some_and(|ready| ready.status == "True");
            ready && observed(now) >= Some(generation)
        };
        let what = format!("generation {generation} is Ready");
        self.first(world, requested_at, generation, (&what, &ready), true)
            .await
            .1
    }

    /// The arrival time of the user's first write since then.
    async fn requested_at(&self, world: &World, since: &Mark) -> Timestamp {
        eventually("the user's write is in the audit log", async || {
            let writes = world.others_writes(&self.name).await.into_iter();
            let writes = writes.map(|write| write.received_at);
            let requested_at = writes.filter(|at| *at >= since.at).min();
            requested_at.ok_or_else(|| self.name.clone())
        })
        .await
    }

    /// Waits for the first version since an edit for which a condition holds, and returns when its write arrived.
    ///
    /// Only their order connects the lines of the log with the versions: the nth change of status is the nth write, which
    /// arrived before the watch delivered its result. If more writes arrived before, one of them may have changed nothing, and
    /// the last one of all is taken: the error, if any, makes the answer later.
    async fn first(
        &self,
        world: &World,
        requested_at: Timestamp,
        generation: i64,
        (what, holds): (&str, &dyn Fn(&Instance) -> bool),
        is_last: bool,
    ) -> (Instance, Timestamp) {
        let (nth, seen) = eventually(what, async || {
            let last = || self.versions().last().map(|seen| outline(&seen.instance));
            self.nth(generation, holds)
                .ok_or_else(|| last().unwrap_or_default())
        })
        .await;
        let at = eventually("its write is in the audit log", async || {
            let mut writes = world.status_writes(&self.name, requested_at).await;
            writes.retain(|write| write.received_at <= seen.at);
            let write = match is_last {
                true => writes.last(),
                false => writes.get(nth.saturating_sub(1)),
            };
            let write = write.filter(|_| writes.len() >= nth);
            write
                .map(|write| write.received_at)
                .ok_or_else(|| format!("{} of {nth}: {writes:#?}", writes.len()))
        })
        .await;
        (seen.instance, at)
    }

    /// The first version of this generation or a later one for which `holds` is true, and the number of status changes up to
    /// then.
    fn nth(&self, generation: i64, holds: &dyn Fn(&Instance) -> bool) -> Option<(usize, Seen)> {
        let versions = self.versions();
        let mut changes = 0;
        for (nth, seen) in versions.iter().enumerate() {
            if seen.instance.metadata.generation < Some(generation) {
                continue;
            }
            // The status of the first version was written before this began to follow.
            let before = &versions[nth.saturating_sub(1)].instance.status;
            changes += usize::from(*before != seen.instance.status);
            if holds(&seen.instance) {
                return Some((changes, seen.clone()));
            }
        }
        None
    }
}

fn observed(instance: &Instance) -> Option<i64> {
    let status = instance.status.as_ref();
    status.map(|status| status.observed_generation)
}

impl World {
    /// The operator's successful writes of an Instance's status since then, in order.
    async fn status_writes(&self, name: &str, since: Timestamp) -> Vec<Entry> {
        let path = self.shared.cluster.audit_log_path().to_owned();
        let namespace = self.namespace.clone();
        let read = tokio::task::spawn_blocking(move || {
            devcluster::audit::read_namespace(&path, &namespace)
        });
        let mut writes = read.await.unwrap().unwrap();
        writes.retain(|write| {
            write.user == Shared::USER
                && write.namespace == self.namespace
                && (write.name.as_str(), write.subresource.as_str()) == (name, "status")
                && write.is_write()
                && !(400..500).contains(&write.code)
                && write.received_at >= since
        });
        writes.sort_by_key(|write| write.received_at);
        writes
    }
}

/// Prints the figures, and asserts that their median keeps the bound. Many tests share the machine: a single figure may be late
/// by the slack.
pub fn within(
    what: &str,
    figures: &[SignedDuration],
    bound: SignedDuration,
    slack: SignedDuration,
) {
    let mut sorted = figures.to_vec();
    sorted.sort();
    let (middle, worst) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    println!(
        "BOUND {what}: {middle:#} in the middle, {worst:#} at most, may be {bound:#}; {sorted:?}"
    );
    assert!(middle <= bound, "{what}: {sorted:?}, may be {bound:#}");
    assert!(
        worst <= bound + slack,
        "{what}: {sorted:?}, may be {bound:#}"
    );
}
