//! Refusals and failures that last: the operator concludes from none of them that something is gone, and does not retry without
//! pauses.

use super::play::{Play, lease, no_lease, one};
use super::schedules;
use crate::fault::Act::{
    After, Before, CrashAfter, CrashBefore, Late, LoseAnswer, LoseRequest, NotSent, Status,
    StatusAfter, TaskFails,
};
use crate::fault::Dependency;
use crate::fault::Dependency::{Apiserver, Service};
use crate::fault::Kind;
use crate::fault::Kind::{Create, Intent, Query, Receipt, Release};
use crate::fault::Step::{
    Answers, Apply, Back, ConsoleRelease, Delete, EditImage, EditPower, Kill, Most, Reinstall,
    Replace, Restock, RestoreEtcd, RotatePassword, SellOut, SnapshotEtcd, Spec, TasksFail,
    Terminate, WipeStatus,
};
use crate::specs::{by_name, goes_on, paused_until, recreates, resyncs};
use cloud_simulator::catalogue::example;
use cloud_simulator::readings::FailedCreate;
use serde_json::json;

impl Play {
    /// Everything is answered with this status for this many seconds.
    fn refuses(self, millis: u64, dependency: Dependency, status: u16, seconds: u64) -> Self {
        self.at(millis, Answers(dependency, status))
            .at(millis + 1000 * seconds, Back(dependency))
    }

    /// A failed create leaves no server.
    fn leaves_nothing(mut self) -> Self {
        self.schedule.setting.readings.failed_create = FailedCreate::LeavesNothing;
        self
    }

    /// Two Instances, with this limit of the Account.
    fn two_of(mut self, most: u8) -> Self {
        self.schedule.setting.most = Some(most);
        self.at(600, Apply(2))
    }

    /// The Account may buy one server a minute.
    fn one_a_minute(mut self) -> Self {
        self.schedule.setting.creates = Some(1);
        self
    }
}

/// An image that the service does not have, until a user fixes the spec.
fn unknown_image() -> Play {
    refused_until(1_200_000)
}

/// A create that the service refuses because of its image, until a user fixes that.
fn refused_until(millis: u64) -> Play {
    let fixed = json!({"image": {"id": example().image}});
    refused_for_good().at(millis, Spec(1, fixed))
}

/// A create that the service refuses because of its image; no user fixes it.
fn refused_for_good() -> Play {
    one().spec(json!({"image": {"id": "img-nosuchimage"}}))
}

/// A login Secret that does not exist, until a user names another one.
fn missing_secret() -> Play {
    let secret =
        |name: &str| json!({"login": {"passwordSecretRef": {"name": name, "key": "value"}}});
    one()
        .spec(secret("nowhere"))
        .at(1_200_000, Spec(1, secret("login")))
}

/// A server is released, and its Instance waits only for a listing, which is refused from then on.
fn deleted_while(refused: u16) -> Play {
    one()
        .at(4_000, Delete(1))
        .on(Kind::Listing, 4, Before(Answers(Service, refused)))
        .at(77_000, Back(Service))
}

/// A create fails and its receipt is lost with the process: the server that is left is found by its name, and refuses every
/// operation.
fn failed_unseen() -> Play {
    one()
        .on(Create, 1, TaskFails)
        .on(Kind::Receipt, 1, CrashBefore)
}

