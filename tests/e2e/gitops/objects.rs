//! Objects of other operators, by their kind.

use crate::support::{World, eventually, insist};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams,
};
use serde_json::Value;

/// Objects of a kind, as JSON.
pub(super) struct Objects {
    api: Api<DynamicObject>,
    kind: &'static str,
}

impl Objects {
    pub(super) fn of(world: &World, group: &str, version: &str, kind: &'static str) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api = Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
        Self { api, kind }
    }

    pub(super) async fn patch(&self, name: &str, patch: &Value) {
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let written = insist("an object is edited", async || {
            self.api.patch(name, &params, &patch).await
        });
        written.await.unwrap();
    }

    pub(super) async fn patch_status(&self, name: &str, patch: &Value) {
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let written = insist("a status is edited", async || {
            self.api.patch_status(name, &params, &patch).await
        });
        written.await.unwrap();
    }

    pub(super) async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        let deleted = insist("an object is deleted", async || {
            self.api.delete(name, &params).await
        });
        deleted.await.unwrap();
    }

    pub(super) async fn gone(&self, name: &str) {
        eventually(
            &format!("{} {name} is gone", self.kind),
            async || match self
                .api
                .get_opt(name)
                .await
                .map_err(|error| error.to_string())?
            {
                None => Ok(()),
                Some(object) => Err(object.data["status"].to_string()),
            },
        )
        .await;
    }

    /// Waits until this holds for one of them.
    pub(super) async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(&format!("{what}, {} {name}", self.kind), async || {
            let object = self
                .api
                .get(name)
                .await
                .map_err(|error| error.to_string())?;
            let object = serde_json::to_value(object).unwrap();
            match holds(&object) {
                true => Ok(object),
                false => Err(object["status"].to_string()),
            }
        })
        .await
    }
}
