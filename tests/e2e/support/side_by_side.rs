//! Runs many worlds at the same time.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

/// Runs each item in a world of its own, at most `at_once` of them at a time. Panics with all failures.
pub async fn side_by_side<T, F>(
    at_once: usize,
    items: impl IntoIterator<Item = T>,
    play: impl Fn(T) -> F + Clone + Send + 'static,
) where
    T: Debug + Send + 'static,
    F: Future<Output = ()>,
{
    let mut failed = Vec::new();
    let room = Arc::new(Semaphore::new(at_once));
    let items = items.into_iter().map(|item| (format!("{item:?}"), item));
    let play = move |item: T| {
        println!("begins: {item:?}");
        play(item)
    };
    each_side_by_side(room, items, play, |item, ended| match ended {
        Ok(()) => println!("done: {item}"),
        Err(why) => failed.push(format!("{item}: {why}")),
    })
    .await;
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
}

/// Runs each item in a world of its own, at most as many as `room` permits. Returns the result of each item by its key: its
/// value, or the words of its panic.
pub async fn each_side_by_side<K, T, R, F>(
    room: Arc<Semaphore>,
    items: impl IntoIterator<Item = (K, T)>,
    play: impl Fn(T) -> F + Clone + Send + 'static,
    mut report: impl FnMut(K, Result<R, String>),
) where
    K: Send + 'static,
    T: Send + 'static,
    R: Send + 'static,
    F: Future<Output = R>,
{
    let mut worlds = JoinSet::new();
    for (key, item) in items {
        let (room, handle, play) = (room.clone(), Handle::current(), play.clone());
        worlds.spawn(async move {
            let _permit = room.acquire_owned().await;
            // Each world gets a thread of its own: it blocks on programs, and its futures need not be `Send`.
            let world = tokio::task::spawn_blocking(move || handle.block_on(play(item)));
            (key, world.await.map_err(words))
        });
    }
    while let Some(ended) = worlds.join_next().await {
        let (key, result) = ended.expect("a task that waits for a world does not panic");
        report(key, result);
    }
}

/// The message of a panic.
fn words(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "it was cancelled".to_owned();
    };
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}
