//! One watch: a task of its own with a backoff of its own. It gives a notice of a change after the store shows the change.
//!
//! The initial list comes as a stream, which the apiserver answers from memory. If the apiserver has no such streams (Kubernetes
//! 1.31 and 1.33 by default), or a stream ends early, the watch lists in pages. After the list, the watch of `kube` follows the
//! changes.
//!
//! Every failure of the connection is noticed, and a new watch starts at most ten seconds later:
//!
//! | what hangs | noticed after |
//! |---|---|
//! | opening a connection | 5 s |
//! | a request without an answer | 15 s |
//! | a silent stream | 25 s |
//! | a page of the initial list | 45 s |

pub use super::notice::{Change, Notice, ObjectKey};
use super::{Heartbeat, Metrics, Shard, times};
use crate::api::names::BINDING;
use backon::ExponentialBuilder;
use futures::{Stream, StreamExt};
use kube::api::ObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::ResetTimerBackoff;
use kube::runtime::watcher::{self, Event, ExponentialBackoff, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch as signal;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Whether the first initial list is in the store.
pub type Synced = signal::Receiver<bool>;

#[derive(Debug)]
pub struct Watch {
    /// Becomes true with the first complete list.
    pub synced: Synced,
    /// Ends when it is dropped.
    pub task: AbortOnDropHandle<()>,
}

/// Watches the objects of the shard's namespaces. The client of `api` is to be one of [`super::kubernetes::watching`].
///
/// `keep` receives each object that the watch shows, with key and UID, and None instead of the object once it is gone. `notify`
/// receives the notice of an event afterwards, and the notices of an initial list when the list is complete, so that an object is
/// in the store before anything looks it up. All events of an object share one allocation of its key. An error of this watch
/// delays this watch only.
pub fn spawn<K>(
    api: Api<K>,
    config: watcher::Config,
    shard: Shard,
    keep: impl FnMut(&ObjectKey, &Arc<str>, Option<&K>) + Send + 'static,
    metrics: Metrics,
    heartbeat: Heartbeat,
    notify: impl FnMut(Notice) + Send + 'static,
) -> Watch
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let (is_synced, synced) = signal::channel(false);
    let mut follower = Follower {
        shard,
        keep,
        known: Known::default(),
        is_synced,
        metrics,
        heartbeat,
        notify,
    };
    let follow = async move {
        let mut waits = waits();
        let mut start = InitialList::Stream;
        loop {
            let config = config.clone().timeout(times::WATCH_TIMEOUT_SECONDS);
            let config = match start {
                InitialList::Stream => config.streaming_lists(),
                InitialList::Pages => config,
            };
            let events = watcher(api.clone(), config).modify(|object| prune(object.meta_mut()));
            start = follower.follow(events, start).await;
            // A list in pages is another request and no repetition.
            if start == InitialList::Stream {
                sleep(waits.next().unwrap_or(times::WATCH_RETRY_MAX)).await;
            }
        }
    };
    let task = AbortOnDropHandle::new(tokio::spawn(follow));
    Watch { synced, task }
}

/// Removes the metadata that the operator does not read; annotations alone may be 256 KiB of an object.
fn prune(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(all) = &mut meta.annotations {
        all.retain(|name, _| name == BINDING);
    }
}

/// The waits after failures, with jitter: at most ten seconds.
fn waits() -> impl Iterator<Item = Duration> {
    let waits = ExponentialBuilder::default()
        .with_min_delay(times::WATCH_RETRY_FIRST)
        .with_max_delay(times::WATCH_RETRY_MAX)
        .with_jitter()
        .without_max_times();
    ResetTimerBackoff::<ExponentialBackoff>::new(waits.into(), times::WATCH_FAILURE_FORGOTTEN)
}

/// The reason that `kube` gives if the body of an error is no Status of an apiserver. The message is then the body.
const NO_STATUS: &str = "Failed to parse error data";

/// How apiservers without streaming lists refuse one. That is no error.
const STREAM_NOT_SUPPORTED: [u16; 2] = [400, 422];

/// How a watch gets its initial list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InitialList {
    Stream,
    Pages,
}

/// How far a watch has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Requested,
    Listing,
    Following,
}

/// The state that lasts from one watch to the next.
struct Follower<S, F> {
    shard: Shard,
    keep: S,
    known: Known,
    is_synced: signal::Sender<bool>,
    metrics: Metrics,
    heartbeat: Heartbeat,
    notify: F,
}

