//! Tests the client over real sockets: scripted servers answer, cut, stall or reset, and count the requests that they read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::cloud::{AllowedEndpoints, CloudCall, Limits, List, Place, ServerLogin};

mod answers;
mod hostile;
mod targets;

const TOKEN: &str = "tok-canary-1";
const PASSWORD: &str = "Hunter2!canary";

fn client(endpoint: &str) -> Client {
    let limits = Limits {
        per_second: 10_000.0,
        burst: 1000,
        concurrent: 100,
    };
    Client::new(
        Http::new(AllowedEndpoints::default()).unwrap(),
        endpoint,
        TOKEN.into(),
        Paths::default(),
        RateLimiter::new(limits),
    )
    .unwrap()
}

/// The reaction of a scripted server to a complete request.
#[derive(Clone)]
enum Act {
    /// Writes these bytes and keeps the connection open.
    Reply(String),
    /// Writes these bytes and closes.
    ReplyAndClose(String),
    /// Answers once, and resets the connection when another request arrives on it, like a server that closes an idle connection
    /// just as a request is sent.
    ReplyOnce(String),
    /// Resets the connection.
    Reset,
    /// Never answers.
    Stall,
    /// Writes the first text, then the second again and again until the peer stops reading.
    Pour(String, Vec<u8>),
    /// As `Pour`, with a second between the pieces.
    Drip(String, Vec<u8>),
}

struct Scripted {
    endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Scripted {
    /// A server that reacts in the same way to every request.
    async fn new(act: Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/api", listener.local_addr().unwrap());
        let (requests, connections) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let scripted = Self {
            endpoint,
            requests: Arc::clone(&requests),
            connections: Arc::clone(&connections),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, act.clone(), Arc::clone(&requests)));
            }
        });
        scripted
    }

    async fn answering(status: &str, body: &str) -> Self {
        Self::new(Act::Reply(reply(status, body))).await
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn reply(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn serve(mut stream: TcpStream, act: Act, requests: Arc<Mutex<Vec<String>>>) {
    while let Some(request) = read_request(&mut stream).await {
        requests.lock().unwrap().push(request);
        match &act {
            Act::Reply(bytes) => stream.write_all(bytes.as_bytes()).await.unwrap_or_default(),
            Act::ReplyAndClose(bytes) => {
                return stream.write_all(bytes.as_bytes()).await.unwrap_or_default();
            }
            Act::ReplyOnce(bytes) => {
                stream.write_all(bytes.as_bytes()).await.unwrap_or_default();
                read_request(&mut stream).await;
                return reset(&stream);
            }
            Act::Reset => return reset(&stream),
            Act::Stall => std::future::pending().await,
            Act::Pour(head, piece) => return pour(stream, head, piece, Duration::ZERO).await,
            Act::Drip(head, piece) => {
                return pour(stream, head, piece, Duration::from_secs(1)).await;
            }
        }
    }
}

async fn pour(mut stream: TcpStream, head: &str, piece: &[u8], pause: Duration) {
    let mut written = stream.write_all(head.as_bytes()).await;
    while written.is_ok() {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        written = stream.write_all(piece).await;
    }
}

/// Makes the socket close with a reset instead of an orderly end.
fn reset(stream: &TcpStream) {
    stream.set_zero_linger().unwrap();
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let length = text.lines().find_map(|line| {
                let line = line.to_ascii_lowercase();
                line.strip_prefix("content-length: ")?.trim().parse().ok()
            });
            if text.len() >= end + 4 + length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => read.extend_from_slice(&buffer[..n]),
        }
    }
}

fn create_request() -> CreateRequest {
    CreateRequest {
        package: "pkg".into(),
        place: Place::new("r", "z"),
        name: "web-1".to_owned(),
        image: "img-1".into(),
        firewall: Some("fw-1".into()),
        login: ServerLogin::Password(PASSWORD.into()),
    }
}

async fn create(client: &Client) -> Result<CreateAccepted, Error> {
    let permit = client.permit(CallPriority::Urgent).await;
    client.create(permit, &create_request()).await
}

fn id() -> ServerId {
    "ecs-1".into()
}

const ACCEPTED: &str = r#"{"asyncTaskInfo":{"asyncTaskUUID":"t-1","ecsResourceUUID":"ecs-1"},"httpStatus":202,"rowCount":0}"#;

#[tokio::test]
async fn a_create_is_posted_once_with_token_and_json() {
    let server = Scripted::answering("202 Accepted", ACCEPTED).await;
    let accepted = create(&client(&server.endpoint)).await.unwrap();
    assert_eq!((accepted.id, accepted.task), (id(), "t-1".into()));
    let [request] = server.requests().try_into().unwrap();
    let request = request.to_ascii_lowercase();
    assert!(
        request.starts_with("post /api/instance/create http/1.1\r\n"),
        "{request}"
    );
    for line in [
        "x-open-token: tok-canary-1\r\n",
        "content-type: application/json\r\n",
        "user-agent: cloud-server-operator/",
    ] {
        assert!(request.contains(line), "{request}");
    }
    assert!(!request.contains("accept-encoding"), "{request}");
}

