//! Two proxies, one before the kube-apiserver and one before the service. They number every request of an operation in one
//! sequence, and can stop a chosen request at a chosen place. All other traffic passes: watches stream, and tokens are the
//! operator's own.

mod line;
mod point;
mod trap;

use super::forward::{end_to_end, reply};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::StreamExt as _;
use line::{Line, Lines};
pub use point::{Kind, Point};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
pub use trap::{Place, Then, Trap};

/// Larger than any request of the operator.
const REQUEST_MAX: usize = 4 << 20;

/// The shared state of both proxies.
#[derive(Default)]
struct Book {
    counts: HashMap<Kind, usize>,
    points: Vec<Point>,
    mutations: usize,
    trap: Option<Trap>,
    /// The reply to this trap's request was delivered: the next request waits here.
    frozen: Option<Trap>,
    /// Connections up to this number belong to a process that was killed.
    dead: u64,
}

/// The fate of a request.
enum Met {
    Nothing,
    /// Its sender was killed: the request never gets through.
    Dead,
    /// The trap waits for this request.
    Trap(Trap),
    /// The request comes after the reply to the trapped one.
    Frozen(Trap),
}

impl Book {
    fn meet(&mut self, line: &Line, kind: Option<Kind>) -> Met {
        if line.number() <= self.dead {
            return Met::Dead;
        }
        kind.map_or(Met::Nothing, |kind| self.note(kind))
    }

    fn note(&mut self, kind: Kind) -> Met {
        let nth = self.counts.entry(kind).or_default();
        *nth += 1;
        let point = Point { kind, nth: *nth };
        self.points.push(point);
        self.mutations += usize::from(kind.is_mutation());
        if let Some(frozen) = self.frozen.as_ref().filter(|trap| !trap.is_open()) {
            return Met::Frozen(frozen.clone());
        }
        let caught = self.trap.take_if(|trap| trap.point == point);
        caught.map_or(Met::Nothing, Met::Trap)
    }
}

struct Side {
    behind: String,
    kind_of: fn(&Parts, &[u8]) -> Option<Kind>,
    client: reqwest::Client,
    book: Arc<Mutex<Book>>,
}

