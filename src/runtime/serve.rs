//! An HTTP server for small pages that limits its resources, regardless of what clients send.
//!
//! Idle and slow connections cannot exclude other clients: at the maximum number, the oldest connection is closed. A probe takes
//! milliseconds, so it ends before its connection could become the oldest.

use super::times;
use super::tls::{certificates, provider};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A kubelet's probes and the cluster's scrapers are a handful; each connection costs some 30 KiB.
const CONNECTIONS: usize = 64;
/// The head of a request with a ServiceAccount token is some 2 KiB.
const HEAD_BYTES: usize = 16 * 1024;

/// Serves until cancelled. Returns the address that it listens on, which is needed if the port was 0.
///
/// # Errors
/// The address cannot be bound.
pub(super) async fn serve(
    listen: SocketAddr,
    app: Router,
    tls: Option<Certificate>,
    cancel: CancellationToken,
) -> io::Result<SocketAddr> {
    let listener = bind(listen).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let accepting = accept(listener, app, tls);
        cancel.run_until_cancelled(accepting).await;
    });
    Ok(address)
}

/// Binds the address. `[::]` means every address of both families (of IPv6 alone, if the node sets `net.ipv6.bindv6only`), and
/// every IPv4 address if `[::]` cannot be bound, as on a machine without IPv6.
async fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(listen).await {
        Err(error)
            if listen.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != io::ErrorKind::AddrInUse =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, listen.port())).await
        }
        bound => bound,
    }
}

/// Accepts connections until this future is dropped, which also ends the open ones.
async fn accept(listener: TcpListener, app: Router, tls: Option<Certificate>) {
    let mut open = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(times::ACCEPT_RETRY).await;
            continue;
        };
        open.retain(|connection: &AbortOnDropHandle<()>| !connection.is_finished());
        if open.len() >= CONNECTIONS {
            open.pop_front();
        }
        let connection = connection(stream, app.clone(), tls.clone());
        open.push_back(AbortOnDropHandle::new(tokio::spawn(connection)));
    }
}

async fn connection(stream: TcpStream, app: Router, tls: Option<Certificate>) {
    let Some(tls) = tls else {
        return answer(stream, app).await;
    };
    if let Some(config) = tls.config().await
        && let Ok(stream) = TlsAcceptor::from(config).accept(stream).await
    {
        answer(stream, app).await;
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, app: Router) {
    let connection = http1::Builder::new()
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    // The result does not matter to the server.
    let _ = connection.await;
}

/// A certificate and its key in files. They are read for each connection, since a mounted Secret changes.
#[derive(Clone, Debug)]
pub struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificate {
    /// Checks that the files can be used now.
    ///
    /// # Errors
    /// A file cannot be read, or the two are not a certificate and its key. The text shows which of these it is.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Result<Self, String> {
        let files = Self { certificate, key };
        files.read()?;
        Ok(files)
    }

    async fn config(self) -> Option<Arc<ServerConfig>> {
        let read = tokio::task::spawn_blocking(move || self.read());
        let config = read.await.ok()?;
        config
            .inspect_err(|error| tracing::warn!(error, "a connection to metrics was refused"))
            .ok()
    }

    /// The configuration for a handshake.
    fn read(&self) -> Result<Arc<ServerConfig>, String> {
        let read = |file: &PathBuf| {
            std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
        };
        let chain = read(&self.certificate)?;
        let chain = certificates(&String::from_utf8_lossy(&chain))
            .ok()
            .filter(|chain| !chain.is_empty())
            .ok_or("the certificate file for metrics holds no certificate in PEM")?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|_| "the key file for metrics holds no key in PEM, or an encrypted one")?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| format!("certificate and key for metrics: {error}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests;
