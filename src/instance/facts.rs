//! The object as the watch shows it, parsed for the stages of a reconcile.

use crate::api::condition_list::ListedTypes;
use crate::api::names::{BINDING, FINALIZER};
use crate::api::{
    Instance, InstanceSpec, InstanceStatus, Marker, Operation, OperationEnd, PurchaseRecord,
    SecretKeyRef, Speaks, Verb, attempt_number, names,
};
use crate::cloud::{CallPriority, Place, ServerId};
use crate::credentials::{LoginSecret, SecretOwner};
use crate::instance::{last_release, pins};
use crate::runtime::watch::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use std::sync::Arc;

/// The content of the annotation.
#[derive(Clone, Debug)]
pub enum Record {
    /// It is missing, or the record of another object (in a copied manifest).
    None,
    Speaks(Box<PurchaseRecord>),
    /// It is not a valid record: a user edited it.
    Invalid(String),
}

/// One version of an Instance.
#[derive(Clone, Debug)]
pub struct Facts {
    pub key: ObjectKey,
    pub uid: String,
    /// The version that the reconcile is based on. The write of an intent is conditional on it, or on a later version for which
    /// [`Self::is_same_but_version`] holds.
    pub resource_version: String,
    pub generation: i64,
    /// The deletion was requested, and spec.deletionProtection does not stop it.
    pub deleting: bool,
    /// When the deletion was requested.
    pub deleted_at: Option<Timestamp>,
    pub finalizers: Vec<String>,
    pub annotation: Option<String>,
    pub record: Record,
    /// The marker of its servers: the one on record, which a restored object keeps, or else the one of its UID.
    pub marker: Marker,
    /// The place in the spec; None while a name in it has not been resolved.
    pub here: Option<Place>,
    /// Every place in which a server of this object may be; empty if nothing is recorded and the spec's place is not resolved.
    pub places: Vec<Place>,
    pub spec: Arc<InstanceSpec>,
    /// The status, without the conditions of other controllers.
    pub status: Arc<InstanceStatus>,
    /// All types in its list of conditions, for the patch of a status.
    pub listed_types: Arc<ListedTypes>,
    /// Identifies the object in Events.
    pub reference: ObjectReference,
}

impl Facts {
    pub fn of(cluster: &str, instance: &Instance) -> Self {
        let key = ObjectKey::of(instance);
        let uid = instance.uid().unwrap_or_default();
        let annotation = instance.annotations().get(BINDING).cloned();
        let record = match annotation.as_deref().map(PurchaseRecord::parse) {
            None => Record::None,
            Some(Err(error)) => Record::Invalid(error.to_string()),
            Some(Ok(record)) => match record.speaks_for(cluster, &key.namespace, &key.name, &uid) {
                Speaks::Own | Speaks::Restored => Record::Speaks(Box::new(record)),
                Speaks::Other => Record::None,
            },
        };
        let purchase = match &record {
            Record::Speaks(record) => Some(&**record),
            Record::None | Record::Invalid(_) => None,
        };
        let marker = purchase.map_or_else(|| Marker::of_uid(&uid), |record| record.marker.clone());
        let recorded = purchase.iter().flat_map(|record| &record.places);
        let mut places: Vec<Place> = recorded.filter_map(|text| place(text)).collect();
        let mut status = instance.status.clone().unwrap_or_default();
        let listed_types = ListedTypes::take(&mut status.conditions);
        last_release::complete(&mut status);
        // No operator can have written a malformed number, so it is ignored as an attempt; other fields of the same status still
        // count.
        let shown = status.operation.iter_mut().map(|shown| &mut shown.attempt);
        for attempt in shown.chain(std::iter::once(&mut status.attempt)) {
            *attempt = attempt_number(*attempt).map_or(0, i64::from);
        }
        let here = pins::place(&instance.spec, &status, purchase);
        if places.is_empty() {
            places.extend(here.clone());
        }
        Self {
            resource_version: instance.resource_version().unwrap_or_default(),
            generation: instance.metadata.generation.unwrap_or_default(),
            deleting: instance.metadata.deletion_timestamp.is_some()
                && !instance.spec.deletion_protection,
            deleted_at: (instance.metadata.deletion_timestamp.as_ref()).map(|time| time.0),
            finalizers: instance.finalizers().to_vec(),
            spec: Arc::new(instance.spec.clone()),
            status: Arc::new(status),
            listed_types: Arc::new(listed_types),
            reference: instance.object_ref(&()),
            key,
            uid,
            annotation,
            record,
            marker,
            here,
            places,
        }
    }

    /// Whether it was deleted, and spec.deletionProtection keeps it.
    pub fn is_protected(&self) -> bool {
        self.deleted_at.is_some() && !self.deleting
    }

