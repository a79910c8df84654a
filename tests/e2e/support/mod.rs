//! What every test stands on: one control plane for all, and for each test a namespace, a service and an operator.

mod change;
mod checks;
mod cluster;
mod objects;
mod operator;
pub mod proxy;
mod side_by_side;
mod wait;
mod world;

pub use change::{
    Mark, at_rest, busy, console, counts, done, effects, ended, mark, new_password, password_of,
    path_of, posts, quiet, quiet_all, written,
};
pub use checks::{create_calls, marker_of};
pub use cluster::{kubectl, own};
pub use objects::{
    condition, instance, instance_by_key, is_ready, other_image, outline, reason, stopped, token,
    with,
};
pub use side_by_side::side_by_side;
pub use wait::{PATIENCE, eventually, stays};
pub use world::{Setup, World};
