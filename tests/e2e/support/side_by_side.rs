//! Many worlds at the same time.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Plays each item in a world of its own, so many of them at once, and fails with all that failed.
pub async fn side_by_side<T, F>(
    at_once: usize,
    items: impl IntoIterator<Item = T>,
    play: impl Fn(T) -> F + Clone + Send + 'static,
) where
    T: Debug + Send + 'static,
    F: Future<Output = ()>,
{
    let room = Arc::new(Semaphore::new(at_once));
    let mut worlds = JoinSet::new();
    for item in items {
        let (room, handle, play) = (room.clone(), Handle::current(), play.clone());
        // A thread of its own: a world waits for programs, and its futures need not be sent about.
        worlds.spawn_blocking(move || {
            handle.block_on(async {
                let _permit = room.acquire_owned().await.unwrap();
                let what = format!("{item:?}");
                println!("begins: {what}");
                play(item).await;
                println!("done: {what}");
            });
        });
    }
    let mut failed = Vec::new();
    while let Some(ended) = worlds.join_next().await {
        if let Err(error) = ended {
            failed.push(error.to_string());
        }
    }
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
}
