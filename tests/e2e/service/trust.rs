//! The connection settings of an Account: CA bundles, client certificates, proxies, each changed while the operator runs.

use super::certificate::{Authority, Certified, Flaw, Front};
use super::egress::{apply_account, until_reported};
use crate::account::namespace::{copies, delete_namespace, until_gone, until_no_copy};
use crate::support::{PLUGIN, Setup, World, delete, eventually, insist, instance, names, run};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::AbortHandle;

async fn config_map(world: &World, bundle: &str) {
    let api: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bundle"},
        "data": {"ca.crt": bundle},
    });
    let params = PatchParams::apply("user").force();
    let written = insist("a ConfigMap is written", async || {
        api.patch("bundle", &params, &Patch::Apply(&map)).await
    });
    written.await.unwrap();
}

/// A Secret as cert-manager creates it.
async fn tls_secret(world: &World, labels: Value, (certificate, key): &(String, String)) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "client", "labels": labels},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    });
    let (api, params): (Api<Secret>, _) = (world.secrets(), PatchParams::apply("user").force());
    let written = insist("a Secret is written", async || {
        api.patch("client", &params, &Patch::Apply(&secret)).await
    });
    written.await.unwrap();
}

/// Runs the command that lists servers of the Account; returns whether it succeeded, and its output.
async fn command(world: &World) -> (bool, String) {
    let mut command = Command::new(PLUGIN);
    command.args(["instances", "-n", &world.namespace, "--kubeconfig"]);
    command.arg(world.shared.cluster.kubeconfig_path());
    let output = run(&mut command, "").await;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), stderr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ca_bundle_is_trusted_and_its_change_needs_no_restart() {
    let world = Setup::default().begin("ca-bundle").await;
    let authorities = [(); 4].map(|()| Authority::new());
    let [first, second, third, fourth] = &authorities;
    let front = Front::begin(&world, first.certify(Flaw::None)).await;
    let from_map =
        json!({"tls": {"caBundle": {"configMapKeyRef": {"name": "bundle", "key": "ca.crt"}}}});
    apply_account(&world, "default", &front.endpoint, from_map).await;
    let (_, message) = until_reported(&world, "default", "CaBundleNotFound").await;
    assert!(message.contains("ConfigMap bundle"), "{message}");
    config_map(&world, "no certificate").await;
    until_reported(&world, "default", "CaBundleInvalid").await;
    config_map(&world, &second.pem).await;
    let (_, message) = until_reported(&world, "default", "ServiceUnreachable").await;
    assert!(message.contains("does not trust"), "{message}");
    assert!(!front.has_met(Flaw::None, true), "a client accepted it");
    config_map(&world, &first.pem).await;
    world.apply(&instance("web-1")).await;
    world.ready("web-1").await;
    let (is_answered, stderr) = command(&world).await;
    assert!(is_answered, "{stderr}");

    // Bundle and certificate change together, as in a rotation without an overlap.
    config_map(&world, &second.pem).await;
    front.exchange(second.certify(Flaw::None));
    world.apply(&instance("web-2")).await;
    world.ready("web-2").await;

    world.secret("bundle", "ca.crt", &third.pem).await;
    front.exchange(third.certify(Flaw::None));
    let from_secret =
        json!({"tls": {"caBundle": {"secretKeyRef": {"name": "bundle", "key": "ca.crt"}}}});
    apply_account(&world, "default", &front.endpoint, from_secret).await;
    world.apply(&instance("web-3")).await;
    world.ready("web-3").await;
    world.secret("bundle", "ca.crt", &fourth.pem).await;
    front.exchange(fourth.certify(Flaw::None));
    world.apply(&instance("web-4")).await;
    world.ready("web-4").await;
    assert_eq!(world.sim.servers().len(), 4, "{}", world.ledger_text());
    world.finish().await;
}

