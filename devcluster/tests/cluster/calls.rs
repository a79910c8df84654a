//! Repeats calls that a busy API may leave unanswered, and returns the first answer, including a refusal.

use std::fmt::Debug;

use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, PostParams},
};

use crate::eventually;

/// Repeats a call while the API temporarily cannot answer it.
pub(crate) async fn insist<T>(
    what: &str,
    mut call: impl AsyncFnMut() -> kube::Result<T>,
) -> kube::Result<T> {
    let mut answered = None;
    eventually(what, async || {
        let answer = call().await;
        let is_final = match &answer {
            Ok(_) => true,
            Err(kube::Error::Api(status)) => !matches!(status.code, 429 | 500..=504),
            Err(_) => false,
        };
        answered = Some(answer);
        is_final
    })
    .await;
    answered.unwrap()
}

/// Creates an object and returns it. Fails if the object existed before the first attempt.
pub(crate) async fn create<K>(api: &Api<K>, object: &K) -> K
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let (name, params) = (object.name_any(), PostParams::default());
    let mut tries = 0;
    let made = insist("an object is made", async || {
        tries += 1;
        match api.create(&params, object).await {
            // The answer to an earlier attempt was lost.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" && tries > 1 => {
                api.get(&name).await
            }
            made => made,
        }
    });
    made.await.unwrap()
}

/// Deletes an object. Fails if the object did not exist before the first attempt.
pub(crate) async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = DeleteParams::default();
    let mut tries = 0;
    let deleted = insist("an object is deleted", async || {
        tries += 1;
        match api.delete(name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 && tries > 1 => Ok(()),
            deleted => deleted.map(|_| ()),
        }
    });
    deleted.await.unwrap();
}

/// Whether an object exists.
pub(crate) async fn is_there<K>(api: &Api<K>, name: &str) -> bool
where
    K: Clone + Debug + DeserializeOwned,
{
    let found = insist("an object is read", async || api.get_opt(name).await);
    found.await.unwrap().is_some()
}
