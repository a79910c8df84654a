//! The filter of log lines: from `RUST_LOG`, or from a file that may change while the process runs.

use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::reload::Handle;

/// The filter if none is given.
pub(super) const DEFAULT: &str = "info";
/// Targets that are logged only if the filter names them, and then only their errors: the Kubernetes client logs each failed
/// request as an error, and a line of our own already reports the consequence.
const QUIET: &str = "kube_client=off,kube_runtime=off";
/// How often the file is read. A kubelet takes about a minute to bring a changed ConfigMap; these seconds hardly add to that.
const REREAD: Duration = Duration::from_secs(5);

/// The filter; and the error, if it cannot be parsed and the default is used instead.
pub(super) fn parsed(filter: &str) -> (EnvFilter, Option<ParseError>) {
    let filter = match filter.trim() {
        "" => DEFAULT,
        filter => filter,
    };
    // If two directives name one target, the later one counts.
    match EnvFilter::try_new(format!("{QUIET},{filter}")) {
        Ok(filter) => (filter, None),
        Err(why) => (EnvFilter::new(format!("{QUIET},{DEFAULT}")), Some(why)),
    }
}

/// The value of `RUST_LOG`.
pub(super) fn of_environment() -> String {
    std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default()
}

/// The text of the file, or the value of `RUST_LOG` if the file is missing, unreadable or empty.
pub(super) fn of_file(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    match text.trim() {
        "" => of_environment(),
        text => text.to_owned(),
    }
}

/// Reads the file again and again and changes the filter with it. Ends only when the log does.
/// `current` is the text of the filter in use.
pub(super) async fn follow<S: Subscriber>(
    file: PathBuf,
    mut current: String,
    handle: Handle<EnvFilter, S>,
) {
    loop {
        tokio::time::sleep(REREAD).await;
        let text = of_file(&file);
        if text == current {
            continue;
        }
        let (filter, invalid) = parsed(&text);
        if handle.reload(filter).is_err() {
            return; // the log has ended
        }
        match invalid {
            // An error, so that nearly every filter shows it: it explains why other lines follow.
            None => tracing::error!(filter = text, "the log filter was changed"),
            Some(why) => {
                tracing::error!(%why, "the log filter is invalid, using {DEFAULT} instead: fix it");
            }
        }
        current = text;
    }
}
