//! Whose a server is, as far as the Instances tell that may be listed in the cluster.

use super::lists;
use super::service::Cluster;
use crate::api::{Account, Instance, Marker};
use crate::cloud::{Place, ServerId};
use crate::inventory::Subject;
use crate::runtime::KubeError;
use crate::runtime::guarded::Guarded;
use crate::runtime::kubernetes::call;
use crate::runtime::watch::ObjectKey;
use crate::session::Reservations;
use crate::wiring::enrol;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;

/// Every Instance that may be listed.
pub(super) struct Owners {
    /// Identity of the cluster in records; none where it may not be read.
    pub(super) cluster: Option<String>,
    pub(super) instances: Vec<Instance>,
    /// Only those of one namespace may be listed.
    pub(super) only: Option<String>,
    objects: Vec<Guarded<Instance>>,
    /// Where the service of each Account is.
    endpoints: HashMap<ObjectKey, String>,
    reservations: Reservations,
}

/// Whose a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// This Instance has it on record, or its name bears the marker of this Instance.
    Owned(ObjectKey),
    /// Its name bears the marker of an Instance that is not among those that were listed: it is gone, or another cluster has it.
    Marked,
    /// Nothing hints at an Instance.
    Unowned,
    /// Nobody was asked.
    Unknown,
}

impl Ownership {
    /// The word for programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Owned(_) => "owned",
            Self::Marked => "marked",
            Self::Unowned => "unowned",
            Self::Unknown => "unknown",
        }
    }
}

impl Owners {
    /// Lists the Instances of all namespaces, or of the one that is meant where the others are none of the user's business.
    pub(super) async fn read(cluster: &Cluster) -> Result<Self, KubeError> {
        // First what is needed most: whoever does not answer is not asked for the rest.
        let (instances, only) = list::<Instance>(cluster, "list the Instances").await?;
        let id = identity(cluster).await;
        let accounts = list::<Account>(cluster, "list the Accounts").await;
        // Whoever may not list Accounts takes all for those of one service.
        let accounts = accounts.map(|(accounts, _)| accounts).unwrap_or_default();
        let endpoint = |account: Account| (ObjectKey::of(&account), account.spec.endpoint);
        let accounts = accounts.into_iter().filter_map(|account| account.0.ok());
        let mut owners = Self {
            reservations: Reservations::new(id.clone().unwrap_or_default(), |_: Subject| {}),
            cluster: id,
            endpoints: accounts.map(endpoint).collect(),
            objects: instances,
            instances: Vec::new(),
            only,
        };
        owners.keep(&[]);
        Ok(owners)
    }

    /// Keeps the Instances of these services, or of all where none is named: identifiers mean something at one service only.
    pub(super) fn keep(&mut self, services: &[&str]) {
        let plain = |endpoint: &str| endpoint.trim_end_matches('/').to_owned();
        let services: Vec<String> = services.iter().map(|service| plain(service)).collect();
        let endpoints = &self.endpoints;
        self.objects.retain(|object| {
            let Ok(instance) = &object.0 else {
                return true; // nobody knows of which it is
            };
            let key = ObjectKey::new(
                &instance.namespace().unwrap_or_default(),
                &instance.spec.account_ref.name,
            );
            let endpoint = endpoints.get(&key).map(|endpoint| plain(endpoint));
            services.is_empty() || endpoint.is_none_or(|endpoint| services.contains(&endpoint))
        });
        let cluster = self.cluster.clone().unwrap_or_default();
        self.reservations = Reservations::new(cluster, |_: Subject| {});
        for object in &self.objects {
            enrol(&self.reservations, object);
        }
        let read = self
            .objects
            .iter()
            .filter_map(|object| object.0.as_ref().ok());
        self.instances = read.cloned().collect();
    }

    /// Every Instance, also those that cannot be read.
    pub(super) fn objects(&self) -> &[Guarded<Instance>] {
        &self.objects
    }

    /// Whose a server is.
    pub(super) fn of(&self, id: &ServerId, name: Option<&str>) -> Ownership {
        let marker = name.and_then(Marker::in_name);
        match self.reservations.owner(id, marker.as_ref()) {
            Some(owner) => Ownership::Owned(owner),
            None if marker.is_some() => Ownership::Marked,
            None => Ownership::Unowned,
        }
    }

    /// The Instance of this name.
    pub(super) fn find(&self, key: &ObjectKey) -> Option<&Instance> {
        self.instances
            .iter()
            .find(|instance| ObjectKey::of(*instance) == *key)
    }

    /// Every place that an Instance of these namespaces has a server in, as far as its status tells: a region that is sold out
    /// leaves the service's list, and its servers stay.
    pub(super) fn places(&self) -> BTreeSet<Place> {
        let place = |instance: &Instance| {
            let detail = &instance.status.as_ref()?.detail;
            let text = |field: &str| detail.get(field)?.as_str();
            Some(Place::new(text("regionCode")?, text("zoneCode")?))
        };
        self.instances.iter().filter_map(place).collect()
    }

    /// What is to be said where not all could be listed.
    pub(super) fn caveat(&self) -> Option<String> {
        let only = self.only.as_ref()?;
        Some(format!(
            "only the Instances of namespace {only} may be listed: servers of the others show as marked or unowned; to \
             see all, have yourself allowed to list instances.cloudserver.dev in all namespaces"
        ))
    }
}

/// All objects of a kind, or those of the namespace that is meant, with its name, where no others may be listed.
async fn list<K>(
    cluster: &Cluster,
    what: &'static str,
) -> Result<(Vec<Guarded<K>>, Option<String>), KubeError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + Debug,
{
    let everywhere = Api::all(cluster.client.clone());
    match lists::all(&everywhere, what, ListParams::default()).await {
        Err(error) if error.category() == "forbidden" => {
            let here = Api::namespaced(cluster.client.clone(), &cluster.namespace);
            let listed = lists::all(&here, what, ListParams::default()).await?;
            Ok((listed, Some(cluster.namespace.clone())))
        }
        listed => Ok((listed?, None)),
    }
}

/// The UID of namespace kube-system, as `run` reads it. Whoever may not read it knows a record by the object's UID alone.
async fn identity(cluster: &Cluster) -> Option<String> {
    let api: Api<Namespace> = Api::all(cluster.client.clone());
    let read = call(
        "read namespace kube-system",
        api.get_metadata("kube-system"),
    )
    .await;
    read.ok().and_then(|namespace| namespace.uid())
}