    /// Whether it has our finalizer.
    pub fn is_held(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == FINALIZER)
    }

    /// The record, if it belongs to this object.
    pub fn purchase(&self) -> Option<&PurchaseRecord> {
        match &self.record {
            Record::Speaks(record) => Some(record),
            Record::None | Record::Invalid(_) => None,
        }
    }

    pub fn id(&self) -> Option<ServerId> {
        self.purchase()
            .and_then(|record| record.id.as_deref())
            .map(ServerId::from)
    }

    /// The priority of calls that a user waits for: existing servers go before purchases.
    pub fn call_priority(&self) -> CallPriority {
        let has_one = self.status_id().is_some() || self.status.id.is_some();
        if !has_one && !self.deleting {
            CallPriority::Purchase
        } else {
            CallPriority::Urgent
        }
    }

    /// The recorded server, unless status has dropped it for good because another server will replace it.
    pub fn status_id(&self) -> Option<ServerId> {
        self.id().filter(|_| !self.is_dropped_from_status())
    }

    /// Whether status has dropped the recorded server: it shows how that server's create ended, and names no server.
    pub fn is_dropped_from_status(&self) -> bool {
        self.status.id.is_none() && self.create_end().is_some()
    }

    /// The name of the recorded server if it was imported.
    pub fn imported(&self) -> Option<&str> {
        let record = self.purchase().filter(|record| record.id.is_some())?;
        record.imported.as_deref()
    }

    /// Whether a server with this name is ours: by the marker, or, if it is the imported one, by the name that it had at the
    /// import.
    pub fn is_own_name(&self, id: &ServerId, name: &str) -> bool {
        let was_imported = self.imported() == Some(name) && self.id().as_ref() == Some(id);
        was_imported || Marker::in_name(name).as_ref() == Some(&self.marker)
    }

    /// The name that the recorded server should have.
    pub fn server_name(&self) -> String {
        self.imported().map_or_else(
            || names::server_name(&self.key.name, &self.marker),
            ToOwned::to_owned,
        )
    }

    pub fn status_names(&self, id: &ServerId) -> bool {
        self.status.id.as_deref() == Some(id.as_str())
    }

    /// How the recorded create ended, if it failed or status has dropped its server.
    pub fn create_end(&self) -> Option<&OperationEnd> {
        self.status.end_of(self.purchase()?)
    }

    /// Whether the recorded create is still open. If status was lost, the create counts as open and is followed again.
    pub fn is_creating(&self) -> bool {
        let is_ended =
            |record| self.status.shows_create_is_done(record) || self.create_end().is_some();
        self.purchase().is_some_and(|record| !is_ended(record))
    }

    /// The open operation on the recorded server, according to status. An operation that is older than the record was on another
    /// server.
    pub fn operation(&self) -> Option<&Operation> {
        let record = self.purchase().filter(|record| record.id.is_some())?;
        let shown = self.status.operation.as_ref();
        let is_of_it = |shown: &&Operation| shown.attempt > i64::from(record.attempt);
        shown
            .filter(|shown| shown.is_open() && shown.verb != Verb::Create)
            .filter(is_of_it)
    }

    /// Whether status reports a purchase in progress, with or without a record of it.
    pub fn shows_open_purchase(&self) -> bool {
        let shown = self.status.operation.as_ref();
        shown.is_some_and(|shown| shown.verb == Verb::Create && shown.is_open())
    }

    /// Whether an operation is in progress according to the object.
    pub fn is_open(&self) -> bool {
        self.is_creating() || self.operation().is_some()
    }

    /// Whether a later version of the object is the same in everything that a call is planned from. Labels, other annotations,
    /// conditions, `observedGeneration` and `lastObservedTime` may differ.
    pub fn is_same_but_version(&self, later: &Self) -> bool {
        let of_status = |status: &InstanceStatus| {
            let mut core = status.clone();
            core.conditions.clear();
            core.last_observed_time = None;
            core.observed_generation = 0;
            core
        };
        self.uid == later.uid
            && self.generation == later.generation
            // After a restore of etcd the same generation can come with another spec.
            && self.spec == later.spec
            && self.deleted_at == later.deleted_at
            && self.finalizers == later.finalizers
            && self.annotation == later.annotation
            && of_status(&self.status) == of_status(&later.status)
    }

    /// The Secret key that holds the login password, whether a user or the operator made it.
    pub fn login_secret(&self) -> Option<SecretKeyRef> {
        self.spec.login_secret(&self.key.name)
    }

    /// The Instance as the owner of its Secrets.
    pub fn secret_owner(&self) -> SecretOwner<'_> {
        SecretOwner {
            key: &self.key,
            uid: &self.uid,
            marker: &self.marker,
            imported: self.imported().and_then(Marker::in_name),
            record: self.annotation.as_ref(),
        }
    }

    /// The Secret with the login password, if the login is by password.
    pub fn login(&self) -> Option<LoginSecret<'_>> {
        LoginSecret::of(&self.spec, self.secret_owner())
    }

    /// The place in the spec, with the names as written if they have not been resolved.
    pub fn place(&self) -> Place {
        let as_written = || Place::new(self.spec.region.as_str(), self.spec.zone.as_str());
        self.here.clone().unwrap_or_else(as_written)
    }
}

/// A place in a record.
pub(super) fn place(text: &str) -> Option<Place> {
    text.split_once('/')
        .map(|(region, zone)| Place::new(region, zone))
}

/// The Accounts that an Instance may need: the one in its spec and the one on record.
pub fn accounts(instance: &Instance) -> impl Iterator<Item = String> {
    let recorded = instance
        .annotations()
        .get(BINDING)
        .and_then(|text| PurchaseRecord::parse(text).ok());
    std::iter::once(instance.spec.account_ref.name.clone())
        .chain(recorded.map(|record| record.account))
}
