//! Creates and deletes objects on a machine where an answer may be lost: if the first try took effect, the next try notices and
//! succeeds.

use super::wait::insist;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Resource, ResourceExt};
use std::fmt::Debug;

/// Creates an object and returns the stored version. An object that existed before is a failure.
pub async fn create<K>(api: &Api<K>, object: &K) -> K
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let (name, params) = (object.name_any(), PostParams::default());
    let what = format!("{name} is made");
    let mut tries = 0;
    let made = insist(&what, async || {
        tries += 1;
        match api.create(&params, object).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" && tries > 1 => {
                api.get(&name).await
            }
            made => made,
        }
    });
    made.await.unwrap()
}

/// Deletes an object without waiting until it is gone. An object that did not exist is a failure.
pub async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    let (what, params) = (format!("{name} is deleted"), DeleteParams::default());
    let mut tries = 0;
    let deleted = insist(&what, async || {
        tries += 1;
        match api.delete(name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 && tries > 1 => Ok(()),
            deleted => deleted.map(|_| ()),
        }
    });
    deleted.await.unwrap();
}
