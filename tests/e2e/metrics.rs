//! Access to metrics and probes: optionally with TLS and a token that the apiserver knows; and clients that only hold
//! connections.

use crate::support::{Setup, World, eventually, kubectl};
use rcgen::{CertificateParams, KeyPair};
use reqwest::{Certificate, Client, StatusCode};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;

const RIGHTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../deploy/metrics-auth/rights.yaml"
);

/// A certificate for loopback in two files; returns it as PEM.
fn certify(folder: &Path) -> String {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    std::fs::write(folder.join("tls.crt"), &pem).unwrap();
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    pem
}

async fn run(arguments: &[&str]) -> String {
    eventually(&format!("kubectl {arguments:?}"), async || {
        let output = kubectl(arguments, "").await;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    })
    .await
}

/// Creates a ServiceAccount in the test's namespace; returns a token of it.
async fn service_account(world: &World, name: &str) -> String {
    let namespace = world.namespace.as_str();
    run(&["create", "serviceaccount", name, "-n", namespace]).await;
    run(&["create", "token", name, "-n", namespace]).await
}

/// The address of the separate port for metrics, from the log.
async fn metrics_address(world: &mut World) -> String {
    let operator = world.operator();
    eventually("the operator logs the address of its metrics", async || {
        let log = operator.log_text();
        let found = log.lines().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            line["metrics"].as_str().map(ToOwned::to_owned)
        });
        found.ok_or(log)
    })
    .await
}

fn trusting(pem: &str) -> Client {
    let certificate = Certificate::from_pem(pem.as_bytes()).unwrap();
    let client = Client::builder().no_proxy();
    client.tls_certs_only([certificate]).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_only_for_clients_that_the_apiserver_authorizes() {
    let folder = tempfile::tempdir().unwrap();
    let pem = certify(folder.path());
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    run(&["apply", "--server-side", "-f", RIGHTS]).await;
    let mut world = Setup::default()
        .environment("CSO_METRICS_LISTEN", "127.0.0.1:0")
        .environment("CSO_METRICS_TLS_CERT", &file("tls.crt"))
        .environment("CSO_METRICS_TLS_KEY", &file("tls.key"))
        .environment("CSO_METRICS_AUTH", "true")
        .begin("metrics")
        .await;
    let url = format!("https://{}/metrics", metrics_address(&mut world).await);
    let client = trusting(&pem);
    let get = async |token: Option<&str>| {
        let request = client.get(&url);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    };
    assert_eq!(get(None).await.0, StatusCode::UNAUTHORIZED);
    let guess = get(Some("guess")).await;
    assert_eq!(guess.0, StatusCode::UNAUTHORIZED);

    let unauthorized = service_account(&world, "unauthorized").await;
    let refused = get(Some(&unauthorized)).await;
    assert_eq!(refused.0, StatusCode::FORBIDDEN, "{}", refused.1);
    assert!(!refused.1.contains("cloudserver_"), "{}", refused.1);

    let scraper = service_account(&world, "scraper").await;
    let subject = format!("--serviceaccount={}:scraper", world.namespace);
    let role = "--clusterrole=cloud-server-operator-metrics-reader";
    run(&[
        "create",
        "clusterrolebinding",
        &world.namespace,
        role,
        &subject,
    ])
    .await;
    eventually("the scraper reads them", async || {
        match get(Some(&scraper)).await {
            (StatusCode::OK, text) if text.contains("# EOF") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(get(Some(&unauthorized)).await.0, StatusCode::FORBIDDEN);
    run(&["delete", "clusterrolebinding", &world.namespace]).await;

    // Probes have no token, and their port serves nothing else.
    let plain = Client::builder().no_proxy().build().unwrap();
    for (page, status) in [("livez", 200), ("readyz", 200), ("metrics", 404)] {
        let url = world.operator().url(page).await;
        let answer = plain.get(url).send().await.unwrap();
        assert_eq!(answer.status(), status, "{page}");
    }
    let log = world.operator().log_text();
    for token in [&unauthorized, &scraper] {
        assert!(!log.contains(token.as_str()), "a token is in the log");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_block_no_probe() {
    let mut world = Setup::default().begin("holders").await;
    let address = world.operator().address().await;
    let livez = world.operator().url("livez").await;
    let plain = Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let mut held = Vec::new();
    for _ in 0..500 {
        held.push(TcpStream::connect(&address).await.unwrap());
    }
    let answer = plain.get(&livez).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", world.operator().id()));
    let descriptors = descriptors.unwrap().count();
    assert!(
        descriptors < 200,
        "the operator holds {descriptors} descriptors"
    );
    drop(held);
    world.finish().await;
}
