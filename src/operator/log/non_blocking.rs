//! A writer that makes nobody wait: lines go to a thread of its own, which may stand still for as long as their reader
//! does. Lines that find too much waiting are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Bytes that may wait: more than a burst brings, and little beside the memory that a container is given.
const WAITING: usize = 4 << 20;
/// What a line costs in the queue beside its bytes, rounded up: empty lines must not wait without end either.
const EACH: usize = 64;
/// How long the end of the process waits for the reader.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Takes lines. Cheap to clone; all clones are one queue.
#[derive(Clone)]
pub(super) struct NonBlocking {
    queue: Sender<Vec<u8>>,
    shared: Arc<Shared>,
}

/// Dropping it writes what waits, for a second at most.
pub(super) struct Guard {
    lines: NonBlocking,
    /// Closed when the thread has ended; nothing is ever sent.
    ended: Receiver<()>,
}

#[derive(Default)]
struct Shared {
    waiting: AtomicUsize,
    dropped: AtomicU64,
    is_ending: AtomicBool,
}

/// A queue and the thread that empties it.
///
/// # Errors
/// The system gives no thread.
pub(super) fn non_blocking(to: impl Write + Send + 'static) -> io::Result<(NonBlocking, Guard)> {
    let (queue, lines) = mpsc::channel();
    let (alive, ended) = mpsc::channel();
    let shared = Arc::new(Shared::default());
    let of_thread = shared.clone();
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || {
            write_all(&lines, to, &of_thread);
            drop(alive);
        })?;
    let writer = NonBlocking { queue, shared };
    let guard = Guard {
        lines: writer.clone(),
        ended,
    };
    Ok((writer, guard))
}

/// Writes lines until all their senders are gone, or none waits at the end.
fn write_all(lines: &Receiver<Vec<u8>>, mut to: impl Write, shared: &Shared) {
    loop {
        let line = if shared.is_ending.load(Ordering::Acquire) {
            lines.try_recv().ok()
        } else {
            lines.recv().ok()
        };
        let Some(line) = line else { return };
        // A log that cannot be written has no other place to tell so; the next line may find its reader again.
        let _ = to.write_all(&line);
        shared
            .waiting
            .fetch_sub(line.len() + EACH, Ordering::AcqRel);
    }
}

impl NonBlocking {
    /// Lines that were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Acquire)
    }

    fn send(&self, line: &[u8]) {
        let cost = line.len() + EACH;
        let before = self.shared.waiting.fetch_add(cost, Ordering::AcqRel);
        if before + cost <= WAITING && self.queue.send(line.to_vec()).is_ok() {
            return;
        }
        self.shared.waiting.fetch_sub(cost, Ordering::AcqRel);
        self.shared.dropped.fetch_add(1, Ordering::AcqRel);
    }
}

impl Write for NonBlocking {
    /// Each call is one line, as the subscriber writes them, and never fails: dropping it is this writer's own decision.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.send(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for NonBlocking {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.lines.shared.is_ending.store(true, Ordering::Release);
        // Wakes the thread if it waits for a line; if so much waits that this one is dropped, it is awake.
        self.lines.send(b"");
        // It ended, or its reader had its second.
        let _ = self.ended.recv_timeout(LAST_WORDS);
    }
}

#[cfg(test)]
mod tests;
