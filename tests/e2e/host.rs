//! What the machine does to the operator: its clock, its processor, its memory, its log, its descriptors, its network; and a
//! supervisor that starts it again and again where it dies again and again.

pub mod cgroup;
mod clock;
mod crash_loop;
mod descriptors;
mod families;
mod log;
pub mod memory;
mod network;
mod starved;

use crate::support::World;
use cloud_server_operator::api::Instance;

fn id_of(instance: &Instance) -> String {
    instance.status.as_ref().unwrap().id.clone().unwrap()
}

impl World {
    /// The operator runs: one that ended by itself, as it does when it lost its Lease, is started again, as a supervisor
    /// would. Tells whether it was.
    async fn supervise(&mut self) -> bool {
        let ended = !self.operator().is_running();
        if ended {
            self.start().await;
        }
        ended
    }
}
