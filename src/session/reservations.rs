//! The reservations of each Account: its Instances that have a server or are about to have one. They are checked against the
//! limits of the Account, and they show which Instance owns a server.
//!
//! Two sources feed them: the watch of all Instances, so that a restart loses nothing, and the intents that reconciles of this
//! process are about to write, so that two of them do not use the same free capacity. An Instance with a record keeps its
//! reservation until the object is gone, even while the service refuses its create, because the next attempt may succeed. The
//! intents of another process are unknown here; the Lease makes sure that only one process acts on the namespaces of a shard.

mod entries;
mod kinds;
mod places;
mod queue;

use crate::api::names::BINDING;
use crate::api::{Instance, Marker, PurchaseRecord, Speaks};
use crate::cloud::ServerId;
use crate::inventory::Subject;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DeserializeGuard;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

use entries::{Entries, Entry, Recorded, Taken};
use queue::Queue;

pub use kinds::{Backing, Claim, Limit, Most, Reservation, Rival, Say, Usage};

/// The period over which creates are counted.
const MINUTE: Duration = Duration::from_secs(60);
/// The reservations of a process; cheap to clone.
#[derive(Clone)]
pub struct Reservations(Arc<Inner>);

struct Inner {
    cluster: String,
    wake: Box<dyn Fn(Subject) + Send + Sync>,
    left: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The Instances of every namespace were listed.
    is_whole: bool,
    entries: Entries,
    /// The Instances that wait for a reservation, by Account.
    waiting: HashMap<ObjectKey, Queue>,
    /// The Account in which the running reconcile of an Instance requested a reservation.
    asked: HashMap<Subject, ObjectKey>,
    /// The recent purchases of each Account.
    creates: HashMap<ObjectKey, VecDeque<(Instant, Subject)>>,
    /// The purchase that the running reconcile of an Instance counted.
    counted: HashMap<Subject, Instant>,
}

