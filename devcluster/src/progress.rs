//! Progress of a long step on standard error: a live line on a terminal, a plain line now and then elsewhere.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// How often progress is written to a log. Often enough for CI systems that end silent jobs.
const PLAIN_INTERVAL: Duration = Duration::from_secs(30);

/// Prints one line. It bypasses the capture of the test harness, so that a user who waits for minutes sees the reason.
pub(crate) fn print(line: &str) {
    // If standard error is closed, the line cannot be shown anywhere.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// One of several long steps.
pub(crate) struct Step {
    label: String,
    started: Instant,
    spoken: Instant,
    bar: Option<ProgressBar>,
}

impl Step {
    pub(crate) fn begin(label: &str, doing: &str) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::default_spinner();
            ProgressBar::new_spinner().with_style(
                style
                    .template("{spinner} {msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            )
        });
        if bar.is_none() {
            print(&format!("{label}: {doing}"));
        }
        let now = Instant::now();
        Self {
            label: label.to_owned(),
            started: now,
            spoken: now,
            bar,
        }
    }

    /// Shows the current activity, if an update is due.
    pub(crate) fn tick(&mut self, doing: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(self.line(&doing()));
            bar.tick();
        } else if self.spoken.elapsed() >= PLAIN_INTERVAL {
            self.spoken = Instant::now();
            print(&self.line(&doing()));
        }
    }

    pub(crate) fn finish(self, done: &str) {
        let line = self.line(done);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        print(&line);
    }

    /// Clears the terminal line for the error message that follows.
    pub(crate) fn fail(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, doing: &str) -> String {
        format!("{}: {doing}, {}", self.label, human(self.started.elapsed()))
    }
}

fn human(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => format!("{}m {:02}s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_speech() {
        assert_eq!(human(Duration::from_millis(59_900)), "59s");
        assert_eq!(human(Duration::from_secs(72)), "1m 12s");
        assert_eq!(human(Duration::from_secs(605)), "10m 05s");
    }
}
