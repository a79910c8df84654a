//! Every process computes the same credential of an endpoint and token: after a restart none of them looks replaced, although a
//! process reads nothing but the objects of the cluster, and no listing may show a server of ours any more.

use super::play::{lease, no_lease, one};
use super::schedules;
use crate::fault::Act::CrashBefore;
use crate::fault::Kind::Receipt;
use crate::fault::Step::{Apply, ConsoleRelease, Delete, EditImage, Kill, Terminate, WipeStatus};
use crate::specs::recreates;

schedules! {
    the_only_server_released_at_the_console_and_deleted_after_a_restart => "bought 1, left 0; web-1 gone":
        one().at(20_000, ConsoleRelease(1)).at(20_000, Kill(0)).at(60_000, Delete(1));
    the_only_server_released_at_the_console_after_a_restart_and_deleted => "bought 1, left 0; web-1 gone":
        one().at(5_000, Kill(0)).at(20_000, ConsoleRelease(1)).at(60_000, Delete(1));
    one_of_two_servers_released_at_the_console_and_deleted_after_a_restart => "bought 2, left 1; web-1 gone, web-2 Available":
        one().at(600, Apply(2)).at(20_000, ConsoleRelease(1)).at(20_000, Kill(0)).at(60_000, Delete(1));
    bought_again_by_another_process_than_the_first_server => "bought 2, left 1; web-1 Available":
        one().spec(recreates(3)).at(20_000, Kill(0)).at(60_000, ConsoleRelease(1));
    no_receipt_and_status_wiped_after_a_restart => "bought 1, left 1; web-1 Available":
        one().on(Receipt, 1, CrashBefore).at(20_000, WipeStatus(1));
    edited_and_deleted_under_a_standby_that_takes_over => "bought 1, left 0, erased 1; web-1 gone":
        lease().at(5_000, Terminate(0)).at(40_000, EditImage(1)).at(90_000, Delete(1));
    edited_while_two_processes_act => "bought 1, left 1, erased 1; web-1 Available":
        no_lease().at(10_000, EditImage(1));
}
