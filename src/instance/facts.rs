//! The object as the watch shows it, taken apart into what the stages ask about.

use super::memory::Memory;
use crate::api::names::{BINDING, FINALIZER};
use crate::api::{Binding, Instance, InstanceSpec, InstanceStatus, Marker, Speaks};
use crate::cloud::{Place, ServerId, TaskId};
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
    Speaks(Box<Binding>),
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
    /// The version that the turn was made from: every write of the record is conditional on it.
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
    /// Every place in which a server of it may be.
    pub places: Vec<Place>,
    /// The spec.
    pub spec: Arc<InstanceSpec>,
    /// The status.
    pub status: Arc<InstanceStatus>,
    /// How Events name it.
    pub reference: ObjectReference,
}

impl Facts {
    /// Takes an object apart.
    pub fn of(cluster: &str, instance: &Instance) -> Self {
        let key = ObjectKey::of(instance);
        let uid = instance.uid().unwrap_or_default();
        let annotation = instance.annotations().get(BINDING).cloned();
        let record = match annotation.as_deref().map(Binding::parse) {
            None => Record::None,
            Some(Err(error)) => Record::Invalid(error.to_string()),
            Some(Ok(binding)) => {
                match binding.speaks_for(cluster, &key.namespace, &key.name, &uid) {
                    Speaks::Own | Speaks::Restored => Record::Speaks(Box::new(binding)),
                    Speaks::Other => Record::None,
                }
            }
        };
        let here = Place::new(instance.spec.region.as_str(), instance.spec.zone.as_str());
        let (marker, mut places) = match &record {
            Record::Speaks(binding) => (
                binding.marker.clone(),
                binding.places.iter().filter_map(|p| place(p)).collect(),
            ),
            Record::None | Record::Invalid(_) => (Marker::of_uid(&uid), Vec::new()),
        };
        if places.is_empty() {
            places.push(here);
        }
        Self {
            resource_version: instance.resource_version().unwrap_or_default(),
            generation: instance.metadata.generation.unwrap_or_default(),
            deleting: instance.metadata.deletion_timestamp.is_some(),
            finalizers: instance.finalizers().to_vec(),
            spec: Arc::new(instance.spec.clone()),
            status: Arc::new(instance.status.clone().unwrap_or_default()),
            reference: instance.object_ref(&()),
            key,
            uid,
            annotation,
            record,
            marker,
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
    pub fn binding(&self) -> Option<&Binding> {
        match &self.record {
            Record::Speaks(binding) => Some(binding),
            Record::None | Record::Invalid(_) => None,
        }
    }

    /// The recorded server.
    pub fn id(&self) -> Option<ServerId> {
        self.binding()
            .and_then(|binding| binding.id.as_deref())
            .map(ServerId::from)
    }

    /// The recorded task.
    pub fn task(&self) -> Option<TaskId> {
        self.binding()
            .and_then(|binding| binding.task.as_deref())
            .map(TaskId::from)
    }

    /// The recorded attempt has not been seen to end: no entry of the history speaks of it.
    pub fn is_open(&self) -> bool {
        self.binding().is_some_and(|binding| {
            self.status
                .history
                .iter()
                .all(|entry| entry.attempt < i64::from(binding.attempt))
        })
    }

    /// The Account that it uses: the one of the record, or of an attempt that this process remembers, as long as a server
    /// may be there. While it is certain that nothing was bought, the one of the spec, so that a typing error can be
    /// mended.
    pub fn account(&self, memory: &Memory) -> ObjectKey {
        let recorded = self
            .binding()
            .filter(|binding| !memory.nothing_bought(binding));
        let name = match recorded {
            Some(binding) => binding.account.as_str(),
            None if self.binding().is_none() => memory
                .account_in_doubt()
                .unwrap_or(&self.spec.account_ref.name),
            None => &self.spec.account_ref.name,
        };
        ObjectKey {
            namespace: self.key.namespace.clone(),
            name: name.to_owned(),
        }
    }

    /// Where the spec wants the server.
    pub fn place(&self) -> Place {
        Place::new(self.spec.region.as_str(), self.spec.zone.as_str())
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
        .and_then(|text| Binding::parse(text).ok());
    std::iter::once(instance.spec.account_ref.name.clone())
        .chain(recorded.map(|binding| binding.account))
}
