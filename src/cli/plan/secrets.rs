//! Secrets that stand in the files, read as they would be once they are applied: passwords and tokens come with the Instances
//! that need them, and a change of one is part of what a pipeline applies.

use super::super::service::Cluster;
use super::files::Manifest;
use crate::runtime::watch::ObjectKey;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The resourceVersion of a Secret that would be written: higher than any of a cluster.
const APPLIED: &str = "9223372036854775807";

type Values = BTreeMap<String, ByteString>;

/// What a manifest makes of a Secret.
#[derive(Debug, Default, PartialEq)]
struct Applied {
    values: Values,
    /// Its type, labels and annotations: by them a Secret consents to its use.
    kind: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// The cluster as it is, but for these Secrets. What of them cannot be read, or is encrypted, is left as the cluster has it,
/// with a note.
pub(super) fn as_applied(
    cluster: &Cluster,
    manifests: &[Manifest],
    notes: &mut Vec<String>,
) -> Cluster {
    let mut applied: HashMap<ObjectKey, Applied> = HashMap::new();
    for manifest in manifests {
        let Some(name) = manifest.name() else {
            continue;
        };
        let key = ObjectKey::new(manifest.namespace().unwrap_or(&cluster.namespace), name);
        match read_manifest(&manifest.value) {
            Ok(secret) => {
                applied.insert(key, secret);
            }
            Err(why) => notes.push(format!(
                "Secret {}/{name} in {} {why}, so it is taken as the cluster has it",
                key.namespace,
                manifest.place()
            )),
        }
    }
    let mut cluster = cluster.clone();
    if !applied.is_empty() {
        cluster.client = with(cluster.client, applied);
    }
    cluster
}

/// What a manifest of a Secret says.
fn read_manifest(manifest: &Value) -> Result<Applied, &'static str> {
    if manifest.get("sops").is_some() {
        return Err("is encrypted");
    }
    let secret: Result<Secret, _> = serde_json::from_value(manifest.clone());
    // What the decoder says may quote a value.
    let secret = secret.map_err(|_| "cannot be read")?;
    let mut values = secret.data.unwrap_or_default();
    let texts = secret.string_data.unwrap_or_default().into_iter();
    values.extend(texts.map(|(key, text)| (key, ByteString(text.into_bytes()))));
    Ok(Applied {
        values,
        kind: secret.type_,
        labels: secret.metadata.labels.unwrap_or_default(),
        annotations: secret.metadata.annotations.unwrap_or_default(),
    })
}

/// The same client, which reads these Secrets as if they were applied.
fn with(client: Client, applied: HashMap<ObjectKey, Applied>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let applied = Arc::new(applied);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, applied) = (client.clone(), applied.clone());
        async move {
            let key = secret_of(&request);
            let wanted = key.and_then(|key| Some((applied.get(&key)?, key)));
            match wanted {
                Some((applied, key)) => read(&client, request, &key, applied).await,
                None => client.send(request).await,
            }
        }
    });
    Client::new(service, namespace)
}

/// The Secret that a request reads.
fn secret_of(request: &Request<Body>) -> Option<ObjectKey> {
    let path = request.uri().path().trim_start_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["api", "v1", "namespaces", namespace, "secrets", name]
            if *request.method() == Method::GET =>
        {
            Some(ObjectKey::new(namespace, name))
        }
        _ => None,
    }
}

/// A Secret of the cluster as it would be once the manifest is applied, or a new one. Where it has its values already it is the
/// very one that is there.
async fn read(
    client: &Client,
    request: Request<Body>,
    key: &ObjectKey,
    applied: &Applied,
) -> Result<Response<Body>, kube::Error> {
    // Whole, also where only its metadata is asked for: what would change cannot be told otherwise.
    let whole = Request::get(request.uri().clone()).body(Body::empty());
    let whole = whole.map_err(kube::Error::HttpError)?;
    let answer = client.send(whole).await?;
    let mut secret = match answer.status() {
        status if status.is_success() => {
            let bytes = answer.into_body().collect_bytes().await?;
            serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?
        }
        StatusCode::NOT_FOUND => Secret::default(),
        // Whoever may not read it is told so; whether it exists, its metadata may tell.
        _ => return client.send(request).await,
    };
    apply(&mut secret, key, applied);
    let body = serde_json::to_vec(&secret).map_err(kube::Error::SerdeError)?;
    Ok(Response::new(Body::from(body)))
}

