//! A service that answers every request with one attack.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The answers of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Four mebibytes of nested objects, in valid JSON.
    Nested,
    /// An endless head.
    Head,
    /// A head of the maximum size that the library accepts, without a continuation.
    StalledHead,
    /// An endless row.
    Row,
    /// Endless rows.
    Rows,
    /// Endless white space.
    Spaces,
    /// One byte per second.
    Drip,
    /// Half a mebibyte that could be the begin of a list, without a continuation.
    StalledBody,
    /// Valid pages, each with the maximum number of rows of maximum size, which are always new.
    Pages,
    /// Endless interim responses.
    Interim,
}

impl Attack {
    pub const ALL: [Self; 10] = [
        Self::Nested,
        Self::Head,
        Self::StalledHead,
        Self::Row,
        Self::Rows,
        Self::Spaces,
        Self::Drip,
        Self::StalledBody,
        Self::Pages,
        Self::Interim,
    ];

    /// Whether only the deadline of a call ends it.
    fn is_slow(self) -> bool {
        matches!(
            self,
            Self::StalledHead | Self::Drip | Self::StalledBody | Self::Interim
        )
    }
}

/// A running service.
pub struct Attacker {
    pub endpoint: String,
    attack: Attack,
    requests: Arc<AtomicUsize>,
    server: JoinHandle<()>,
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl fmt::Display for Attacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.requests.load(Ordering::SeqCst);
        write!(
            f,
            "{:?} at {} had {requests} requests",
            self.attack, self.endpoint
        )
    }
}

impl Attacker {
    /// Starts it. With `greets` it answers the probe correctly.
    pub async fn start(attack: Attack, greets: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<AtomicUsize>::default();
        let counter = requests.clone();
        let server = async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A connection ends when the operator or this attack ends it.
                tokio::spawn(serve(stream, attack, greets, counter.clone()));
            }
        };
        Self {
            endpoint,
            attack,
            requests,
            server: tokio::spawn(server),
        }
    }

    /// Whether it got this many requests; a slow one needs only one.
    pub fn was_met(&self, rounds: usize) -> bool {
        let rounds = if self.attack.is_slow() { 1 } else { rounds };
        self.requests.load(Ordering::SeqCst) >= rounds
    }
}

async fn serve(mut stream: TcpStream, attack: Attack, greets: bool, requests: Arc<AtomicUsize>) {
    while let Some(request) = read(&mut stream).await {
        if greets && request.contains("/sshkey/list") {
            let body = r#"{"sshKeys":[],"httpStatus":202,"rowCount":0}"#;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            if stream
                .write_all(format!("{head}{body}").as_bytes())
                .await
                .is_err()
            {
                return;
            }
            continue;
        }
        let number = requests.fetch_add(1, Ordering::SeqCst);
        if strike(&mut stream, attack, &request, number).await.is_err() {
            return;
        }
    }
}

/// Reads the head of a request, and ignores the body.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => text.extend_from_slice(&buffer[..n]),
        }
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The field in which the operator expects the requested list.
fn list(request: &str) -> &'static str {
    let lists = [
        ("/sshkey/", "sshKeys"),
        ("/instance/list", "instances"),
        ("/firewall/", "firewalls"),
        ("/image/", "images"),
        ("/package/", "packages"),
        ("/region/", "regions"),
    ];
    let list = lists.iter().find(|(path, _)| request.contains(path));
    list.map_or("instance", |(_, list)| list)
}

async fn strike(
    stream: &mut TcpStream,
    attack: Attack,
    request: &str,
    number: usize,
) -> std::io::Result<()> {
    const PLAIN: &str = "HTTP/1.1 200 OK\r\n\r\n";
    let begin = format!("{PLAIN}{{\"{}\":[", list(request));
    match attack {
        Attack::Nested => {
            let row = r#"{"":{"":{"":{"":{"":{"":{}}}}}}}"#;
            let body = format!(
                "{{\"{}\":[{}{row}]}}",
                list(request),
                format!("{row},").repeat(4 << 15)
            );
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await
        }
        Attack::Head => {
            let field = format!("x-more: {}\r\n", "x".repeat(8_000));
            pour(stream, "HTTP/1.1 200 OK\r\n", &field, Duration::ZERO).await
        }
        Attack::StalledHead => {
            let head = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(400_000));
            stream.write_all(head.as_bytes()).await?;
            stalled(stream).await
        }
        Attack::Row => {
            let text = "x".repeat(8_000);
            pour(
                stream,
                &format!("{begin}{{\"ecsResourceUUID\":\""),
                &text,
                Duration::ZERO,
            )
            .await
        }
        Attack::Rows => {
            let rows = r#"{"ecsResourceUUID":"ecs-1","":[{},{},{},{},{},{}]},"#.repeat(100);
            pour(stream, &begin, &rows, Duration::ZERO).await
        }
        Attack::Spaces => pour(stream, PLAIN, &" ".repeat(8_000), Duration::ZERO).await,
        Attack::Drip => pour(stream, PLAIN, " ", Duration::from_secs(1)).await,
        Attack::StalledBody => {
            let row = format!("{{\"x\":\"{}\"}},", "x".repeat(10_000));
            stream
                .write_all(format!("{begin}{}", row.repeat(50)).as_bytes())
                .await?;
            stalled(stream).await
        }
        Attack::Pages => {
            let text = "x".repeat(200);
            let row = |n: usize| {
                let id = format!("{text}-{number}-{n}");
                [
                    "ecsResourceUUID",
                    "imageResourceUUID",
                    "packageCode",
                    "firewallUUID",
                    "sshKeyUUID",
                    "regionCode",
                ]
                .map(|field| format!("\"{field}\":\"{id}\""))
                .join(",")
            };
            let rows: Vec<String> = (0..300).map(|n| format!("{{{}}}", row(n))).collect();
            let body = format!("{{\"{}\":[{}]}}", list(request), rows.join(","));
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await
        }
        Attack::Interim => {
            let heads = "HTTP/1.1 102 Processing\r\n\r\n".repeat(100);
            pour(stream, "", &heads, Duration::from_millis(100)).await
        }
    }
}

/// Sends the first text, then the second repeatedly until the peer stops reading.
async fn pour(
    stream: &mut TcpStream,
    first: &str,
    then: &str,
    pause: Duration,
) -> std::io::Result<()> {
    stream.write_all(first.as_bytes()).await?;
    loop {
        stream.write_all(then.as_bytes()).await?;
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Waits until the peer closes the connection.
async fn stalled(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    Err(std::io::ErrorKind::ConnectionAborted.into())
}
