//! A watch on its way to the operator.

use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt};
use std::collections::{HashMap, VecDeque};
use std::io::{Error, Result};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Half a frame.
const HALF: &[u8] = br#"{"type":"MODIFIED","object":{"kind":"Inst"#;
/// What an apiserver says to whoever wants to go on from a version that is compacted away.
const GONE: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}
"#;

/// What happens to a watch that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The server ends it, as it does when the time is up.
    Close,
    /// The connection is lost in the middle of a frame.
    CutMidFrame,
    /// Its version is too old: an ERROR event says so.
    Gone,
    /// Nothing comes any more, and nobody says so: the other end is gone without a word.
    Freeze,
}

/// What has happened on the wire so far.
#[derive(Clone, Default)]
pub(super) struct Weather {
    pub(super) gusts: Vec<(String, Blow)>,
    pub(super) late: HashMap<String, Duration>,
}

impl Weather {
    /// What struck watches of this resource after the first so many gusts.
    fn strikes(&self, resource: &str, after: usize) -> Option<Blow> {
        let newer = self.gusts.iter().skip(after);
        newer
            .filter(|(of, _)| of == resource)
            .map(|(_, blow)| *blow)
            .next_back()
    }

    fn late(&self, resource: &str) -> Duration {
        self.late.get(resource).copied().unwrap_or_default()
    }
}

/// The body of a watch's answer, through whatever happens on the way.
pub(super) fn relay(
    frames: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    resource: String,
    weather: watch::Receiver<Weather>,
) -> Body {
    let (out, body) = mpsc::channel(16);
    tokio::spawn(carry(frames, resource, weather, out));
    let body = futures::stream::unfold(body, |mut body| async move {
        body.recv().await.map(|frame| (frame, body))
    });
    Body::from_stream(body)
}

async fn carry(
    frames: impl Stream<Item = reqwest::Result<Bytes>>,
    resource: String,
    mut weather: watch::Receiver<Weather>,
    out: mpsc::Sender<Result<Bytes>>,
) {
    let begun = weather.borrow_and_update().gusts.len();
    let mut frames = pin!(frames.fuse());
    let mut waiting: VecDeque<(Instant, Result<Bytes>)> = VecDeque::new();
    let mut ended = false;
    while !(ended && waiting.is_empty()) {
        let due = waiting.front().map(|(at, _)| *at);
        tokio::select! {
            () = out.closed() => return,
            changed = weather.changed() => {
                let blow = weather.borrow_and_update().strikes(&resource, begun);
                match blow {
                    _ if changed.is_err() => return,
                    None => {}
                    Some(Blow::Close) => return,
                    Some(Blow::CutMidFrame) => {
                        let _ = out.send(Ok(Bytes::from_static(HALF))).await;
                        let _ = out.send(Err(Error::other("the connection is lost"))).await;
                        return;
                    }
                    Some(Blow::Gone) => {
                        let _ = out.send(Ok(Bytes::from_static(GONE))).await;
                        return;
                    }
                    Some(Blow::Freeze) => return out.closed().await,
                }
            }
            frame = frames.next(), if !ended => match frame {
                Some(frame) => {
                    let late = weather.borrow().late(&resource);
                    waiting.push_back((Instant::now() + late, frame.map_err(Error::other)));
                }
                None => ended = true,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                if let Some((_, frame)) = waiting.pop_front() && out.send(frame).await.is_err() {
                    return;
                }
            }
        }
    }
}
