//! Progress of a long command: a line on standard error that changes. It is shown only if standard error is a terminal, so that the
//! log of a pipeline contains only answers and notes.

use super::output::{note, print};
use cloud_server_operator::api::printable;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::process::ExitCode;
use std::time::Duration;

/// How often the spinner moves between messages.
const TICK: Duration = Duration::from_millis(120);

/// The progress line. Dropping it removes the line.
pub(super) struct Progress {
    bar: ProgressBar,
    is_lost: Cell<bool>,
}

impl Progress {
    /// Begins with this message.
    pub(super) fn begin(doing: &str) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        // The bar is hidden unless standard error is a terminal.
        let bar = ProgressBar::new_spinner().with_style(style);
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        let progress = Self {
            bar,
            is_lost: Cell::new(false),
        };
        progress.show(|| doing.to_owned());
        progress
    }

    /// Shows the current activity.
    pub(super) fn show(&self, doing: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(printable(&doing()).into_owned());
        }
    }

    /// Writes a line of the answer to standard output. If the line cannot be written, the command continues and fails at the end.
    pub(super) fn answer(&self, line: &str) {
        if self.bar.suspend(|| print(&printable(line))) != ExitCode::SUCCESS {
            self.is_lost.set(true);
        }
    }

    /// Whether a line of the answer could not be written.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Removes the progress line.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Writes a permanent line for people to standard error.
    pub(super) fn note(&self, line: &str) {
        self.bar.suspend(|| note(&printable(line)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
