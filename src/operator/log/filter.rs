//! Which lines are logged: what `RUST_LOG` says, or a file that may change while the process runs.

use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::reload::Handle;

/// What is logged where nothing is asked for.
pub(super) const DEFAULT: &str = "info";
/// What is not logged unless it is named: each request that fails is an error to the Kubernetes client, and a line of our own
/// says what follows from it.
const QUIET: &str = "kube_client=off,kube_runtime=off";
/// How often the file is read: a kubelet brings a changed ConfigMap within a minute.
const REREAD: Duration = Duration::from_secs(5);

/// What is asked for; and why it is the default, where it cannot be read.
pub(super) fn parsed(asked: &str) -> (EnvFilter, Option<ParseError>) {
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

/// What `RUST_LOG` asks for.
pub(super) fn of_environment() -> String {
    std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default()
}

/// What a file asks for. Where there is none, or nothing in it, what `RUST_LOG` does.
pub(super) fn of_file(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    match text.trim() {
        "" => of_environment(),
        text => text.to_owned(),
    }
}

/// Has the filter follow the file from now on. Never ends by itself.
pub(super) async fn follow<S: Subscriber>(file: PathBuf, handle: Handle<EnvFilter, S>) {
    let mut stands = of_file(&file);
    loop {
        tokio::time::sleep(REREAD).await;
        let asked = of_file(&file);
        if asked == stands {
            continue;
        }
        let (filter, unread) = parsed(&asked);
        if handle.reload(filter).is_err() {
            return; // the log has ended
        }
        match unread {
            // Whatever the filter, this is to be seen once: it says why there are other lines from here on.
            None => tracing::error!(
                filter = asked,
                "the log filter was changed, as its file says"
            ),
            Some(why) => {
                tracing::error!(%why, "the log filter cannot be read, using {DEFAULT} instead: fix it");
            }
        }
        stands = asked;
    }
}
