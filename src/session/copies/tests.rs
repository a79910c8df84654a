use super::*;
use http::{Request, Response};
use kube::client::Body;
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

fn of() -> Source {
    let spec = json!({
        "endpoint": "https://cloud.example/api",
        "tokenSecretRef": {"name": "cloud-token", "key": "token"},
        "settleSeconds": 7,
    });
    Source {
        namespace: "team-a".into(),
        name: "default".into(),
        spec: serde_json::from_value(spec).unwrap(),
    }
}

#[test]
fn a_copy_is_read_as_it_was_written_endpoint_and_token_together() {
    let token = SecretString::from("t0ken").into();
    let copy = understand(secret(&of(), &token)).unwrap();
    assert_eq!(
        (copy.account.namespace.as_str(), copy.account.name.as_str()),
        ("team-a", "default")
    );
    assert_eq!(copy.spec, of().spec);
    assert_eq!(copy.credentials.token.expose_secret(), "t0ken");
}

/// A copy includes the TLS material: without it, the operator could not release the servers of such an Account.
#[test]
fn an_incomplete_copy_of_an_account_with_tls_is_ignored() {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["client".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let pem = TlsPem {
        ca_bundle: Some(certificate.clone()),
        client: Some((certificate, key.serialize_pem().into())),
    };
    let credentials = ServiceCredentials {
        token: SecretString::from("t0ken"),
        tls: Tls::new(pem, UnixTime::now()).unwrap(),
    };
    let tls = json!({
        "caBundle": {"configMapKeyRef": {"name": "bundle", "key": "ca.crt"}},
        "clientCertificateSecretRef": {"name": "client"},
    });
    let mut of = of();
    of.spec.tls = serde_json::from_value(tls).unwrap();
    let copy = understand(secret(&of, &credentials)).unwrap();
    assert_eq!(copy.credentials.tls, credentials.tls);
    for key in [CA_BUNDLE, CERTIFICATE, KEY] {
        let mut edited = secret(&of, &credentials);
        edited.data.as_mut().unwrap().remove(key);
        assert!(understand(edited).is_none(), "without {key}");
    }
}

/// An apiserver with one Secret. A deletion takes time, and a write of equal content changes nothing.
fn apiserver(exists: Arc<AtomicBool>) -> Client {
    let respond = move |request: Request<Body>| {
        let exists = exists.clone();
        async move {
            let body = match request.method().as_str() {
                "GET" => json!({"metadata": {"uid": "u", "resourceVersion": "7"}}),
                "DELETE" => {
                    sleep(Duration::from_secs(1)).await;
                    exists.store(false, Ordering::SeqCst);
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})
                }
                _ => {
                    exists.store(true, Ordering::SeqCst);
                    json!({"metadata": {"uid": "u", "resourceVersion": "7"}})
                }
            };
            Ok::<_, Infallible>(Response::new(Body::from(body.to_string().into_bytes())))
        }
    };
    Client::new(tower::service_fn(respond), "operator")
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_written_during_its_deletion_exists_afterwards() {
    let exists = Arc::new(AtomicBool::new(false));
    let copies = Copies::new(apiserver(exists.clone()), "operator", Metrics::default());
    let (account, credentials) = (
        ObjectKey::new("team-a", "default"),
        SecretString::from("t0ken").into(),
    );
    let spec = of().spec;
    let write = async || copies.write(&account, &spec, &credentials).await;
    write().await.unwrap();
    let stop = CancellationToken::new();
    let during = async {
        sleep(Duration::from_millis(500)).await;
        write().await
    };
    let ((), written) = tokio::join!(copies.delete_unneeded(|_| false, &stop), during);
    written.unwrap();
    assert!(exists.load(Ordering::SeqCst));
}

#[test]
fn a_renamed_or_edited_copy_is_ignored() {
    let token = SecretString::from("t0ken").into();
    let mut renamed = secret(&of(), &token);
    renamed.metadata.name = Some("token-copy-0".into());
    assert!(understand(renamed).is_none());
    let mut edited = secret(&of(), &token);
    edited.data.as_mut().unwrap().remove(ACCOUNT);
    assert!(understand(edited).is_none());
    let mut other = of();
    other.namespace = "team-b".into();
    let mut forged = secret(&other, &token);
    forged.metadata.name = secret(&of(), &token).metadata.name;
    assert!(understand(forged).is_none());
}
