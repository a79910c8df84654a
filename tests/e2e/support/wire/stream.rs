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
/// The apiserver's event for a client that resumes from a compacted version.
const GONE: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}
"#;

/// A fault of an open watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The server ends it, as it does when the time is up.
    Close,
    /// The connection is lost in the middle of a frame.
    CutMidFrame,
    /// Its version is too old: an ERROR event reports that.
    Gone,
    /// No more bytes arrive, and the connection stays open: the other end disappeared without notice.
    Freeze,
}

/// The faults on the wire so far.
#[derive(Clone, Default)]
pub(super) struct Weather {
    pub(super) gusts: Vec<(String, Blow)>,
    pub(super) late: HashMap<String, Duration>,
}

/// The faults from one moment on.
pub(super) struct Forecast {
    weather: watch::Receiver<Weather>,
    /// The number of faults before that moment.
    over: usize,
}

impl Forecast {
    pub(super) fn begin(weather: &watch::Sender<Weather>) -> Self {
        let mut weather = weather.subscribe();
        let over = weather.borrow_and_update().gusts.len();
        Self { weather, over }
    }

    /// Waits for the next fault, and returns its effect on watches of this resource.
    async fn strikes(&mut self, resource: &str) -> Result<Option<Blow>> {
        self.weather.changed().await.map_err(Error::other)?;
        let weather = self.weather.borrow_and_update();
        let newer = weather.gusts.iter().skip(self.over);
        let mut of_these = newer.filter(|(of, _)| of == resource);
        Ok(of_these.next_back().map(|(_, blow)| *blow))
    }
}

impl Weather {
    fn late(&self, resource: &str) -> Duration {
        self.late.get(resource).copied().unwrap_or_default()
    }
}

/// The body of a watch's answer, subject to the faults on the way.
pub(super) fn relay(
    frames: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    resource: String,
    forecast: Forecast,
) -> Body {
    let (out, body) = mpsc::channel(16);
    tokio::spawn(carry(frames, resource, forecast, out));
    let body = futures::stream::unfold(body, |mut body| async move {
        body.recv().await.map(|frame| (frame, body))
    });
    Body::from_stream(body)
}

async fn carry(
    frames: impl Stream<Item = reqwest::Result<Bytes>>,
    resource: String,
    mut forecast: Forecast,
    out: mpsc::Sender<Result<Bytes>>,
) {
    let weather = forecast.weather.clone();
    let mut frames = pin!(frames.fuse());
    let mut waiting: VecDeque<(Instant, Result<Bytes>)> = VecDeque::new();
    let mut ended = false;
    while !(ended && waiting.is_empty()) {
        let due = waiting.front().map(|(at, _)| *at);
        tokio::select! {
            () = out.closed() => return,
            blow = forecast.strikes(&resource) => match blow {
                Ok(None) => {}
                Err(_) | Ok(Some(Blow::Close)) => return,
                Ok(Some(Blow::CutMidFrame)) => {
                    let _ = out.send(Ok(Bytes::from_static(HALF))).await;
                    let _ = out.send(Err(Error::other("the connection is lost"))).await;
                    return;
                }
                Ok(Some(Blow::Gone)) => {
                    let _ = out.send(Ok(Bytes::from_static(GONE))).await;
                    return;
                }
                Ok(Some(Blow::Freeze)) => return out.closed().await,
            },
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
