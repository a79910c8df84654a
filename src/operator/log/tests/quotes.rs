//! Libraries that quote requests and answers do not bring them into the log, at any setting of `RUST_LOG`.

use super::super::subscriber;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, WatchParams};
use kube::client::Body;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tracing::Subscriber;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

const CANARY: &str = "canary-7d1fa0";

/// The lines that one run logged.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        page.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A filter with the targets of every library of the program at their highest level, and with all spans.
fn everything() -> String {
    let lock = include_str!("../../../../Cargo.lock").lines();
    let names = lock.filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let mut directives: Vec<String> = names
        .map(|name| format!("{}=trace", name.replace('-', "_")))
        .collect();
    assert!(directives.len() > 200, "the lock file was not understood");
    directives.extend(QUOTING.map(|target| format!("{target}=trace")));
    directives.extend(SPANS.map(ToOwned::to_owned));
    directives.push("trace".to_owned());
    directives.join(",")
}

/// Targets with a line below ERROR that quotes an answer, in the versions of the lock file.
const QUOTING: [&str; 5] = [
    "kube_client::client",
    "kube_runtime::watcher",
    "h2::codec::framed_read",
    "h2::proto::connection",
    "reqwest::connect::verbose",
];

/// By span and by field.
const SPANS: [&str; 5] = [
    "kube_client[{}]=trace",
    "[HTTP]=trace",
    "[{http.url}]=trace",
    "kube_client::client::builder[HTTP]=trace",
    "[]=trace",
];