impl Reservations {
    /// Empty reservations. `wake` is called with the UID of an Instance that may get a reservation now.
    pub fn new(cluster: String, wake: impl Fn(Subject) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            cluster,
            wake: Box::new(wake),
            left: Notify::new(),
            state: Mutex::default(),
        }))
    }

    /// Takes in an Instance that was listed.
    pub fn enrol(&self, object: &DeserializeGuard<Instance>) {
        let meta = object.meta();
        let uid = meta.uid.as_deref().unwrap_or_default().into();
        self.shown(&ObjectKey::of_meta(meta), &uid, object);
    }

    /// A watch shows an Instance. Of an object that does not decode, the record counts all the same.
    pub fn shown(&self, key: &ObjectKey, uid: &Subject, object: &DeserializeGuard<Instance>) {
        let instance = object.0.as_ref().ok();
        let account = instance.map(|instance| instance.spec.account_ref.name.as_str());
        let status = instance.and_then(|instance| instance.status.as_ref());
        let id = status.and_then(|status| status.id.as_deref());
        self.note((key.clone(), uid.clone()), object.meta(), account, id);
    }

    /// The same from the parts of an object: its metadata, the Account of its spec, and the server of its status.
    fn note(
        &self,
        (key, subject): (ObjectKey, Subject),
        meta: &ObjectMeta,
        account: Option<&str>,
        status_id: Option<&str>,
    ) {
        let uid = &*subject;
        let text = meta.annotations.as_ref().and_then(|all| all.get(BINDING));
        let record = text
            .and_then(|text| PurchaseRecord::parse(text).ok())
            .filter(|record| {
                let speaks = record.speaks_for(&self.0.cluster, &key.namespace, &key.name, uid);
                speaks != Speaks::Other
            });
        let created = meta.creation_timestamp.as_ref();
        let created = created.map_or(i64::MAX, |created| created.0.as_second());
        let marker = record
            .as_ref()
            .map_or_else(|| Marker::of_uid(uid), |record| record.marker.clone());
        let recorded = match record {
            Some(record) => Some(Recorded {
                id: record.id.as_deref().or(status_id).map(ServerId::from),
                is_imported: record.imported.is_some(),
                account: shared(&record.account),
                credential: Some(shared(&record.credential)),
            }),
            // The record was lost, but status still names the server.
            None => status_id.zip(account).map(|(id, account)| Recorded {
                account: shared(account),
                credential: None,
                id: Some(ServerId::from(id)),
                is_imported: false,
            }),
        };
        let woken = {
            let mut state = self.lock();
            let former = state.entries.remove(&subject);
            let before = former.as_ref().map(Entry::accounts).unwrap_or_default();
            // An older version of the object does not end a reservation of this process.
            let taken = former.and_then(|former| former.taken);
            let taken = taken.filter(|taken| !taken.is_in(recorded.as_ref()));
            let entry = Entry {
                key,
                created,
                marker,
                recorded,
                taken,
            };
            let now = entry.accounts();
            state.entries.insert(subject, entry);
            state.freed(before.iter().filter(|account| !now.contains(account)))
        };
        self.wake(woken);
    }

    pub fn gone(&self, uid: &str) {
        let woken = {
            let mut state = self.lock();
            let mut woken = state.give_up(uid, None);
            let former = state.entries.remove(uid);
            let accounts = former.as_ref().map(Entry::accounts).unwrap_or_default();
            woken.extend(state.freed(accounts.iter()));
            woken
        };
        self.wake(woken);
        self.0.left.notify_one();
    }

    /// An Instance of another shard is gone. No Instance here waits for its reservation, and no Account here was kept for it.
    pub fn gone_elsewhere(&self, uid: &str) {
        self.lock().entries.remove(uid);
    }

    /// Requests a reservation for an Instance whose server could be bought now. The reservation lasts for this reconcile, and
    /// permanently once the record is announced. An Instance that has one keeps it. If the limit drops below the number of
    /// reservations, Instances with a server come first, then the order of UIDs decides, so that each Instance waits only for
    /// those before it.
    ///
    /// Instances without a reservation are served in the order of their creation.
    pub fn take(&self, uid: &str, account: &ObjectKey, most: Most, now: Instant) -> Reservation {
        let subject = shared(uid);
        let mut state = self.lock();
        let room = state.take(&subject, account, most, now);
        let limit = match room {
            Reservation::Full(_) => Some(Limit::Instances),
            Reservation::TooFast { .. } => Some(Limit::Creates),
            Reservation::Taken | Reservation::NotAsked => None,
        };
        let stands = state.stands(&subject);
        // An object that was deleted while its reconcile ran must not stay in the queue and block others for good.
        let is_there = state.entries.get(&subject).is_some();
        let queue = state.waiting.entry(account.clone()).or_default();
        match limit.filter(|_| is_there) {
            Some(limit) => queue.join(stands, limit),
            None => drop(queue.leave(uid)),
        }
        state.asked.insert(subject, account.clone());
        room
    }

    /// The use of an Account's limits, and the Instances that wait, in order.
    pub fn used(&self, account: &ObjectKey, now: Instant) -> Usage {
        let state = self.lock();
        let creates = state.creates.get(account).into_iter().flatten();
        let queue = state.waiting.get(account);
        let waiting = queue.into_iter().flat_map(Queue::iter);
        let named = |(subject, limit): (&Subject, _)| {
            let entry = state.entries.get(subject)?;
            Some((entry.key.name.clone(), limit))
        };
        Usage {
            instances: state.entries.count(account),
            creates: creates.filter(|(at, _)| now < *at + MINUTE).count(),
            waiting: waiting.filter_map(named).collect(),
        }
    }

    /// Claims a server for adoption or import. The claim fails if another Instance has the server on record, is about to take it,
    /// or owns the marker in its name. Claims of other Instances count only with `backing`. A claim has the lifetime of
    /// a reservation. The limits of the Account do not apply, since they are for purchases.
    pub fn claim(
        &self,
        uid: &str,
        account: &ObjectKey,
        id: &ServerId,
        marker: Option<&Marker>,
        backing: impl Fn(&Say<'_>) -> Backing,
    ) -> Claim {
        let mut state = self.lock();
        if !state.is_whole {
            return Claim::NotYet;
        }
        let is_other = |(other, _): &(&Subject, &Entry)| ***other != *uid;
        // A marker is derived from a UID, which users cannot choose, so it needs no backing.
        let bearing = marker.and_then(|marker| state.entries.of_marker(marker).find(is_other));
        if let Some((_, entry)) = bearing {
            return Claim::Owned(entry.key.clone());
        }
        let backing = |say: &Say<'_>| match backing(say) {
            Backing::OtherShard => Backing::Known,
            other => other,
        };
        match judged(state.entries.of_id(id).filter(is_other), id, backing) {
            Rival::None => {}
            Rival::NotYet => return Claim::NotYet,
            Rival::Of(owner) => return Claim::Owned(owner),
        }
        let taken = Taken {
            account: shared(&account.name),
            id: Some(id.clone()),
            is_announced: false,
        };
        state.entries.take(uid, Some(Box::new(taken)));
        Claim::Taken
    }

    /// The Instance that has a server on record or owns the marker in its name.
    pub fn owner(&self, id: &ServerId, marker: Option<&Marker>) -> Option<ObjectKey> {
        let state = self.lock();
        let bearing = marker
            .into_iter()
            .flat_map(|marker| state.entries.of_marker(marker));
        let owner = state
            .entries
            .of_id(id)
            .chain(bearing)
            .min_by_key(|(subject, _)| *subject);
        owner.map(|(_, entry)| entry.key.clone())
    }

    /// The Instances of every namespace were listed: from now on a server that is on no record has no owner.
    pub fn is_whole(&self) {
        self.lock().is_whole = true;
    }

    /// The Instance with the better right to a server that this Instance has on record: one that bought it, or else, of two that
    /// imported it, the one whose UID sorts first. Two owners can come from two processes that acted at the same instant, or from
    /// edited records.
    pub fn rival(&self, uid: &str, id: &ServerId, backing: impl Fn(&Say<'_>) -> Backing) -> Rival {
        let state = self.lock();
        let better = |(other, entry): &(&Subject, &Entry)| {
            let recorded = entry.recorded.as_ref();
            // An entry without a credential comes from status alone: its record was lost, and another Instance may have imported
            // the server since.
            let is_better = |recorded: &Recorded| {
                recorded.credential.is_some() && (!recorded.is_imported || ***other < *uid)
            };
            ***other != *uid && recorded.is_some_and(is_better)
        };
        judged(state.entries.of_id(id).filter(better), id, backing)
    }

    /// A reconcile of an Instance begins, with an object that is not older than this process's last write. Dropping the returned
    /// guard returns the reservation unless it was announced, and the count of the purchase unless one may have been made. It
    /// does so even if the reconcile panicked.
    pub fn reconcile(&self, uid: &str) -> ReconcileGuard {
        let subject = shared(uid);
        let mut state = self.lock();
        state.counted.remove(&subject);
        state.asked.remove(&subject);
        state.entries.announce(&subject, false);
        drop(state);
        ReconcileGuard {
            reservations: self.clone(),
            subject,
            buys: false,
        }
    }

    /// Called with `true` when the write of a create's record begins: from then on the reservation is permanent. Called with
    /// `false` if the record is known not to be written.
    pub fn announce(&self, uid: &str, is_announced: bool) {
        self.lock().entries.announce(uid, is_announced);
    }

    /// Whether an Instance needs this Account to release a server, or to find out whether it has one.
    pub fn needs(&self, account: &ObjectKey) -> bool {
        self.lock().entries.count(account) > 0
    }

    /// Whether an Instance has this server on record or owns the marker in its name.
    pub fn owns(&self, id: &ServerId, marker: Option<&Marker>) -> bool {
        self.owner(id, marker).is_some()
    }

    /// Resolves when an Instance is gone.
    pub async fn left(&self) {
        self.0.left.notified().await;
    }

    fn end(&self, subject: &Subject, buys: bool) {
        let woken = {
            let mut state = self.lock();
            let entry = state.entries.get(subject);
            let is_unused = entry
                .and_then(|entry| entry.taken.as_ref())
                .is_some_and(|taken| !taken.is_announced);
            let mut before = Vec::new();
            if is_unused {
                let accounts = |state: &State| state.entries.get(subject).map(Entry::accounts);
                before = accounts(&state).unwrap_or_default();
                state.entries.take(subject, None);
                let now = accounts(&state).unwrap_or_default();
                before.retain(|account| !now.contains(account));
            }
            let counted = state.counted.remove(subject).filter(|_| !buys);
            if let Some(counted) = counted {
                for creates in state.creates.values_mut() {
                    creates.retain(|(at, other)| *at != counted || other != subject);
                }
            }
            let asked = state.asked.remove(subject);
            let mut woken = state.give_up(subject, asked.as_ref());
            woken.extend(state.freed(before.iter()));
            woken
        };
        self.wake(woken);
    }

    fn wake(&self, woken: BTreeSet<Subject>) {
        woken.into_iter().for_each(&*self.0.wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Judges which claim to the server counts.
fn judged<'a>(
    entries: impl Iterator<Item = (&'a Subject, &'a Entry)>,
    id: &ServerId,
    backing: impl Fn(&Say<'_>) -> Backing,
) -> Rival {
    let mut judged = Rival::None;
    for (_, entry) in entries {
        match entry.says_of(id).as_ref().map(&backing) {
            Some(Backing::Known) => return Rival::Of(entry.key.clone()),
            Some(Backing::NotYet) => judged = Rival::NotYet,
            Some(Backing::Lacking | Backing::OtherShard) | None => {}
        }
    }
    judged
}

/// One reconcile: see [`Reservations::reconcile`].
#[must_use]
pub struct ReconcileGuard {
    reservations: Reservations,
    subject: Subject,
    buys: bool,
}

impl ReconcileGuard {
    /// Whether the reconcile may have bought a server. If so, the purchase counts for the whole minute.
    pub fn buys(&mut self, buys: bool) {
        self.buys = buys;
    }
}

impl Drop for ReconcileGuard {
    fn drop(&mut self) {
        self.reservations.end(&self.subject, self.buys);
    }
}

impl std::fmt::Debug for Reservations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reservations")
    }
}

#[cfg(test)]
mod tests;
