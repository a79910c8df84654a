//! The object as the watch shows it, taken apart into what the stages ask about.

use crate::api::condition_list::ListedTypes;
use crate::api::names::{BINDING, FINALIZER};
use crate::api::{
    Instance, InstanceSpec, InstanceStatus, Marker, Operation, OperationEnd, PurchaseRecord,
    SecretKeyRef, Speaks, Verb, attempt_number, names,
};
use crate::cloud::{CallPriority, Place, ServerId};
use crate::instance::resolved_references;
use crate::runtime::watch::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use std::sync::Arc;

/// What the annotation holds.
#[derive(Clone, Debug)]
pub enum Record {
    /// Nothing, or the record of another object (a copied manifest).
    None,
    /// The record of this object.
    Speaks(Box<PurchaseRecord>),
    /// Something that is no record: somebody edited it.
    Invalid(String),
}

/// One version of an Instance.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Namespace and name.
    pub key: ObjectKey,
    /// UID.
    pub uid: String,
    /// The version that the reconcile was made from: every write of the record is conditional on it.
    pub resource_version: String,
    /// Generation of the spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// All finalizers.
    pub finalizers: Vec<String>,
    /// The annotation's text.
    pub annotation: Option<String>,
    /// The annotation's meaning.
    pub record: Record,
    /// The marker of its servers: the record's, which a restored object keeps, or the one of its UID.
    pub marker: Marker,
    /// Where the spec wants the server; none while a name in it is not looked up.
    pub here: Option<Place>,
    /// Every place in which a server of it may be; empty while nothing is recorded and that place is not known.
    pub places: Vec<Place>,
    /// The spec.
    pub spec: Arc<InstanceSpec>,
    /// The status, without the conditions of other controllers.
    pub status: Arc<InstanceStatus>,
    /// All types in its list of conditions, for the patch of a status.
    pub listed_types: Arc<ListedTypes>,
    /// How Events name it.
    pub reference: ObjectReference,
}

