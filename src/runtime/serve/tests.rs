//! Tests over real sockets: clients that hold connections, send nothing, or send too much.

use super::*;
use axum::routing::get;
use rcgen::{CertificateParams, KeyPair};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const WITHIN: Duration = Duration::from_secs(10);

async fn begin() -> SocketAddr {
    let app = Router::new().route("/livez", get(async || "ok\n"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(accept(listener, app, None));
    address
}

async fn probe(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Reads until the other side has ended the connection.
async fn end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    bytes
}

#[tokio::test]
async fn five_hundred_idle_connections_block_no_probe_and_most_are_closed_at_once() {
    let address = begin().await;
    let mut idle = Vec::new();
    for _ in 0..500 {
        // One after another, since connections that do not fit into the kernel's queue would never reach the server.
        idle.push(TcpStream::connect(address).await.unwrap());
        tokio::task::yield_now().await;
    }
    let answer = timeout(WITHIN, probe(address)).await;
    assert!(answer.unwrap().starts_with("HTTP/1.1 200"));
    // The oldest connections were closed.
    for stream in &mut idle[..500 - CONNECTIONS] {
        timeout(WITHIN, end(stream)).await.unwrap();
    }
}

#[tokio::test]
async fn an_endless_request_head_is_cut_off_at_its_limit() {
    let address = begin().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
    let mut sent = 0;
    // Until the other side stops reading: the sockets' own buffers take some MiB.
    while sent < 64 * 1024 * 1024 {
        let header = format!("x: {}\r\n", "y".repeat(4000));
        match stream.write_all(header.as_bytes()).await {
            Ok(()) => sent += header.len(),
            Err(_) => break,
        }
    }
    assert!(sent < 64 * 1024 * 1024, "all was taken");
    assert!(probe(address).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_certificate_is_read_for_each_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let issue = || {
        let own = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, params.self_signed(&own).unwrap().pem()).unwrap();
        std::fs::write(&key, own.serialize_pem()).unwrap();
    };
    issue();
    let files = Certificate::new(certificate.clone(), key.clone()).unwrap();
    std::fs::write(&certificate, "half of it").unwrap();
    assert!(files.clone().config().await.is_none());
    assert!(Certificate::new(certificate.clone(), key.clone()).is_err());
    issue();
    assert!(files.config().await.is_some());
}

#[tokio::test]
async fn the_unspecified_address_listens_on_both_families() {
    let listener = bind("[::]:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    for host in ["127.0.0.1", "::1"] {
        let to = SocketAddr::new(host.parse().unwrap(), address.port());
        TcpStream::connect(to).await.unwrap();
        let (_, from) = listener.accept().await.unwrap();
        assert_eq!(from.ip().to_canonical(), to.ip());
    }
    let again = bind(address).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
}
