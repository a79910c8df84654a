//! The Accounts and Instances of a namespace, or of all.

use crate::lists;
use crate::service::Cluster;
use cloud_server_operator::api::{Account, Instance};
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::Debug;

/// An object that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unreadable {
    pub(super) namespace: String,
    pub(super) kind: Cow<'static, str>,
    pub(super) name: String,
}

/// The objects of one or all namespaces.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) accounts: Vec<Account>,
    pub(super) instances: Vec<Instance>,
    /// Of either kind.
    pub(super) unreadable: Vec<Unreadable>,
}

impl Objects {
    /// All objects in the cluster's namespace, or in all namespaces.
    pub(super) async fn read(cluster: &Cluster, all_namespaces: bool) -> Result<Self, String> {
        let (accounts, mut unreadable) = list::<Account>(cluster, all_namespaces).await?;
        let (instances, others) = list::<Instance>(cluster, all_namespaces).await?;
        unreadable.extend(others);
        Ok(Self {
            accounts,
            instances,
            unreadable,
        })
    }

    /// Whether there are no objects.
    pub(super) fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.instances.is_empty() && self.unreadable.is_empty()
    }
}

/// All readable objects of a kind, and the unreadable ones.
pub(super) async fn list<K>(
    cluster: &Cluster,
    all_namespaces: bool,
) -> Result<(Vec<K>, Vec<Unreadable>), String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Clone
        + Debug,
{
    let api: Api<DeserializeGuard<K>> = match all_namespaces {
        true => Api::all(cluster.client.clone()),
        false => Api::namespaced(cluster.client.clone(), &cluster.namespace),
    };
    let listed = lists::all(&api, "list what there is", ListParams::default()).await;
    let (mut read, mut unreadable) = (Vec::new(), Vec::new());
    for object in listed.map_err(|error| cluster.told(&error))? {
        let named = Unreadable {
            namespace: object.namespace().unwrap_or_default(),
            kind: K::kind(&()),
            name: object.name_any(),
        };
        match object.0 {
            Ok(object) => read.push(object),
            Err(_) => unreadable.push(named),
        }
    }
    Ok((read, unreadable))
}
