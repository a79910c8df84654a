//! Tests over real sockets: services with their own certificates, a proxy, names that resolve to this machine.

use super::*;
use crate::cloud::{CallPriority, Client, Limits, Paths, RateLimiter, ServerId, TlsPem};
use crate::runtime::tls::provider;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

mod pki;

const TOKEN: &str = "tok-canary-2";
const KEYS: &str = "{\"httpStatus\":200,\"success\":true,\"sshKeys\":[],\"rowCount\":0}";

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        let name = "an authority of this test";
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            pem: own.pem(),
            der: own.der().clone(),
        }
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// The TLS configuration of a server on loopback; with `clients`, it requires a client certificate of that authority.
    fn server(&self, clients: Option<&Self>) -> Arc<ServerConfig> {
        let (certificate, key) = self.issue("127.0.0.1");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.der.clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = vec![certificate.der().clone()];
        Arc::new(builder.with_single_cert(chain, key).unwrap())
    }

    fn tls(&self) -> Tls {
        tls(Some(&self.pem), None)
    }
}

fn tls(bundle: Option<&str>, client: Option<(rcgen::Certificate, KeyPair)>) -> Tls {
    let pem = TlsPem {
        ca_bundle: bundle.map(str::to_owned),
        client: client.map(|(certificate, key)| (certificate.pem(), key.serialize_pem().into())),
    };
    Tls::new(pem, UnixTime::now()).unwrap()
}

