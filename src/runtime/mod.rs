//! What any controller needs and nothing that knows what a cloud server is: watches, the queue, deadlines, backoff,
//! health, metrics, Events, the term of leadership.

pub mod backoff;
pub mod chance;
pub mod events;
pub mod health;
pub mod kubernetes;
pub mod lease;
pub mod metrics;
pub mod pulse;
pub mod queue;
pub mod term;
pub mod watch;

pub use backoff::Backoff;
pub use kubernetes::KubeError;
pub use metrics::Metrics;
pub use pulse::{Pulse, Pulses};
pub use term::Term;

/// An error and its causes, as one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
