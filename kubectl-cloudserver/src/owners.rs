//! The owner of each server, as far as the user may list Instances in the cluster.

use super::lists::{self, Kind};
use super::progress::Progress;
use super::service::{Cluster, Reached};
use cloud_server_operator::api::{Account, Instance, Marker};
use cloud_server_operator::cloud::{Place, ServerId, check_endpoint};
use cloud_server_operator::runtime::KubeError;
use cloud_server_operator::runtime::kubernetes::call;
use cloud_server_operator::runtime::watch::ObjectKey;
use cloud_server_operator::session::Owners as Index;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::DeserializeGuard;
use kube::{Api, ResourceExt};
use std::collections::{BTreeSet, HashMap};

/// The Instances that the user may list; after [`Owners::keep`], only those of the kept services.
pub(super) struct Owners {
    /// Identity of the cluster as records contain it; none if it could not be read.
    pub(super) cluster: Option<String>,
    /// The only namespace whose Instances were listed; none if those of all namespaces were.
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
    /// The server's name bears the marker of an Instance that is not listed (it is deleted, it is in another cluster, or the user
    /// may not list it), or ends like one by chance.
    Marked,
    /// No listed Instance has the server on record, and the server's name bears no marker.
    Unowned,
    /// The Instances could not be listed.
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

/// Namespace and name of an object, for people.
pub(super) fn named(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}

/// The owners of the servers of a service, as far as the user may list Instances; notes what is unknown.
pub(super) async fn owners(reached: &Reached, progress: &Progress) -> Option<Owners> {
    let Some(cluster) = &reached.cluster else {
        progress.note(
            "the owners of servers are unknown without a cluster: name one with --kubeconfig, --context or -n",
        );
        return None;
    };
    match Owners::read(cluster).await {
        Ok(mut owners) => {
            owners.keep(&[reached.client.endpoint()]);
            if let Some(only) = &owners.only {
                progress.note(&format!(
                    "only the Instances of namespace {only} may be listed: servers of other namespaces show as marked or unowned; \
                     to see all, have yourself allowed to list instances.cloudserver.dev in all namespaces"
                ));
            }
            Some(owners)
        }
        Err(error) => {
            let why = cluster.explain(&error);
            progress.note(&format!("the owners of servers are unknown: {why}"));
            None
        }
    }
}

impl Owners {
    /// Lists the Instances of all namespaces, or of one namespace if the user may not list all. Only [`Self::keep`] builds the
    /// index: before that, no server has an owner.
    pub(super) async fn read(cluster: &Cluster) -> Result<Self, KubeError> {
        // The most important list first: if it fails, nothing else is requested.
        let (objects, only) = list::<Instance>(cluster).await?;
        // The UID of namespace kube-system, as `run` reads it. Without this UID, records are matched by the object's UID alone.
        let api: Api<Namespace> = Api::all(cluster.client.clone());
        let system = api.get_metadata("kube-system");
        let system = call("read namespace kube-system", system).await;
        let accounts = list::<Account>(cluster).await;
        // If the Accounts cannot be listed, the service of every Instance is unknown, and `keep` keeps all.
        let (accounts, _) = lists::readable(accounts.map(|(all, _)| all).unwrap_or_default());
        let endpoint = |account: Account| (ObjectKey::of(&account), account.spec.endpoint);
        Ok(Self {
            cluster: system.ok().and_then(|namespace| namespace.uid()),
            only,
            objects,
            endpoints: accounts.into_iter().map(endpoint).collect(),
            index: Index::new(String::new(), |_| {}),
        })
    }

    /// Keeps the Instances of these services and those whose service is unknown, since an identifier is unique only at one service.
    /// Keeps all if no service is named. Builds the index of the kept ones.
    pub(super) fn keep(&mut self, services: &[&str]) {
        let plain = |endpoint: &str| {
            let url = check_endpoint(endpoint).map_or_else(|_| endpoint.to_owned(), String::from);
            url.trim_end_matches('/').to_owned()
        };
        let services: Vec<String> = services.iter().map(|service| plain(service)).collect();
        let endpoints = &self.endpoints;
        self.objects.retain(|object| {
            let Ok(instance) = &object.0 else {
                return true; // its service is unknown
            };
            let namespace = instance.namespace().unwrap_or_default();
            let key = ObjectKey::new(&namespace, &instance.spec.account_ref.name);
            let endpoint = endpoints.get(&key);
            services.is_empty() || endpoint.is_none_or(|it| services.contains(&plain(it)))
        });
        let cluster = self.cluster.clone().unwrap_or_default();
        self.index = Index::new(cluster, |_| {});
        for object in &self.objects {
            self.index.listed(object);
        }
    }

    /// The kept Instances that this version can read.
    pub(super) fn instances(&self) -> impl Iterator<Item = &Instance> {
        let objects = self.objects.iter();
        objects.filter_map(|object| object.0.as_ref().ok())
    }

    /// All kept Instances, also those that this version cannot read.
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

    /// The kept Instance of this name, if this version can read it.
    pub(super) fn find(&self, key: &ObjectKey) -> Option<&Instance> {
        self.instances()
            .find(|instance| ObjectKey::of(*instance) == *key)
    }

    /// Every zone in which an Instance's status shows a server: a sold-out region disappears from the service's list, but its
    /// servers stay.
    pub(super) fn places(&self) -> BTreeSet<Place> {
        let place = |instance: &Instance| {
            let detail = &instance.status.as_ref()?.detail;
            let text = |field: &str| detail.get(field)?.as_str();
            Some(Place::new(text("regionCode")?, text("zoneCode")?))
        };
        self.instances().filter_map(place).collect()
    }
}

/// All objects of a kind. If the user may not list them, those of the chosen namespace, and its name.
async fn list<K: Kind>(
    cluster: &Cluster,
) -> Result<(Vec<DeserializeGuard<K>>, Option<String>), KubeError> {
    match lists::objects(cluster, None).await {
        Err(error) if error.is_want_of_right() => {
            let only = cluster.namespace.clone();
            Ok((lists::objects(cluster, Some(&only)).await?, Some(only)))
        }
        listed => Ok((listed?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_is_recognized_however_its_endpoint_is_written() {
        let instance = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": "web", "namespace": "team"},
            "spec": {
                "accountRef": {"name": "default"}, "region": "r", "zone": "z", "package": {"code": "p"},
                "image": {"id": "i"}, "firewall": {"id": "f"}, "login": {"sshKey": {"id": "k"}},
            },
        });
        for (service, is_kept) in [
            ("https://cloud.example/api/", true),
            ("https://cloud.example/api", true),
            ("https://other.example/api", false),
        ] {
            let endpoint = "HTTPS://Cloud.example:443/api".to_owned();
            let mut owners = Owners {
                cluster: None,
                only: None,
                objects: vec![serde_json::from_value(instance.clone()).unwrap()],
                endpoints: [(ObjectKey::new("team", "default"), endpoint)].into(),
                index: Index::new(String::new(), |_| {}),
            };
            owners.keep(&[service]);
            assert_eq!(owners.objects.len(), usize::from(is_kept), "{service}");
        }
    }
}