/// What an apply would make of a Secret.
///
/// Whoever writes a manifest need not be allowed to read the Secret that the cluster has, and whoever plans it may be. So what a
/// manifest consents to holds for the values that the manifest itself brings: where one of the cluster's would stay, the
/// cluster's own type, labels and annotations do.
fn apply(secret: &mut Secret, key: &ObjectKey, applied: &Applied) {
    let Applied {
        values,
        kind,
        labels,
        annotations,
    } = applied;
    let data = secret.data.get_or_insert_default();
    let is_there = values
        .iter()
        .all(|(key, value)| data.get(key) == Some(value));
    let is_whole = data.keys().all(|key| values.contains_key(key));
    data.extend(values.clone());
    let meta = &mut secret.metadata;
    if is_whole {
        secret.type_ = secret.type_.take().or_else(|| kind.clone());
        meta.labels.get_or_insert_default().extend(labels.clone());
        let all = meta.annotations.get_or_insert_default();
        all.extend(annotations.clone());
    }
    meta.name.get_or_insert_with(|| key.name.clone());
    meta.namespace.get_or_insert_with(|| key.namespace.clone());
    meta.uid.get_or_insert_with(|| "of-the-files".to_owned());
    if !is_there || meta.resource_version.is_none() {
        meta.resource_version = Some(APPLIED.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_manifest_puts_under_its_keys_is_what_an_apply_would() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
            "data": {"password": "b2xk", "other": "b3RoZXI="}, "stringData": {"password": "new"},
        });
        let values = read_manifest(&manifest).unwrap().values;
        let text = |key: &str| std::str::from_utf8(&values[key].0).unwrap().to_owned();
        assert_eq!(
            (text("password"), text("other")),
            ("new".into(), "other".into())
        );
    }

    #[test]
    fn a_manifest_consents_for_the_values_that_it_brings_and_for_no_others() {
        let label = json!({"cloudserver.dev/use": "token"});
        let manifest = |data: Value| {
            let manifest = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "cloudserver.dev/token",
                "metadata": {"name": "cloud-token", "labels": label}, "stringData": data,
            });
            read_manifest(&manifest).unwrap()
        };
        let in_cluster = json!({
            "type": "Opaque", "metadata": {"name": "cloud-token", "uid": "u", "resourceVersion": "7"},
            "data": {"token": "b2xk"},
        });
        let key = ObjectKey::new("n", "cloud-token");
        for (there, brought, consents) in [
            (json!({}), json!({"token": "new"}), true),
            (in_cluster.clone(), json!({"token": "new"}), true),
            (in_cluster.clone(), json!({"token": "old"}), true),
            (in_cluster.clone(), json!({}), false),
            (in_cluster, json!({"other": "new"}), false),
        ] {
            let mut secret: Secret = serde_json::from_value(there.clone()).unwrap();
            apply(&mut secret, &key, &manifest(brought.clone()));
            let labels = secret.metadata.labels.unwrap_or_default();
            let of_type = secret.type_.as_deref() == Some("cloudserver.dev/token");
            assert_eq!(
                labels.contains_key("cloudserver.dev/use") || of_type,
                consents,
                "{there} {brought}"
            );
        }
    }

    #[test]
    fn what_is_encrypted_or_broken_is_left_out_and_quoted_nowhere() {
        let sops = json!({"kind": "Secret", "stringData": {"password": "ENC[..]"}, "sops": {}});
        assert_eq!(read_manifest(&sops), Err("is encrypted"));
        let broken = json!({"kind": "Secret", "data": {"password": "not base64!"}});
        assert_eq!(read_manifest(&broken), Err("cannot be read"));
    }

    #[test]
    fn only_the_reading_of_one_secret_is_answered_from_the_files() {
        let of = |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path);
            secret_of(&request.body(Body::empty()).unwrap())
        };
        let login = ObjectKey::new("n", "login");
        let path = "/api/v1/namespaces/n/secrets/login";
        assert_eq!(of(Method::GET, path), Some(login));
        assert_eq!(of(Method::GET, "/api/v1/namespaces/n/secrets"), None);
        assert_eq!(
            of(Method::GET, "/api/v1/namespaces/n/configmaps/login"),
            None
        );
        assert_eq!(of(Method::PATCH, path), None);
    }
}
