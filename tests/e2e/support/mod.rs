//! What every test stands on: one control plane for all, and for each test a namespace, a service and an operator.

mod checks;
mod cluster;
mod objects;
mod operator;
pub mod proxy;
mod wait;
mod world;

pub use checks::{create_calls, marker_of};
pub use cluster::kubectl;
pub use objects::{condition, instance, instance_by_key, is_ready, outline, reason};
pub use wait::{PATIENCE, eventually, stays};
pub use world::{Setup, World};