/// The bundle holds two self-signed certificates in one file, joined without a line break, and the service presents the second.
/// Then the second one is removed from the file, and the condition names the remedy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_openssl_signed_by_itself_is_trusted_from_a_joined_bundle() {
    let world = Setup::default().begin("self-signed").await;
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let line = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.pem -days 2 \
             -subj /CN={name} -addext subjectAltName=IP:127.0.0.1"
        );
        let mut openssl = std::process::Command::new("openssl");
        let openssl = openssl.args(line.split_whitespace());
        let output = openssl.current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let [certificate, key] =
            ["pem", "key"].map(|end| folder.path().join(format!("{name}.{end}")));
        let pem = std::fs::read_to_string(&certificate).unwrap();
        (Certified::read(&certificate, &key), pem)
    };
    let (_, other) = make("other");
    let (shown, own) = make("own");
    let front = Front::begin(&world, shown).await;
    config_map(&world, &format!("{}{own}", other.trim_end())).await;
    let bundle =
        json!({"tls": {"caBundle": {"configMapKeyRef": {"name": "bundle", "key": "ca.crt"}}}});
    apply_account(&world, "default", &front.endpoint, bundle).await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let (is_answered, stderr) = command(&world).await;
    assert!(is_answered, "{stderr}");

    config_map(&world, &other).await;
    let (_, message) = until_reported(&world, "default", "ServiceUnreachable").await;
    assert!(
        message.contains("put it into spec.tls.caBundle"),
        "{message}"
    );
    assert_eq!(world.sim.servers().len(), 1, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_shown_if_its_secret_consents() {
    let world = Setup::default().begin("client-certificate").await;
    let (ours, theirs) = (Authority::new(), Authority::new());
    let front = Front::begin(&world, theirs.demanding(&ours)).await;
    config_map(&world, &theirs.pem).await;
    let bundle = json!({"configMapKeyRef": {"name": "bundle", "key": "ca.crt"}});
    let alone = json!({"tls": {"caBundle": bundle}});
    apply_account(&world, "default", &front.endpoint, alone).await;
    until_reported(&world, "default", "ServiceUnreachable").await;
    assert!(!front.has_met(Flaw::None, true), "it accepted any client");

    let tls = json!({"caBundle": bundle, "clientCertificateSecretRef": {"name": "client"}});
    apply_account(&world, "default", &front.endpoint, json!({"tls": tls})).await;
    let (_, message) = until_reported(&world, "default", "ClientCertificateNotFound").await;
    assert!(message.contains("Secret client"), "{message}");
    let (certificate, key) = ours.client();
    let whole = (certificate.clone(), key.clone());
    tls_secret(&world, json!({}), &whole).await;
    let (_, message) = until_reported(&world, "default", "SecretUseNotAllowed").await;
    let label = "cloudserver.dev/use=client-certificate";
    assert!(message.contains(label), "{message}");
    let consents = json!({"cloudserver.dev/use": "client-certificate"});
    let mixed = (certificate, ours.client().1);
    tls_secret(&world, consents.clone(), &mixed).await;
    let (_, message) = until_reported(&world, "default", "ClientCertificateInvalid").await;
    assert!(message.contains("does not belong"), "{message}");
    tls_secret(&world, consents.clone(), &whole).await;
    world.apply(&instance("web-1")).await;
    world.ready("web-1").await;
    let (is_answered, stderr) = command(&world).await;
    assert!(is_answered, "{stderr}");

    // From here on the service trusts only clients of another authority; the operator's certificate is renewed accordingly.
    let next = Authority::new();
    front.exchange(theirs.demanding(&next));
    tls_secret(&world, consents, &next.client()).await;
    world.apply(&instance("web-2")).await;
    world.ready("web-2").await;
    let body = key.lines().nth(1).unwrap();
    assert!(!world.logs().contains(body), "the key is in the log");
    assert_eq!(world.sim.servers().len(), 2, "{}", world.ledger_text());
    world.finish().await;
}

/// The service refuses every caller without the client certificate. The Account, its Secrets and its ConfigMap are deleted
/// first, so that only the operator's copy of the certificate lets it release the servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_whose_service_wants_a_client_certificate_goes_with_its_servers() {
    let mut world = Setup::default().keeps_tokens().begin("mutual-tls").await;
    let (ours, theirs) = (Authority::new(), Authority::new());
    let front = Front::begin(&world, theirs.demanding(&ours)).await;
    config_map(&world, &theirs.pem).await;
    let consents = json!({"cloudserver.dev/use": "client-certificate"});
    let client = ours.client();
    tls_secret(&world, consents, &client).await;
    let bundle = json!({"configMapKeyRef": {"name": "bundle", "key": "ca.crt"}});
    let tls = json!({"caBundle": bundle, "clientCertificateSecretRef": {"name": "client"}});
    apply_account(&world, "default", &front.endpoint, json!({"tls": tls})).await;
    world.account_is_ready("default").await;
    let fleet = names("web", 3);
    world.apply_all(&fleet, instance).await;
    world.all_ready(&fleet).await;
    eventually("the certificate is copied with the token", async || {
        let all = copies(&world).await;
        let data = all.iter().filter_map(|copy| copy.data.as_ref());
        let keys: Vec<_> = data.filter_map(|data| data.get("tls.key")).collect();
        let key = client.1.trim().as_bytes();
        match keys.iter().any(|copied| copied.0.trim_ascii() == key) {
            true => Ok(()),
            false => Err(format!("{} copies, {} with a key", all.len(), keys.len())),
        }
    })
    .await;
    world.kill();
    delete(&world.secrets(), "client").await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    delete(&maps, "bundle").await;
    let api = delete_namespace(&world).await;
    eventually("the Account is gone", async || {
        let found = insist("read it", async || {
            world.accounts().get_opt("default").await
        });
        match found.await.unwrap() {
            None => Ok(()),
            Some(_) => Err("it is there".to_owned()),
        }
    })
    .await;
    let before = front.handshakes();
    world.start().await;
    until_gone(&world, &api).await;
    assert!(front.handshakes() > before, "some went past the front");
    assert_eq!(world.sim.servers().len(), 3, "{}", world.ledger_text());
    until_no_copy(&world).await;
    let body = client.1.lines().nth(1).unwrap();
    assert!(!world.logs().contains(body), "the key is in the log");
    world.finish().await;
}

