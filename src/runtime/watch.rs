//! One watch: its own task, its own backoff, and notices that come only after the store shows what they speak of.
//!
//! Whatever happens to the connection, it is noticed, and the watch is tried again at most ten seconds later:
//!
//! | what hangs | noticed after |
//! |---|---|
//! | opening a connection | 5 s |
//! | a request without an answer | 15 s |
//! | a stream that died without a word | 25 s |
//! | a page of a listing that does not come to its end | 45 s |

mod pacing;

use super::strings::shared;
use super::{Heartbeat, Metrics, Shard, times};
use futures::{Stream, StreamExt};
use kube::api::ObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use pacing::Pacing;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch as signal;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Which object. Cheap to clone: it stands in many maps, for each of ten thousand objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Arc<Named>);

/// What an [`ObjectKey`] says.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Named {
    /// Namespace; empty for an object of the cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// The key of the object of this name in this namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(Arc::new(Named {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }))
    }

    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::of_meta(object.meta())
    }

    /// The key of the object with this metadata.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        let [namespace, name] =
            [&meta.namespace, &meta.name].map(|part| part.as_deref().unwrap_or_default());
        Self::new(namespace, name)
    }
}

impl Deref for ObjectKey {
    type Target = Named;

    fn deref(&self) -> &Named {
        &self.0
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
    pub uid: Arc<str>,
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

/// What a watch is about.
pub struct Subject<K> {
    /// The objects. Its client is to be one of [`super::kubernetes::watching`].
    pub api: Api<K>,
    /// Which of them.
    pub config: watcher::Config,
    /// Those of other namespaces are passed over.
    pub shard: Shard,
    /// Drops what nobody reads before it is stored.
    pub prune: fn(&mut K),
}

/// Watches until cancelled.
///
/// `keep` takes each event in, with key and UID of its object, before `told` is told of it, and that of a listing when it is whole:
/// nobody looks an object up before it is there. Key and UID of an object are the same allocations from event to event. An error of
/// this watch delays this watch only.
pub fn spawn<K>(
    subject: Subject<K>,
    keep: impl FnMut(&Event<K>, &ObjectKey, &Arc<str>) + Send + 'static,
    metrics: Metrics,
    heartbeat: Heartbeat,
    told: impl FnMut(Notice) + Send + 'static,
    cancel: CancellationToken,
) -> Watch
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (is_synced, synced) = signal::channel(false);
    let mut follower = Follower {
        shard: subject.shard,
        keep,
        known: Known::default(),
        is_synced,
        metrics,
        heartbeat,
        told,
    };
    let task = tokio::spawn(async move {
        let mut pacing = Pacing::default();
        let follow = async {
            loop {
                let stream = watcher(
                    subject.api.clone(),
                    subject.config.clone().timeout(times::WATCH_TIMEOUT_SECONDS),
                );
                follower.follow(stream.modify(subject.prune)).await;
                sleep(pacing.fail()).await;
            }
        };
        tokio::select! {
            () = follow => {}
            () = cancel.cancelled() => {}
        }
    });
    Watch { synced, task }
}

/// What goes on when a watch begins anew.
struct Follower<S, F> {
    shard: Shard,
    keep: S,
    known: Known,
    is_synced: signal::Sender<bool>,
    metrics: Metrics,
    heartbeat: Heartbeat,
    told: F,
}

impl<S, F: FnMut(Notice)> Follower<S, F> {
    /// Follows a stream of events until a new one is needed, which begins with a listing.
    async fn follow<K>(&mut self, events: impl Stream<Item = watcher::Result<Event<K>>>)
    where
        K: Resource<DynamicType = ()>,
        S: FnMut(&Event<K>, &ObjectKey, &Arc<str>),
    {
        let kind = K::kind(&()).into_owned();
        let mut events = pin!(events.backoff(Pacing::default()));
        let mut is_listing = true;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sleep(times::LISTING_STUCK_AFTER), if is_listing => {
                    self.metrics.watch_error(&kind);
                    tracing::warn!(kind, "a listing got stuck, beginning anew");
                    return;
                }
            };
            self.heartbeat.beat();
            let Some(event) = event else { return };
            match event {
                Ok(event) => {
                    is_listing = match event {
                        Event::Init | Event::InitApply(_) => true,
                        Event::InitDone | Event::Apply(_) | Event::Delete(_) => false,
                    };
                    self.take(&event);
                }
                Err(error) => {
                    self.metrics.watch_error(&kind);
                    tracing::warn!(kind, error = %brief(&error), "watch failed, going on");
                    if is_lost(&error) {
                        return;
                    }
                }
            }
        }
    }

    fn take<K: Resource>(&mut self, event: &Event<K>)
    where
        S: FnMut(&Event<K>, &ObjectKey, &Arc<str>),
    {
        if is_elsewhere(event, self.shard) {
            return;
        }
        let identity = self.known.identify(event);
        (self.keep)(event, &identity.key, &identity.uid);
        for notice in self.known.take(event, identity) {
            (self.told)(notice);
        }
        if matches!(event, Event::InitDone) {
            self.is_synced.send_replace(true);
        }
    }
}

