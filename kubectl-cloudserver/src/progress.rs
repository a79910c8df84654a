//! Progress of a long command: a line on standard error that changes, if that is a terminal. Otherwise nothing, so that a pipeline
//! collects only the answer.

use super::output::{note, print};
use cloud_server_operator::api::printable;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::time::Duration;

/// How often the spinner moves between messages.
const TICK: Duration = Duration::from_millis(120);

/// The progress line. Dropping it removes the line.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    is_lost: Cell<bool>,
}

impl Progress {
    /// Begins with this message.
    pub(super) fn begin(doing: &str) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            let bar = ProgressBar::new_spinner();
            let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(TICK);
            bar
        });
        let progress = Self {
            bar,
            is_lost: Cell::new(false),
        };
        progress.show(|| doing.to_owned());
        progress
    }

    /// Shows the current activity.
    pub(super) fn show(&self, doing: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(printable(&doing()).into_owned());
        }
    }

    /// A line of the answer, on standard output. If the line cannot be written, the command continues and fails
    /// at the end.
    pub(super) fn answer(&self, line: &str) {
        let print = || print(line);
        let printed = match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        };
        if printed != ExitCode::SUCCESS {
            self.is_lost.set(true);
        }
    }

    /// Whether a line of the answer could not be written.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// A permanent line, for people.
    pub(super) fn note(&self, line: &str) {
        let line = printable(line);
        match &self.bar {
            Some(bar) => bar.suspend(|| note(&line)),
            None => note(&line),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
