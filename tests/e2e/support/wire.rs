//! The wire between the operator and the kube-apiserver, with faults. A request is answered by an intermediary, late, never, or
//! only after its effect; an open watch is cut in the middle of a word, closed, frozen without notice, rejected for an old
//! version, or delayed as a whole.
//!
//! Plain HTTP towards the operator, TLS towards the server. To stop a single write at a chosen place, see
//! [`proxy`](super::proxy).

mod stream;

use super::forward::{end_to_end, reply};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stream::{Forecast, Weather};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

pub use stream::Blow;

/// Larger than any request of the operator.
const REQUEST_MAX: usize = 4 << 20;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One object.
    Get,
    /// A page of a listing.
    List,
    /// A watch that begins with the existing objects.
    Stream,
    /// A watch of later changes.
    Watch,
    /// A change.
    Write,
    /// A change that is sent only for its answer.
    DryRun,
}

/// A request of the operator.
#[derive(Clone, Debug)]
pub struct WireRequest {
    pub kind: Kind,
    /// The plural of the objects' kind.
    pub resource: String,
    /// The object's name; empty if the request does not name one.
    pub name: String,
    /// Path and query.
    pub target: String,
    pub body: String,
    /// When it arrived.
    pub at: Instant,
}

impl WireRequest {
    fn of(method: &Method, target: &str, body: &[u8]) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        // /api/v1/namespaces/x/secrets/name, /apis/group/version/namespaces/x/instances/name/status
        let rest = match parts.first() {
            Some(&"api") => parts.get(2..),
            _ => parts.get(3..),
        };
        let rest = match rest.unwrap_or_default() {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
        let text = |n: usize| rest.get(n).copied().unwrap_or_default().to_owned();
        let (resource, name) = (text(0), text(1));
        let kind = match *method {
            Method::GET if query.contains("sendInitialEvents=true") => Kind::Stream,
            Method::GET if query.contains("watch=true") => Kind::Watch,
            Method::GET if name.is_empty() => Kind::List,
            Method::GET => Kind::Get,
            _ if query.contains("dryRun=") => Kind::DryRun,
            _ => Kind::Write,
        };
        Self {
            kind,
            resource,
            name,
            target: target.to_owned(),
            body: String::from_utf8_lossy(body).into_owned(),
            at: Instant::now(),
        }
    }

    /// Whether this is a request of this kind for these objects.
    pub fn is(&self, kind: Kind, resource: &str) -> bool {
        self.kind == kind && self.resource == resource
    }
}

/// The treatment of a request.
#[derive(Clone, Debug)]
pub enum Act {
    /// An intermediary answers, and the request has no effect.
    Answer(u16),
    /// The same, with a `Retry-After` header.
    ComeAgain(u16, u64),
    /// The request takes effect, and an intermediary answers.
    AnswerAfter(u16),
    /// The request is delayed.
    Late(Duration),
    /// The request is accepted and never answered.
    Silence,
    /// A watch that is accepted and never delivers an event.
    SilentWatch,
    /// A body that the server sent at another time.
    Replay(String),
    /// The pages of a listing have at most this many objects.
    Pages(u32),
}

type Fits = Arc<dyn Fn(&WireRequest) -> bool + Send + Sync>;

struct Rule {
    number: usize,
    fits: Fits,
    act: Act,
    left: usize,
    met: Arc<AtomicUsize>,
}

/// A fault that lasts until it is healed.
pub struct Fault {
    number: usize,
    met: Arc<AtomicUsize>,
    inner: Arc<Inner>,
}

impl Fault {
    /// How many requests it affected.
    pub fn met(&self) -> usize {
        self.met.load(Ordering::SeqCst)
    }

    /// Ends it.
    pub fn heal(&self) {
        let mut rules = self.inner.rules.lock().unwrap();
        rules.retain(|rule| rule.number != self.number);
    }
}

struct Inner {
    server: String,
    client: reqwest::Client,
    rules: Mutex<Vec<Rule>>,
    numbers: AtomicUsize,
    requests: Mutex<Vec<WireRequest>>,
    weather: watch::Sender<Weather>,
}

