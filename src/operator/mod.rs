//! The operator as a program: its flags, its log, and `run`, which starts the watches, queues and reconciles.

mod args;
mod briefs;
mod changes;
mod elect;
mod election;
mod fleet;
mod keeping;
mod log;
mod memory;
mod metrics;
mod referrers;
mod run;
mod shards;
mod survey;
mod undecodable;
mod wiring;

pub use args::RunArgs;
pub use run::run;
