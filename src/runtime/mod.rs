//! Building blocks for any controller, independent of cloud servers: watches, the queue, deadlines, backoff, health, metrics,
//! Events, the term of leadership.

pub mod access;
pub mod backoff;
pub mod chance;
pub mod compressed;
pub mod events;
pub mod health;
pub mod heartbeat;
pub mod host;
pub mod kube_error;
pub mod kubernetes;
pub mod lease;
pub mod metrics;
pub mod notice;
pub mod obstacle;
pub mod queue;
pub mod requests;
pub mod rights;
pub mod serve;
pub mod shard;
pub mod store;
pub mod strings;
pub mod term;
pub mod times;
pub mod tls;
pub mod traces;
pub mod watch;

pub use backoff::Backoff;
pub use heartbeat::{Heartbeat, Heartbeats};
pub use kube_error::KubeError;
pub use metrics::Metrics;
pub use obstacle::Obstacle;
pub use rights::Rights;
pub use shard::Shard;
pub use term::Term;

/// An error and its causes in one line. Some libraries repeat a cause in the text of the error; it appears only once here.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let mut line = error.to_string();
    for cause in causes {
        let words = cause.to_string();
        if !line.contains(&words) {
            line = format!("{line}: {words}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use thiserror::Error;

    #[derive(Debug, Error)]
    #[error("the file {file} could not be read")]
    struct Ours {
        file: &'static str,
        source: Theirs,
    }

    #[derive(Debug, Error)]
    #[error("reading failed: {source}")]
    struct Theirs {
        source: std::io::Error,
    }

    #[test]
    fn each_cause_is_shown_once() {
        let source = std::io::Error::from_raw_os_error(2);
        let source = Theirs { source };
        let line = chain(&Ours { file: "f", source });
        assert_eq!(
            line,
            "the file f could not be read: reading failed: No such file or directory (os error 2)"
        );
    }
}
