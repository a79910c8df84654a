//! One watch: its own task, its own backoff, and notices that come only after the store shows what they speak of.
//!
//! It begins with what there is: as a stream, which the apiserver has in memory, and if that comes to nothing, in pages, for which
//! it mostly has to ask etcd, and decode (Kubernetes 1.31 and 1.33 have no streams unless they are told to).
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

use super::shown::{Shown, Watched};
use super::strings::shared;
use super::{Heartbeat, Metrics, Shard, times};
use crate::api::names::{SECRET_MARKER, SECRET_ROLE};
use futures::{Stream, StreamExt};
use kube::api::ObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use pacing::Pacing;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
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
    pub key: ObjectKey,
    pub uid: Arc<str>,
    /// Its resourceVersion; empty when it is gone.
    pub version: String,
    /// Its generation, unless it is gone.
    pub generation: Option<i64>,
    /// What people write of it, as a digest: spec, labels, and that it is deleted.
    pub written: u64,
    /// Whether it is a Secret that an older version of the operator wrote, without the label [`SECRET_MARKER`].
    pub lacks_marker: bool,
    /// What became of it.
    pub change: Change,
}

impl Notice {
    /// What became of the object with this metadata.
    pub fn of(meta: &ObjectMeta, change: Change) -> Self {
        let (key, uid) = (
            ObjectKey::of_meta(meta),
            shared(meta.uid.as_deref().unwrap_or_default()),
        );
        if change == Change::Gone {
            return Self::gone(key, uid);
        }
        let mut written = DefaultHasher::new();
        meta.uid.hash(&mut written);
        meta.generation.hash(&mut written);
        meta.deletion_timestamp.is_some().hash(&mut written);
        meta.labels.hash(&mut written);
        let has = |label: &str| {
            meta.labels
                .as_ref()
                .is_some_and(|it| it.contains_key(label))
        };
        Self {
            key,
            uid,
            version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation,
            written: written.finish(),
            lacks_marker: has(SECRET_ROLE) && !has(SECRET_MARKER),
            change,
        }
    }

    fn gone(key: ObjectKey, uid: Arc<str>) -> Self {
        Self {
            key,
            uid,
            version: String::new(),
            generation: None,
            written: 0,
            lacks_marker: false,
            change: Change::Gone,
        }
    }
}

/// Whether the first listing is in the store.
pub type Synced = signal::Receiver<bool>;

#[derive(Debug)]
pub struct Watch {
    /// Becomes true with the first complete listing.
    pub synced: Synced,
    /// Ends when the watch is cancelled.
    pub task: JoinHandle<()>,
}

/// What a watch is about.
pub struct Subject<K: Watched> {
    /// The objects. Its client is to be one of [`super::kubernetes::watching`].
    pub api: Api<Shown<K>>,
    pub config: watcher::Config,
    /// Those of other namespaces are passed over.
    pub shard: Shard,
}

/// Watches until cancelled.
///
/// `keep` takes each event in, with key and UID of its object, before `told` is told of it, and that of a listing when it is whole:
/// nobody looks an object up before it is there. Key and UID of an object are the same allocations from event to event. An error of
/// this watch delays this watch only.
pub fn spawn<K>(
    subject: Subject<K>,
    keep: impl FnMut(&Event<Shown<K>>, &ObjectKey, &Arc<str>) + Send + 'static,
    metrics: Metrics,
    heartbeat: Heartbeat,
    told: impl FnMut(Notice) + Send + 'static,
    cancel: CancellationToken,
) -> Watch
where
    K: Watched,
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
        let mut begin = Begin::Stream;
        let follow = async {
            loop {
                let config = subject.config.clone().timeout(times::WATCH_TIMEOUT_SECONDS);
                let config = match begin {
                    Begin::Stream => config.streaming_lists(),
                    Begin::Pages => config,
                };
                let stream = watcher(subject.api.clone(), config);
                let next = follower.follow(stream, begin).await;
                // Pages in the place of a stream are another request, and no repeat.
                if (begin, next) != (Begin::Stream, Begin::Pages) {
                    sleep(pacing.fail()).await;
                }
                begin = next;
            }
        };
        tokio::select! {
            () = follow => {}
            () = cancel.cancelled() => {}
        }
    });
    Watch { synced, task }
}

/// What `kube` says of an error whose body is no Status of an apiserver. It takes that for the message.
const NO_STATUS: &str = "Failed to parse error data";

/// How apiservers without streams of what there is refuse one. They are many, and that is no error.
const NO_STREAMS: [u16; 2] = [400, 422];

