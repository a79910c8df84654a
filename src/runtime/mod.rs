//! What any controller needs and nothing that knows what a cloud server is: watches, the queue, deadlines, backoff,
//! health, metrics, Events, the term of leadership.

pub mod backoff;
pub mod events;
pub mod health;
pub mod kubernetes;
pub mod metrics;
pub mod queue;
pub mod term;
pub mod watch;

pub use backoff::Backoff;
pub use kubernetes::KubeError;
pub use metrics::Metrics;
pub use term::Term;
