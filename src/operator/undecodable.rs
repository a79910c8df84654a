//! An object that this version of the operator cannot decode, because a newer version wrote it under newer definitions. The
//! operator reports that in the conditions of the object, without our types, and does nothing else with it.

use crate::api::condition_list::ListedTypes;
use crate::api::conditions::{Readiness, Reason};
use crate::runtime::KubeError;
use crate::runtime::events::{EventNote, Events};
use crate::runtime::kubernetes::{call, patch_status};
use crate::runtime::watch::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DynamicObject};
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;

/// Time to the next check of an object whose error is reported, or that is fixed or gone: its next version triggers a reconcile
/// anyway.
const UNDECODABLE_RECHECK: Duration = Duration::from_secs(600);
/// Time to the next try if a read or a write failed: no event of the object triggers one.
const RETRY_AFTER_KUBE_ERROR: Duration = Duration::from_secs(20);

/// Reports that an object cannot be decoded, unless its conditions already show that.
pub(super) async fn report<K>(
    client: &Client,
    events: &Events,
    object: &DeserializeGuard<K>,
) -> Duration
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
{
    let kind = ApiResource::erase::<K>(&());
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
    let reported = async {
        let now = call("read the object", api.get(&name)).await?;
        // If a user fixed the object meanwhile, its new version triggers a reconcile.
        let Some(why) = decode_error::<K>(&now) else {
            return Ok(());
        };
        let message = format!(
            "the object cannot be read by this version of the operator ({why}): install the version that wrote it, or fix the \
             object"
        );
        if write::<K>(client, &now, message.clone()).await? {
            tracing::error!(name, namespace, why, "the object cannot be read");
            let event = EventNote::warning("Undecodable", message);
            events.publish(&now.object_ref(&kind), &event).await;
        }
        Ok(())
    };
    match reported.await {
        Err(error) if !KubeError::is_not_found(&error) => {
            tracing::warn!(name, namespace, %error, "an object that does not decode was not read, or its status not written");
            RETRY_AFTER_KUBE_ERROR
        }
        Ok(()) | Err(_) => UNDECODABLE_RECHECK,
    }
}

/// The field that cannot be decoded, and the reason.
fn decode_error<K: DeserializeOwned>(object: &DynamicObject) -> Option<String> {
    let text = serde_json::to_string(object).ok()?;
    let mut reader = serde_json::Deserializer::from_str(&text);
    let error = serde_path_to_error::deserialize::<_, K>(&mut reader).err()?;
    let reason = error.inner().to_string();
    // The line number counts in a text that no user has seen.
    let reason = reason.split(" at line ").next().unwrap_or_default();
    Some(format!("{}: {reason}", error.path()))
}

/// Writes the conditions, unless the object has them already. Returns whether it wrote.
async fn write<K>(
    client: &Client,
    object: &DynamicObject,
    message: String,
) -> Result<bool, KubeError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let status = &object.data["status"];
    let mut former: Vec<Condition> =
        serde_json::from_value(status["conditions"].clone()).unwrap_or_default();
    let listed_types = ListedTypes::take(&mut former);
    let generation = object.metadata.generation.unwrap_or_default();
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let conditions =
        Readiness::stalled(Reason::Undecodable, message).to_conditions(&former, generation, now);
    if former == conditions && status["observedGeneration"] == json!(generation) {
        return Ok(false);
    }
    let mut patch = vec![json!({"op": "test", "path": "/metadata/uid", "value": object.uid()})];
    if matches!(status, Value::Null) {
        patch.push(json!({"op": "add", "path": "/status", "value": {}}));
    }
    patch.push(json!({"op": "add", "path": "/status/observedGeneration", "value": generation}));
    patch.extend(listed_types.replace_own(&json!(conditions)));
    let key = ObjectKey::of(object);
    patch_status::<K>(client, &key, "write the status", patch).await?;
    Ok(true)
}
