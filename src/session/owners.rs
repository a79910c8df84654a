//! The owner of each server: an index of the Instances of all shards, by server, marker and Account.
//!
//! The watch of Instances feeds it, so a restart or a restored etcd loses nothing of it. Reconciles add their admissions
//! ([`super::quota`]), which a restart forgets. It answers which Instance owns a server, and what an Instance that disappears
//! leaves behind.

use super::admissions::Admissions;
use crate::api::names::BINDING;
use crate::api::{Instance, Marker, PurchaseRecord, Speaks};
use crate::cloud::ServerId;
use crate::inventory::InstanceUid;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use kube::Resource;
use kube::core::DeserializeGuard;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The index of a process; cheap to clone.
#[derive(Clone)]
pub struct Owners(Arc<Inner>);

struct Inner {
    cluster: String,
    wake: Box<dyn Fn(InstanceUid) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// The Instances of every watched namespace were listed.
    has_listed_all: bool,
    pub(super) all: BTreeMap<InstanceUid, Owner>,
    pub(super) admissions: Admissions,
    /// The properties of each Instance, to look it up by.
    by_property: BTreeSet<(Property, InstanceUid)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Property {
    Server(ServerId),
    Marker(Marker),
    Account(ObjectKey),
}

/// An Instance, as the watch showed it last.
#[derive(Clone, Debug)]
pub struct Owner {
    pub key: ObjectKey,
    marker: Marker,
    pub recorded: Option<RecordedServer>,
    /// This process removes the finalizer: a server that is left is no orphan.
    pub is_detached: bool,
}

/// The server of an Instance according to its record, or to its status if the record was lost.
#[derive(Clone, Debug)]
pub struct RecordedServer {
    pub account: ObjectKey,
    /// The credential that the server was bought with; None if only status names the server.
    credential: Option<Arc<str>>,
    pub id: Option<ServerId>,
    is_imported: bool,
    /// The service refused the recorded create, so it bought nothing.
    pub is_refused: bool,
}

/// The claim of an Instance to a server that it has on record.
#[derive(Clone, Debug)]
pub struct OwnershipClaim {
    pub claimant: ObjectKey,
    pub account: ObjectKey,
    pub credential: Option<Arc<str>>,
    /// The claimant has a better right than the importing Instance for which the claims were looked up: the claimant bought the
    /// server, or imported it and has the UID that sorts first.
    pub is_better: bool,
}

impl Owners {
    /// Knows no Instance. `wake` requests a reconcile of the Instance with this UID.
    pub fn new(cluster: String, wake: impl Fn(InstanceUid) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            cluster,
            wake: Box::new(wake),
            state: Mutex::default(),
        }))
    }

    /// A list shows an Instance.
    pub fn listed(&self, object: &DeserializeGuard<Instance>) {
        let uid = object.meta().uid.as_deref().unwrap_or_default().into();
        self.shown(&ObjectKey::of(object), &uid, object);
    }

    /// A watch shows an Instance. If the object does not decode, its record counts all the same.
    pub fn shown(&self, key: &ObjectKey, uid: &InstanceUid, object: &DeserializeGuard<Instance>) {
        let record = self.record(key, uid, object);
        let marker = record.as_ref().map(|record| record.marker.clone());
        let mut state = self.lock();
        let former = state.remove(uid);
        let mut owner = Owner {
            key: key.clone(),
            marker: marker.unwrap_or_else(|| Marker::of_uid(uid)),
            recorded: recorded(key, object, record.as_ref()),
            is_detached: former.as_ref().is_some_and(|former| former.is_detached),
        };
        if let Some(recorded) = &mut owner.recorded {
            // Up to ten thousand Instances of an Account share one allocation of its key.
            let mut known = state.with(Property::Account(recorded.account.clone()));
            let known = known.find_map(|(_, owner)| owner.account());
            recorded.account = known.unwrap_or(&recorded.account).clone();
        }
        let freed = former.as_ref().and_then(Owner::account).cloned();
        let freed = freed.filter(|account| owner.account() != Some(account));
        state.insert(uid, owner);
        state.end_admission(uid);
        self.wake_waiting(state, freed);
    }

    /// The record in an object's annotation, if it is valid for that object.
    fn record(
        &self,
        key: &ObjectKey,
        uid: &str,
        object: &DeserializeGuard<Instance>,
    ) -> Option<PurchaseRecord> {
        let annotations = object.meta().annotations.as_ref();
        let text = annotations.and_then(|all| all.get(BINDING));
        let record = text.and_then(|text| PurchaseRecord::parse(text).ok());
        record.filter(|record| {
            record.speaks_for(&self.0.cluster, &key.namespace, &key.name, uid) != Speaks::Other
        })
    }

    /// An Instance is gone. Returns its last state.
    pub fn gone(&self, uid: &str) -> Option<Owner> {
        let mut state = self.lock();
        let former = state.remove(uid);
        let admitted = state.admissions.gone(uid);
        let account = former.as_ref().and_then(Owner::account).cloned();
        self.wake_waiting(state, account.or(admitted));
        former
    }

    /// Quota of this Account became free: some of the Instances that wait for it check again.
    pub(super) fn wake_waiting(&self, state: MutexGuard<'_, State>, account: Option<ObjectKey>) {
        let woken = account.map(|account| state.admissions.next_waiting(&account));
        drop(state);
        woken.into_iter().flatten().for_each(&*self.0.wake);
    }

    /// Notes whether this process removed the finalizer of an Instance, or is about to. Then a server that is left is not reported
    /// as an orphan.
    pub fn set_detached(&self, uid: &str, is_detached: bool) {
        if let Some(owner) = self.lock().all.get_mut(uid) {
            owner.is_detached = is_detached;
        }
    }

    /// The Instances of every watched namespace were listed: from now on a server on no record counts as having no owner.
    pub fn set_listed_all(&self) {
        self.lock().has_listed_all = true;
    }

    pub(super) fn has_listed_all(&self) -> bool {
        self.lock().has_listed_all
    }

    /// The Instance that has a server on record or owns the marker in the server's name; of several, the one whose UID sorts
    /// first.
    pub fn owner(&self, id: &ServerId, marker: Option<&Marker>) -> Option<ObjectKey> {
        let state = self.lock();
        let bearing = marker.cloned().map(Property::Marker);
        let properties = [Some(Property::Server(id.clone())), bearing];
        let owners = properties
            .into_iter()
            .flatten()
            .flat_map(|it| state.with(it));
        let owner = owners.min_by_key(|(uid, _)| *uid);
        owner.map(|(_, owner)| owner.key.clone())
    }

    /// Whether an Instance has this server on record or owns the marker in the server's name.
    pub fn owns(&self, id: &ServerId, marker: Option<&Marker>) -> bool {
        self.owner(id, marker).is_some()
    }

    /// The Instance whose servers bear this marker, unless it is the one with this UID.
    pub(super) fn bearer(&self, marker: &Marker, uid: &str) -> Option<ObjectKey> {
        let state = self.lock();
        let mut bearers = state.with(Property::Marker(marker.clone()));
        let other = bearers.find(|(other, _)| ***other != *uid);
        other.map(|(_, owner)| owner.key.clone())
    }

    /// The claims of other Instances to a server that the Instance with this UID imported or would import.
    pub(super) fn claims(&self, id: &ServerId, uid: &str) -> Vec<OwnershipClaim> {
        let state = self.lock();
        let claims = state.with(Property::Server(id.clone()));
        let others = claims.filter(|(other, _)| ***other != *uid);
        let claim = |(other, owner): (&InstanceUid, &Owner)| {
            let recorded = owner.recorded.as_ref()?;
            Some(OwnershipClaim {
                claimant: owner.key.clone(),
                account: recorded.account.clone(),
                credential: recorded.credential.clone(),
                // If only status names the server, its record was lost, and another Instance may have imported it since.
                is_better: recorded.credential.is_some()
                    && (!recorded.is_imported || **other < *uid),
            })
        };
        others.filter_map(claim).collect()
    }

    /// Whether an Instance needs this Account to release a server, or to find out whether it has one.
    pub fn is_needed_for_release(&self, account: &ObjectKey) -> bool {
        self.lock().on_record(account).next().is_some()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server of an Instance according to its valid record, or else to its status.
fn recorded(
    key: &ObjectKey,
    object: &DeserializeGuard<Instance>,
    record: Option<&PurchaseRecord>,
) -> Option<RecordedServer> {
    let instance = object.0.as_ref().ok();
    let status = instance.and_then(|instance| instance.status.as_ref());
    let status_id = status.and_then(|status| status.id.as_deref());
    let id = record.and_then(|record| record.id.as_deref()).or(status_id);
    let account = match record {
        Some(record) => &record.account,
        None => &instance.filter(|_| id.is_some())?.spec.account_ref.name,
    };
    Some(RecordedServer {
        account: ObjectKey::new(&key.namespace, account),
        credential: record.map(|record| shared(&record.credential)),
        id: id.map(ServerId::from),
        is_imported: record.is_some_and(|record| record.imported.is_some()),
        is_refused: record.is_some_and(|record| record.refused.is_some()),
    })
}

impl Owner {
    fn account(&self) -> Option<&ObjectKey> {
        self.recorded.as_ref().map(|recorded| &recorded.account)
    }

    fn properties(&self) -> impl Iterator<Item = Property> {
        let recorded = self.recorded.as_ref();
        let id = recorded.and_then(|recorded| recorded.id.clone());
        let server = id.map(Property::Server);
        let account = self.account().cloned().map(Property::Account);
        let marker = Property::Marker(self.marker.clone());
        [Some(marker), server, account].into_iter().flatten()
    }
}

impl State {
    fn insert(&mut self, uid: &InstanceUid, owner: Owner) {
        let properties = owner.properties();
        self.by_property
            .extend(properties.map(|property| (property, uid.clone())));
        self.all.insert(uid.clone(), owner);
    }

    fn remove(&mut self, uid: &str) -> Option<Owner> {
        let (uid, owner) = self.all.remove_entry(uid)?;
        for property in owner.properties() {
            self.by_property.remove(&(property, uid.clone()));
        }
        Some(owner)
    }

    /// The UIDs of the Instances on record in an Account.
    pub(super) fn on_record(&self, account: &ObjectKey) -> impl Iterator<Item = &InstanceUid> {
        self.uids_with(Property::Account(account.clone()))
    }

    /// Whether an Instance is on record in this Account, and with this server if one is named.
    pub(super) fn is_on_record(
        &self,
        uid: &str,
        account: &ObjectKey,
        id: Option<&ServerId>,
    ) -> bool {
        let recorded = self.all.get(uid).and_then(|owner| owner.recorded.as_ref());
        recorded.is_some_and(|recorded| {
            recorded.account == *account && (id.is_none() || recorded.id.as_ref() == id)
        })
    }

    /// The UIDs of the Instances with this property, in order.
    fn uids_with(&self, property: Property) -> impl Iterator<Item = &InstanceUid> {
        let from = self.by_property.range((property.clone(), shared(""))..);
        let these = from.take_while(move |(other, _)| *other == property);
        these.map(|(_, uid)| uid)
    }

    /// The Instances with this property, by UID.
    fn with(&self, property: Property) -> impl Iterator<Item = (&InstanceUid, &Owner)> {
        let uids = self.uids_with(property);
        uids.filter_map(|uid| self.all.get_key_value(uid))
    }
}

#[cfg(test)]
pub(super) mod tests;
