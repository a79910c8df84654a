//! How far something is that takes long: a living line on standard error where that is a terminal, and nothing anywhere else,
//! so that what a pipeline collects is the answer alone.

use crate::api::printable;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// How often the line moves although nothing was said.
const TICK: Duration = Duration::from_millis(120);

/// One thing that takes long. The line goes when it is dropped.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Begins with these words.
    pub(super) fn begin(doing: &str) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            let bar = ProgressBar::new_spinner();
            let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(TICK);
            bar
        });
        let progress = Self(bar);
        progress.say(|| doing.to_owned());
        progress
    }

    /// Says what is being done now.
    pub(super) fn say(&self, doing: impl FnOnce() -> String) {
        if let Some(bar) = &self.0 {
            bar.set_message(printable(&doing()).into_owned());
        }
    }

    /// A line of the answer, on standard output.
    pub(super) fn answer(&self, line: &str) {
        let print = || {
            // That nobody reads it to its end is no failure of what was asked for.
            let _ = super::output::print(line);
        };
        match &self.0 {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// A line that stays, for people.
    pub(super) fn note(&self, line: &str) {
        let line = printable(line);
        match &self.0 {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