/// A service that answers every request with an empty list of keys, and counts connections and requests.
#[derive(Clone, Default)]
struct Seen {
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Seen {
    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn service(config: Option<Arc<ServerConfig>>) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let counters = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counters.connections.fetch_add(1, Ordering::SeqCst);
            let (config, counters) = (config.clone(), counters.clone());
            tokio::spawn(async move {
                match config {
                    None => answer(stream, counters).await,
                    Some(config) => {
                        if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                            answer(stream, counters).await;
                        }
                    }
                }
            });
        }
    });
    (address, seen)
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, seen: Seen) {
    while let Some(head) = head(&mut stream).await {
        seen.requests.lock().unwrap().push(head);
        let length = KEYS.len();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{KEYS}");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The head of one request.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// A proxy that opens tunnels, and records the unencrypted requests that it gets.
async fn tunnels() -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let counters = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            counters.connections.fetch_add(1, Ordering::SeqCst);
            let counters = counters.clone();
            tokio::spawn(async move {
                let Some(head) = head(&mut near).await else {
                    return;
                };
                let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
                counters.requests.lock().unwrap().push(head);
                let mut far = TcpStream::connect(target).await.unwrap();
                let opened = b"HTTP/1.1 200 opened\r\n\r\n";
                near.write_all(opened).await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, seen)
}

fn client(http: &Http, endpoint: &str) -> Result<Client, BuildError> {
    let limits = Limits {
        per_second: 10_000.0,
        burst: 1000,
        concurrent: 100,
    };
    let (paths, limiter) = (Paths::default(), RateLimiter::new(limits));
    Client::new(http.clone(), endpoint, TOKEN.into(), paths, limiter)
}

fn by(http: &Http, tls: Tls, proxy: Option<String>) -> Http {
    http.with_route(Route { tls, proxy })
}

fn open() -> Http {
    Http::new(AllowedEndpoints::default()).unwrap()
}

fn guarded(allowed: &[&str]) -> Http {
    let patterns: Vec<_> = allowed.iter().map(|text| text.parse().unwrap()).collect();
    Http::guarded(patterns.into()).unwrap()
}

impl Http {
    /// The same connections with a different resolver.
    fn resolving(self, lookup: Lookup) -> Self {
        let Backend::Network(network) = &self.backend else {
            unreachable!("it was made with a network");
        };
        let network = Network {
            egress: network.egress,
            lookup,
            system: network.system.clone(),
            pairs: Mutex::default(),
        };
        Self {
            backend: Backend::Network(Arc::new(network)),
            ..self
        }
    }
}

async fn probe(http: &Http, endpoint: &str) -> Result<(), String> {
    let client = client(http, endpoint).map_err(|error| error.to_string())?;
    let probed = client.probe(CallPriority::Urgent).await;
    probed.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_ca_bundle_replaces_the_authorities_of_the_system() {
    let (own, other) = (Authority::new(), Authority::new());
    let http = open();
    let (address, seen) = service(Some(own.server(None))).await;
    let endpoint = format!("https://{address}");
    assert_eq!(probe(&by(&http, own.tls(), None), &endpoint).await, Ok(()));
    for untrusting in [Tls::default(), other.tls()] {
        let message = probe(&by(&http, untrusting, None), &endpoint).await;
        let message = message.unwrap_err();
        assert!(
            message.contains("authority that the operator does not trust"),
            "{message}"
        );
    }
    let both = tls(Some(&format!("{}{}", other.pem, own.pem)), None);
    assert_eq!(probe(&by(&http, both, None), &endpoint).await, Ok(()));
    let requests = seen.requests();
    assert_eq!(
        requests.len(),
        2,
        "a client without the authority sent something: {requests:?}"
    );
}

#[tokio::test]
async fn a_client_certificate_is_presented_to_the_service() {
    let (own, ours) = (Authority::new(), Authority::new());
    let (address, seen) = service(Some(own.server(Some(&ours)))).await;
    let (http, endpoint) = (open(), format!("https://{address}"));
    let with = |client| by(&http, tls(Some(&own.pem), client), None);
    assert!(probe(&with(None), &endpoint).await.is_err());
    let foreign = Authority::new().issue("client");
    assert!(probe(&with(Some(foreign)), &endpoint).await.is_err());
    assert!(seen.requests().is_empty());
    let known = ours.issue("client");
    assert_eq!(probe(&with(Some(known)), &endpoint).await, Ok(()));
}

#[tokio::test]
async fn a_proxy_sees_a_tunnel_and_none_of_its_content() {
    let own = Authority::new();
    let (address, seen) = service(Some(own.server(None))).await;
    let (proxy, tunnels) = tunnels().await;
    let http = by(&open(), own.tls(), Some(format!("http://{proxy}")));
    assert_eq!(probe(&http, &format!("https://{address}")).await, Ok(()));
    assert_eq!(seen.requests().len(), 1);
    let message = tunnels.requests();
    assert_eq!(message.len(), 1);
    let begin = format!("CONNECT {address} HTTP/1.1");
    assert!(message[0].starts_with(&begin), "{message:?}");
    assert!(!message[0].contains(TOKEN));
}

#[tokio::test]
async fn an_invalid_proxy_is_refused_and_not_quoted() {
    let endpoint = "https://cloud.example";
    for proxy in [
        "proxy.example:3128",
        "https://proxy.example",
        "socks5://proxy.example",
        "http://user:pa55@proxy.example",
        "http://proxy.example/path",
        "http://proxy.example?pa55",
    ] {
        let http = by(&open(), Tls::default(), Some(proxy.to_owned()));
        let message = client(&http, endpoint).unwrap_err().to_string();
        assert!(message.starts_with("the proxy "), "{proxy}: {message}");
        assert!(!message.contains("pa55"), "{message}");
    }
}

/// A user who restricts endpoints restricts proxies, too: a proxy in front of an allowed endpoint could read or redirect its
/// traffic.
#[tokio::test]
async fn a_proxy_is_used_only_if_the_allowed_endpoints_name_it_too() {
    let (own, (address, seen)) = (Authority::new(), tunnels().await);
    let (service, reached) = service(Some(own.server(None))).await;
    let (endpoint, proxy) = (format!("https://{service}"), format!("http://{address}"));
    let through = |patterns: &[&str]| {
        let patterns: Vec<_> = patterns.iter().map(|text| text.parse().unwrap()).collect();
        let http = Http::new(patterns.into()).unwrap();
        by(&http, own.tls(), Some(proxy.clone()))
    };
    // Scheme, host and port must all match.
    let (by_tls, elsewhere) = (proxy.replace("http:", "https:"), "http://127.0.0.1:1");
    for patterns in [
        &[endpoint.as_str()][..],
        &[&endpoint, &by_tls],
        &[&endpoint, elsewhere],
    ] {
        let error = client(&through(patterns), &endpoint).unwrap_err();
        assert!(matches!(error, BuildError::ProxyNotAllowed), "{error}");
    }
    assert_eq!((seen.connections(), reached.connections()), (0, 0));
    // A name is not even resolved.
    let lookup: Lookup = Arc::new(|name| panic!("{name} is resolved"));
    let named = guarded(&[&endpoint]).resolving(lookup);
    let named = by(
        &named,
        own.tls(),
        Some("http://proxy.example:3128".to_owned()),
    );
    let error = client(&named, &endpoint).unwrap_err();
    assert!(matches!(error, BuildError::ProxyNotAllowed), "{error}");

    assert_eq!(
        probe(&through(&[&endpoint, &proxy]), &endpoint).await,
        Ok(())
    );
    assert_eq!((seen.connections(), reached.connections()), (1, 1));
}

/// A name, an address and a proxy that all lead to this machine, and a listener that no request reaches.
#[tokio::test]
async fn nothing_is_sent_to_this_machine_unless_an_allowed_endpoint_names_it() {
    let (address, seen) = service(None).await;
    let port = address.port();
    let http = guarded(&[]);
    for endpoint in [
        format!("http://127.0.0.1:{port}"),
        format!("http://0x7f.1:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        format!("http://0.0.0.0:{port}"),
        format!("http://localhost:{port}"),
        format!("http://LOCALHOST:{port}"),
    ] {
        let message = probe(&http, &endpoint).await.unwrap_err();
        assert!(message.contains("no request goes"), "{endpoint}: {message}");
    }
    // Likewise for a proxy on this machine.
    for proxy in [
        format!("http://127.0.0.1:{port}"),
        format!("http://localhost:{port}"),
    ] {
        let http = by(&http, Tls::default(), Some(proxy.clone()));
        let message = probe(&http, "https://cloud.example").await.unwrap_err();
        assert!(message.contains("no request goes"), "{proxy}: {message}");
    }
    assert_eq!(seen.connections(), 0);

    let endpoint = format!("http://localhost:{port}");
    let named = guarded(&[&endpoint]);
    assert_eq!(probe(&named, &endpoint).await, Ok(()));
    assert_eq!(probe(&open(), &endpoint).await, Ok(()));
    assert_eq!(seen.connections(), 2);
}

/// A name that resolves to another address for the next connection is resolved and checked again.
#[tokio::test]
async fn every_new_connection_is_checked_again() {
    let (address, seen) = service(None).await;
    let lookups = Arc::new(AtomicUsize::new(0));
    let count = lookups.clone();
    let lookup: Lookup = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(vec![address]) })
    });
    let endpoint = format!("http://cloud.example:{}", address.port());
    let exempt = guarded(&[&endpoint]).resolving(lookup.clone());
    let exempt = client(&exempt, &endpoint).unwrap();
    let id = ServerId::from("ecs-1");
    for _ in 0..3 {
        exempt.probe(CallPriority::Urgent).await.unwrap();
    }
    assert_eq!((lookups.load(Ordering::SeqCst), seen.connections()), (1, 1));
    for _ in 0..2 {
        let permit = exempt.permit(CallPriority::Urgent).await;
        let _ = exempt.start(permit, &id).await;
    }
    assert_eq!((lookups.load(Ordering::SeqCst), seen.connections()), (3, 3));

    let judged = guarded(&[]).resolving(lookup);
    let judged = client(&judged, &endpoint).unwrap();
    for _ in 0..2 {
        let refused = judged.probe(CallPriority::Urgent).await.unwrap_err();
        let address = refused.refused_address().unwrap().address;
        assert!(address.is_loopback() && !refused.may_have_happened());
    }
    assert_eq!((lookups.load(Ordering::SeqCst), seen.connections()), (5, 3));
}

#[tokio::test]
async fn accounts_with_the_same_route_share_connections_and_the_last_one_drops_them() {
    let (http, own) = (open(), Authority::new());
    let pairs = || match &http.backend {
        Backend::Network(network) => {
            let pairs = network.pairs.lock().unwrap();
            pairs
                .values()
                .filter(|pair| pair.strong_count() > 0)
                .count()
        }
        Backend::Carried(_) => unreachable!("it was made with a network"),
    };
    let proxy = Some("http://proxy.example:3128".to_owned());
    let ways = [
        Route::default(),
        Route {
            tls: own.tls(),
            proxy: None,
        },
        Route {
            tls: own.tls(),
            proxy: proxy.clone(),
        },
        Route {
            tls: Tls::default(),
            proxy,
        },
    ];
    let endpoints = ["https://a.example", "https://b.example"];
    let clients: Vec<Client> = ways
        .iter()
        .flat_map(|way| endpoints.map(|url| client(&http.with_route(way.clone()), url).unwrap()))
        .collect();
    assert_eq!(pairs(), ways.len());
    drop(clients);
    assert_eq!(pairs(), 0);
}