schedules! {
    refused_401_while_a_server_is_bought => "bought 1, left 1; web-1 Available":
        one().refuses(505, Service, 401, 300);
    refused_401_after_the_answer_to_a_create_was_lost => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, LoseAnswer).refuses(900, Service, 401, 300);
    refused_401_while_a_server_is_created => "bought 1, left 1; web-1 Available":
        one().tasks(8).refuses(2_000, Service, 401, 300);
    refused_401_and_the_process_is_killed => "bought 1, left 1; web-1 Available":
        one().tasks(8).refuses(2_000, Service, 401, 300).at(60_000, Kill(0)).at(100_000, WipeStatus(1));
    refused_401_while_a_disk_is_erased => "bought 1, left 1, erased 1; web-1 Available":
        one().tasks(8).at(15_000, EditImage(1)).refuses(17_000, Service, 401, 300);
    refused_401_and_a_new_image_is_requested => "bought 1, left 1, erased 1, stopped 1; web-1 Available":
        one().refuses(4_000, Service, 401, 300).at(5_000, EditImage(1)).at(6_000, EditPower(1));
    refused_401_while_a_server_is_released => "bought 1, left 0; web-1 gone":
        one().tasks(5).at(15_000, Delete(1)).refuses(16_000, Service, 401, 300);
    refused_401_and_deleted => "bought 1, left 0; web-1 gone":
        one().refuses(4_000, Service, 401, 300).at(5_000, Delete(1)).at(60_000, Kill(0));
    refused_401_of_a_server_that_is_bought_again_when_it_is_gone => "bought 1, left 1; web-1 Available":
        one().spec(recreates(2)).refuses(4_000, Service, 401, 600).at(100_000, WipeStatus(1));
    refused_401_after_a_release_at_the_console => "bought 2, left 1; web-1 Available":
        one().spec(recreates(1)).at(4_000, ConsoleRelease(1)).refuses(4_050, Service, 401, 300);
    l2_refused_401_for_a_moment_and_the_account_is_woken_meanwhile => "bought 1, left 0; web-1 gone":
        one().refuses(4_000, Service, 401, 8).at(5_000, Delete(1)).at(20_000, RotatePassword);
    l2_the_first_listing_of_a_process_is_refused_while_the_spec_changes => "bought 1, left 1; web-1 Available":
        one()
            .at(10_000, Kill(0))
            .at(10_500, Spec(1, recreates(2)))
            .on(Query, 2, After(Answers(Service, 401)))
            .at(13_000, Back(Service));
    l2_refused_403_while_only_listings_are_read => "bought 1, left 0; web-1 gone":
        deleted_while(403);
    l2_refused_401_while_only_listings_are_read => "bought 1, left 0; web-1 gone":
        deleted_while(401);
    refused_403_while_a_server_is_bought => "bought 1, left 1; web-1 Available":
        one().refuses(505, Service, 403, 300);
    refused_403_while_a_server_is_created_and_handed_over => "bought 1, left 1; web-1 Available":
        lease().tasks(8).refuses(2_000, Service, 403, 300).at(30_000, Terminate(0));
    refused_403_and_deleted => "bought 1, left 0; web-1 gone":
        one().refuses(4_000, Service, 403, 300).at(5_000, Delete(1)).at(60_000, Kill(0));
    refused_403_of_a_server_that_is_bought_again_when_it_is_gone => "bought 1, left 1; web-1 Available":
        one().spec(recreates(2)).refuses(4_000, Service, 403, 600);

    refused_for_a_moment_and_deleted_right_before_the_next_look => "bought 0, left 0; web-1 gone":
        one().on(Create, 1, Status(429)).on(Kind::Read, 4, Before(Delete(1)));
    reinstall_with_the_same_image_that_is_refused_for_a_moment_and_a_crash => "bought 1, left 1, erased 1; web-1 Available":
        one().at(6_000, Reinstall(1)).on(Kind::Reinstall, 1, Status(429)).on(Intent, 3, CrashBefore);
    reinstall_with_the_same_image_that_is_refused_twice_and_a_crash_after_the_second_call => "bought 1, left 1; web-1 OutcomeUnknown":
        one().at(6_000, Reinstall(1)).on(Kind::Reinstall, 1, Status(429)).on(Kind::Reinstall, 2, CrashBefore);
    reinstall_with_the_same_image_that_is_refused_for_a_moment_and_then_loses_its_answer => "bought 1, left 1, erased 1; web-1 Available":
        one().tasks(3).at(6_000, Reinstall(1)).on(Kind::Reinstall, 1, Status(429)).on(Kind::Reinstall, 2, LoseAnswer);
    reinstall_with_the_same_image_that_is_refused_and_its_next_call_takes_effect_before_a_crash => "bought 1, left 1, erased 1; web-1 OutcomeUnknown":
        one().at(6_000, Reinstall(1)).on(Kind::Reinstall, 1, Status(429)).on(Kind::Reinstall, 2, CrashAfter);
    reinstall_with_the_same_image_that_is_refused_and_whose_refusal_is_written_late => "bought 1, left 1, erased 1; web-1 OutcomeUnknown":
        one().at(6_000, Reinstall(1)).on(Kind::Reinstall, 1, Status(429)).on(Kind::Status, 3, Late(3)).on(Kind::Reinstall, 2, CrashAfter);
    reinstall_with_the_same_image_whose_refusal_is_written_late_and_a_crash => "bought 1, left 1, erased 1; web-1 Available":
        one().at(6_000, Reinstall(1)).on(Kind::Reinstall, 1, Status(429)).on(Kind::Status, 3, Late(3)).at(6_800, Kill(0));
    reinstall_with_the_same_image_that_is_refused_and_whose_next_intent_is_not_acknowledged => "bought 1, left 1, erased 1; web-1 Available":
        one().at(6_000, Reinstall(1)).on(Kind::Reinstall, 1, Status(429)).on(Intent, 3, StatusAfter(504)).on(Kind::Read, 6, LoseRequest);
    reinstall_that_was_refused_at_the_time_of_a_restored_snapshot_and_done_since => "bought 1, left 1, erased 1; web-1 Available":
        one().on(Kind::Reinstall, 1, Status(429)).on(Intent, 3, Before(SnapshotEtcd)).at(6_000, EditImage(1)).at(60_000, RestoreEtcd).at(60_050, Kill(0));
    reinstall_with_the_same_image_whose_intent_is_not_acknowledged => "bought 1, left 1, erased 1; web-1 Available":
        one().at(6_000, Reinstall(1)).on(Intent, 2, StatusAfter(504)).on(Kind::Read, 6, LoseRequest);
    reinstall_with_the_same_image_whose_intent_is_not_acknowledged_and_its_read_is_refused => "bought 1, left 1, erased 1; web-1 Available":
        one().at(6_000, Reinstall(1)).on(Intent, 2, LoseAnswer).on(Kind::Read, 6, Status(429));
    reinstall_with_the_same_image_requested_again_by_a_restored_etcd => "bought 1, left 1, erased 1; web-1 Available | bought 1, left 1, erased 2; web-1 Available | bought 1, left 1; web-1 Available":
        one().tasks(3).stale(25).at(2_100, Reinstall(1)).at(7_400, SnapshotEtcd).at(60_000, RestoreEtcd).on(Intent, 3, StatusAfter(504)).met_sometimes();

    l3_the_service_fails_while_a_server_is_bought => "bought 1, left 1; web-1 Available":
        one().refuses(505, Service, 500, 1_200);
    l3_the_service_fails_while_a_server_is_created => "bought 1, left 1; web-1 Available":
        one().tasks(8).refuses(2_000, Service, 500, 1_200);
    l3_the_service_fails_and_the_object_is_deleted => "bought 1, left 0; web-1 gone":
        one().refuses(4_000, Service, 500, 1_200).at(5_000, Delete(1));
    l3_the_service_is_away_and_the_object_is_deleted => "bought 1, left 0; web-1 gone":
        one().away(4_000, Service, 1_200).at(5_000, Delete(1));
    l3_the_service_has_no_room_for_requests => "bought 1, left 1, erased 1; web-1 Available":
        one().refuses(4_000, Service, 429, 1_200).at(5_000, EditImage(1));
    l3_an_image_that_is_unknown => "bought 1, left 1; web-1 Available":
        unknown_image();
    refused_for_good_and_a_crash_before_it_is_fixed => "bought 1, left 1; web-1 Available":
        refused_until(60_000).at(20_000, Kill(0));
    refused_for_good_and_a_crash_right_before_that_is_on_record => "bought 1, left 1; web-1 Available":
        refused_until(60_000).on(Receipt, 1, CrashBefore);
    refused_for_good_and_a_crash_right_after_that_is_on_record => "bought 1, left 1; web-1 Available":
        refused_until(60_000).on(Receipt, 1, CrashAfter);
    refused_for_good_and_a_crash_before_it_is_deleted => "bought 0, left 0; web-1 gone":
        refused_for_good().at(20_000, Kill(0)).at(40_000, Delete(1));
    refused_for_good_and_its_record_is_lost => "bought 1, left 1; web-1 Available":
        refused_until(60_000).at(10_000, Replace(1)).at(20_000, Kill(0));
    refused_for_good_and_etcd_is_restored_to_that => "bought 1, left 1; web-1 ImageDiffers":
        refused_until(60_000).at(50_000, SnapshotEtcd).at(90_000, RestoreEtcd);
    refused_for_good_and_etcd_is_restored_to_that_while_no_process_runs => "bought 1, left 1; web-1 ImageDiffers":
        refused_until(60_000).at(50_000, SnapshotEtcd).at(89_900, Kill(0)).at(90_000, RestoreEtcd);
    refused_for_good_and_the_answer_to_the_next_create_is_lost => "bought 1, left 1; web-1 Available":
        refused_until(60_000).at(20_000, Kill(0)).at(59_000, SnapshotEtcd).on(Create, 3, LoseAnswer);
    refused_for_good_by_a_process_that_is_followed => "bought 1, left 1; web-1 Available":
        refused_until(60_000).at(20_000, Kill(0)).at(30_000, Kill(0));
    l3_a_secret_that_is_missing => "bought 1, left 1; web-1 Available":
        missing_secret();
    l3_a_region_that_sells_nothing => "bought 1, left 1; web-1 Available":
        one().at(100, SellOut).at(1_200_000, Restock);
    l3_a_name_of_a_package_that_is_sold_out => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).at(100, SellOut).at(1_200_000, Restock);
    l3_every_create_fails => "bought 2, left 1; web-1 Available":
        one().at(100, TasksFail(true)).at(1_200_000, TasksFail(false));
    l3_every_create_fails_and_leaves_nothing => "bought 5, left 1; web-1 Available":
        one().leaves_nothing().at(100, TasksFail(true)).at(1_200_000, TasksFail(false));
    l3_every_release_fails => "bought 1, left 0; web-1 gone":
        one().at(4_000, TasksFail(true)).at(5_000, Delete(1)).at(1_200_000, TasksFail(false));
    l3_every_stop_fails => "bought 1, left 1, stopped 1; web-1 Available":
        one().at(4_000, TasksFail(true)).at(5_000, EditPower(1)).at(1_200_000, TasksFail(false));
    l3_every_stop_fails_under_two_processes => "bought 1, left 1, stopped 1; web-1 Available":
        no_lease().at(4_000, TasksFail(true)).at(5_000, EditPower(1)).at(1_200_000, TasksFail(false));
    l3_every_reinstall_fails_under_two_processes => "bought 1, left 1, erased 1; web-1 Available":
        no_lease().at(4_000, TasksFail(true)).at(5_000, EditImage(1)).at(1_200_000, TasksFail(false));
    l3_another_image_waits_while_a_failed_create_left_an_unknown_state => "bought 1, left 1; web-1 ForeignOperationRunning":
        failed_unseen().at(4_000, EditImage(1));
    l3_another_password_waits_while_a_failed_create_left_an_unknown_state => "bought 1, left 1; web-1 ForeignOperationRunning":
        failed_unseen().at(4_000, RotatePassword);
    l3_a_release_fails_and_its_server_is_deleted_again => "bought 1, left 0; web-1 gone":
        one().on(Release, 1, TaskFails).at(4_000, Delete(1)).refuses(9_000, Service, 500, 600);
    l3_the_apiserver_refuses_everything_while_a_server_is_bought => "bought 1, left 1; web-1 Available":
        one().refuses(700, Apiserver, 403, 1_200);
    l3_the_apiserver_refuses_everything_and_the_spec_changes => "bought 1, left 0; web-1 ServerMissing":
        one().refuses(4_000, Apiserver, 403, 1_200).at(5_000, EditImage(1)).at(6_000, ConsoleRelease(1));
    l3_the_apiserver_fails_and_the_object_is_deleted => "bought 1, left 0; web-1 gone":
        one().refuses(4_000, Apiserver, 500, 1_200).at(5_000, Delete(1));
    l3_the_apiserver_is_away_and_a_ready_object_has_a_new_status => "bought 1, left 1; web-1 Available":
        one().away(4_000, Apiserver, 1_200).at(5_000, Spec(1, json!({"reinstallPolicy": "Never"})));
    l3_the_apiserver_is_away_while_a_server_is_created => "bought 1, left 1; web-1 Available":
        one().tasks(5).away(1_200, Apiserver, 1_200);

    l3_two_processes_and_a_token_that_is_refused_when_a_server_went => "bought 2, left 1, stopped 1; web-1 Available":
        no_lease().spec(recreates(1)).at(1_700, ConsoleRelease(1)).at(3_130, EditPower(1)).at(9_760, Reinstall(1))
            .at(11_000, Kill(0)).refuses(17_457, Service, 401, 147);

    pause_until_a_time_ends_by_itself => "bought 1, left 1; web-1 Available":
        one().spec(paused_until(60));
    pause_until_a_time_and_a_kill_in_between => "bought 1, left 1, erased 1; web-1 Available":
        one().at(4_000, Spec(1, paused_until(90))).at(5_000, EditImage(1)).at(30_000, Kill(0));
    pause_until_a_time_that_is_moved => "bought 1, left 1, stopped 1; web-1 Available":
        one().at(4_000, Spec(1, paused_until(60))).at(5_000, EditPower(1)).at(30_000, Spec(1, paused_until(150)));
    pause_until_a_time_and_removed_before => "bought 1, left 1, stopped 1; web-1 Available":
        one().at(4_000, Spec(1, paused_until(400))).at(5_000, EditPower(1)).at(30_000, Spec(1, goes_on()));
    pause_until_a_time_that_is_over => "bought 1, left 1, stopped 1; web-1 Available":
        one().at(20_000, Spec(1, paused_until(5))).at(20_000, EditPower(1));
    pause_until_a_time_holds_up_a_deletion => "bought 1, left 0; web-1 gone":
        one().at(4_000, Spec(1, paused_until(60))).at(5_000, Delete(1)).at(30_000, Kill(0));

    resync_sees_what_the_listing_does_not_show => "bought 1, left 1, stopped 1; web-1 Available":
        one().spec(resyncs()).at(100_000, EditPower(1)).at(200_000, Kill(0));
    resync_of_a_server_that_is_gone => "bought 1, left 0; web-1 ServerMissing":
        one().spec(resyncs()).at(100_000, ConsoleRelease(1));
    resync_while_the_service_fails => "bought 1, left 1; web-1 Available":
        one().spec(resyncs()).refuses(4_000, Service, 500, 1_200);

    most_of_one_is_waited_for => "bought 2, left 1; web-1 gone, web-2 Available":
        one().two_of(1).at(60_000, Delete(1));
    most_of_one_and_a_crash_after_the_purchase => "bought 1, left 0; web-1 gone, web-2 gone":
        one().two_of(1).on(Create, 1, crate::fault::Act::CrashAfter).at(60_000, Delete(1)).at(61_000, Delete(2));
    most_of_none_until_there_may_be_some => "bought 2, left 2; web-1 Available, web-2 Available":
        one().two_of(0).at(200_000, Most(2));
    most_of_none_and_one_that_went_while_it_was_read => "bought 1, left 1; web-1 gone, web-2 Available":
        one().two_of(0).at(529, Delete(1)).at(35_000, Most(1));
    most_lowered_below_the_current_number => "bought 2, left 1; web-1 AccountLimitReached, web-2 Available":
        one().two_of(2).at(10_000, Most(1)).at(200_000, Delete(1)).at(230_000, Apply(1));
    most_of_one_a_minute_also_counts_creates_that_are_repeated => "bought 1, left 0; web-1 gone, web-2 gone":
        one().one_a_minute().at(1_000, Apply(2)).on(Create, 1, NotSent).on(Create, 2, NotSent).on(Create, 3, NotSent)
            .on(Create, 4, NotSent).at(25_000, Delete(1)).at(25_000, Delete(2));
    most_of_one_whose_answer_is_lost => "bought 1, left 1; web-1 Available, web-2 AccountLimitReached":
        one().two_of(1).on(Create, 1, LoseAnswer);
}
