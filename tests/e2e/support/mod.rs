//! The foundation of every test: one control plane for all, and for each test a namespace, a service and an operator.

mod again;
pub mod bought;
mod change;
mod checks;
mod cluster;
mod command;
mod fleet;
mod follower;
mod forward;
mod install;
mod kubectl;
mod link;
mod network;
mod objects;
mod operator;
mod program;
pub mod recorder;
mod second;
mod setup;
pub mod shards;
mod side_by_side;
mod stall;
pub mod three;
mod wait;
pub mod wire;
mod wires;
mod world;

pub use again::{create, delete};
pub use change::{
    Mark, assert_idle, busy, console, counts, done, effects, end_task, ended, endless, failed,
    has_done, mark, new_password, no_write_is_repeated, once, password_of, path_of, posts, quiet,
    quiet_all, written, written_once,
};
pub use checks::{create_calls, marker_of};
pub use cluster::{Shared, kubectl, kubectl_of, own, until_served};
pub use command::{EXECUTABLE, PLUGIN, run};
pub use fleet::{busiest, names};
pub use follower::{Follower, within};
pub use forward::end_to_end;
pub use install::{Manifests, token_of};
pub use link::{Link, Weather};
pub use network::{Family, Network};
pub use objects::{
    abnormal, condition, instance, instance_by_key, is_ready, name_of_length, other_image, outline,
    ready_message, reason, server_id, stopped, token, with,
};
pub use operator::{Launch, Operator, get};
pub use program::{Program, folder, module, on_path, port};
pub use setup::Setup;
pub use side_by_side::{each_side_by_side, side_by_side};
pub use stall::{all_stalls, longest_stall, watch_stalls};
pub use wait::{PATIENCE, eventually, insist, is_for_now, stays};
pub use world::{World, labels};
