//! Signs of life of the process's own tasks, on which `/livez` relies.
//!
//! A task reports a sign of life after each round of its work, successful or not. So an apiserver or a service that is down
//! does not fail the probe: the rounds fail, but they end. A task that hangs, or that is never woken again, does not finish a
//! round, and a new process is the remedy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The signs of life of all tasks that have any; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Heartbeats(Arc<Mutex<Vec<ExpectedTask>>>);

#[derive(Debug)]
struct ExpectedTask {
    name: String,
    limit: Duration,
    heartbeat: Heartbeat,
}

/// The sign of life of one task; cheap to clone.
#[derive(Clone, Debug)]
pub struct Heartbeat(Arc<Mutex<Instant>>);

impl Heartbeat {
    /// A round of work is done.
    pub fn beat(&self) {
        *lock(&self.0) = Instant::now();
    }
}

impl Heartbeats {
    /// From now on `/livez` expects a sign of life of this task at least once in `limit`.
    pub fn expect(&self, name: impl Into<String>, limit: Duration) -> Heartbeat {
        let heartbeat = Heartbeat(Arc::new(Mutex::new(Instant::now())));
        lock(&self.0).push(ExpectedTask {
            name: name.into(),
            limit,
            heartbeat: heartbeat.clone(),
        });
        heartbeat
    }

    /// The tasks that have shown no sign of life for too long.
    pub fn missing(&self) -> Vec<String> {
        let now = Instant::now();
        lock(&self.0)
            .iter()
            .filter(|entry| now.duration_since(*lock(&entry.heartbeat.0)) > entry.limit)
            .map(|entry| entry.name.clone())
            .collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_without_a_heartbeat_for_longer_than_its_limit_is_missing() {
        let heartbeats = Heartbeats::default();
        let quick = heartbeats.expect("quick", Duration::from_secs(10));
        let _slow = heartbeats.expect("slow", Duration::from_secs(100));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(heartbeats.missing(), ["quick"]);
        quick.beat();
        assert!(heartbeats.missing().is_empty(), "it beats again");
    }
}
