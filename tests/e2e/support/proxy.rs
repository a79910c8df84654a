//! A proxy before the kube-apiserver: plain HTTP towards the operator, TLS towards the server. It passes the operator's
//! own token on, streams watches, records what changes objects, and can stop a chosen request at a chosen place.

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Larger than anything the operator sends.
const REQUEST_MAX: usize = 4 << 20;

/// Where a request is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Before it is forwarded: it has no effect.
    BeforeEffect,
    /// After the server has answered, and before the operator gets the answer.
    AfterEffect,
    /// After the answer was given: no further change gets through.
    AfterReply,
}

/// Which of the operator's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The binding and the finalizer of an Instance that has no server yet.
    Intent,
    /// The binding with the server's identifier.
    Receipt,
    /// The n-th write of an Instance's status from then on, counted from 1.
    Status(usize),
    /// The finalizer goes.
    Finalizer,
}

/// A change that went by.
#[derive(Clone, Debug)]
pub struct Change {
    /// Method and path.
    pub method: Method,
    /// Path without query.
    pub path: String,
    /// The body.
    pub body: String,
}

impl Change {
    fn is_status(&self) -> bool {
        self.path.contains("/instances/") && self.path.ends_with("/status")
    }

    fn is_main(&self) -> bool {
        self.method == Method::PATCH
            && self.path.contains("/instances/")
            && !self.path.ends_with("/status")
    }

    fn is(&self, write: Write, statuses: usize) -> bool {
        let binds = self.body.contains("cloudserver.dev/binding")
            || self.body.contains("cloudserver.dev~1binding");
        match write {
            Write::Intent => self.is_main() && !self.body.trim_start().starts_with('['),
            Write::Receipt => {
                self.is_main()
                    && binds
                    && self
                        .body
                        .contains("\"replace\",\"path\":\"/metadata/annotations")
            }
            Write::Status(n) => self.is_status() && statuses == n,
            Write::Finalizer => {
                self.is_main()
                    && self
                        .body
                        .contains("\"replace\",\"path\":\"/metadata/finalizers")
            }
        }
    }
}

/// A place at which the first fitting request is stopped.
#[derive(Clone)]
pub struct Trap {
    write: Write,
    at: At,
    reached: watch::Sender<bool>,
    open: watch::Sender<bool>,
}

impl Trap {
    /// Waits until a request stands here.
    pub async fn reached(&self) -> bool {
        let mut reached = self.reached.subscribe();
        tokio::time::timeout(super::PATIENCE, reached.wait_for(|is| *is))
            .await
            .is_ok()
    }

    /// Lets it go: a request that was stopped loses its connection, and changes get through again.
    pub fn lose(&self) {
        self.open.send_replace(true);
    }

    async fn park(&self) {
        let mut open = self.open.subscribe();
        self.reached.send_replace(true);
        let _ = open.wait_for(|is| *is).await;
    }
}

#[derive(Default)]
struct Seen {
    changes: Vec<Change>,
    statuses: usize,
    trap: Option<Trap>,
    frozen: Option<Trap>,
}

struct Inner {
    server: String,
    client: reqwest::Client,
    seen: Mutex<Seen>,
}

/// A running proxy.
pub struct Proxy {
    inner: Arc<Inner>,
    address: String,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Starts it before the server with this address and authority.
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
            seen: Mutex::default(),
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

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Stops the next request that is this write, there. One trap at a time.
    pub fn trap(&self, write: Write, at: At) -> Trap {
        let trap = Trap {
            write,
            at,
            reached: watch::Sender::new(false),
            open: watch::Sender::new(false),
        };
        let mut seen = self.inner.seen.lock().unwrap();
        seen.trap = Some(trap.clone());
        seen.statuses = 0;
        trap
    }

    /// Every change that came by so far.
    pub fn changes(&self) -> Vec<Change> {
        self.inner.seen.lock().unwrap().changes.clone()
    }
}

impl Inner {
    /// Notes a change, and tells whether it falls into a trap or comes after the reply of one.
    fn note(&self, change: &Change) -> (Option<Trap>, Option<Trap>) {
        let mut seen = self.seen.lock().unwrap();
        seen.changes.push(change.clone());
        seen.statuses += usize::from(change.is_status());
        let statuses = seen.statuses;
        let frozen = seen.frozen.clone().filter(|trap| !*trap.open.borrow());
        let caught = seen.trap.take_if(|trap| change.is(trap.write, statuses));
        (caught, frozen)
    }
}

async fn pass(State(proxy): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, REQUEST_MAX).await.unwrap_or_default();
    let mut caught = None;
    if parts.method != Method::GET {
        let change = Change {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        let (trap, frozen) = proxy.note(&change);
        if let Some(frozen) = frozen {
            frozen.park().await;
            return lost();
        }
        caught = trap;
    }
    if let Some(trap) = caught.as_ref().filter(|trap| trap.at == At::BeforeEffect) {
        trap.park().await;
        return lost();
    }
    let target = format!(
        "{}{}",
        proxy.server,
        parts.uri.path_and_query().map_or("/", |p| p.as_str())
    );
    let sent = proxy
        .client
        .request(parts.method, target)
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
    let (status, headers) = (answer.status(), end_to_end(answer.headers()));
    let Some(trap) = caught else {
        return reply(status, &headers, Body::from_stream(answer.bytes_stream()));
    };
    let body = answer.bytes().await.unwrap_or_default();
    if trap.at == At::AfterEffect {
        trap.park().await;
        return lost();
    }
    proxy.seen.lock().unwrap().frozen = Some(trap.clone());
    reply(status, &headers, told_when_given(body, trap))
}

/// A body that tells the trap when it has been handed over.
fn told_when_given(body: Bytes, trap: Trap) -> Body {
    let parts = futures::stream::unfold((Some(body), trap), |(body, trap)| async move {
        match body {
            Some(bytes) => Some((Ok::<_, std::io::Error>(bytes), (None, trap))),
            None => {
                trap.reached.send_replace(true);
                None
            }
        }
    });
    Body::from_stream(parts)
}

/// An answer that breaks off: the connection is closed in the middle of it.
fn lost() -> Response {
    let broken = futures::stream::once(async {
        Err::<Bytes, _>(std::io::Error::other("the connection is lost"))
    });
    reply(StatusCode::OK, &HeaderMap::new(), Body::from_stream(broken))
}

fn reply(status: StatusCode, headers: &HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers.clone();
    response
}

/// Without what is between two neighbours only.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
    ] {
        headers.remove(name);
    }
    headers
}
