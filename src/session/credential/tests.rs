use super::*;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

const ENDPOINT: &str = "https://cloud.example/api";

fn account(endpoint: &str) -> AccountSpec {
    serde_json::from_value(json!({
        "endpoint": endpoint, "tokenSecretRef": {"name": "t", "key": "t"},
    }))
    .unwrap()
}

fn of(cluster: &str, endpoint: &str, token: &str) -> String {
    credential(cluster, &account(endpoint), &SecretString::from(token))
}

/// The literal stands for every record that was written so far: another value would make each token look replaced.
#[test]
fn a_credential_is_the_same_in_every_process_and_version() {
    assert_eq!(of("cluster", ENDPOINT, "token"), "8c7e753d17205467");
    assert_eq!(
        of("cluster", &format!("{ENDPOINT}/"), "token"),
        "8c7e753d17205467"
    );
}

#[test]
fn a_credential_differs_by_cluster_endpoint_and_token() {
    let all = [
        of("cluster", ENDPOINT, "token"),
        of("another", ENDPOINT, "token"),
        of("cluster", ENDPOINT, "tokens"),
        of("cluster", "https://cloud.example/ap", "itoken"),
        of("clusterh", "ttps://cloud.example/api", "token"),
    ];
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "{all:?}");
}

/// Everybody who reads a record knows cluster and endpoint. A table of digests of likely tokens that was made without them,
/// or a plain digest, helps with no guess.
#[test]
fn a_guess_at_a_token_costs_many_rounds_for_each_cluster() {
    let parts = ["cluster", ENDPOINT, "hunter2"];
    let plain = HEXLOWER.encode(&super::super::digest::digest(&parts.map(str::as_bytes)));
    let stands = of("cluster", ENDPOINT, "hunter2");
    assert!(!plain.starts_with(&stands), "{stands}");
    assert!(ROUNDS.get() >= 1_000);
}

/// The literal was written by the earlier version.
#[test]
fn the_former_key_makes_the_credential_of_a_record_of_the_earlier_version() {
    let key = FormerKey::from_bytes(&[7; 32]);
    let token = SecretString::from("token");
    let former = key.credential("cluster", &account(ENDPOINT), &token);
    assert_eq!(former, "7efb8577d3d70e8d");
    assert_eq!(format!("{key:?}"), "FormerKey");
}

/// An apiserver that answers each read with this, and refuses everything else.
fn apiserver(code: u16, answer: &Value) -> Client {
    let answer = answer.to_string();
    let service = tower::service_fn(move |request: Request<Body>| {
        let body = Body::from(answer.clone().into_bytes());
        async move {
            assert_eq!(request.method(), Method::GET);
            Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "own")
}

#[tokio::test]
async fn the_former_key_is_read_where_its_secret_exists() {
    let status = |code: u16| {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no",
            "reason": if code == 404 { "NotFound" } else { "Forbidden" },
        })
    };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": FormerKey::SECRET},
        "data": {"key": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="},
    });
    let find = async |code, answer| FormerKey::read(&apiserver(code, &answer), "own").await;
    let key = find(200, secret).await.unwrap().unwrap();
    let token = SecretString::from("token");
    assert_eq!(
        key.credential("cluster", &account(ENDPOINT), &token),
        "7efb8577d3d70e8d"
    );
    assert!(find(404, status(404)).await.unwrap().is_none());
    assert!(find(403, status(403)).await.is_err());
}
