//! A gate in front of the kube-apiserver, for one operator: it passes requests, holds back answers, lets requests hang or
//! refuses them, as a test chooses, and records the time of each write.

use crate::support::end_to_end;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Larger than any request of the operator.
const REQUEST_MAX: usize = 4 << 20;

/// The gate's action on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It passes.
    Pass,
    /// It passes; its answer waits for [`Gate::open`].
    HoldAnswer,
    /// It is never answered, and has no effect.
    Hang,
    /// It is refused with this code, and has no effect.
    Refuse(u16),
}

/// A recorded write.
#[derive(Clone, Debug)]
pub struct Write {
    /// When it arrived.
    pub at: Instant,
    /// Its path.
    pub path: String,
    /// The code of the apiserver's answer; none if the request did not get there.
    pub answered: Option<u16>,
}

impl Write {
    /// Whether it concerns a Lease.
    pub fn is_lease(&self) -> bool {
        self.path.contains("/leases")
    }
}

type Judge = Box<dyn Fn(&Method, &str, &str) -> Act + Send>;

struct Inner {
    server: String,
    client: reqwest::Client,
    judge: Mutex<Judge>,
    writes: Mutex<Vec<Write>>,
    held: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

/// A running gate.
pub struct Gate {
    inner: Arc<Inner>,
    address: String,
    task: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Gate {
    /// Starts it in front of the server with this address and authority; everything passes.
    pub async fn start((server, ca_pem): (&str, &str)) -> Self {
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
            judge: Mutex::new(Box::new(|_, _, _| Act::Pass)),
            writes: Mutex::default(),
            held: watch::Sender::new(0),
            open: watch::Sender::new(false),
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

    /// The address on which it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From now on, this function decides on each request, by method, path and body.
    pub fn judge(&self, judge: impl Fn(&Method, &str, &str) -> Act + Send + 'static) {
        *self.inner.judge.lock().unwrap() = Box::new(judge);
    }

    /// Waits until an answer is held back.
    pub async fn holds(&self) {
        let mut held = self.inner.held.subscribe();
        let wait = held.wait_for(|held| *held > 0);
        let waited = tokio::time::timeout(crate::support::PATIENCE, wait).await;
        assert!(waited.is_ok_and(|held| held.is_ok()), "no answer was held");
    }

    /// Releases the answers that are held back.
    pub fn open(&self) {
        self.inner.open.send_replace(true);
    }

    /// The writes so far.
    pub fn writes(&self) -> Vec<Write> {
        self.inner.writes.lock().unwrap().clone()
    }
}

async fn pass(State(gate): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, REQUEST_MAX).await.unwrap_or_default();
    let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
    let at = Instant::now();
    let act = gate.judge.lock().unwrap()(&method, &path, &String::from_utf8_lossy(&body));
    let note = |answered| {
        let is_dry_run = parts
            .uri
            .query()
            .is_some_and(|query| query.contains("dryRun="));
        if method != Method::GET && !is_dry_run {
            let write = Write {
                at,
                path: path.clone(),
                answered,
            };
            gate.writes.lock().unwrap().push(write);
        }
    };
    match act {
        Act::Hang => {
            note(None);
            std::future::pending::<()>().await;
        }
        Act::Refuse(code) => {
            note(None);
            let status = format!(
                r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"refused","code":{code}}}"#
            );
            return reply(code, &HeaderMap::new(), Body::from(status));
        }
        Act::Pass | Act::HoldAnswer => {}
    }
    let query = parts.uri.path_and_query().map_or("/", |p| p.as_str());
    let sent = gate
        .client
        .request(parts.method.clone(), format!("{}{query}", gate.server))
        .headers(end_to_end(&parts.headers))
        .body(body)
        .send()
        .await;
    let Ok(answer) = sent else {
        note(None);
        return reply(502, &HeaderMap::new(), Body::empty());
    };
    note(Some(answer.status().as_u16()));
    let (code, headers) = (answer.status().as_u16(), end_to_end(answer.headers()));
    if act == Act::HoldAnswer {
        let body = answer.bytes().await.unwrap_or_default();
        let mut open = gate.open.subscribe();
        gate.held.send_modify(|held| *held += 1);
        let _ = open.wait_for(|open| *open).await;
        return reply(code, &headers, Body::from(body));
    }
    reply(code, &headers, Body::from_stream(answer.bytes_stream()))
}

fn reply(code: u16, headers: &HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    *response.headers_mut() = headers.clone();
    response
}
