//! The key under which records name tokens is another one in each process: to the next one every token looks replaced.
//! Nothing is bought or released because of that, and whatever shows a server of ours is enough to go on.

use super::play::{Play, lease, no_lease, one};
use super::schedules;
use crate::fault::Act::{CrashAfter, CrashBefore, LoseAnswer};
use crate::fault::Kind::{Create, Receipt, Reinstall, Release};
use crate::fault::Step::{Apply, ConsoleRelease, Delete, EditImage, Kill, Terminate, WipeStatus};
use crate::specs::recreates;

impl Play {
    /// No process has the key of the one before it.
    fn forgets_key(mut self) -> Self {
        self.schedule.setting.forgets_key = true;
        self
    }
}

schedules! {
    lost_key_and_a_server_that_stands => "bought 1, left 1, erased 1; web-1 Available":
        one().forgets_key().at(5_000, Kill(0)).at(60_000, EditImage(1));
    lost_key_and_deleted => "bought 1, left 0; web-1 gone":
        one().forgets_key().at(5_000, Kill(0)).at(60_000, Delete(1));
    lost_key_after_a_create_whose_answer_was_lost => "bought 1, left 1; web-1 Available":
        one().forgets_key().on(Create, 1, LoseAnswer).at(3_000, Kill(0));
    lost_key_between_create_and_receipt => "bought 1, left 1; web-1 Available":
        one().forgets_key().on(Create, 1, CrashAfter);
    lost_key_before_the_receipt_and_status_wiped => "bought 1, left 1; web-1 Available":
        one().forgets_key().on(Receipt, 1, CrashBefore).at(20_000, WipeStatus(1));
    lost_key_while_a_disk_is_erased => "bought 1, left 1, erased 1; web-1 Available":
        one().forgets_key().at(5_000, EditImage(1)).on(Reinstall, 1, CrashAfter);
    lost_key_while_one_of_two_servers_is_released => "bought 2, left 1; web-1 gone, web-2 Available":
        one().forgets_key().at(600, Apply(2)).at(15_000, Delete(1)).on(Release, 1, CrashAfter);
    lost_key_by_a_standby_that_takes_over => "bought 1, left 0, erased 1; web-1 gone":
        lease().forgets_key().at(5_000, Terminate(0)).at(40_000, EditImage(1)).at(90_000, Delete(1));
    lost_key_in_two_processes_at_once => "bought 1, left 1, erased 1; web-1 Available":
        no_lease().forgets_key().at(10_000, EditImage(1));
    lost_key_and_one_of_two_servers_released_at_the_console => "bought 2, left 1; web-1 gone, web-2 Available":
        one().forgets_key().at(600, Apply(2)).at(20_000, ConsoleRelease(1)).at(20_000, Kill(0)).at(60_000, Delete(1));
    lost_key_and_a_server_that_is_to_be_bought_anew => "bought 2, left 1; web-1 Available":
        one().forgets_key().spec(recreates(3)).at(20_000, Kill(0)).at(60_000, ConsoleRelease(1));
}
