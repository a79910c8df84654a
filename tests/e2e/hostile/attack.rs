//! A service that answers every request with one attack.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the service answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Four mebibytes of nested objects, as JSON as any other.
    Nested,
    /// Fields of a head without end.
    Head,
    /// A head as large as the library takes, and then nothing.
    StalledHead,
    /// A row without end.
    Row,
    /// Rows without end.
    Rows,
    /// White space without end.
    Spaces,
    /// A byte a second.
    Drip,
    /// Half a mebibyte that could be the beginning of a list, and then nothing.
    StalledBody,
    /// Pages that are what they should be, each with as many and as fat rows as there may be, always new ones.
    Pages,
    /// Heads that announce another head.
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

    /// Only the deadline of a call ends it.
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
    /// Starts it. With `greets` it answers the probe as a service should.
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

    /// Whether it was asked so often; a slow one at all.
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

/// The head of a request; what comes with it is not looked at.
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

/// The field in which the operator looks for what it asked for.
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

/// The first, then the second again and again, for as long as somebody takes it.
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

/// Until the other side has enough.
async fn stalled(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    Err(std::io::ErrorKind::ConnectionAborted.into())
}
