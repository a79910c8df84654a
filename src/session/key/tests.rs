use super::*;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use std::sync::Mutex;

fn account(endpoint: &str) -> AccountSpec {
    serde_json::from_value(json!({
        "endpoint": endpoint, "tokenSecretRef": {"name": "t", "key": "t"},
    }))
    .unwrap()
}

fn credential(key: &CredentialKey, endpoint: &str, token: &str) -> String {
    key.credential("cluster", &account(endpoint), &SecretString::from(token))
}

#[test]
fn a_credential_tells_endpoints_and_tokens_apart_to_who_has_the_key() {
    let key = CredentialKey::of(&[7; 32]);
    let ours = credential(&key, "https://cloud.example/api", "token");
    assert_eq!(ours.len(), 16);
    assert_eq!(
        ours,
        credential(&key, "https://cloud.example/api/", "token")
    );
    assert_ne!(
        ours,
        credential(&key, "https://cloud.example/api", "tokens")
    );
    assert_ne!(ours, credential(&key, "https://cloud.example/ap", "itoken"));
    assert_ne!(
        ours,
        credential(
            &CredentialKey::of(&[8; 32]),
            "https://cloud.example/api",
            "token"
        )
    );
    let (one, other) = (CredentialKey::random(), CredentialKey::random());
    assert_ne!(
        credential(&one, "https://a", "t"),
        credential(&other, "https://a", "t")
    );
}

/// An attacker who reads the record knows cluster and endpoint, and guesses the token. The unkeyed digest of earlier versions is
/// what they can compute.
#[test]
fn a_guess_at_a_token_is_confirmed_by_nothing_that_a_record_holds() {
    let guess = |token: &str| {
        let parts = ["cluster", "https://cloud.example/api", token];
        HEXLOWER.encode(&super::super::digest::digest(&parts.map(str::as_bytes)))
    };
    let key = CredentialKey::random();
    let stands = credential(&key, "https://cloud.example/api", "hunter2");
    assert!(!guess("hunter2").starts_with(&stands[..8]), "{stands}");
    assert_eq!(format!("{key:?}"), "CredentialKey");
}

/// An apiserver with at most one Secret.
fn apiserver(secret: &Arc<Mutex<Option<Value>>>) -> Client {
    let secret = secret.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let secret = secret.clone();
        async move {
            let method = request.method().clone();
            let body = request.into_body().collect_bytes().await?;
            // All clients read before the first one creates.
            tokio::task::yield_now().await;
            let mut stands = secret.lock().unwrap();
            let (code, answer) = match (method, &*stands) {
                (Method::GET, Some(secret)) => (200, secret.clone()),
                (Method::GET, None) => (404, status(404)),
                (_, Some(_)) => (409, status(409)),
                (_, None) => {
                    let made: Value = serde_json::from_slice(&body).unwrap();
                    *stands = Some(made.clone());
                    (201, made)
                }
            };
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "own")
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "", "message": "no"})
}

#[tokio::test]
async fn the_key_is_made_once_whoever_asks_and_is_the_same_after_a_restart() {
    let secret = Arc::default();
    let client = apiserver(&secret);
    let find = || CredentialKey::find(&client, "own");
    let (one, other) = tokio::join!(find(), find());
    let later = find().await;
    let told = [one, other, later].map(|key| credential(&key.unwrap().unwrap(), "https://a", "t"));
    assert!(told.iter().all(|word| *word == told[0]), "{told:?}");
    let stands = secret.lock().unwrap().clone().unwrap();
    assert_eq!(
        (&stands["type"], &stands["immutable"]),
        (&json!(CREDENTIAL_KEY), &json!(true))
    );
}

#[tokio::test]
async fn a_secret_that_holds_no_key_is_none() {
    for data in [
        json!({}),
        json!({"key": ""}),
        json!({"key": "c2hvcnQ="}),
        json!({"other": "eA=="}),
    ] {
        let stands =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "data": data});
        let client = apiserver(&Arc::new(Mutex::new(Some(stands))));
        assert!(
            CredentialKey::find(&client, "own").await.unwrap().is_none(),
            "{data}"
        );
    }
}
