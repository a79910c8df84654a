//! A simulator of the cloud-server management service, for demos, tests and benchmarks. It implements the whole interface
//! specification.
//!
//! [`model`] is the service as a synchronous state machine with an explicit clock. [`wire`] defines the format of its calls and
//! answers, and [`Simulator`] adds HTTP, a store and faults. It is written from the specification with its own types, so that a
//! mistake in a client shows.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use cloud_simulator::Simulator;
//! use cloud_simulator::faults::{Act, Rule, When};
//!
//! let sim = Simulator::builder().task_duration(Duration::from_millis(200)).start().await?;
//! sim.fault(Rule::on("/instance/create", Act::Lose { when: When::AfterEffect }).times(1));
//! // … point a client at sim.url() with sim.token() …
//! sim.wait_until(|world| world.live_servers().len() == 1, Duration::from_secs(10)).await?;
//! # Ok(())
//! # }
//! ```

pub mod catalogue;
mod control;
pub mod faults;
mod http;
pub mod ledger;
pub mod mix;
pub mod model;
pub mod readings;
pub mod secret;
pub mod service;
mod simulator;
pub mod store;
pub mod time;
pub mod wire;

pub use ledger::{Entry, Ledger, Source};
pub use model::{AccountStatus, Config, Durations, Verb, World};
pub use readings::Readings;
pub use service::Clock;
pub use simulator::{Builder, Simulator, StartError, TimedOut};
pub use time::Timestamp;