#[tokio::test]
async fn a_query_is_encoded_and_an_endpoint_keeps_its_path() {
    let server = Scripted::answering("404 Not Found", r#"{"code":"X","message":"m"}"#).await;
    let client = client(&format!("{}/", server.endpoint));
    let error = client
        .detail(CallPriority::Urgent, &"ecs-ä&page=1#?".into())
        .await
        .unwrap_err();
    assert!(error.is_no_such_instance());
    assert!(
        server.requests()[0]
            .starts_with("GET /api/instance/detail?ecsResourceUUID=ecs-%C3%A4%26page%3D1%23%3F "),
        "{:?}",
        server.requests()
    );
}

#[tokio::test]
async fn a_refused_connection_counts_as_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = create(&client(&endpoint)).await.unwrap_err();
    assert!(
        !error.may_have_happened() && error.is_retryable(),
        "{error:?}"
    );
    assert_eq!(error.category(), "not_sent");
    assert!(mentions(&error, "(the connection was refused)"), "{error}");
}

/// Whether the error ends with this reason why nothing was sent, and with the promise of a retry.
fn mentions(error: &Error, words: &str) -> bool {
    let words = format!("{words}; the operator retries automatically");
    error.to_string().ends_with(&words)
}

#[tokio::test]
async fn an_unresolved_name_counts_as_not_sent() {
    let error = create(&client("http://no-such-host.invalid"))
        .await
        .unwrap_err();
    assert!(!error.may_have_happened(), "{error:?}");
    assert!(
        mentions(&error, "(the host name does not resolve)"),
        "{error}"
    );
}

#[tokio::test]
async fn a_failed_tls_handshake_counts_as_not_sent() {
    // One server speaks plain HTTP, the other closes the connection at once.
    let plain = Scripted::answering("200 OK", "{}").await;
    let error = create(&client(&plain.endpoint.replace("http", "https")))
        .await
        .unwrap_err();
    assert!(!error.may_have_happened(), "{error:?}");
    assert!(
        mentions(&error, "(the connection did not open in time)"),
        "{error}"
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream
                .write_all(b"220 mail.example at your service\r\n")
                .await;
        }
    });
    let error = create(&client(&endpoint)).await.unwrap_err();
    assert!(!error.may_have_happened(), "{error:?}");
    assert!(mentions(&error, "(the TLS handshake failed)"), "{error}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            reset(&stream);
        }
    });
    let error = create(&client(&endpoint)).await.unwrap_err();
    assert!(!error.may_have_happened(), "{error:?}");
}

