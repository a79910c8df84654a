//! The log. A thread of its own writes the lines, so that no task waits for their reader. A line that finds the queue of the thread
//! full is dropped and counted.

use crate::api::is_hidden;
use crate::runtime::traces;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use tracing::{Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, registry};

mod collector;
mod filter;

use collector::Collector;

/// Lines that may wait for their reader. With [`LONGEST_LINE`] they take some 4 MiB at most.
const WAITING_LINES: usize = 1_024;
/// A longer line is cut at this number of bytes, unless it is JSON.
const LONGEST_LINE: usize = 4_096;
/// Each text of a long line of JSON is cut at this number of characters: the line stays valid, and has about [`LONGEST_LINE`]
/// bytes.
const LONGEST_TEXT: usize = 500;

/// The log of the process, and the exporter of its traces. Dropping it writes the waiting lines, for about a second at most.
pub(super) struct Log {
    // Declared and so dropped first, while the runtime that it needs still exists.
    collector: Option<Collector>,
    writer: NonBlocking,
    _guard: WorkerGuard,
}

impl Log {
    /// Starts the log: plain lines on a terminal, JSON elsewhere. The filter in `filter_file` selects the lines, or `RUST_LOG`
    /// while that file is missing, unreadable or empty; [`is_shown`] holds some back in any case. Requires a runtime.
    ///
    /// # Errors
    /// Standard error is closed, or the collector of traces cannot be used.
    pub(super) fn begin(filter_file: Option<PathBuf>) -> Result<Self, String> {
        let no_log = |error: std::io::Error| format!("no log: {error}");
        // A file of its own, since the standard library locks its handle and the thread would wait for the holder of the lock.
        let stderr = std::io::stderr().as_fd().try_clone_to_owned();
        let (writer, guard) = NonBlockingBuilder::default()
            .buffered_lines_limit(WAITING_LINES)
            .thread_name("log")
            .finish(File::from(stderr.map_err(no_log)?));
        let collector = Collector::of_environment()?;
        let text = filter_file
            .as_deref()
            .map_or_else(filter::of_environment, filter::of_file);
        let (filter, invalid) = filter::parsed(&text);
        let (filter, handle) = reload::Layer::new(filter);
        let is_terminal = std::io::stderr().is_terminal();
        let lines = writer.clone();
        let lines = move || lines.clone();
        subscriber(filter, lines, is_terminal, collector.as_ref()).init();
        tracing::trace!("lines of our own are logged at every level");
        if let Some(why) = invalid {
            let default = filter::DEFAULT;
            tracing::warn!(%why, "the log filter is invalid, using {default} instead: fix it");
        }
        if let Some(file) = filter_file {
            tokio::spawn(filter::follow(file, text, handle));
        }
        log_panics();
        Ok(Self {
            collector,
            writer,
            _guard: guard,
        })
    }

    /// Sends the last spans, which needs the runtime.
    pub(super) fn end_traces(&mut self) {
        self.collector = None;
    }

    /// Writes a line regardless of the filter.
    pub(super) fn write(&self, line: &str) {
        // The writer never fails: it drops and counts the line.
        let _ = self
            .writer
            .clone()
            .write_all(format!("{line}\n").as_bytes());
    }

    /// Counts the lines that were dropped.
    pub(super) fn dropped(&self) -> ErrorCounter {
        self.writer.error_counter()
    }
}

/// Writes the lines that pass both the users' filter and [`is_shown`], and passes the spans to the collector.
fn subscriber<W: Write + 'static>(
    filter: reload::Layer<EnvFilter, Registry>,
    writer: impl Fn() -> W + Send + Sync + 'static,
    is_terminal: bool,
    collector: Option<&Collector>,
) -> Box<dyn Subscriber + Send + Sync> {
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(move || Printable(writer()));
    let lines = if is_terminal {
        lines.boxed()
    } else {
        lines.json().flatten_event(true).boxed()
    };
    let lines = lines.with_filter(filter.and(filter_fn(is_shown)));
    let spans = collector.map(|collector| {
        let spans = tracing_opentelemetry::layer().with_tracer(collector.tracer());
        spans.with_filter(filter_fn(|line| line.target() == traces::TARGET))
    });
    Box::new(registry().with(lines).with(spans))
}

/// Removes invisible and control characters from each line, and cuts a long line. Lines have no colours, since those of a quoted
/// text could not be distinguished from the line's own.
struct Printable<W>(W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let stays = |c: char| !is_hidden(c) && (!c.is_control() || c == '\n');
        match std::str::from_utf8(line) {
            Ok(text) if !text.chars().all(stays) => {
                let text: String = text.chars().filter(|c| stays(*c)).collect();
                self.0.write_all(&cut(text.as_bytes()))?;
            }
            _ => self.0.write_all(&cut(line))?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// The line, or as much of it as fits: a line of JSON with shorter texts, any other with an ellipsis at the end.
fn cut(line: &[u8]) -> Cow<'_, [u8]> {
    const END: &[u8] = "…\n".as_bytes();
    if line.len() <= LONGEST_LINE {
        return line.into();
    }
    if let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(line) {
        for field in fields.values_mut() {
            if let Value::String(text) = field
                && let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT)
            {
                text.truncate(end);
                text.push('…');
            }
        }
        return format!("{}\n", Value::Object(fields)).into_bytes().into();
    }
    let is_boundary = |at: &usize| line[*at] & 0xC0 != 0x80;
    let end = (0..=LONGEST_LINE - END.len()).rev().find(is_boundary);
    [&line[..end.unwrap_or_default()], END].concat().into()
}

/// Libraries log errors only, regardless of the users' filter: below that level some of them quote requests and answers. The
/// Kubernetes client logs whole bodies, Secrets among them (`kube_client::client`, WARN to TRACE), and the watches log their
/// events; h2 logs the message with which a service closes a connection, which may be the token; reqwest logs bytes and rustls
/// handshakes. A list of such lines would differ between versions, so the rule knows only our own lines. Spans are for the
/// collector.
fn is_shown(line: &Metadata<'_>) -> bool {
    const OURS: &str = env!("CARGO_CRATE_NAME");
    let rest = line.target().strip_prefix(OURS);
    let is_ours = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    (is_ours && line.target() != traces::TARGET) || *line.level() == Level::ERROR
}

/// Logs panics. The default hook would write to standard error itself, and wait for its reader.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(%backtrace, "{}", describe(panic));
    }));
}

/// The place of a panic, and its message if that is a constant. A message that was formatted at run time holds values, for example
/// a text that was cut in the middle of a character, or an unwrapped error. Any of them may be a token or a password, and the place
/// and the backtrace show where they come from.
fn describe(panic: &PanicHookInfo<'_>) -> String {
    let words = panic.payload().downcast_ref::<&'static str>();
    let words = words.unwrap_or(&"the message may contain values and is not logged");
    match panic.location() {
        Some(place) => format!("panicked at {place}: {words}"),
        None => format!("panicked: {words}"),
    }
}

#[cfg(test)]
mod tests;
