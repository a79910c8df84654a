//! The task that reads passes when they are due: one pass of a place at a time, all places concurrently.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Inner, InstanceUid, pass};
use crate::cloud::Client;
use crate::runtime::chance;

pub(super) async fn run(
    shared: Arc<Inner>,
    client: Client,
    wake: Arc<impl Fn(InstanceUid)>,
    cancel: CancellationToken,
) {
    let mut running = FuturesUnordered::new();
    let jitter = shared.lock().settings.jitter;
    loop {
        let per_second = client.limiter().per_second();
        let due = shared.lock().due(per_second, Instant::now());
        for (place, former) in due.now {
            let (shared, client) = (&shared, &client);
            running.push(async move {
                let result =
                    pass::read(client, &place, || shared.lock().priority(&place), former).await;
                (place, result)
            });
        }
        let next = async {
            match due.next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // In a fixed order, so that a test run can be repeated from its seed.
            biased;
            () = cancel.cancelled() => return,
            () = shared.changed.notified() => {}
            () = next => {}
            Some((place, result)) = running.next() => {
                if let Err(error) = &result {
                    tracing::debug!(%place, error = %error, "listing pass failed");
                }
                let stretch = 1.0 + jitter * chance::share();
                let (completed, now) = (result.is_ok(), Instant::now());
                let subjects = shared.lock().completed(&place, result, stretch, now);
                subjects.into_iter().for_each(&*wake);
                if completed {
                    shared.passes.send_modify(|passes| *passes += 1);
                }
            }
        }
    }
}