impl<S, F: FnMut(Notice)> Follower<S, F> {
    /// Follows a watch until it fails. Returns how the next one is to start: in pages only right after a stream that the apiserver
    /// refused or did not complete.
    ///
    /// A watch does not resume after an error: the apiserver may refuse its resourceVersion for ever, and after a restore of etcd
    /// that version lies in the future.
    async fn follow<K>(
        &mut self,
        events: impl Stream<Item = watcher::Result<Event<K>>>,
        start: InitialList,
    ) -> InitialList
    where
        K: Resource<DynamicType = ()>,
        S: FnMut(&ObjectKey, &Arc<str>, Option<&K>),
    {
        let mut events = pin!(events);
        let mut phase = Phase::Requested;
        let (refusal, error) = loop {
            let patience = match phase {
                Phase::Requested | Phase::Listing => times::LISTING_STUCK_AFTER,
                Phase::Following => Duration::MAX,
            };
            let event = timeout(patience, events.next()).await;
            self.heartbeat.beat();
            match event {
                // If a stream ends early, `kube` requests it again.
                Ok(Some(Ok(Event::Init))) if phase == Phase::Listing => {
                    break (None, "the initial list ended early".to_owned());
                }
                Ok(Some(Ok(event))) => {
                    phase = match event {
                        Event::Init | Event::InitApply(_) => Phase::Listing,
                        Event::InitDone | Event::Apply(_) | Event::Delete(_) => Phase::Following,
                    };
                    self.take(&event);
                }
                Ok(Some(Err(error))) => break (refusal(&error), brief(&error)),
                Ok(None) | Err(_) => break (None, "the initial list is stuck".to_owned()),
            }
        };
        let kind = K::kind(&());
        let is_cut_short = start == InitialList::Stream && phase != Phase::Following;
        let next = if is_cut_short && (phase == Phase::Listing || refusal.is_some()) {
            InitialList::Pages
        } else {
            InitialList::Stream
        };
        if next == InitialList::Pages
            && refusal.is_some_and(|code| STREAM_NOT_SUPPORTED.contains(&code))
        {
            tracing::info!(
                %kind,
                "streaming list not supported by the apiserver, falling back to pagination"
            );
        } else {
            self.metrics.watch_errors.count([&kind]);
            tracing::warn!(%kind, error, "watch failed, starting a new one");
        }
        next
    }

    fn take<K: Resource>(&mut self, event: &Event<K>)
    where
        S: FnMut(&ObjectKey, &Arc<str>, Option<&K>),
    {
        let about = self.known.identify(event);
        let is_about_one = !matches!(event, Event::Init | Event::InitDone);
        if is_about_one && !self.shard.owns(&about.key.namespace) {
            return;
        }
        if let Event::InitApply(object) | Event::Apply(object) = event {
            (self.keep)(&about.key, &about.uid, Some(object));
        }
        for notice in self.known.take(event, about) {
            // Another object may have the name by now.
            if notice.change == Change::Gone && !self.known.objects.contains_key(&notice.key) {
                (self.keep)(&notice.key, &notice.uid, None);
            }
            (self.notify)(notice);
        }
        if matches!(event, Event::InitDone) {
            self.is_synced.send_replace(true);
        }
    }
}

/// The status code with which the apiserver refused to start a watch.
fn refusal(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// The message of an error, without the body of an answer that is not from an apiserver: such a body could contain anything.
fn brief(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, WatchError, WatchStartFailed};
    match error {
        WatchError(status)
        | InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status)) => {
            let message = match status.reason == NO_STATUS {
                true => "no Status",
                false => &status.message,
            };
            format!("{message} ({})", status.code)
        }
        other => other.to_string(),
    }
}

/// The objects that the watch has shown, to find those that a later list lacks.
#[derive(Default)]
struct Known {
    /// UID of each object, and the number of the list that was the newest when a watch showed the object.
    objects: HashMap<ObjectKey, (Arc<str>, u64)>,
    /// Number of the newest initial list, complete or not.
    list: u64,
    /// Notices of the newest initial list, until it is complete.
    held: Vec<Notice>,
}

impl Known {
    /// The notice about the object of an event; an empty one if the event is about none. An object that is known already keeps its
    /// key.
    fn identify<K: Resource>(&self, event: &Event<K>) -> Notice {
        let mut notice = match event {
            Event::InitApply(object) => Notice::of(object.meta(), Change::Listed),
            Event::Apply(object) => Notice::of(object.meta(), Change::Applied),
            Event::Delete(object) => Notice::of(object.meta(), Change::Gone),
            Event::Init | Event::InitDone => Notice::of(&ObjectMeta::default(), Change::Gone),
        };
        if let Some((key, _)) = self.objects.get_key_value(&notice.key) {
            notice.key = key.clone();
        }
        notice
    }

    /// The notices that an event gives rise to.
    fn take<K>(&mut self, event: &Event<K>, notice: Notice) -> Vec<Notice> {
        match event {
            Event::Init => {
                self.list += 1;
                // The new list shows all others again.
                self.held.retain(|notice| notice.change == Change::Gone);
                Vec::new()
            }
            Event::InitApply(_) => {
                let notices = self.note(notice);
                self.held.extend(notices);
                Vec::new()
            }
            Event::InitDone => {
                let is_gone = |_: &ObjectKey, (_, list): &mut (_, u64)| *list != self.list;
                let gone = self.objects.extract_if(is_gone);
                let gone = gone.map(|(key, (uid, _))| Notice::gone(key, uid));
                gone.chain(self.held.drain(..)).collect()
            }
            Event::Apply(_) => self.note(notice).collect(),
            Event::Delete(_) => {
                self.objects.remove(&notice.key);
                vec![notice]
            }
        }
    }

    /// Remembers an object. If another object had its name, the first notice shows that one as gone: receivers go by the name.
    fn note(&mut self, notice: Notice) -> impl Iterator<Item = Notice> + use<> {
        let (key, uid) = (notice.key.clone(), notice.uid.clone());
        let former = self.objects.insert(key, (uid, self.list));
        let former = former.filter(|(uid, _)| *uid != notice.uid);
        let gone = former.map(|(uid, _)| Notice::gone(notice.key.clone(), uid));
        gone.into_iter().chain([notice])
    }
}

#[cfg(test)]
mod tests;