#[tokio::test]
async fn a_post_on_a_broken_connection_has_an_unknown_outcome_and_is_not_repeated() {
    let half = r#"{"asyncTaskInfo":{"async"#;
    for act in [
        Act::Reset,
        Act::ReplyAndClose(String::new()),
        Act::ReplyAndClose("HTTP/1.1 202 Acc".to_owned()),
        Act::ReplyAndClose(format!(
            "HTTP/1.1 202 Accepted\r\ncontent-length: 500\r\n\r\n{half}"
        )),
        Act::ReplyAndClose(format!("HTTP/1.1 202 Accepted\r\n\r\n{half}")),
        Act::ReplyAndClose("\u{0}\u{1}garbage".to_owned()),
    ] {
        let server = Scripted::new(act).await;
        let error = create(&client(&server.endpoint)).await.unwrap_err();
        assert!(error.may_have_happened(), "{error:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(server.requests().len(), 1, "{error:?}");
    }
}

#[tokio::test]
async fn a_post_never_uses_a_connection_that_the_server_just_closed() {
    let server = Scripted::new(Act::ReplyOnce(reply("202 Accepted", ACCEPTED))).await;
    let client = client(&server.endpoint);
    for n in 1..=20 {
        create(&client).await.unwrap();
        assert_eq!((server.requests().len(), server.connections()), (n, n));
    }
}

#[tokio::test]
async fn reads_share_connections() {
    let server = Scripted::answering("200 OK", r#"{"instances":[],"rowCount":0}"#).await;
    let client = client(&server.endpoint);
    for _ in 0..5 {
        client
            .instances_page(CallPriority::Resync, &Place::new("r", "z"), 1, |_| {
                Ok(Some(()))
            })
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_call_without_an_answer_ends_at_the_deadline() {
    let server = Scripted::new(Act::Stall).await;
    let client = client(&server.endpoint);
    let began = tokio::time::Instant::now();
    let call = tokio::spawn(async move { create(&client).await });
    while server.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The request is on the wire, so that only the deadline remains to wait for.
    tokio::time::pause();
    let sent = tokio::time::Instant::now();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.category(), "timeout");
    assert!(error.may_have_happened());
    // The time before that depends on the machine.
    let (whole, rest) = (began.elapsed(), sent.elapsed());
    assert!(
        whole > Duration::from_secs(59) && rest < Duration::from_secs(61),
        "{whole:?}, {rest:?}"
    );
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let long = format!(
        r#"{{"instance":{{"ecsResourceUUID":"ecs-1","x":"{}"}}}}"#,
        "x".repeat(300_000)
    );
    let server = Scripted::answering("200 OK", &long).await;
    let error = client(&server.endpoint)
        .detail(CallPriority::Urgent, &id())
        .await
        .unwrap_err();
    assert_eq!(error.category(), "oversized");
    let refusal = format!(
        r#"{{"code":"X.NotFound","message":"{}"}}"#,
        "x".repeat(100_000)
    );
    let server = Scripted::answering("404 Not Found", &refusal).await;
    let error = client(&server.endpoint)
        .detail(CallPriority::Urgent, &id())
        .await
        .unwrap_err();
    assert!(!error.is_no_such_instance());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Scripted::answering("202 Accepted", ACCEPTED).await;
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let bytes = format!(
            "HTTP/1.1 {status}\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
            elsewhere.endpoint
        );
        let server = Scripted::new(Act::Reply(bytes)).await;
        let client = client(&server.endpoint);
        assert!(create(&client).await.unwrap_err().may_have_happened());
        assert!(client.detail(CallPriority::Urgent, &id()).await.is_err());
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_rate_limit_refusal_pauses_the_calls_for_its_retry_after() {
    let body = r#"{"code":"TooMany","message":"m"}"#;
    let bytes = format!(
        "HTTP/1.1 429 Slow\r\nretry-after: 2\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = Scripted::new(Act::Reply(bytes)).await;
    let client = client(&server.endpoint);
    let began = tokio::time::Instant::now();
    let error = create(&client).await.unwrap_err();
    assert!(error.is_rate_limited() && !error.may_have_happened());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    tokio::time::pause();
    drop(client.permit(CallPriority::Urgent).await);
    assert!(began.elapsed() > Duration::from_millis(1900));
}

#[tokio::test]
async fn no_error_and_no_debug_shows_a_secret() {
    let echo =
        format!(r#"{{"code":"Bad{PASSWORD}","message":"token {TOKEN} password {PASSWORD}"}}"#);
    for (status, body) in [
        ("400 Bad", echo.as_str()),
        ("202 OK", &echo),
        ("500 No", &echo),
        ("200 OK", "<html>"),
    ] {
        let server = Scripted::answering(status, body).await;
        let client = client(&server.endpoint);
        let error = create(&client).await.unwrap_err();
        let mut shown = format!("{error} {error:?} {client:?} {:?}", create_request());
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            shown += &format!(" {inner} {inner:?}");
            source = inner.source();
        }
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[tokio::test]
async fn every_call_is_reported_to_the_observer() {
    let server = Scripted::answering("202 Accepted", ACCEPTED).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let client = client(&server.endpoint).with_observer(Arc::new({
        let seen = Arc::clone(&seen);
        move |operation, outcome, _| seen.lock().unwrap().push((operation, outcome))
    }));
    create(&client).await.unwrap();
    client
        .detail(CallPriority::Urgent, &id())
        .await
        .unwrap_err();
    let expected = [
        (CloudCall::Create, Ok(())),
        (CloudCall::Detail, Err("undecodable")),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn an_endpoint_or_a_token_that_cannot_work_is_refused_before_any_call() {
    let http = Http::new(AllowedEndpoints::default()).unwrap();
    let build = |endpoint: &str, token: &str| {
        let limiter = RateLimiter::new(Limits::default());
        Client::new(
            http.clone(),
            endpoint,
            token.into(),
            Paths::default(),
            limiter,
        )
        .err()
    };
    for endpoint in [
        "",
        "cloud.example",
        "ftp://cloud.example",
        "https://user@cloud.example",
        "https://:pw@cloud.example",
        "https://cloud.example/?a=b",
        "https://cloud.example/#x",
        "unix:/run/x",
    ] {
        assert!(
            matches!(build(endpoint, "t"), Some(BuildError::Endpoint(_))),
            "{endpoint:?}"
        );
    }
    for token in ["", "a\nb", "ä\u{7f}"] {
        assert!(
            matches!(
                build("https://cloud.example", token),
                Some(BuildError::Token)
            ),
            "{token:?}"
        );
    }
    assert!(build("https://cloud.example/base/", "t").is_none());
}
