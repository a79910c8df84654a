//! The parts that every program of the project needs: the connection to the cluster, output, and a memory that stays private.

pub mod connection;
mod duration;
mod output;
mod private;

pub use duration::duration;
pub use output::{failed, note, print};
pub use private::keep_private;