fn is_elsewhere<K: Resource>(event: &Event<K>, shard: Shard) -> bool {
    match event {
        Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => {
            let namespace = object.meta().namespace.as_deref();
            !shard.owns(namespace.unwrap_or_default())
        }
        Event::Init | Event::InitDone => false,
    }
}

/// Whether the version to go on from may not be had any more, or not be what it was: a server that refuses it in its answer
/// would be asked for it for ever, and after a restore of etcd it lies ahead, where nothing is told until the cluster has
/// counted that far. So whatever broke a watch, it begins anew with a listing; one that only ends, as each does after a
/// while, goes on where it was. A listing that failed begins anew by itself.
fn is_lost(error: &watcher::Error) -> bool {
    !matches!(error, watcher::Error::InitialListFailed(_))
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
    current: HashMap<ObjectKey, Arc<str>>,
    listing: Vec<Identity>,
}

/// Which object in which version; nothing of an event that is about none.
struct Identity {
    key: ObjectKey,
    uid: Arc<str>,
    version: String,
}

impl Known {
    /// The object of an event. What is known of it already is not made again.
    fn identify<K: Resource>(&self, event: &Event<K>) -> Identity {
        let nobody = ObjectMeta::default();
        let meta = match event {
            Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => {
                object.meta()
            }
            Event::Init | Event::InitDone => &nobody,
        };
        let fresh = ObjectKey::of_meta(meta);
        let uid = meta.uid.as_deref().unwrap_or_default();
        let (key, uid) = match self.current.get_key_value(&fresh) {
            Some((key, known)) if **known == *uid => (key.clone(), known.clone()),
            Some((key, _)) => (key.clone(), shared(uid)),
            None => (fresh, shared(uid)),
        };
        Identity {
            key,
            uid,
            version: meta.resource_version.clone().unwrap_or_default(),
        }
    }

    fn take<K: Resource>(&mut self, event: &Event<K>, identity: Identity) -> Vec<Notice> {
        match event {
            Event::Init => {
                self.listing.clear();
                Vec::new()
            }
            Event::InitApply(_) => {
                self.listing.push(identity);
                Vec::new()
            }
            Event::InitDone => self.swap(),
            Event::Apply(_) => {
                let Identity { key, uid, version } = identity;
                let former = self.current.insert(key.clone(), uid.clone());
                let former = former.filter(|former| *former != uid);
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
            Event::Delete(_) => {
                self.current.remove(&identity.key);
                vec![gone(identity.key, identity.uid)]
            }
        }
    }

    /// A listing is complete: what was known and is not in it is gone.
    fn swap(&mut self) -> Vec<Notice> {
        let mut before = std::mem::take(&mut self.current);
        let mut notices = Vec::new();
        for Identity { key, uid, version } in std::mem::take(&mut self.listing) {
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

fn gone(key: ObjectKey, uid: Arc<str>) -> Notice {
    Notice {
        key,
        uid,
        version: String::new(),
        change: Change::Gone,
    }
}

#[cfg(test)]
mod tests;
