//! Objects that are made and deleted on a machine where an answer may be lost: what was done at the first try is found done at
//! the next.

use super::wait::insist;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Resource, ResourceExt};
use std::fmt::Debug;

/// Makes an object, and gives it as it stands. One that was there before is a failure.
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

/// Deletes an object, and does not wait until it is gone. One that was not there is a failure.
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
