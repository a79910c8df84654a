//! Bad services on loopback: dead, silent, slow, or refusing every call because of its rate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// The fault of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// Its port is closed.
    Dead,
    /// Accepts connections and requests, and never answers.
    Silent,
    /// Answers each request after twenty seconds.
    Slow,
    /// Answers at once, at one byte per second.
    Trickle,
    /// Answers every query at once, and never answers a call that changes something.
    Lure,
    /// Answers every request with 429.
    Refusing,
}

/// An answer to every query: an empty list.
const NOTHING: &str = r#"{"success":true,"rowCount":0,"sshKeys":[],"instances":[],"regions":[],"images":[],"packages":[]}"#;
const TOO_MANY: &str = r#"{"success":false,"code":"TooManyRequests","message":"come again later"}"#;

/// A bad service. It ends when it is dropped.
pub struct Service {
    pub bad: Bad,
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    _port: Option<TcpSocket>,
    task: JoinHandle<()>,
}

impl Service {
    pub async fn start(bad: Bad) -> Self {
        let calls = Arc::<AtomicUsize>::default();
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        if bad == Bad::Dead {
            // A port that is bound, but on which no socket listens.
            let port = TcpSocket::new_v4().unwrap();
            port.bind(here).unwrap();
            return Self {
                bad,
                address: port.local_addr().unwrap(),
                calls,
                _port: Some(port),
                task: tokio::spawn(async {}),
            };
        }
        let listener = TcpListener::bind(here).await.unwrap();
        let address = listener.local_addr().unwrap();
        let counted = calls.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(bad, stream, counted.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            bad,
            address,
            calls,
            _port: None,
            task,
        }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests arrived.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves one connection until the other side closes it.
async fn serve(bad: Bad, mut stream: TcpStream, calls: Arc<AtomicUsize>) {
    loop {
        let Some(is_read) = request(&mut stream).await else {
            return;
        };
        calls.fetch_add(1, Ordering::SeqCst);
        let answered = match bad {
            Bad::Dead | Bad::Silent => None,
            Bad::Lure => is_read.then_some(Duration::ZERO),
            Bad::Slow => Some(Duration::from_secs(20)),
            Bad::Trickle | Bad::Refusing => Some(Duration::ZERO),
        };
        let Some(after) = answered else {
            // Keeps the request open until the other side gives up.
            let _ = stream.read(&mut [0; 64]).await;
            return;
        };
        sleep(after).await;
        let (status, body) = match bad {
            Bad::Refusing => ("429 Too Many Requests", TOO_MANY),
            _ => ("200 OK", NOTHING),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all(head.as_bytes()).await.is_err() {
            return;
        }
        let written = if bad == Bad::Trickle {
            trickle(&mut stream, body).await
        } else {
            stream.write_all(body.as_bytes()).await
        };
        if written.is_err() {
            return;
        }
    }
}

async fn trickle(stream: &mut TcpStream, body: &str) -> std::io::Result<()> {
    for byte in body.as_bytes() {
        stream.write_all(&[*byte]).await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Reads one request; returns whether it is a query. None at the end of the connection.
async fn request(stream: &mut TcpStream) -> Option<bool> {
    let mut read = Vec::new();
    let mut part = [0; 4096];
    loop {
        let head = read.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = head {
            let text = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if read.len() >= end + 4 + length {
                return Some(text.starts_with("get "));
            }
        }
        match stream.read(&mut part).await {
            Ok(count) if count > 0 => read.extend_from_slice(&part[..count]),
            _ => return None,
        }
    }
}