/// An apiserver whose every answer contains the canary and not the requested object.
fn apiserver() -> kube::Client {
    let service = tower::service_fn(|request: http::Request<Body>| async move {
        let watches = request.uri().query().unwrap_or_default().contains("watch");
        let (code, text) = match *request.method() {
            http::Method::DELETE => (
                200,
                format!(r#"{{"kind": "Status", "code": "{CANARY}", "status": "{CANARY}"}}"#),
            ),
            _ if watches => (200, format!("{{\"type\": \"{CANARY}\"}}\n{CANARY}\n")),
            _ if request.uri().path().ends_with("/whole") => (
                200,
                format!(r#"{{"kind": "Secret", "data": {{"a": 5, "b": "{CANARY}"}}}}"#),
            ),
            _ if request.uri().path().ends_with("/refused") => (
                403,
                format!(
                    r#"{{"kind": "Status", "apiVersion": "v1", "metadata": {{}}, "status": "Failure", "message": "{CANARY}", "reason": "Forbidden", "code": 403}}"#
                ),
            ),
            _ => (500, format!("proxy error: {CANARY}")),
        };
        let body = Body::from(text.into_bytes());
        let answer = http::Response::builder().status(code).body(body);
        Ok::<_, kube::Error>(answer.unwrap())
    });
    kube::Client::new(service, "default")
}

async fn ask_the_apiserver() {
    let api: Api<Secret> = Api::default_namespaced(apiserver());
    for name in ["whole", "refused", "broken"] {
        assert!(api.get(name).await.is_err());
    }
    assert!(api.list(&ListParams::default()).await.is_err());
    // An answer that is not a Status is no error of a delete.
    let _ = api.delete("whole", &DeleteParams::default()).await;
    let watch = api.watch(&WatchParams::default(), "0").await.unwrap();
    assert!(watch.try_collect::<Vec<_>>().await.is_err());
    let watched = kube::runtime::watcher(api, kube::runtime::watcher::Config::default());
    let watched = watched.try_for_each(|_| std::future::ready(Ok(())));
    assert!(watched.await.is_err());
}

/// Asks a service that sends the canary when it closes a connection, and one that answers with it, with a client that logs everything.
async fn ask_the_service() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let send = async |bytes: &[u8]| {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = [0; 1024];
        let _ = stream.read(&mut read).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let _ = stream.shutdown().await;
        // Until the client has understood that it is over.
        while stream.read(&mut read).await.is_ok_and(|count| count > 0) {}
    };
    crate::runtime::tls::install_provider();
    let asking = || reqwest::Client::builder().no_proxy();
    // HTTP/2: settings, then GOAWAY with debug data.
    let size = u8::try_from(8 + CANARY.len()).unwrap();
    let goaway = [0, 0, size, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let frames = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &goaway, CANARY.as_bytes()].concat();
    let client = asking().http2_prior_knowledge().build().unwrap();
    let (answer, ()) = tokio::join!(client.get(&url).send(), send(&frames));
    assert!(answer.is_err());
    drop(client);
    let answered = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{CANARY}");
    let client = asking().connection_verbose(true).build().unwrap();
    let request = async { client.get(&url).send().await.unwrap().text().await.unwrap() };
    let (text, ()) = tokio::join!(request, send(answered.as_bytes()));
    assert_eq!(text, CANARY);
}

/// The text that these requests log.
async fn played(lines: impl FnOnce(Page) -> Box<dyn Subscriber + Send + Sync>) -> String {
    let page = Page::default();
    let _guard = lines(page.clone()).set_default();
    ask_the_apiserver().await;
    ask_the_service().await;
    tracing::trace!("a line of our own");
    page.text()
}

/// The log as it is without a collector of traces.
fn logs(
    filter: EnvFilter,
    writer: impl Fn() -> Page + Send + Sync + 'static,
    is_terminal: bool,
) -> Box<dyn Subscriber + Send + Sync> {
    subscriber(reload::Layer::new(filter).0, writer, is_terminal, None)
}

fn ours(filter: &str) -> impl FnOnce(Page) -> Box<dyn Subscriber + Send + Sync> {
    let filter = EnvFilter::new(filter);
    move |page| logs(filter, move || page.clone(), false)
}

#[tokio::test]
async fn no_filter_makes_a_library_log_a_value() {
    let everything = everything();
    let levels = ["warn", "info", "debug", "trace"];
    let each = QUOTING
        .iter()
        .flat_map(|target| levels.map(|level| format!("{target}={level}")));
    let spans = SPANS.map(|span| format!("info,{span}"));
    let all = ["trace".to_owned(), everything.clone()];
    for filter in each.chain(spans).chain(all) {
        let log = played(ours(&filter)).await;
        assert!(!log.contains(CANARY), "{filter}: {log}");
    }
    let log = played(ours(&everything)).await;
    assert!(log.contains("a line of our own"), "{log}");
}

/// Without the rule each of them quotes: the test would see it.
#[tokio::test]
async fn libraries_do_quote() {
    let log = played(|page| {
        let lines = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        let lines = lines.with_ansi(false).with_writer(move || page.clone());
        Box::new(lines.finish())
    })
    .await;
    let quoting = log.lines().filter(|line| line.contains(CANARY));
    let quoting: Vec<&str> = quoting.collect();
    for target in QUOTING {
        let target = format!("{target}: ");
        assert!(
            quoting.iter().any(|line| line.contains(&target)),
            "{target} {quoting:#?}"
        );
    }
}

#[tokio::test]
async fn invisible_and_control_characters_are_in_no_line() {
    let quoted = "a\u{202e}b\u{1b}[31mc\u{9b}31md\u{200b}\u{7f}\r\ne";
    for is_terminal in [false, true] {
        let page = Page::default();
        let written = page.clone();
        let lines = logs(EnvFilter::new("info"), move || written.clone(), is_terminal);
        let _guard = lines.set_default();
        tracing::warn!(error = %quoted, text = quoted, "the service answered {quoted}");
        let log = page.text();
        let is_bad = |c: char| c != '\n' && c.is_control() || crate::api::is_hidden(c);
        assert!(!log.contains(is_bad), "{log:?}");
        // A terminal shows a backtrace as it is.
        assert!(is_terminal || log.lines().count() == 1, "{log:?}");
    }
}

#[tokio::test]
async fn the_kubernetes_client_logs_no_retries_by_default() {
    for (directives, lines) in [
        ("", 2),
        ("info,cloud_server_operator=debug", 3),
        ("info,kube_client=error", 3),
        ("=,=", 2),
    ] {
        let page = Page::default();
        let written = page.clone();
        let (filter, _) = super::super::filter::parsed(directives);
        let _guard = logs(filter, move || written.clone(), false).set_default();
        tracing::error!(target: "kube_client::client::builder", "failed with status 503");
        tracing::warn!(target: "cloud_server_operator::runtime::watch", "watch failed, starting a new one");
        tracing::debug!(target: "cloud_server_operator::instance", "reconciled");
        tracing::error!(target: "hyper::proto", "logged");
        assert_eq!(
            page.text().lines().count(),
            lines,
            "{directives}: {}",
            page.text()
        );
    }
}

#[tokio::test]
async fn errors_of_libraries_and_lines_of_our_own_are_logged() {
    let page = Page::default();
    let _guard = ours("info")(page.clone()).set_default();
    tracing::error!(target: "kube_client::client::builder", "it failed");
    tracing::warn!(target: "kube_client::client", "not logged");
    tracing::warn!(target: "cloud_server_operator_of_others", "not logged");
    tracing::info!(target: "cloud_server_operator::session", "logged");
    tracing::debug!("below what users want");
    let log = page.text();
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(
        log.contains("it failed") && log.contains("\"logged\""),
        "{log}"
    );
}
