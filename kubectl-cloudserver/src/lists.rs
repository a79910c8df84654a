//! Lists of the apiserver, page by page.

use crate::service::Cluster;
use cloud_server_operator::api::{Account, Instance};
use cloud_server_operator::runtime::KubeError;
use cloud_server_operator::runtime::kubernetes::call;
use kube::api::{Api, ListParams};
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// The most objects in one answer: an answer with all objects of a large cluster would exceed the deadline of a request.
const PAGE: u32 = 500;

/// The project's own kinds.
pub(super) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug
{
}

impl Kind for Account {}
impl Kind for Instance {}

/// All objects that match these parameters. `what` names the operation in an error.
pub(super) async fn all<K>(
    api: &Api<K>,
    what: &'static str,
    params: ListParams,
) -> Result<Vec<K>, KubeError>
where
    K: DeserializeOwned + Clone + Debug,
{
    let mut params = params.limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = call(what, api.list(&params)).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// All objects of a kind in a namespace, or in all namespaces.
pub(super) async fn objects<K: Kind>(
    cluster: &Cluster,
    namespace: Option<&str>,
) -> Result<Vec<DeserializeGuard<K>>, KubeError> {
    let client = cluster.client.clone();
    let api = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    all(&api, "list objects", ListParams::default()).await
}

/// The objects that this version can read, and kind, namespace and name of the others.
pub(super) fn readable<K: Kind>(objects: Vec<DeserializeGuard<K>>) -> (Vec<K>, Vec<[String; 3]>) {
    let (mut readable, mut others) = (Vec::new(), Vec::new());
    for object in objects {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        match object.0 {
            Ok(object) => readable.push(object),
            Err(_) => others.push([K::kind(&()).into_owned(), namespace, name]),
        }
    }
    (readable, others)
}
