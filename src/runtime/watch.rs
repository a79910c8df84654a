//! One watch: its own task, its own backoff, and notices that come only after the store shows what they speak of.

use super::Metrics;
use futures::StreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector::Lookup};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use tokio::sync::watch as signal;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace; empty for an object of the cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was there when a listing was read: it may be older than this process.
    Listed,
    /// It appeared or changed while we watched.
    Applied,
    /// It is gone, also when that was noticed only by the next listing, or by a namesake with another UID.
    Gone,
}

/// A change, told after the store shows it.
#[derive(Clone, Debug)]
pub struct Notice {
    /// Which object.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// Its resourceVersion; empty when it is gone.
    pub version: String,
    /// What became of it.
    pub change: Change,
}

/// Whether the first listing is in the store.
pub type Synced = signal::Receiver<bool>;

/// A watch that is running.
#[derive(Debug)]
pub struct Watch {
    /// Becomes true with the first complete listing.
    pub synced: Synced,
    /// Ends when the watch is cancelled.
    pub task: JoinHandle<()>,
}

/// Watches until cancelled.
///
/// Notices of a listing are told after the store was swapped, so that nobody looks a listed object up in the store
/// before. An error of this watch delays this watch only. `prune` drops what nobody reads before it is stored.
pub fn spawn<K>(
    api: Api<K>,
    config: watcher::Config,
    prune: impl Fn(&mut K) + Send + 'static,
    mut writer: Option<Writer<K>>,
    metrics: Metrics,
    mut told: impl FnMut(Notice) + Send + 'static,
    cancel: CancellationToken,
) -> Watch
where
    K: Resource<DynamicType = ()>
        + Lookup<DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (is_synced, synced) = signal::channel(false);
    let task = tokio::spawn(async move {
        let kind = <K as Resource>::kind(&()).into_owned();
        let mut known = Known::default();
        let stream = watcher(api, config.timeout(super::kubernetes::WATCH_SECONDS))
            .default_backoff()
            .modify(move |object| prune(object))
            .take_until(cancel.cancelled_owned());
        let mut stream = pin!(stream);
        while let Some(event) = stream.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    metrics.watch_error(&kind);
                    tracing::warn!(kind, error = %brief(&error), "watch failed, going on");
                    continue;
                }
            };
            if let Some(writer) = &mut writer {
                writer.apply_watcher_event(&event);
            }
            for notice in known.take(&event) {
                told(notice);
            }
            if matches!(event, Event::InitDone) {
                is_synced.send_replace(true);
            }
        }
    });
    Watch { synced, task }
}

/// Says what failed without the body of an answer, which could hold anything.
fn brief(error: &watcher::Error) -> String {
    match error {
        watcher::Error::WatchError(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

/// The objects of the latest listing and of the events since, to tell what a new listing lacks.
#[derive(Default)]
struct Known {
    current: HashMap<ObjectKey, String>,
    listing: Vec<(ObjectKey, String, String)>,
}

impl Known {
    fn take<K: Resource>(&mut self, event: &Event<K>) -> Vec<Notice> {
        match event {
            Event::Init => {
                self.listing.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listing.push(identity(object));
                Vec::new()
            }
            Event::InitDone => self.swap(),
            Event::Apply(object) => {
                let (key, uid, version) = identity(object);
                let former = self
                    .current
                    .insert(key.clone(), uid.clone())
                    .filter(|former| *former != uid);
                let mut notices: Vec<Notice> = former
                    .map(|former| gone(key.clone(), former))
                    .into_iter()
                    .collect();
                notices.push(Notice {
                    key,
                    uid,
                    version,
                    change: Change::Applied,
                });
                notices
            }
            Event::Delete(object) => {
                let (key, uid, _) = identity(object);
                self.current.remove(&key);
                vec![gone(key, uid)]
            }
        }
    }

    /// A listing is complete: what was known and is not in it is gone.
    fn swap(&mut self) -> Vec<Notice> {
        let mut before = std::mem::take(&mut self.current);
        let mut notices = Vec::new();
        for (key, uid, version) in std::mem::take(&mut self.listing) {
            if let Some(former) = before.remove(&key).filter(|former| *former != uid) {
                notices.push(gone(key.clone(), former));
            }
            self.current.insert(key.clone(), uid.clone());
            notices.push(Notice {
                key,
                uid,
                version,
                change: Change::Listed,
            });
        }
        notices.extend(before.into_iter().map(|(key, uid)| gone(key, uid)));
        notices
    }
}

fn identity<K: Resource>(object: &K) -> (ObjectKey, String, String) {
    let meta = object.meta();
    (
        ObjectKey::of(object),
        meta.uid.clone().unwrap_or_default(),
        meta.resource_version.clone().unwrap_or_default(),
    )
}

fn gone(key: ObjectKey, uid: String) -> Notice {
    Notice {
        key,
        uid,
        version: String::new(),
        change: Change::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    fn object(name: &str, uid: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.into()),
                uid: Some(uid.into()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn told(known: &mut Known, events: &[Event<ConfigMap>]) -> Vec<(String, String, Change)> {
        events
            .iter()
            .flat_map(|e| known.take(e))
            .map(|n| (n.key.name, n.uid, n.change))
            .collect()
    }

    #[test]
    fn a_listing_is_told_when_it_is_complete_and_tells_what_it_lacks() {
        let mut known = Known::default();
        let first = vec![
            Event::Init,
            Event::InitApply(object("a", "1")),
            Event::InitApply(object("b", "2")),
        ];
        assert!(
            told(&mut known, &first).is_empty(),
            "half a listing is not told"
        );
        assert_eq!(told(&mut known, &[Event::InitDone]).len(), 2);
        let again = vec![
            Event::Init,
            Event::InitApply(object("b", "2")),
            Event::InitDone,
        ];
        let notices = told(&mut known, &again);
        assert!(
            notices.contains(&("a".into(), "1".into(), Change::Gone)),
            "{notices:?}"
        );
        assert!(
            notices.contains(&("b".into(), "2".into(), Change::Listed)),
            "{notices:?}"
        );
    }

    #[test]
    fn a_namesake_with_another_uid_means_that_the_former_is_gone() {
        let mut known = Known::default();
        told(&mut known, &[Event::Apply(object("a", "1"))]);
        let notices = told(&mut known, &[Event::Apply(object("a", "2"))]);
        assert_eq!(
            notices,
            [
                ("a".into(), "1".into(), Change::Gone),
                ("a".into(), "2".into(), Change::Applied)
            ]
        );
    }
}