/// How a watch begins with what there is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    Stream,
    Pages,
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
    /// Follows a stream of events until a new one is needed, and says how that is to begin.
    async fn follow<K>(
        &mut self,
        events: impl Stream<Item = watcher::Result<Event<K>>>,
        begin: Begin,
    ) -> Begin
    where
        K: Resource<DynamicType = ()>,
        S: FnMut(&Event<K>, &ObjectKey, &Arc<str>),
    {
        let kind = K::kind(&()).into_owned();
        let mut events = pin!(events);
        let mut is_listing = true;
        // Whatever comes of pages, a stream is tried after them.
        let mut next = Begin::Stream;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sleep(times::LISTING_STUCK_AFTER), if is_listing => {
                    self.metrics.watch_error(&kind);
                    tracing::warn!(kind, "a listing got stuck, beginning anew");
                    return next;
                }
            };
            self.heartbeat.beat();
            let Some(event) = event else {
                return next;
            };
            match event {
                // The library begins anew by itself where a stream has ended before it had told all.
                Ok(Event::Init) if next == Begin::Pages => {
                    self.metrics.watch_error(&kind);
                    tracing::warn!(
                        kind,
                        "a stream of what there is ended too soon, asking for pages"
                    );
                    return next;
                }
                Ok(event) => {
                    is_listing = match event {
                        Event::Init | Event::InitApply(_) => true,
                        Event::InitDone | Event::Apply(_) | Event::Delete(_) => false,
                    };
                    next = match (begin, is_listing) {
                        (Begin::Stream, true) => Begin::Pages,
                        (Begin::Pages, _) | (_, false) => Begin::Stream,
                    };
                    self.take(&event);
                }
                // Not from the version that it had: a server may refuse it for ever, and after a restore of etcd it lies ahead,
                // where nothing is told until the cluster has counted that far.
                Err(error) => {
                    let refusal = match &error {
                        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
                            Some(status.code)
                        }
                        _ => None,
                    };
                    let refusal = refusal.filter(|_| begin == Begin::Stream && is_listing);
                    if refusal.is_some_and(|code| NO_STREAMS.contains(&code)) {
                        tracing::info!(kind, "no stream of what there is, asking for pages");
                    } else {
                        self.metrics.watch_error(&kind);
                        tracing::warn!(kind, error = %brief(&error), "watch failed, beginning anew");
                    }
                    return refusal.map_or(next, |_| Begin::Pages);
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
        let about = self.known.identify(event);
        (self.keep)(event, &about.key, &about.uid);
        for notice in self.known.take(event, about) {
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

/// Says what failed without the body of an answer that is none of an apiserver's, which could hold anything.
fn brief(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, WatchError, WatchStartFailed};
    match error {
        WatchError(status)
        | InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status)) => {
            let is_foreign = status.reason == NO_STATUS;
            let message = if is_foreign {
                "no Status"
            } else {
                &status.message
            };
            format!("{message} ({})", status.code)
        }
        other => other.to_string(),
    }
}

/// The objects of the latest listing and of the events since, to tell what a new listing lacks.
#[derive(Default)]
struct Known {
    current: HashMap<ObjectKey, Arc<str>>,
    listing: Vec<Notice>,
    /// What listings showed that did not come to their end, by UID.
    interrupted: HashMap<Arc<str>, ObjectKey>,
}

impl Known {
    /// The object of an event; nobody, where it is about none. Its key is the one that is known already, where
    /// it is.
    fn identify<K: Resource>(&self, event: &Event<K>) -> Notice {
        let nobody = ObjectMeta::default();
        let (meta, change) = match event {
            Event::InitApply(object) => (object.meta(), Change::Listed),
            Event::Apply(object) => (object.meta(), Change::Applied),
            Event::Delete(object) => (object.meta(), Change::Gone),
            Event::Init | Event::InitDone => (&nobody, Change::Gone),
        };
        let mut notice = Notice::of(meta, change);
        if let Some((key, _)) = self.current.get_key_value(&notice.key) {
            notice.key = key.clone();
        }
        notice
    }

    fn take<K: Resource>(&mut self, event: &Event<K>, notice: Notice) -> Vec<Notice> {
        match event {
            Event::Init => {
                let shown = self.listing.drain(..);
                self.interrupted
                    .extend(shown.map(|notice| (notice.uid, notice.key)));
                Vec::new()
            }
            Event::InitApply(_) => {
                self.listing.push(notice);
                Vec::new()
            }
            Event::InitDone => self.swap(),
            Event::Apply(_) => {
                let (key, uid) = (notice.key.clone(), notice.uid.clone());
                let former = self.current.insert(key, uid);
                let former = namesake(former, &notice);
                former.into_iter().chain([notice]).collect()
            }
            Event::Delete(_) => {
                self.current.remove(&notice.key);
                vec![notice]
            }
        }
    }

    /// A listing is complete: what was known, or shown, and is not in it is gone.
    fn swap(&mut self) -> Vec<Notice> {
        let listing = std::mem::take(&mut self.listing);
        let mut before = std::mem::take(&mut self.current);
        let mut interrupted = std::mem::take(&mut self.interrupted);
        interrupted.retain(|uid, key| before.get(key) != Some(uid));
        for listed in &listing {
            interrupted.remove(&listed.uid);
        }
        // First: the listing may show a namesake, and who hears of them goes by the name.
        let interrupted = interrupted.into_iter();
        let mut notices: Vec<_> = interrupted
            .map(|(uid, key)| Notice::gone(key, uid))
            .collect();
        for listed in listing {
            let former = before.remove(&listed.key);
            notices.extend(namesake(former, &listed));
            self.current.insert(listed.key.clone(), listed.uid.clone());
            notices.push(listed);
        }
        notices.extend(before.into_iter().map(|(key, uid)| Notice::gone(key, uid)));
        notices
    }
}

/// The object that had the name of another one before is gone.
fn namesake(former: Option<Arc<str>>, now: &Notice) -> Option<Notice> {
    let former = former.filter(|former| *former != now.uid)?;
    Some(Notice::gone(now.key.clone(), former))
}

#[cfg(test)]
mod tests;
