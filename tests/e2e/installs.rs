//! The permissions of every form of installation in `deploy/`, and their limits, for any names.

mod apart;
mod confined;
mod excessive;
mod metrics;
mod records;
mod roles;

use crate::support::{World, insist};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::{Client, core::ObjectMeta};
use serde_json::{Value, json};

/// A Secret as the operator creates for an Instance.
fn of_an_instance() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "generateName": "tried-",
            "labels": {"app.kubernetes.io/managed-by": "cloud-server-operator", "cloudserver.dev/secret": "login"},
            "annotations": {"cloudserver.dev/rotated-at": "2026-11-21T15:34:43Z"},
            "ownerReferences": [{
                "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance", "name": "web",
                "uid": "0d1c9d4e-0000-4000-8000-000000000001", "controller": true,
            }],
        },
        "data": {"password": "YQ==", "current": "YQ==", "username": "YQ=="},
    })
}

/// A token of a ServiceAccount, which would never expire.
fn token_of_an_account() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "generateName": "tried-",
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
    })
}

/// A Secret as the operator creates for an Instance, changed by a merge patch.
fn but(patch: &Value) -> Value {
    let mut secret = of_an_instance();
    merge(&mut secret, patch);
    secret
}

fn merge(into: &mut Value, patch: &Value) {
    let (Some(into), Some(patch)) = (into.as_object_mut(), patch.as_object()) else {
        return;
    };
    for (key, value) in patch {
        match into.get_mut(key) {
            Some(there) if there.is_object() && value.is_object() => merge(there, value),
            _ if value.is_null() => {
                into.remove(key);
            }
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Whether the apiserver allows this to a user, by default in the namespace of the world.
async fn may(world: &World, user: &str, question: &[&str]) -> bool {
    let question = [&["auth", "can-i"], question, &["--as", user]].concat();
    let (_, answer) = world.kubectl(&question, "").await;
    // A warning may follow the answer, since some of these resources are not served.
    match answer.lines().next().unwrap_or_default().trim() {
        "yes" => true,
        no if no.starts_with("no") => false,
        _ => panic!("{question:?}: {answer}"),
    }
}

/// Whether a client may create this Secret; the error is the apiserver's refusal. Nothing is stored.
async fn may_make(client: &Client, namespace: &str, secret: &Value) -> Result<(), String> {
    let secret: Secret = serde_json::from_value(secret.clone()).unwrap();
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = insist("a Secret is tried", async || {
        api.create(&params, &secret).await
    });
    match made.await {
        Ok(Secret {
            metadata: ObjectMeta { name: Some(_), .. },
            ..
        }) => Ok(()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}
