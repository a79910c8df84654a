//! A service that an attacker runs to see the requests that it gets: it records every byte, and answers politely.

use crate::support::eventually;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Enough for a client that only checks for success.
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// The service. It ends with its owner.
pub struct Hostile {
    url: String,
    seen: Arc<Mutex<Seen>>,
    task: AbortHandle,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    bytes: Vec<u8>,
}

impl Hostile {
    /// Listens on loopback.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Seen>>::default();
        let writes = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                writes.lock().unwrap().connections += 1;
                tokio::spawn(converse(stream, writes.clone()));
            }
        });
        Self {
            url,
            seen,
            task: task.abort_handle(),
        }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The number of connections to it.
    pub fn calls(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// All bytes that it got.
    pub fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().bytes).into_owned()
    }

    /// Waits until it got this text.
    pub async fn until_seen(&self, text: &str) {
        eventually("the hostile service is sent it", async || {
            let bytes = self.bytes();
            match bytes.contains(text) {
                true => Ok(()),
                false => Err(bytes),
            }
        })
        .await;
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
        if std::thread::panicking() {
            eprintln!("the hostile service was sent: {}", self.bytes());
        }
    }
}

/// Records the received bytes, and answers everything that looks like the end of a request.
async fn converse(mut stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        seen.lock().unwrap().bytes.extend(&buffer[..read]);
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}
