//! The Secrets of the files, read as if they were applied: passwords and tokens are applied together with the Instances that need
//! them, and their changes have effects.

use super::super::owners::named;
use super::super::service::Cluster;
use super::files::Manifest;
use cloud_server_operator::runtime::watch::ObjectKey;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The resourceVersion of a changed or new Secret: higher than any of a cluster.
const APPLIED: &str = "9223372036854775807";

/// The cluster with these Secrets applied. An unreadable or encrypted Secret stays as it is in the cluster, with a note.
pub(super) fn as_applied(
    cluster: &Cluster,
    manifests: &[Manifest],
    notes: &mut Vec<String>,
) -> Cluster {
    let mut applied: HashMap<ObjectKey, Secret> = HashMap::new();
    for manifest in manifests {
        let Some(key) = manifest.key(&cluster.namespace) else {
            continue;
        };
        match read_manifest(&manifest.value) {
            Ok(secret) => {
                applied.insert(key, secret);
            }
            Err(why) => notes.push(format!(
                "Secret {} in {} {why}, so the Secret in the cluster counts",
                named(&key),
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

/// The Secret of a manifest, with all its values in `data`. Its type, labels and annotations express the consent to its use.
fn read_manifest(manifest: &Value) -> Result<Secret, &'static str> {
    if manifest.get("sops").is_some() {
        return Err("is encrypted");
    }
    let secret: Result<Secret, _> = serde_json::from_value(manifest.clone());
    // The error of the decoder may quote a value.
    let mut secret = secret.map_err(|_| "cannot be read")?;
    let texts = secret.string_data.take().unwrap_or_default().into_iter();
    let values = texts.map(|(key, text)| (key, ByteString(text.into_bytes())));
    secret.data.get_or_insert_default().extend(values);
    Ok(secret)
}

/// A client that reads these Secrets as if they were applied.
fn with(client: Client, applied: HashMap<ObjectKey, Secret>) -> Client {
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

/// The Secret that a request reads, if it reads one.
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

/// Answers a request that reads a Secret with that of the cluster, changed as the manifest would change it, or with a new one. If
/// the manifest changes no value, the resourceVersion stays.
async fn read(
    client: &Client,
    request: Request<Body>,
    key: &ObjectKey,
    applied: &Secret,
) -> Result<Response<Body>, kube::Error> {
    // Reads the whole Secret, also for a request of its metadata, since the values decide whether the manifest changes it.
    let whole = Request::get(request.uri().clone()).body(Body::empty());
    let whole = whole.map_err(kube::Error::HttpError)?;
    let answer = client.send(whole).await?;
    let mut secret = match answer.status() {
        status if status.is_success() => {
            let bytes = answer.into_body().collect_bytes().await?;
            serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?
        }
        StatusCode::NOT_FOUND => Secret::default(),
        // The Secret cannot be read: the original request yields the error, or the metadata if the user may read only these.
        _ => return client.send(request).await,
    };
    apply(&mut secret, key, applied);
    let body = serde_json::to_vec(&secret).map_err(kube::Error::SerdeError)?;
    Ok(Response::new(Body::from(body)))
}

/// Applies a manifest to a Secret.
///
/// The author of a manifest may lack the right to read the Secret in the cluster, while the user of `plan` has it. Therefore the
/// consent of a manifest holds only for its own values: if a value of the cluster would remain, the type, labels and annotations of
/// the cluster remain, too.
fn apply(secret: &mut Secret, key: &ObjectKey, applied: &Secret) {
    let (values, consent) = (applied.data.clone().unwrap_or_default(), &applied.metadata);
    let data = secret.data.get_or_insert_default();
    let is_there = values
        .iter()
        .all(|(key, value)| data.get(key) == Some(value));
    let is_whole = data.keys().all(|key| values.contains_key(key));
    data.extend(values);
    let meta = &mut secret.metadata;
    if is_whole {
        secret.type_ = secret.type_.take().or_else(|| applied.type_.clone());
        let labels = meta.labels.get_or_insert_default();
        labels.extend(consent.labels.clone().unwrap_or_default());
        let annotations = meta.annotations.get_or_insert_default();
        annotations.extend(consent.annotations.clone().unwrap_or_default());
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
    fn the_values_of_a_manifest_are_those_of_an_apply() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
            "data": {"password": "b2xk", "other": "b3RoZXI="}, "stringData": {"password": "new"},
        });
        let values = read_manifest(&manifest).unwrap().data.unwrap();
        let text = |key: &str| std::str::from_utf8(&values[key].0).unwrap().to_owned();
        assert_eq!(
            (text("password"), text("other")),
            ("new".into(), "other".into())
        );
    }

    #[test]
    fn a_manifest_consents_only_for_its_own_values() {
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
    fn an_encrypted_or_malformed_secret_is_skipped_and_not_quoted() {
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
