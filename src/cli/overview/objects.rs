//! The Accounts and Instances of a namespace, or of all.

use crate::api::{Account, Instance};
use crate::cli::service::Cluster;
use crate::runtime::kubernetes::call;
use kube::api::{Api, ListParams};
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Objects in one answer of the apiserver.
const PAGE: u32 = 500;

/// What is shown: the objects of some namespaces, with the names of those that this version cannot read.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) accounts: Vec<Account>,
    pub(super) instances: Vec<Instance>,
    pub(super) unreadable: Vec<String>,
}

impl Objects {
    /// All there is, in the cluster's namespace or in all.
    pub(super) async fn read(cluster: &Cluster, all_namespaces: bool) -> Result<Self, String> {
        let mut objects = Self::default();
        let (accounts, unreadable) = list::<Account>(cluster, all_namespaces).await?;
        objects.accounts = accounts;
        objects.unreadable = unreadable;
        let (instances, unreadable) = list::<Instance>(cluster, all_namespaces).await?;
        objects.instances = instances;
        objects.unreadable.extend(unreadable);
        Ok(objects)
    }
}

/// All objects of a kind; those that cannot be read by namespace and name.
async fn list<K>(cluster: &Cluster, all_namespaces: bool) -> Result<(Vec<K>, Vec<String>), String>
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
    let (mut read, mut unreadable) = (Vec::new(), Vec::new());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = call("list what there is", api.list(&params)).await;
        let page = page.map_err(|error| cluster.told(&error))?;
        for object in page.items {
            let place = format!(
                "{}/{}",
                object.namespace().unwrap_or_default(),
                object.name_any()
            );
            match object.0 {
                Ok(object) => read.push(object),
                Err(_) => unreadable.push(place),
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok((read, unreadable)),
        }
    }
}