/// A running wire.
pub struct Wire {
    inner: Arc<Inner>,
    address: String,
    task: JoinHandle<()>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wire {
    /// Opens a wire to the server with this address and certificate authority.
    pub async fn start(server: &str, ca_pem: &str) -> Self {
        let authority = reqwest::Certificate::from_pem(ca_pem.as_bytes()).unwrap();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([authority])
            .http1_only()
            .retry(reqwest::retry::never())
            .build()
            .unwrap();
        let inner = Arc::new(Inner {
            server: server.to_owned(),
            client,
            rules: Mutex::default(),
            numbers: AtomicUsize::new(0),
            requests: Mutex::default(),
            weather: watch::Sender::new(Weather::default()),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(pass).with_state(inner.clone());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            inner,
            address,
            task,
        }
    }

    /// The address where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Treats every matching request this way until the fault is healed. The newest fault takes precedence.
    pub fn on(
        &self,
        fits: impl Fn(&WireRequest) -> bool + Send + Sync + 'static,
        act: Act,
    ) -> Fault {
        self.times(usize::MAX, fits, act)
    }

    /// Treats the next matching requests this way.
    pub fn times(
        &self,
        times: usize,
        fits: impl Fn(&WireRequest) -> bool + Send + Sync + 'static,
        act: Act,
    ) -> Fault {
        let number = self.inner.numbers.fetch_add(1, Ordering::SeqCst);
        let met = Arc::<AtomicUsize>::default();
        let rule = Rule {
            number,
            fits: Arc::new(fits),
            act,
            left: times,
            met: met.clone(),
        };
        self.inner.rules.lock().unwrap().insert(0, rule);
        Fault {
            number,
            met,
            inner: self.inner.clone(),
        }
    }

    /// Hits every watch of these objects that is open or requested now.
    pub fn blow(&self, resource: &str, blow: Blow) {
        self.inner.weather.send_modify(|weather| {
            weather.gusts.push((resource.to_owned(), blow));
        });
    }

    /// From here on watches of these objects deliver every event with this delay.
    pub fn delay_watches(&self, resource: &str, late: Duration) {
        self.inner.weather.send_modify(|weather| {
            weather.late.insert(resource.to_owned(), late);
        });
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<WireRequest> {
        self.inner.requests.lock().unwrap().clone()
    }

    /// How many requests of a kind arrived since then.
    pub fn count(&self, since: Instant, kind: Kind, resource: &str) -> usize {
        let requests = self.inner.requests.lock().unwrap();
        let new = requests.iter().filter(|request| request.at >= since);
        new.filter(|request| request.is(kind, resource)).count()
    }
}

impl Inner {
    fn meet(&self, request: &WireRequest) -> Option<Act> {
        let mut rules = self.rules.lock().unwrap();
        let rule = rules
            .iter_mut()
            .find(|rule| rule.left > 0 && (rule.fits)(request))?;
        rule.left -= 1;
        rule.met.fetch_add(1, Ordering::SeqCst);
        Some(rule.act.clone())
    }
}

async fn pass(State(wire): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, REQUEST_MAX).await.unwrap_or_default();
    let mut target = parts
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str())
        .to_owned();
    let recorded = WireRequest::of(&parts.method, &target, &body);
    // This runs before a test can see the request in the list, so that no later blow misses its watch.
    let forecast = Forecast::begin(&wire.weather);
    wire.requests.lock().unwrap().push(recorded.clone());
    let act = wire.meet(&recorded);
    match &act {
        Some(Act::Answer(code)) => return refusal(*code, None),
        Some(Act::ComeAgain(code, seconds)) => return refusal(*code, Some(*seconds)),
        Some(Act::Silence) => std::future::pending().await,
        Some(Act::SilentWatch) => {
            return reply(
                StatusCode::OK,
                &HeaderMap::new(),
                Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>()),
            );
        }
        Some(Act::Replay(text)) => {
            return reply(StatusCode::OK, &json_headers(), Body::from(text.clone()));
        }
        Some(Act::Late(time)) => sleep(*time).await,
        Some(Act::Pages(size)) => {
            target = limited(&target, *size);
        }
        Some(Act::AnswerAfter(_)) | None => {}
    }
    let sent = wire
        .client
        .request(parts.method, format!("{}{target}", wire.server))
        .headers(end_to_end(&parts.headers))
        .body(body)
        .send()
        .await;
    let answer = match sent {
        Ok(answer) => answer,
        Err(error) => {
            return reply(
                StatusCode::BAD_GATEWAY,
                &HeaderMap::new(),
                Body::from(error.to_string()),
            );
        }
    };
    if let Some(Act::AnswerAfter(code)) = act {
        let _ = answer.bytes().await;
        return refusal(code, None);
    }
    let (status, headers) = (answer.status(), end_to_end(answer.headers()));
    let body = if matches!(recorded.kind, Kind::Stream | Kind::Watch) && status.is_success() {
        stream::relay(answer.bytes_stream(), recorded.resource, forecast)
    } else {
        Body::from_stream(answer.bytes_stream())
    };
    reply(status, &headers, body)
}

/// The answer of an apiserver, or of an intermediary, that refuses a request.
fn refusal(code: u16, retry_after: Option<u64>) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "injected", "reason": reason(code), "code": code,
    });
    let mut headers = json_headers();
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.to_string().parse().unwrap());
    }
    let status = StatusCode::from_u16(code).unwrap();
    reply(status, &headers, Body::from(body.to_string()))
}

fn reason(code: u16) -> &'static str {
    match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        422 => "Invalid",
        429 => "TooManyRequests",
        504 => "Timeout",
        _ => "InternalError",
    }
}

fn json_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    headers
}

/// The target of a list with pages of this size.
fn limited(target: &str, size: u32) -> String {
    match target.split_once("limit=") {
        Some((before, limit)) => {
            let after = limit.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}limit={size}{after}")
        }
        None => target.to_owned(),
    }
}
