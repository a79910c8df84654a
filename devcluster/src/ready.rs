//! Waits until a component serves, ends, or a deadline passes.

use std::{fmt::Display, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{Component, supervisor::Supervisor};

/// How often to check. A check is cheap, and a start takes seconds.
const POLL: Duration = Duration::from_millis(25);

/// How long one check may take: a server that accepts a connection and does not answer is not ready.
const QUESTION: Duration = Duration::from_secs(5);

/// The API needs 2 s on an idle machine. With two cores shared by three other builds, it has needed 20.
const DEADLINE: Duration = Duration::from_secs(120);

/// The reason why a component does not serve.
#[derive(Debug)]
pub(crate) enum NotReady {
    Exited { code: String },
    TimedOut { last: String },
}

/// Checks until the result is `Ok`. Ends early if the process ends: another process may hold its port, accept every request and
/// answer none.
pub(crate) async fn wait<E: Display>(
    supervisor: &Supervisor,
    component: Component,
    mut ask: impl AsyncFnMut() -> Result<(), E>,
) -> Result<(), NotReady> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let answer = tokio::select! {
            code = exit(supervisor, component) => return Err(NotReady::Exited { code }),
            answer = timeout(QUESTION, ask()) => answer,
        };
        let last = match answer {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", QUESTION.as_secs()),
        };
        if Instant::now() >= deadline {
            return Err(NotReady::TimedOut {
                last: format!("waited {} s: {last}", DEADLINE.as_secs()),
            });
        }
        sleep(POLL).await;
    }
}

/// Waits until a killed process has ended.
pub(crate) async fn gone(supervisor: &Supervisor, component: Component) -> Result<(), NotReady> {
    match timeout(DEADLINE, exit(supervisor, component)).await {
        Ok(_) => Ok(()),
        Err(_) => Err(NotReady::TimedOut {
            last: "it was killed and still runs".to_owned(),
        }),
    }
}

async fn exit(supervisor: &Supervisor, component: Component) -> String {
    loop {
        if let Some(code) = supervisor.exit_code(component) {
            return code;
        }
        sleep(POLL).await;
    }
}

/// Whether the etcd with this name serves on the port, and not another one that took the port first: an API must never be
/// connected to a foreign store. A single request of plain HTTP does not justify a client library.
pub(crate) async fn etcd(port: u16, name: &str) -> Result<(), String> {
    let question = r#"{"linearizable":true}"#;
    let answer = post(port, "/v3/cluster/member/list", question)
        .await
        .map_err(|error| error.to_string())?;
    if answer.contains(&format!(r#""name":"{name}""#)) {
        return Ok(());
    }
    Err(format!(
        "it answers {:?}",
        answer.lines().last().unwrap_or_default()
    ))
}

/// Makes the etcd on this port compact everything but its newest revision.
pub(crate) async fn compact(port: u16) -> std::io::Result<()> {
    // The header of any answer contains the revision.
    let status = post(port, "/v3/kv/range", r#"{"key":"AA=="}"#).await?;
    let revision = digits_after(&status, r#""revision":""#);
    let body = format!(r#"{{"revision":"{revision}","physical":true}}"#);
    let answer = post(port, "/v3/kv/compaction", &body).await?;
    if answer.starts_with("HTTP/1.1 200") {
        Ok(())
    } else {
        Err(std::io::Error::other(answer))
    }
}

/// The bytes in use in the store of the etcd on this port, as etcd reports them.
pub(crate) async fn store_bytes(port: u16) -> std::io::Result<u64> {
    let answer = post(port, "/v3/maintenance/status", "{}").await?;
    let bytes = digits_after(&answer, r#""dbSizeInUse":""#);
    bytes.parse().map_err(|_| std::io::Error::other(answer))
}

/// Whether etcd reports that its disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reservation {
    None,
    Enough,
}

/// Makes the etcd on this port raise or clear the alarm that it raises when its store reaches its maximum size.
pub(crate) async fn alarm(port: u16, room: Reservation) -> std::io::Result<()> {
    let action = match room {
        Reservation::None => "ACTIVATE",
        Reservation::Enough => "DEACTIVATE",
    };
    // An alarm belongs to a member. The header of any answer contains the member.
    let member = post(port, "/v3/kv/range", r#"{"key":"AA=="}"#).await?;
    let member = digits_after(&member, r#""member_id":""#);
    let body = format!(r#"{{"action":"{action}","memberID":"{member}","alarm":"NOSPACE"}}"#);
    let answer = post(port, "/v3/maintenance/alarm", &body).await?;
    // Etcd also answers 200 to a request that it did not understand, but then the answer does not name the alarm.
    if answer.starts_with("HTTP/1.1 200") && answer.contains("NOSPACE") {
        Ok(())
    } else {
        Err(std::io::Error::other(answer))
    }
}

fn digits_after(answer: &str, mark: &str) -> String {
    let rest = answer.split_once(mark).map_or("", |(_, rest)| rest);
    rest.chars().take_while(char::is_ascii_digit).collect()
}

async fn post(port: u16, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Checks that the API serves; the error lists its failing checks.
pub(crate) async fn apiserver(client: &kube::Client) -> Result<(), String> {
    let request = http::Request::get("/readyz")
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    match client.request_text(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            let failing: Vec<&str> = status
                .message
                .lines()
                .filter(|line| line.starts_with("[-]"))
                .collect();
            Err(if failing.is_empty() {
                status.message.clone()
            } else {
                failing.join(", ")
            })
        }
        Err(error) => Err(chain(&error)),
    }
}

/// The sign that the controllers work is the service account that they create in every namespace. No test uses this one.
const MARK: &str = "/api/v1/namespaces/kube-node-lease/serviceaccounts/default";

/// Removes the account that earlier controllers created, so that its next appearance proves that the new ones work. Retries,
/// since an API that serves may still leave a single call unanswered.
pub(crate) async fn forget_controllers(client: &kube::Client) -> Result<(), kube::Error> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match remove_mark(client).await {
            Err(_) if Instant::now() < deadline => sleep(POLL).await,
            result => return result,
        }
    }
}

async fn remove_mark(client: &kube::Client) -> Result<(), kube::Error> {
    match client
        .request_text(
            http::Request::delete(MARK)
                .body(Vec::new())
                .map_err(kube::Error::HttpError)?,
        )
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result.map(drop),
    }
}

/// Checks that the controllers work.
pub(crate) async fn controllers(client: &kube::Client) -> Result<(), String> {
    let request = http::Request::get(MARK)
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    match client.request_text(request).await {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "no service account from them yet: {}",
            chain(&error)
        )),
    }
}

/// An error and its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !line.ends_with(&cause_text) {
            line.push_str(": ");
            line.push_str(&cause_text);
        }
        source = cause.source();
    }
    line
}