/// An HTTP proxy that opens tunnels, and keeps every byte that it receives unencrypted.
struct Tunnels {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Tunnels {
    async fn begin() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let received = requests.clone();
        let task = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                tokio::spawn(tunnel(near, received.clone()));
            }
        });
        Self {
            url,
            requests,
            task: task.abort_handle(),
        }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn tunnel(mut near: TcpStream, requests: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match near.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    requests.lock().unwrap().push(head);
    let Ok(mut far) = TcpStream::connect(target).await else {
        return;
    };
    if near.write_all(b"HTTP/1.1 200 opened\r\n\r\n").await.is_ok() {
        let _ = copy_bidirectional(&mut near, &mut far).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_the_accounts_proxy_every_call_is_a_tunnel_that_it_cannot_read() {
    let world = Setup::default().begin("proxy").await;
    let (authority, tunnels) = (Authority::new(), Tunnels::begin().await);
    let front = Front::begin(&world, authority.certify(Flaw::None)).await;
    config_map(&world, &authority.pem).await;
    let bundle = json!({"configMapKeyRef": {"name": "bundle", "key": "ca.crt"}});
    let more = json!({"tls": {"caBundle": bundle}, "proxy": {"url": tunnels.url}});
    apply_account(&world, "default", &front.endpoint, more).await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    let (is_answered, stderr) = command(&world).await;
    assert!(is_answered, "{stderr}");
    let requests = tunnels.requests();
    let begin = format!("CONNECT {} ", front.endpoint.trim_start_matches("https://"));
    assert!(!requests.is_empty() && requests.iter().all(|head| head.starts_with(&begin)));
    assert!(!requests.concat().contains(World::TOKEN));
    assert_eq!(
        front.handshakes(),
        requests.len(),
        "some went past the proxy"
    );
    world.finish().await;
}

/// The manifest, with the parts that each user fills in: the service, the proxy, the authority, a certificate and its key.
fn example(world: &World, (front, tunnels): (&Front, &Tunnels), pem: [&str; 3]) -> String {
    let text = include_str!("../../../examples/account-tls.yaml");
    let text = text
        .replace("https://cloud.example/api", &front.endpoint)
        .replace("http://proxy.example:3128", &tunnels.url)
        .replace("example-token", World::TOKEN);
    let mut documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let [bundle, certificate, key] = pem.map(Value::from);
    for document in &mut documents {
        match document["metadata"]["name"].as_str().unwrap() {
            "cloud-authority" => document["data"]["ca.crt"] = bundle.clone(),
            "cloud-client" => {
                let given = json!({"tls.crt": certificate, "tls.key": key});
                document["stringData"] = given;
            }
            _ => {}
        }
        document["metadata"]["namespace"] = Value::from(world.namespace.as_str());
    }
    let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
    documents.join("\n---\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_with_an_authority_a_client_certificate_and_a_proxy_buys_and_releases() {
    let world = Setup::default().bare().begin("example-tls").await;
    let (ours, theirs) = (Authority::new(), Authority::new());
    let tunnels = Tunnels::begin().await;
    let front = Front::begin(&world, theirs.demanding(&ours)).await;
    let (certificate, key) = ours.client();
    let pem = [theirs.pem.as_str(), &certificate, &key];
    let manifest = example(&world, (&front, &tunnels), pem);
    world.run(&["apply", "-f", "-"], &manifest).await;
    world.account_is_ready("default").await;
    world.secret("login", "password", World::PASSWORD).await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    world.delete("web").await;
    world.gone("web").await;
    let requests = tunnels.requests();
    assert!(!requests.is_empty() && !requests.concat().contains(World::TOKEN));
    assert_eq!(
        front.handshakes(),
        requests.len(),
        "some went past the proxy"
    );
    assert_eq!(world.sim.servers().len(), 1, "{}", world.ledger_text());
    assert_eq!(world.sim.live_servers(), []);

    // Both Secrets are bound to their endpoint.
    let elsewhere = Front::begin(&world, theirs.demanding(&ours)).await;
    let other = json!({"spec": {"endpoint": elsewhere.endpoint}}).to_string();
    let patch = ["patch", "account", "default", "--type=merge", "-p", &other];
    world.run(&patch, "").await;
    until_reported(&world, "default", "SecretEndpointMismatch").await;
    assert_eq!(elsewhere.handshakes(), 0);
    world.finish().await;
}