impl Facts {
    /// Takes an object apart.
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
        let (marker, mut places) = match &record {
            Record::Speaks(record) => (
                record.marker.clone(),
                record.places.iter().filter_map(|p| place(p)).collect(),
            ),
            Record::None | Record::Invalid(_) => (Marker::of_uid(&uid), Vec::new()),
        };
        let mut status = instance.status.clone().unwrap_or_default();
        let listed_types = ListedTypes::take(&mut status.conditions);
        // A number that nobody can have counted tells of no attempt, and of something that was done all the same.
        let told = status.operation.iter_mut().map(|told| &mut told.attempt);
        for attempt in told.chain(std::iter::once(&mut status.attempt)) {
            *attempt = attempt_number(*attempt).map_or(0, i64::from);
        }
        let purchase = match &record {
            Record::Speaks(record) => Some(&**record),
            Record::None | Record::Invalid(_) => None,
        };
        let here = resolved_references::place(&instance.spec, &status, purchase);
        if places.is_empty() {
            places.extend(here.clone());
        }
        Self {
            resource_version: instance.resource_version().unwrap_or_default(),
            generation: instance.metadata.generation.unwrap_or_default(),
            deleting: instance.metadata.deletion_timestamp.is_some(),
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

    /// Whether our finalizer stands on it.
    pub fn is_held(&self) -> bool {
        self.finalizers
            .iter()
            .any(|finalizer| finalizer == FINALIZER)
    }

    /// The record, if it speaks for this object.
    pub fn purchase(&self) -> Option<&PurchaseRecord> {
        match &self.record {
            Record::Speaks(record) => Some(record),
            Record::None | Record::Invalid(_) => None,
        }
    }

    /// The recorded server.
    pub fn id(&self) -> Option<ServerId> {
        self.purchase()
            .and_then(|record| record.id.as_deref())
            .map(ServerId::from)
    }

    /// How urgent the calls are that a user waits for: what is there goes before what is yet to be bought.
    pub fn call_priority(&self) -> CallPriority {
        let has_one = self.status_id().is_some() || self.status.id.is_some();
        if !has_one && !self.deleting {
            CallPriority::Purchase
        } else {
            CallPriority::Urgent
        }
    }

    /// The recorded server, unless status has let it go for good, since another one is to take its place.
    pub fn status_id(&self) -> Option<ServerId> {
        self.id().filter(|_| !self.is_let_go())
    }

    /// Whether status has let the recorded server go: it tells how that one ended, and names none.
    pub fn is_let_go(&self) -> bool {
        self.status.id.is_none() && self.create_end().is_some()
    }

    /// The name of the recorded server, if it was taken over instead of bought.
    pub fn imported(&self) -> Option<&str> {
        let record = self.purchase().filter(|record| record.id.is_some())?;
        record.imported.as_deref()
    }

    /// Whether a server of this name is ours: by the marker, or, if it is the one that was taken over, by the name that it had
    /// then.
    pub fn is_own_name(&self, id: &ServerId, name: &str) -> bool {
        let was_imported = self.imported() == Some(name) && self.id().as_ref() == Some(id);
        was_imported || Marker::in_name(name).as_ref() == Some(&self.marker)
    }

    /// The name that the recorded server is to have.
    pub fn server_name(&self) -> String {
        self.imported().map_or_else(
            || names::server_name(&self.key.name, &self.marker),
            ToOwned::to_owned,
        )
    }

    /// Whether status tells of this server, and not of another one or of none.
    pub fn status_names(&self, id: &ServerId) -> bool {
        self.status.id.as_deref() == Some(id.as_str())
    }

    /// How the recorded create ended, where it did not end well or its server was let go.
    pub fn create_end(&self) -> Option<&OperationEnd> {
        self.status.end_of(self.purchase()?)
    }

    /// The recorded create is not known to have ended; where status was lost it is looked at once more.
    pub fn is_creating(&self) -> bool {
        let is_ended =
            |record| self.status.says_create_is_done(record) || self.create_end().is_some();
        self.purchase().is_some_and(|record| !is_ended(record))
    }

    /// The operation on the recorded server that is not known to have ended, as status tells it. One from before the record was
    /// on another server.
    pub fn operation(&self) -> Option<&Operation> {
        let record = self.purchase().filter(|record| record.id.is_some())?;
        let told = self.status.operation.as_ref();
        let is_of_it = |told: &&Operation| told.attempt > i64::from(record.attempt);
        told.filter(|told| told.is_open() && told.verb != Verb::Create)
            .filter(is_of_it)
    }

    /// Whether status says that a server is being bought, with or without its record.
    pub fn tells_of_a_purchase(&self) -> bool {
        let told = self.status.operation.as_ref();
        told.is_some_and(|told| told.verb == Verb::Create && told.is_open())
    }

    /// Whether something is under way, by what stands on the object.
    pub fn is_open(&self) -> bool {
        self.is_creating() || self.operation().is_some()
    }

    /// Whether this and a later look at the object are the same in everything that an announcement is planned from: labels,
    /// other annotations, conditions and times are not.
    pub fn is_same_but_version(&self, later: &Self) -> bool {
        let of_status = |status: &InstanceStatus| {
            let mut core = status.clone();
            core.conditions.clear();
            core.last_observed_time = None;
            core
        };
        self.uid == later.uid
            && self.generation == later.generation
            // Where etcd was restored, a generation may come again with another spec.
            && self.spec == later.spec
            && self.deleting == later.deleting
            && self.finalizers == later.finalizers
            && self.annotation == later.annotation
            && of_status(&self.status) == of_status(&later.status)
    }

    /// The Secret and the key in it that hold the login password, given or generated.
    pub fn login_secret(&self) -> Option<SecretKeyRef> {
        self.spec.login_secret(&self.key.name)
    }

    /// Where the spec wants the server; in its own words while these are not looked up.
    pub fn place(&self) -> Place {
        let as_written = || Place::new(self.spec.region.as_str(), self.spec.zone.as_str());
        self.here.clone().unwrap_or_else(as_written)
    }
}

fn place(text: &str) -> Option<Place> {
    text.split_once('/')
        .map(|(region, zone)| Place::new(region, zone))
}

/// The Accounts that an Instance may need: the one in its spec, and the one in its record.
pub fn accounts(instance: &Instance) -> impl Iterator<Item = String> {
    let recorded = instance
        .annotations()
        .get(BINDING)
        .and_then(|text| PurchaseRecord::parse(text).ok());
    std::iter::once(instance.spec.account_ref.name.clone())
        .chain(recorded.map(|record| record.account))
}
