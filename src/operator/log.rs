//! The log, which never makes anybody wait: lines go to a thread of their own, and those that find its queue full are
//! dropped and counted.

use crate::api::is_hidden;
use crate::runtime::traces;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, registry};

mod collector;
mod filter;
mod non_blocking;

use collector::Collector;
use non_blocking::{Guard, NonBlocking, non_blocking};

/// The log of the process, and where its traces go. Dropping it writes what waits, for a second at most.
pub(super) struct Log {
    // First: the runtime that it needs is there yet.
    collector: Option<Collector>,
    writer: NonBlocking,
    _guard: Guard,
}

impl Log {
    /// People read lines, machines read JSON. What is logged, `RUST_LOG` says, or this file as long as there is something in it,
    /// but for what [`is_shown`] keeps back. Inside of a runtime.
    ///
    /// # Errors
    /// Standard error is closed, the system gives no thread, or the collector of traces cannot be used.
    pub(super) fn begin(filter_file: Option<PathBuf>) -> Result<Self, String> {
        let no_log = |error: std::io::Error| format!("no log: {error}");
        // A file of its own: whoever holds the lock of the standard library's would be waited for.
        let stderr = std::io::stderr().as_fd().try_clone_to_owned();
        let (writer, guard) = non_blocking(File::from(stderr.map_err(no_log)?)).map_err(no_log)?;
        let collector = Collector::of_environment()?;
        let asked = filter_file
            .as_deref()
            .map_or_else(filter::of_environment, filter::of_file);
        let (filter, unread) = filter::parsed(&asked);
        let (filter, handle) = reload::Layer::new(filter);
        let is_terminal = std::io::stderr().is_terminal();
        subscriber(filter, writer.clone(), is_terminal, collector.as_ref()).init();
        tracing::trace!("lines of our own are logged at every level");
        if let Some(why) = unread {
            let default = filter::DEFAULT;
            tracing::warn!(%why, "the log filter cannot be read, so it counts as {default}: mend it");
        }
        if let Some(file) = filter_file {
            tokio::spawn(filter::follow(file, handle));
        }
        tell_of_panics();
        Ok(Self {
            collector,
            writer,
            _guard: guard,
        })
    }

    /// Sends the last spans, as long as there is a runtime.
    pub(super) fn end_traces(&mut self) {
        self.collector = None;
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
        let writer = self.writer.clone();
        move || writer.dropped()
    }
}

/// What writes the lines that the users' filter and [`is_shown`] both let pass, and hands the spans to the collector.
fn subscriber<W>(
    filter: reload::Layer<EnvFilter, Registry>,
    writer: W,
    is_terminal: bool,
    collector: Option<&Collector>,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(Shown(writer));
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

/// Takes out of each line what is not seen and what steers a terminal, as out of every other text for people. Hence no colours:
/// those of a quoted text could not be told from the line's own.
struct Shown<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Shown<W> {
    type Writer = Shown<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Shown(self.0.make_writer())
    }
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let stays = |c: char| !is_hidden(c) && (!c.is_control() || c == '\n');
        match std::str::from_utf8(line) {
            Ok(text) if !text.chars().all(stays) => {
                let text: String = text.chars().filter(|c| stays(*c)).collect();
                self.0.write_all(text.as_bytes())?;
            }
            _ => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Of the libraries only errors are shown, whatever the users' filter asks for: below that, some of them quote what came and
/// went. The Kubernetes client logs whole bodies, Secrets among them (`kube_client::client`, WARN to TRACE), and the watches what
/// it told them; h2 logs what a service says when it closes a connection, which may be the token; reqwest bytes, rustls
/// handshakes. Which line of which version does, nobody can keep a list of, so the rule knows our own lines alone. Spans are for
/// the collector.
fn is_shown(line: &Metadata<'_>) -> bool {
    const OURS: &str = env!("CARGO_CRATE_NAME");
    let rest = line.target().strip_prefix(OURS);
    let is_ours = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    (is_ours && line.target() != traces::TARGET) || *line.level() == Level::ERROR
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
