//! Effects of the machine on the operator: clock, processor, memory, log, file descriptors, network; and a supervisor that
//! restarts it while it crashes repeatedly.

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

impl World {
    /// Restarts the operator if it has ended on its own, for example after it lost its Lease, as a supervisor would. Returns
    /// whether it had.
    async fn supervise(&mut self) -> bool {
        let ended = !self.operator().is_running();
        if ended {
            self.start().await;
        }
        ended
    }
}