/// Both proxies, running.
pub struct Recorder {
    book: Arc<Mutex<Book>>,
    apiserver: String,
    service: String,
    lines: Arc<AtomicU64>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Recorder {
    /// Starts them: before the apiserver with this address and certificate authority, and before the service.
    pub async fn start(apiserver: &str, ca_pem: &str, service: &str) -> Self {
        let book = Arc::<Mutex<Book>>::default();
        let builder = || {
            let builder = reqwest::Client::builder().no_proxy().http1_only();
            builder.retry(reqwest::retry::never())
        };
        let authority = reqwest::Certificate::from_pem(ca_pem.as_bytes()).unwrap();
        let to_apiserver = Side {
            behind: apiserver.to_owned(),
            kind_of: |parts, body| match parts.uri.query() {
                // With these requests the operator only checks that the apiserver refuses them.
                Some(query) if query.contains("dryRun=") => None,
                _ => Kind::of_apiserver(&parts.method, parts.uri.path(), body),
            },
            client: builder().tls_certs_only([authority]).build().unwrap(),
            book: book.clone(),
        };
        let to_service = Side {
            behind: service.to_owned(),
            kind_of: |parts, _| Kind::of_service(parts.uri.path()),
            // Each request uses a connection of its own, so that none meets a connection that was just closed.
            client: builder().pool_max_idle_per_host(0).build().unwrap(),
            book: book.clone(),
        };
        let lines = Arc::<AtomicU64>::default();
        let (apiserver, first) = serve(to_apiserver, lines.clone()).await;
        let (service, second) = serve(to_service, lines.clone()).await;
        Self {
            book,
            apiserver,
            service,
            lines,
            tasks: [first, second],
        }
    }

    /// The proxy's address for the operator's calls to the apiserver.
    pub fn apiserver(&self) -> &str {
        &self.apiserver
    }

    /// The proxy's address for the operator's calls to the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Restarts the numbering.
    pub fn begin(&self) {
        let mut book = self.book.lock().unwrap();
        book.counts.clear();
        book.points.clear();
    }

    /// The requests that have passed since the numbering started.
    pub fn points(&self) -> Vec<Point> {
        self.book.lock().unwrap().points.clone()
    }

    /// How many requests that were meant to change something have ever passed.
    pub fn mutations(&self) -> usize {
        self.book.lock().unwrap().mutations
    }

    /// Stops this request at this place. Only one trap exists at a time.
    pub fn trap(&self, point: Point, place: Place, then: Then) -> Trap {
        let trap = Trap::new(point, place, then);
        self.book.lock().unwrap().trap = Some(trap.clone());
        trap
    }

    /// Call this after the operator was killed: its requests that were not forwarded yet never get through.
    pub async fn cut_off(&self) {
        for address in [&self.apiserver, &self.service] {
            // Connections are accepted in order: once this one is answered, all earlier ones have their number.
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            client.get(address).send().await.unwrap();
        }
        self.book.lock().unwrap().dead = self.lines.load(Ordering::SeqCst);
    }

    /// Removes the trap.
    pub fn disarm(&self) {
        self.book.lock().unwrap().trap = None;
    }
}

async fn serve(side: Side, lines: Arc<AtomicU64>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(pass).with_state(Arc::new(side));
    let app = app.into_make_service_with_connect_info::<Line>();
    let task = tokio::spawn(async move { axum::serve(Lines(listener, lines), app).await.unwrap() });
    (address, task)
}

/// Runs on a task of its own, so that a request on the wire proceeds after its sender has given up.
async fn pass(
    State(side): State<Arc<Side>>,
    ConnectInfo(line): ConnectInfo<Line>,
    request: Request,
) -> Response {
    let carried = tokio::spawn(carry(side, line.clone(), request)).await;
    carried.unwrap_or_else(|_| ended(&line, Then::End))
}

async fn carry(side: Arc<Side>, line: Line, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, REQUEST_MAX).await else {
        // The request's body is incomplete.
        return ended(&line, Then::End);
    };
    let kind = (side.kind_of)(&parts, &body);
    let met = side.book.lock().unwrap().meet(&line, kind);
    let trap = match met {
        Met::Nothing => None,
        Met::Dead => return ended(&line, Then::End),
        Met::Frozen(trap) => match trap.stand().await {
            Then::GoOn => None,
            other => return ended(&line, other),
        },
        Met::Trap(trap) => Some(trap),
    };
    if let Some(trap) = trap.as_ref().filter(|trap| trap.place == Place::Before) {
        trap.reach();
        match trap.stand().await {
            Then::GoOn => {}
            other => return ended(&line, other),
        }
    }
    let target = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let request = side
        .client
        .request(parts.method, format!("{}{target}", side.behind));
    let request = request.headers(end_to_end(&parts.headers)).body(body);
    let Ok(answer) = request.send().await else {
        return ended(&line, Then::End);
    };
    let (status, headers) = (answer.status(), end_to_end(answer.headers()));
    let Some(trap) = trap.filter(|trap| trap.place != Place::Before) else {
        return reply(status, &headers, Body::from_stream(answer.bytes_stream()));
    };
    let Ok(body) = answer.bytes().await else {
        return ended(&line, Then::End);
    };
    if trap.place == Place::AfterReply {
        side.book.lock().unwrap().frozen = Some(trap.clone());
        return last(&line, status, headers, body, trap);
    }
    trap.reach();
    match trap.stand().await {
        Then::GoOn => reply(status, &headers, Body::from(body)),
        other => ended(&line, other),
    }
}

/// An answer that never arrives: its first byte ends the connection.
fn ended(line: &Line, how: Then) -> Response {
    if how == Then::Reset {
        line.resets();
    }
    line.mute();
    reply(StatusCode::OK, &HeaderMap::new(), Body::empty())
}

/// An answer that notifies the trap once it has left; the last of its connection, unless the trapped request continues.
fn last(
    line: &Line,
    status: StatusCode,
    mut headers: HeaderMap,
    body: Bytes,
    trap: Trap,
) -> Response {
    if trap.then != Then::GoOn {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if trap.then == Then::Reset {
        line.resets();
    }
    let line = line.clone();
    let parts = futures::stream::iter([Some(body), None]).filter_map(move |part| {
        if part.is_none() {
            line.notify(trap.clone());
        }
        std::future::ready(part.map(Ok::<_, Infallible>))
    });
    reply(status, &headers, Body::from_stream(parts))
}
