//! The log, which never makes anybody wait: lines go to a thread of their own, and those that find its queue full are
//! dropped and counted.

use crate::api::is_hidden;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{ParseError, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod non_blocking;

use non_blocking::{Guard, NonBlocking, non_blocking};

/// What is logged where `RUST_LOG` says nothing.
const DEFAULT: &str = "info";
/// What is not logged unless `RUST_LOG` names it: each request that fails is an error to the Kubernetes client, and a line of our
/// own says what follows from it.
const QUIET: &str = "kube_client=off,kube_runtime=off";

/// The log of the process. Dropping it writes what waits, for a second at most.
pub(super) struct Log {
    writer: NonBlocking,
    _guard: Guard,
}

impl Log {
    /// People read lines, machines read JSON. What is logged, `RUST_LOG` says, but for what [`is_shown`] keeps back.
    ///
    /// # Errors
    /// Standard error is closed, or the system gives no thread.
    pub(super) fn begin() -> std::io::Result<Self> {
        // A file of its own: whoever holds the lock of the standard library's would be waited for.
        let stderr = File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
        let (writer, guard) = non_blocking(stderr)?;
        let asked = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
        let (filter, unread) = filter(&asked);
        let is_terminal = std::io::stderr().is_terminal();
        subscriber(filter, writer.clone(), is_terminal).init();
        tracing::trace!("lines of our own are logged at every level");
        if let Some(why) = unread {
            tracing::warn!(%why, "RUST_LOG cannot be read, so it counts as {DEFAULT}: mend it");
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
        let writer = self.writer.clone();
        move || writer.dropped()
    }
}

/// What `RUST_LOG` asks for; and why it is the default, where it cannot be read.
fn filter(asked: &str) -> (EnvFilter, Option<ParseError>) {
    let asked = match asked.trim() {
        "" => DEFAULT,
        asked => asked,
    };
    // Of two words about one target the later one counts.
    match EnvFilter::try_new(format!("{QUIET},{asked}")) {
        Ok(filter) => (filter, None),
        Err(why) => (EnvFilter::new(format!("{QUIET},{DEFAULT}")), Some(why)),
    }
}

/// What writes the lines that the users' filter and [`is_shown`] both let pass.
fn subscriber<W>(
    filter: EnvFilter,
    writer: W,
    is_terminal: bool,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Shown(writer));
    let shown = filter_fn(is_shown);
    if is_terminal {
        Box::new(lines.finish().with(shown))
    } else {
        Box::new(lines.json().flatten_event(true).finish().with(shown))
    }
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
/// handshakes. Which line of which version does, nobody can keep a list of, so the rule knows our own lines alone.
fn is_shown(line: &Metadata<'_>) -> bool {
    const OURS: &str = env!("CARGO_CRATE_NAME");
    let rest = line.target().strip_prefix(OURS);
    let is_ours = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    is_ours || *line.level() == Level::ERROR
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
