//! The owner of each server, as far as the user may list Instances in the cluster.

use super::lists;
use super::service::Cluster;
use cloud_server_operator::api::{Account, Instance, Marker};
use cloud_server_operator::cloud::{Place, ServerId};
use cloud_server_operator::runtime::KubeError;
use cloud_server_operator::runtime::kubernetes::call;
use cloud_server_operator::runtime::watch::ObjectKey;
use cloud_server_operator::session::Owners as Index;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;

/// Every Instance that the user may list.
pub(super) struct Owners {
    /// Identity of the cluster in records; none if the user may not read it.
    pub(super) cluster: Option<String>,
    /// The only namespace whose Instances the user may list.
    pub(super) only: Option<String>,
    objects: Vec<DeserializeGuard<Instance>>,
    /// The endpoint of each Account.
    endpoints: HashMap<ObjectKey, String>,
    index: Index,
}

/// The owner of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// This Instance has the server on record, or the server's name bears the marker of this Instance.
    Owned(ObjectKey),
    /// The server's name bears the marker of an Instance that is not listed: it is deleted, or another cluster has it.
    Marked,
    /// No record and no marker.
    Unowned,
    /// No cluster was read.
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
    /// Lists the Instances of all namespaces, or of one namespace if the user may not list the others.
    pub(super) async fn read(cluster: &Cluster) -> Result<Self, KubeError> {
        // The most important list first: if it fails, nothing else is requested.
        let (instances, only) = list::<Instance>(cluster, "list the Instances").await?;
        let id = identity(cluster).await;
        let accounts = list::<Account>(cluster, "list the Accounts").await;
        // Without the Accounts all Instances count as those of one service.
        let accounts = accounts.map(|(accounts, _)| accounts).unwrap_or_default();
        let endpoint = |account: Account| (ObjectKey::of(&account), account.spec.endpoint);
        let accounts = accounts.into_iter().filter_map(|account| account.0.ok());
        let mut owners = Self {
            index: Index::new(id.clone().unwrap_or_default()),
            cluster: id,
            endpoints: accounts.map(endpoint).collect(),
            objects: instances,
            only,
        };
        owners.keep(&[]);
        Ok(owners)
    }

    /// Keeps the Instances of these services, or all if none is named: an identifier has a meaning at one service only.
    pub(super) fn keep(&mut self, services: &[&str]) {
        let plain = |endpoint: &str| endpoint.trim_end_matches('/').to_owned();
        let services: Vec<String> = services.iter().map(|service| plain(service)).collect();
        let endpoints = &self.endpoints;
        self.objects.retain(|object| {
            let Ok(instance) = &object.0 else {
                return true; // its service is unknown
            };
            let key = ObjectKey::new(
                &instance.namespace().unwrap_or_default(),
                &instance.spec.account_ref.name,
            );
            let endpoint = endpoints.get(&key).map(|endpoint| plain(endpoint));
            services.is_empty() || endpoint.is_none_or(|endpoint| services.contains(&endpoint))
        });
        let cluster = self.cluster.clone().unwrap_or_default();
        self.index = Index::new(cluster);
        for object in &self.objects {
            self.index.listed(object);
        }
    }

    /// The Instances that this version can read.
    pub(super) fn instances(&self) -> impl Iterator<Item = &Instance> {
        let objects = self.objects.iter();
        objects.filter_map(|object| object.0.as_ref().ok())
    }

    /// Every Instance, also those that cannot be read.
    pub(super) fn objects(&self) -> &[DeserializeGuard<Instance>] {
        &self.objects
    }

    /// The owner of a server.
    pub(super) fn of(&self, id: &ServerId, name: Option<&str>) -> Ownership {
        let marker = name.and_then(Marker::in_name);
        match self.index.owner(id, marker.as_ref()) {
            Some(owner) => Ownership::Owned(owner),
            None if marker.is_some() => Ownership::Marked,
            None => Ownership::Unowned,
        }
    }

    /// The Instance of this name.
    pub(super) fn find(&self, key: &ObjectKey) -> Option<&Instance> {
        self.instances()
            .find(|instance| ObjectKey::of(*instance) == *key)
    }

    /// Every place in which an Instance has a server, as its status reports: a sold-out region leaves the service's list, and its
    /// servers stay.
    pub(super) fn places(&self) -> BTreeSet<Place> {
        let place = |instance: &Instance| {
            let detail = &instance.status.as_ref()?.detail;
            let text = |field: &str| detail.get(field)?.as_str();
            Some(Place::new(text("regionCode")?, text("zoneCode")?))
        };
        self.instances().filter_map(place).collect()
    }

    /// A note for the user if only some Instances could be listed.
    pub(super) fn caveat(&self) -> Option<String> {
        let only = self.only.as_ref()?;
        Some(format!(
            "only the Instances of namespace {only} may be listed: servers of the others show as marked or unowned; to \
             see all, have yourself allowed to list instances.cloudserver.dev in all namespaces"
        ))
    }
}

/// All objects of a kind. If the user may not list them, those of the cluster's namespace, and its name.
async fn list<K>(
    cluster: &Cluster,
    what: &'static str,
) -> Result<(Vec<DeserializeGuard<K>>, Option<String>), KubeError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + Debug,
{
    let everywhere = Api::all(cluster.client.clone());
    match lists::all(&everywhere, what, ListParams::default()).await {
        Err(error) if error.is_want_of_right() => {
            let here = Api::namespaced(cluster.client.clone(), &cluster.namespace);
            let listed = lists::all(&here, what, ListParams::default()).await?;
            Ok((listed, Some(cluster.namespace.clone())))
        }
        listed => Ok((listed?, None)),
    }
}

/// The UID of namespace kube-system, as `run` reads it. Without it records are matched by the object's UID alone.
async fn identity(cluster: &Cluster) -> Option<String> {
    let api: Api<Namespace> = Api::all(cluster.client.clone());
    let read = call(
        "read namespace kube-system",
        api.get_metadata("kube-system"),
    )
    .await;
    read.ok().and_then(|namespace| namespace.uid())
}
