//! The log, which never makes anybody wait: lines go to a thread of their own, and those that find its queue full are
//! dropped and counted.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// Lines that may wait: some megabytes at most, and more than a burst brings.
const WAITING: usize = 8192;

/// The log of the process. Dropping it writes what waits, for a second at most.
pub(super) struct Log {
    writer: NonBlocking,
    _guard: WorkerGuard,
}

impl Log {
    /// People read lines, machines read JSON. The client library logs whole bodies at WARN when one does not decode, which
    /// may hold a Secret: only its errors are shown. What watches run into is told by our own line.
    ///
    /// # Errors
    /// Standard error is closed.
    pub(super) fn begin() -> std::io::Result<Self> {
        // A file of its own: whoever holds the lock of the standard library's would be waited for.
        let stderr = File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
        let (writer, guard) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(WAITING)
            .thread_name("log")
            .finish(stderr);
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        let directives = ["kube_client=error", "kube_runtime=error"];
        let filter = directives
            .iter()
            .filter_map(|directive| directive.parse().ok())
            .fold(filter, EnvFilter::add_directive);
        let is_terminal = std::io::stderr().is_terminal();
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(is_terminal)
            .with_writer(writer.clone());
        if is_terminal {
            builder.init();
        } else {
            builder.json().flatten_event(true).init();
        }
        tell_of_panics();
        Ok(Self {
            writer,
            _guard: guard,
        })
    }

    /// A line for people, whatever the filter.
    pub(super) fn say(&self, line: &str) {
        // Dropping it is the writer's own decision; there is nobody to tell.
        let _ = self
            .writer
            .clone()
            .write_all(format!("{line}\n").as_bytes());
    }

    /// Tells how many lines were dropped so far.
    pub(super) fn dropped(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let counter = self.writer.error_counter();
        move || counter.dropped_lines() as u64
    }
}

/// The default hook writes to standard error itself, and waits for its reader.
fn tell_of_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(%backtrace, "{}", told(panic));
    }));
}

/// Where a panic happened, and its words if they are those of the source. Words that were put together at run time hold
/// values, be it the text that was cut in the middle of a character or an error that was unwrapped: nobody knows whether one
/// of them is a token or a password, and the place and the backtrace tell where they come from.
fn told(panic: &PanicHookInfo<'_>) -> String {
    let words = panic.payload().downcast_ref::<&'static str>();
    let words = words.unwrap_or(&"its words hold values and are not logged");
    match panic.location() {
        Some(place) => format!("panicked at {place}: {words}"),
        None => format!("panicked: {words}"),
    }
}

#[cfg(test)]
mod tests;
