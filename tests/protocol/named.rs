//! The counterexamples of the model-checked protocol: each is a schedule with the name that it has in the model. The sequences
//! that broke simpler rules must not break these rules. A name that ends in `limit` shows a known limit, and checks that it
//! does not get worse. Cases that are newer than the model are in [`operations`] and [`logins`], refusals and long failures in
//! [`refusals`], the credentials of records in [`credentials`], conditions of other controllers in [`conditions`].

mod conditions;
mod credentials;
mod logins;
mod operations;
pub mod play;
mod refusals;

use crate::fault::{Act, Dependency, Kind, Step};
use play::{Play, lease, no_lease, one};
use serde_json::{Value, json};

/// Each line has the expected result, in the notation of [`crate::tally`], and then the schedule.
macro_rules! schedules {
    ($($name:ident => $line:literal: $play:expr;)*) => {
        $(#[test] fn $name() { $play.holds($line); })*
    };
}
use schedules;

use Act::{
    After, Before, CrashAfter, CrashBefore, FalseNotFound, Late, LoseAnswer, LoseRequest, Omit,
    PauseAfter, PauseBefore, Slow, StatusAfter, TaskFails, Twice,
};
use Kind::{
    Create, Detail, Finalizer, Intent, Listing, Password, Power, Read, Receipt, Reinstall, Release,
    Status, Task,
};
use Step::{
    Apply, Backup, ConsoleMigrate, ConsoleOff, ConsoleRelease, Copy, Delete, EditImage, EditPower,
    ForceFinalizers, Hides, Immigrate, Kill, Label, Replace, Restart, RestoreBackup, RestoreEtcd,
    RotatePassword, SnapshotEtcd, Spec, TasksFail, Terminate, WipeStatus,
};

/// A reinstall with the same image whose outcome nothing shows; then another image for a while.
fn undecided() -> Play {
    one()
        .settle(3)
        .at(4_000, Step::Reinstall(1))
        .on(Reinstall, 1, LoseAnswer)
        .at(60_000, EditImage(1))
        .at(70_000, EditImage(1))
}

/// The login is a key pair instead of the password, which takes a reinstall.
fn with_key() -> Value {
    json!({"login": {"passwordSecretRef": null, "sshKey": {"id": "key-examplepair2"}}})
}

/// The login that every object has at first.
fn with_password() -> Value {
    json!({"login": {"passwordSecretRef": {"name": "login", "key": "value"}, "sshKey": null}})
}

/// The second object is labelled ten times, so that a restored store has older versions than those that were seen.
fn labelled(play: Play) -> Play {
    (0..10).fold(play, |play, n| play.at(1_500 + 100 * n, Label(2)))
}

schedules! {
    q1a_answer_lost_server_not_listed_yet_deleted => "bought 1, left 0; web-1 gone":
        one().visible_late(5).on(Create, 1, LoseAnswer).at(700, Delete(1));
    q1b_crash_after_the_post_deleted_and_recreated => "bought 2, left 1; web-1 Available":
        one().on(Create, 1, CrashAfter).at(900, Delete(1)).at(40_000, Apply(1));
    q1b_executed_late_and_deleted_meanwhile => "bought 1, left 0; web-1 gone":
        one().on(Create, 1, Late(15)).at(2_000, Delete(1));
    q1c_settling_too_short_and_deleted_limit => "bought 1, left 0; web-1 gone":
        one().settle(3).on(Create, 1, Late(15)).at(2_000, Delete(1));
    q1d_executed_twice_then_deleted => "bought 2, left 0; web-1 gone":
        one().on(Create, 1, Twice).at(5_000, Delete(1));
    q1d_executed_twice_not_listed_yet_then_deleted => "bought 2, left 0; web-1 gone":
        one().visible_late(5).on(Create, 1, Twice).at(1_500, Delete(1));
    q1e_a_listing_omits_the_server_of_a_lost_answer => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, LoseAnswer).on(Listing, 3, Omit);
    q1e_it_shows_late_and_the_first_listing_of_the_proof_omits_it => "bought 1, left 1; web-1 Available":
        one().visible_late(19).on(Create, 1, LoseAnswer).on(Listing, 5, Omit);
    q1e_executed_late_and_a_listing_after_the_settling_time_omits_it => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, Late(19)).on(Listing, 5, Omit);
    q1e_executed_late_and_the_second_listing_of_the_proof_omits_it => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, Late(19)).on(Listing, 6, Omit);
    q1f_executed_twice_deleted_and_recreated => "bought 3, left 1; web-1 Available":
        one().on(Create, 1, Twice).at(3_000, Delete(1)).at(3_100, Apply(1)).at(30_000, Apply(1));
    q1i_settling_too_short_heals_without_deletion => "bought 2, left 1; web-1 Available":
        one().settle(3).on(Create, 1, Late(15)).on(Create, 2, LoseAnswer);
    q1j_settling_too_short_and_status_wiped => "bought 2, left 1; web-1 Available":
        one().settle(3).on(Create, 1, Late(15)).at(14_000, WipeStatus(1)).on(Release, 1, Late(4));

    q2a_object_removed_by_force_while_its_create_is_in_flight => "bought 1, left 0; web-1 gone":
        one().on(Create, 1, Before(Delete(1))).on(Receipt, 1, Before(ForceFinalizers(1))).released_at_any_time();
    q7_two_processes_see_a_new_object_at_the_same_time => "bought 1, left 1; web-1 Available":
        no_lease();
    s6_another_password_is_requested_while_one_is_set => "bought 1, left 1, passwords 1; web-1 Available":
        one().tasks(10).at(30_000, RotatePassword);
    s6_another_password_is_set_and_a_process_takes_over_whose_watch_is_late => "bought 1, left 1, passwords 1; web-1 Available | bought 1, left 1, passwords 2; web-1 Available":
        lease().stale(25).tasks(10).at(30_000, RotatePassword).at(32_000, Step::Terminate(0));
    q2h_the_intent_is_found_on_an_object_that_was_deleted_meanwhile => "bought 0, left 0; web-1 gone":
        one().on(Intent, 1, Act::Cut).on(Kind::Read, 4, Act::Before(Delete(1)));
    q2a_finalizer_forced_off_a_live_object => "bought 1, left 1; web-1 Available":
        one().at(4_000, ForceFinalizers(1));
    q2a_finalizer_forced_off_right_after_the_receipt => "bought 1, left 1; web-1 Available":
        one().on(Receipt, 1, After(ForceFinalizers(1)));
    q2b_replaced_by_a_manifest_without_record => "bought 1, left 1; web-1 Available":
        one().at(4_000, Replace(1));
    q2b_replaced_right_before_the_receipt => "bought 1, left 1; web-1 Available":
        one().on(Receipt, 1, Before(Replace(1)));
    q2c_etcd_restored_to_before_the_intent => "bought 1, left 1; web-1 Available":
        one().at(600, SnapshotEtcd).at(4_000, RestoreEtcd);
    q2c_etcd_restored_to_before_the_intent_and_restarted => "bought 1, left 1; web-1 Available":
        one().on(Intent, 1, Before(SnapshotEtcd)).at(4_000, RestoreEtcd).at(4_000, Kill(0));
    q2c_etcd_restored_between_intent_and_post => "bought 1, left 1; web-1 Available":
        one().on(Intent, 1, Before(SnapshotEtcd)).on(Create, 1, Before(RestoreEtcd));
    q2d_stale_watch_deleted_and_recreated => "bought 2, left 1; web-1 Available | bought 1, left 1; web-1 Available":
        one().stale(25).on(Create, 1, LoseAnswer).at(3_000, Delete(1)).at(40_000, Apply(1));
    q2e_a_resource_version_comes_again_after_a_restore => "bought 1, left 1; web-1 Available":
        one().on(Intent, 1, Before(SnapshotEtcd)).on(Create, 1, After(RestoreEtcd)).at(4_000, Label(1));
    q2f_status_wiped_at_every_moment => "bought 1, left 1; web-1 Available":
        one().on(Status, 2, After(WipeStatus(1))).on(Status, 3, After(WipeStatus(1))).at(9_000, WipeStatus(1));
    q2g_the_answer_to_the_intent_is_lost => "bought 1, left 1; web-1 Available":
        one().on(Intent, 1, LoseAnswer);
    q2g_an_unconfirmed_adoption_is_found_next_to_a_newer_one => "bought 2, left 2; web-1 Available, web-2 Available":
        one().stale(10).at(500, Apply(2)).on(Create, 1, LoseAnswer).on(Create, 2, LoseAnswer)
            .on(Intent, 3, LoseAnswer).on(Read, 6, LoseRequest);
    q2g_an_intent_never_arrives_and_another_process_writes_the_same_number => "bought 1, left 1; web-1 Available":
        no_lease().on(Intent, 1, LoseRequest).on(Create, 1, LoseAnswer);
    q2g_an_intent_comes_late_and_another_process_wrote_the_same_number => "bought 1, left 1; web-1 Available":
        lease().on(Intent, 1, PauseBefore(40)).on(Create, 1, LoseAnswer);
    q2h_the_intent_is_answered_with_504_and_stored => "bought 1, left 1; web-1 Available":
        one().on(Intent, 1, StatusAfter(504)).on(Read, 4, LoseRequest);
    q2j_replaced_and_crashed_before_it_is_listed => "bought 1, left 1; web-1 Available":
        one().visible_late(5).on(Create, 1, CrashAfter).at(700, Replace(1));
    q2k_etcd_restored_with_an_open_intent => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, Before(SnapshotEtcd)).at(20_000, RestoreEtcd).at(20_500, Kill(0));

    q2n_etcd_restored_right_after_the_post_and_restarted => "bought 1, left 1; web-1 Available":
        one().on(Intent, 1, Before(SnapshotEtcd)).on(Create, 1, After(RestoreEtcd)).on(Receipt, 1, CrashBefore);

    q3a_status_wiped_and_released_at_the_console => "bought 1, left 0; web-1 ServerMissing":
        one().at(4_000, ConsoleRelease(1)).at(4_000, WipeStatus(1));
    q3a_released_at_the_console_wiped_and_restarted => "bought 1, left 0; web-1 ServerMissing":
        one().at(4_000, ConsoleRelease(1)).at(4_000, WipeStatus(1)).at(4_000, Kill(0));
    q3b_status_wiped_and_executed_twice => "bought 2, left 1; web-1 Available":
        one().on(Create, 1, Twice).at(2_500, WipeStatus(1));
    q3c_executed_twice_a_crash_at_the_receipt_and_wiped => "bought 2, left 1; web-1 Available":
        one().on(Create, 1, Twice).on(Receipt, 1, CrashBefore).at(3_000, WipeStatus(1));
    q3d_a_paused_process_writes_its_receipt_late => "bought 1, left 1; web-1 Available":
        lease().on(Receipt, 1, PauseBefore(60));
    q3d_a_process_paused_before_its_post_and_its_receipt => "bought 2, left 1; web-1 Available":
        lease().on(Create, 1, PauseBefore(60)).on(Receipt, 1, PauseBefore(60));
    q3e_a_receipt_and_a_record_of_paused_processes_come_late => "bought 1, left 1; web-1 Available":
        lease().on(Receipt, 1, PauseBefore(60)).on(Intent, 2, PauseBefore(60)).at(70_000, WipeStatus(1));
    q3f_a_late_receipt_meets_a_namesake => "bought 2, left 1; web-1 Available":
        lease().on(Receipt, 1, PauseBefore(100)).at(2_000, Delete(1)).at(70_000, Apply(1));

    q3g_executed_twice_wiped_and_released_at_the_console => "bought 2, left 1; web-1 ServerMissing":
        one().on(Create, 1, Twice).at(2_500, WipeStatus(1)).at(2_550, ConsoleRelease(1));

    q4a_a_copy_under_another_name => "bought 2, left 1; web-1 Available, web-6 gone":
        one().at(4_000, Copy(1)).at(20_000, Delete(6));
    q4b_a_copy_deleted_and_the_status_wiped => "bought 2, left 1; web-1 Available, web-6 gone":
        one().at(4_000, Copy(1)).at(4_100, WipeStatus(1)).at(9_000, Delete(6));
    q4c_a_copy_and_a_crash => "bought 2, left 1; web-1 gone, web-6 Available":
        one().at(4_000, Copy(1)).at(4_200, Kill(0)).at(9_000, Delete(1));
    q4d_finalizer_forced_while_a_release_runs_then_restored_limit => "bought 1, left 0; web-1 ServerMissing":
        one().at(4_000, Backup(1)).at(5_000, Delete(1)).on(Release, 1, Before(ForceFinalizers(1))).at(9_000, RestoreBackup(1));
    q4e_a_record_of_another_cluster_that_names_this_very_object => "bought 2, left 1; web-1 Available, web-6 gone":
        one().at(4_000, Immigrate(1)).at(20_000, Delete(6)).at(25_000, Kill(0));
    q4f_deleted_and_restored_from_a_backup => "bought 1, left 0; web-1 ServerMissing":
        one().at(4_000, Backup(1)).at(5_000, Delete(1)).at(60_000, RestoreBackup(1));
    q4f_forced_away_and_restored_from_a_backup => "bought 1, left 1; web-1 Available":
        one().at(4_000, Backup(1)).at(5_000, ForceFinalizers(1)).at(5_000, Delete(1)).at(9_000, RestoreBackup(1));
    q4g_a_copy_and_a_restore => "bought 2, left 0; web-1 ServerMissing, web-6 gone":
        one().at(4_000, Copy(1)).at(4_100, Backup(1)).at(5_000, Delete(1)).at(60_000, RestoreBackup(1)).at(70_000, Delete(6));

    q5a_a_reinstall_whose_answer_was_lost => "bought 1, left 1, erased 1; web-1 Available":
        one().at(4_000, EditImage(1)).on(Reinstall, 1, LoseAnswer);
    q5a_a_reinstall_whose_request_was_lost => "bought 1, left 1, erased 1; web-1 Available":
        one().at(4_000, EditImage(1)).on(Reinstall, 1, LoseRequest);
    q5b_settling_too_short_for_a_late_reinstall_limit => "bought 1, left 1, erased 2; web-1 Available":
        one().settle(3).at(4_000, EditImage(1)).on(Reinstall, 1, Late(40));
    q5c_flipped_back_while_a_late_reinstall_is_under_way => "bought 1, left 1, erased 2; web-1 Available":
        one().at(4_000, EditImage(1)).on(Reinstall, 1, Late(12)).at(5_000, EditImage(1));
    q5d_flipped_back_while_it_runs => "bought 1, left 1, erased 2; web-1 Available":
        one().tasks(8).at(15_000, EditImage(1)).at(17_000, EditImage(1));
    q5e_flipped_there_and_back_and_there => "bought 1, left 1, erased 1; web-1 Available":
        one().tasks(5).at(15_000, EditImage(1)).at(16_000, EditImage(1)).at(17_000, EditImage(1)).on(Reinstall, 1, LoseAnswer);
    q5f_the_same_image_again_and_the_answer_lost => "bought 1, left 1, erased 1; web-1 OutcomeUnknown | bought 1, left 1, erased 1; web-1 Available":
        one().at(4_000, Step::Reinstall(1)).on(Reinstall, 1, LoseAnswer);
    q5f_the_same_image_again_and_the_answer_lost_then_another_image_is_refused => "bought 1, left 1, erased 1; web-1 OutcomeUnknown | bought 1, left 1, erased 1; web-1 Available":
        undecided().on(Reinstall, 2, Act::Status(400));
    q5f_the_same_image_again_and_the_answer_lost_then_the_call_for_another_image_too => "bought 1, left 1, erased 1; web-1 OutcomeUnknown | bought 1, left 1, erased 1; web-1 Available":
        undecided().on(Reinstall, 2, LoseRequest);
    q5f_the_same_image_again_and_the_answer_lost_then_the_stop_for_another_image_fails => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 OutcomeUnknown | bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().settle(3).reinstall_needs_stop().at(4_000, Step::Reinstall(1)).on(Reinstall, 2, LoseAnswer).at(60_000, TasksFail(true)).at(60_500, EditImage(1)).at(200_000, EditImage(1)).at(201_000, TasksFail(false));
    q5f_the_same_image_again_and_a_crash_after_the_call => "bought 1, left 1, erased 1; web-1 OutcomeUnknown":
        one().at(4_000, Step::Reinstall(1)).on(Reinstall, 1, CrashAfter);
    q5f_a_key_instead_of_the_password_and_a_crash_after_the_call_and_it_is_withdrawn => "bought 1, left 1, erased 1, passwords 1; web-1 OutcomeUnknown":
        one().at(4_000, Spec(1, with_key())).on(Reinstall, 1, CrashAfter).at(6_000, Spec(1, with_password()));
    q5f_a_key_instead_of_the_password_and_a_crash_after_the_call_and_it_is_withdrawn_right_before_the_end => "bought 1, left 1, erased 1, passwords 1; web-1 OutcomeUnknown":
        one().at(4_000, Spec(1, with_key())).on(Reinstall, 1, CrashAfter).on(Status, 5, Before(Spec(1, with_password())));
    q5f_a_key_instead_of_the_password_and_the_task_fails_and_it_is_withdrawn => "bought 1, left 1, passwords 1; web-1 Available":
        one().tasks(5).at(15_000, Spec(1, with_key())).on(Reinstall, 1, TaskFails).at(16_000, Spec(1, with_password()));
    q5f_a_key_instead_of_the_password_and_a_crash_after_the_call_and_a_user_decides => "bought 1, left 1, erased 1, passwords 1; web-1 Available":
        one().at(4_000, Spec(1, with_key())).on(Reinstall, 1, CrashAfter).at(6_000, Spec(1, with_password())).at(200_000, Spec(1, json!({"deletionPolicy": "Retain"})));
    s1_stopped_for_the_same_image_and_the_answer_lost => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 OutcomeUnknown | bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, Step::Reinstall(1)).on(Reinstall, 2, LoseAnswer);
    s1_stopped_for_the_same_image_and_a_crash_after_the_call => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 OutcomeUnknown":
        one().reinstall_needs_stop().at(4_000, Step::Reinstall(1)).on(Reinstall, 2, CrashAfter);
    s1_stopped_for_another_image => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1));
    s1_stopped_and_a_crash_before_the_stop => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Intent, 3, CrashAfter);
    s1_stopped_and_a_crash_after_the_stop => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Power, 1, CrashAfter);
    s1_stopped_and_the_answer_to_the_stop_is_lost => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Power, 1, LoseAnswer);
    s1_stopped_and_a_crash_before_the_erasure_is_announced => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Intent, 4, CrashBefore);
    s1_stopped_and_a_crash_before_the_erasure => "bought 1, left 1, erased 1, stopped 2, started 2; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Intent, 4, CrashAfter);
    s1_stopped_and_a_crash_before_the_erasure_with_the_same_image => "bought 1, left 1, stopped 1, started 1; web-1 OutcomeUnknown":
        one().reinstall_needs_stop().at(4_000, Step::Reinstall(1)).on(Intent, 4, CrashAfter);
    s1_stopped_and_a_crash_before_the_receipt_of_the_erasure => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Receipt, 3, CrashBefore);
    s1_stopped_and_a_crash_before_the_start_is_announced => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Intent, 5, CrashBefore);
    s1_stopped_and_a_crash_before_the_start => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Intent, 5, CrashAfter);
    s1_stopped_and_a_crash_after_the_start => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Power, 2, CrashAfter);
    s1_stopped_and_the_request_to_start_is_lost => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().spec(json!({"powerState": "Unmanaged"})).at(4_000, EditImage(1)).on(Power, 2, LoseRequest);
    s1_stopped_with_unmanaged_power_and_a_crash_before_the_start => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().spec(json!({"powerState": "Unmanaged"})).at(4_000, EditImage(1)).on(Intent, 5, CrashAfter);
    s1_stopped_with_unmanaged_power_for_the_same_image_and_the_answer_lost_and_a_crash_before_the_start => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 OutcomeUnknown":
        one().reinstall_needs_stop().spec(json!({"powerState": "Unmanaged"})).at(4_000, Step::Reinstall(1)).on(Reinstall, 2, CrashAfter).on(Intent, 5, CrashAfter);
    s1_stopped_with_unmanaged_power_and_the_task_of_the_start_fails => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().spec(json!({"powerState": "Unmanaged"})).at(4_000, EditImage(1)).on(Power, 2, TaskFails);
    s1_stopped_with_unmanaged_power_and_every_start_fails_for_a_while => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().spec(json!({"powerState": "Unmanaged"})).at(4_000, EditImage(1)).on(Reinstall, 2, After(TasksFail(true))).at(1_200_000, TasksFail(false));
    s1_stopped_with_unmanaged_power_and_a_false_not_found_after_a_failed_erasure => "bought 1, left 1, erased 1, stopped 2, started 2; web-1 Available":
        one().reinstall_needs_stop().spec(json!({"powerState": "Unmanaged"})).at(4_000, EditImage(1)).on(Reinstall, 2, TaskFails).on(Detail, 5, FalseNotFound);
    s1_stopped_with_unmanaged_power_and_a_migration_right_after_the_erasure => "bought 1, left 1, erased 1, stopped 2, started 1; web-1 Available":
        one().reinstall_needs_stop().spec(json!({"powerState": "Unmanaged"})).at(4_000, EditImage(1)).on(Task, 3, Before(ConsoleMigrate(1))).at(60_000, ConsoleOff(1));
    s1_stopped_and_the_request_to_start_is_lost_and_the_server_shall_be_off => "bought 1, left 1, erased 1, stopped 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).on(Power, 2, LoseRequest).at(30_000, EditPower(1));
    s1_stopped_with_unmanaged_power_and_observed_until_the_reinstall_ended => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().spec(json!({"powerState": "Unmanaged"})).tasks(5).at(15_000, EditImage(1)).on(Reinstall, 2, After(Spec(1, json!({"managementPolicy": "Observe"})))).at(90_000, Spec(1, json!({"managementPolicy": "Manage"})));
    s1_stopped_for_the_same_image_and_a_crash_before_the_stop_is_announced => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, Step::Reinstall(1)).on(Intent, 3, CrashBefore);
    s1_stopped_and_status_is_wiped_during_the_stop => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).tasks(5).on(Power, 1, After(WipeStatus(1)));
    s1_stopped_and_status_is_wiped_during_the_erasure => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).tasks(5).on(Reinstall, 2, After(WipeStatus(1)));
    s1_stopped_and_status_is_wiped_during_the_start => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, EditImage(1)).tasks(5).on(Power, 2, After(WipeStatus(1)));
    s1_stopped_by_force_after_thirty_seconds => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().stops_in(120).at(4_000, EditImage(1));
    s1_stopped_for_the_same_image_and_neither_the_refusal_nor_the_intent_of_the_stop_is_written => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().at(4_000, Step::Reinstall(1)).on(Status, 3, LoseRequest).on(Intent, 3, LoseRequest);
    s1_stopped_with_unmanaged_power_and_the_power_cut_is_late => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 Available":
        one().reinstall_needs_stop().spec(json!({"powerState": "Unmanaged"})).stops_in(32).at(4_000, EditImage(1)).on(Power, 2, Late(15));
    s1_stopped_and_deleted_under_protection => "bought 1, left 1, stopped 1; web-1 DeletionProtected":
        one().reinstall_needs_stop().spec(json!({"deletionProtection": true})).at(4_000, EditImage(1)).on(Power, 1, After(Delete(1)));
    s1_stopped_and_deleted_under_protection_right_before_the_start => "bought 1, left 1, erased 1, stopped 1; web-1 DeletionProtected":
        one().reinstall_needs_stop().spec(json!({"deletionProtection": true, "powerState": "Unmanaged"})).at(4_000, EditImage(1)).on(Intent, 5, Before(Delete(1)));
    s2_restored_between_the_answer_of_the_swap_and_the_bytes => "bought 3, left 3; web-1 Available, web-2 Available, web-3 Available":
        labelled(one().at(500, Apply(2)).at(600, SnapshotEtcd).on(Intent, 1, Slow(10))).at(3_000, RestoreEtcd).at(3_100, Apply(3));
    s4_forced_away_during_its_create_and_the_receipt_is_lost => "bought 1, left 0; web-1 gone":
        one().on(Create, 1, Slow(5)).at(2_000, Delete(1)).at(2_500, ForceFinalizers(1)).on(Receipt, 1, LoseRequest);
    s4_forced_away_during_its_create_while_the_apiserver_is_away => "bought 1, left 1; web-1 gone":
        one().on(Create, 1, Slow(5)).at(2_000, Delete(1)).at(2_500, ForceFinalizers(1)).away(4_000, Dependency::Apiserver, 60);
    s8_wiped_twice_during_a_reinstall_and_a_crash => "bought 1, left 1, erased 1; web-1 Available":
        one().tasks(10).at(30_000, EditImage(1)).at(33_000, WipeStatus(1)).at(34_000, WipeStatus(1)).at(34_500, Kill(0));
    q5h_the_same_image_then_another => "bought 1, left 1, erased 2; web-1 Available":
        one().at(4_000, Step::Reinstall(1)).on(Reinstall, 1, LoseAnswer).at(9_000, EditImage(1));
    q5i_it_fails_and_its_task_is_lost => "bought 1, left 1, erased 1; web-1 Available":
        one().at(4_000, EditImage(1)).on(Reinstall, 1, TaskFails).on(Receipt, 2, CrashBefore);
    q5k_paused_before_the_reinstall_and_taken_over => "bought 1, left 1, erased 2; web-1 Available":
        lease().at(4_000, EditImage(1)).on(Reinstall, 1, PauseBefore(60));
    q5l_paused_after_the_reinstall_and_taken_over => "bought 1, left 1, erased 1; web-1 Available":
        lease().tasks(5).at(15_000, EditImage(1)).on(Reinstall, 1, PauseAfter(60));
    q5t_paused_before_a_stop_and_taken_over => "bought 1, left 1, stopped 1; web-1 Available":
        lease().at(4_000, EditPower(1)).on(Power, 1, PauseBefore(60));
    q5t_paused_after_a_stop_and_taken_over => "bought 1, left 1, stopped 1; web-1 Available":
        lease().tasks(5).at(15_000, EditPower(1)).on(Power, 1, PauseAfter(60));
    q5t_paused_before_a_start_and_taken_over => "bought 1, left 1, stopped 1, started 1; web-1 Available":
        lease().at(4_000, EditPower(1)).at(20_000, EditPower(1)).on(Power, 2, PauseBefore(60));
    q5t_paused_before_a_restart_and_taken_over => "bought 1, left 1, restarted 2; web-1 Available":
        lease().at(4_000, Restart(1)).on(Power, 1, PauseBefore(60));
    q5t_paused_after_a_restart_and_taken_over => "bought 1, left 1, restarted 2; web-1 Available":
        lease().tasks(5).at(15_000, Restart(1)).on(Power, 1, PauseAfter(60));
    q5p_another_password_while_one_is_under_way => "bought 1, left 1, passwords 2; web-1 Available":
        one().at(4_000, RotatePassword).on(Password, 1, LoseAnswer).at(30_000, RotatePassword);
    q5q_another_password_while_the_older_call_is_late => "bought 1, left 1, passwords 2; web-1 Available":
        one().at(4_000, RotatePassword).on(Password, 1, Late(12)).at(5_000, RotatePassword);
    q5r_settling_too_short_for_a_late_password_limit => "bought 1, left 1, passwords 2; web-1 Available":
        one().settle(3).at(4_000, RotatePassword).on(Password, 1, Late(12)).at(5_000, RotatePassword);
    q5s_a_paused_process_changes_the_password_late_limit => "bought 1, left 1, passwords 2; web-1 Available | bought 1, left 1, passwords 1; web-1 Available":
        lease().at(4_000, RotatePassword).on(Password, 1, PauseBefore(40)).at(30_000, RotatePassword);

    q6a_a_false_not_found_while_a_release_was_lost => "bought 1, left 0; web-1 gone":
        one().at(4_000, Delete(1)).on(Release, 1, LoseRequest).on(Detail, 2, FalseNotFound);
    q6c_a_release_that_is_late_and_fails => "bought 1, left 0; web-1 gone":
        one().at(4_000, Delete(1)).on(Release, 1, Late(10)).on(Release, 2, TaskFails);
    q6d_two_lies_in_a_row_limit => "bought 1, left 0; web-1 gone":
        one().at(4_000, Delete(1)).on(Release, 1, LoseRequest).on(Detail, 2, FalseNotFound).at(4_000, Hides(true)).at(120_000, Hides(false));
    q6f_listings_leave_out_a_server_whose_release_fails => "bought 1, left 0; web-1 gone":
        one().tasks(8).at(15_000, Delete(1)).on(Release, 1, TaskFails).at(15_000, Hides(true)).at(120_000, Hides(false));
    q6f_listings_leave_out_a_server_whose_release_comes_late => "bought 1, left 0; web-1 gone":
        one().at(4_000, Delete(1)).on(Release, 1, Late(12)).at(4_000, Hides(true)).at(120_000, Hides(false));
    q6e_released_at_the_console_while_it_is_deleted => "bought 1, left 0; web-1 gone":
        one().tasks(5).at(15_000, Delete(1)).on(Release, 1, After(ConsoleRelease(1)));

    q7a_paused_before_the_post_and_taken_over => "bought 2, left 1; web-1 Available":
        lease().on(Create, 1, PauseBefore(60));
    q7a_paused_after_the_post_and_taken_over => "bought 1, left 1; web-1 Available":
        lease().on(Create, 1, PauseAfter(60));
    q7b_paused_and_deleted_meanwhile => "bought 1, left 0; web-1 gone":
        lease().on(Create, 1, PauseAfter(60)).at(3_000, Delete(1));
    q7c_paused_and_the_status_wiped => "bought 2, left 1; web-1 Available":
        lease().on(Create, 1, PauseBefore(60)).at(45_000, WipeStatus(1)).at(62_000, WipeStatus(1));
    q7d_paused_wiped_and_crashed => "bought 2, left 1; web-1 Available":
        lease().on(Create, 1, PauseBefore(60)).at(45_000, WipeStatus(1)).at(50_000, Kill(1));
    q7e_paused_deleted_and_crashed_limit => "bought 1, left 1; web-1 gone":
        lease().on(Create, 1, PauseBefore(90)).at(3_000, Delete(1)).at(80_000, Kill(1));
    q7f_two_at_once => "bought 1, left 1; web-1 Available":
        no_lease();
    q7f_two_at_once_and_an_answer_lost => "bought 1, left 1, erased 1; web-1 Available":
        no_lease().on(Create, 1, LoseAnswer).at(40_000, EditImage(1));
    q7g_two_at_once_executed_twice_and_wiped => "bought 2, left 1; web-1 Available":
        no_lease().on(Create, 1, Twice).at(2_500, WipeStatus(1)).at(6_000, WipeStatus(1));
    q7h_every_purchase_is_made_by_a_paused_process => "bought 2, left 1; web-1 Available":
        lease().on(Create, 1, PauseBefore(100)).on(Create, 2, PauseBefore(100));
    q7j_a_paused_post_lands_after_the_deletion => "bought 1, left 0; web-1 gone":
        lease().on(Create, 1, PauseBefore(100)).at(3_000, Delete(1));
    q7k_a_pause_and_a_wipe_at_the_worst_moment => "bought 2, left 1; web-1 Available":
        lease().on(Create, 1, PauseBefore(60)).on(Status, 3, After(WipeStatus(1))).at(61_000, WipeStatus(1));
    q7n_a_late_receipt_meets_an_object_that_was_deleted_and_recreated => "bought 2, left 1; web-1 Available":
        lease().on(Receipt, 1, PauseBefore(60)).at(2_000, Delete(1)).at(30_000, Apply(1)).at(45_000, Apply(1));
    q7o_a_deposed_process_wakes_before_its_post_when_the_other_is_dead => "bought 2, left 1; web-1 Available":
        lease().on(Create, 1, PauseBefore(60)).at(40_000, Kill(1)).at(58_000, Kill(1));

    q8a_executed_twice_and_the_recorded_one_released_at_the_console => "bought 2, left 1; web-1 ServerMissing":
        one().on(Create, 1, Twice).at(2_500, ConsoleRelease(1));
    q8b_executed_twice_wiped_and_released_late => "bought 2, left 0; web-1 ServerMissing":
        one().on(Create, 1, Twice).at(2_500, WipeStatus(1)).on(Release, 1, Late(5)).at(9_000, ConsoleRelease(1));
    q8d_executed_twice_wiped_and_the_recorded_one_released_before_the_surplus_is => "bought 2, left 0; web-1 ServerMissing":
        one().on(Create, 1, Twice).at(2_500, WipeStatus(1)).on(Release, 1, Late(5)).at(40_000, ConsoleRelease(1));
    q8e_executed_twice_and_released_right_before_the_surplus_is => "bought 2, left 0; web-1 ServerMissing":
        one().on(Create, 1, Twice).on(Release, 1, Before(ConsoleRelease(1)));
    q9a_status_and_record_lost_with_a_take_over => "bought 2, left 1; web-1 Available":
        lease().visible_late(5).on(Create, 1, Twice).at(2_500, Replace(1)).at(2_500, WipeStatus(1)).at(2_600, Kill(0));

    q9b_status_and_record_lost_under_two_at_once_limit => "bought 2, left 1; web-1 Available":
        no_lease().visible_late(5).on(Create, 1, Twice).at(2_500, Replace(1)).at(2_500, WipeStatus(1));

    qba_an_object_born_here_is_recreated => "bought 1, left 1; web-1 Available":
        one().on(Intent, 1, LoseAnswer).on(Create, 1, LoseRequest).at(2_000, Delete(1)).at(40_000, Apply(1));
    qbd_taken_over_right_after_it_was_born => "bought 1, left 1; web-1 Available":
        lease().on(Intent, 1, PauseBefore(30)).on(Create, 1, CrashAfter).at(50_000, WipeStatus(1));
    qbe_replaced_handed_over_and_lost_limit => "bought 1, left 1; web-1 Available":
        lease().visible_late(5).on(Create, 1, CrashAfter).at(700, Replace(1));
    qbg_a_copy_a_restore_and_a_crash => "bought 2, left 1; web-1 ServerMissing, web-6 Available":
        one().at(4_000, Copy(1)).at(4_000, Backup(1)).at(5_000, Delete(1)).on(Finalizer, 1, CrashAfter).at(60_000, RestoreBackup(1));

    l2_the_service_is_away_while_a_server_is_bought => "bought 1, left 1; web-1 Available":
        one().away(900, Dependency::Service, 90);
    l2_the_service_is_away_for_an_hour => "bought 1, left 1; web-1 Available":
        one().tasks(5).away(3_000, Dependency::Service, 3_600);
    l2_the_service_is_away_after_an_answer_was_lost => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, LoseAnswer).away(1_500, Dependency::Service, 600);
    l2_the_service_is_away_while_a_disk_is_erased => "bought 1, left 1, erased 1; web-1 Available":
        one().tasks(8).at(12_000, EditImage(1)).away(14_000, Dependency::Service, 300);
    l2_the_service_is_away_while_a_server_is_released => "bought 1, left 0; web-1 gone":
        one().at(4_000, Delete(1)).away(4_050, Dependency::Service, 300);
    l2_the_service_is_away_and_the_process_is_killed => "bought 1, left 1; web-1 Available":
        one().away(900, Dependency::Service, 120).at(60_000, Kill(0));
    l2_the_apiserver_is_away_while_a_server_is_bought => "bought 1, left 1; web-1 Available":
        one().away(700, Dependency::Apiserver, 90);
    l2_the_apiserver_is_away_for_an_hour => "bought 1, left 1; web-1 Available":
        one().tasks(5).away(3_000, Dependency::Apiserver, 3_600);
    l2_the_apiserver_is_away_while_a_disk_is_erased => "bought 1, left 1, erased 1; web-1 Available":
        one().tasks(8).at(12_000, EditImage(1)).away(14_000, Dependency::Apiserver, 300);
    l2_the_apiserver_is_away_while_a_server_is_released => "bought 1, left 0; web-1 gone":
        one().at(4_000, Delete(1)).away(4_050, Dependency::Apiserver, 300);
    l2_both_are_away_one_after_the_other => "bought 1, left 1; web-1 Available":
        one().tasks(5).away(700, Dependency::Apiserver, 60).away(30_000, Dependency::Service, 120);

    handed_over_while_a_server_is_bought => "bought 1, left 1, erased 1; web-1 Available":
        lease().tasks(5).at(900, Terminate(0)).at(30_000, Terminate(1)).at(60_000, EditImage(1));
    handed_over_while_an_answer_is_lost => "bought 1, left 1; web-1 Available":
        lease().on(Create, 1, LoseAnswer).at(900, Terminate(0)).at(40_000, Terminate(1));
    handed_over_while_a_disk_is_erased => "bought 1, left 1, erased 1; web-1 Available":
        lease().tasks(5).at(12_000, EditImage(1)).at(12_100, Terminate(0)).at(14_000, Terminate(1));
    handed_over_while_a_server_is_released => "bought 1, left 0; web-1 gone":
        lease().at(4_000, Delete(1)).at(4_050, Terminate(0)).at(8_000, Terminate(1));
    handed_over_with_a_watch_that_is_late => "bought 1, left 1; web-1 Available | bought 1, left 1, erased 1; web-1 Available | bought 1, left 1, erased 2; web-1 Available | bought 1, left 1; web-1 ImageDiffers":
        lease().stale(25).at(4_000, EditImage(1)).at(5_000, Terminate(0)).at(9_000, EditImage(1)).at(9_500, Terminate(1));
    t_edited_and_paused_before_that_is_acknowledged => "bought 1, left 1, erased 1; web-1 Available":
        one().at(60_000, EditImage(1)).on(Read, 4, PauseAfter(60));
    t_deleted_and_the_acknowledgement_is_overtaken => "bought 1, left 0, stopped 1; web-1 gone":
        one().at(60_000, Step::ConsoleOff(1)).at(61_000, Delete(1)).on(Detail, 2, PauseAfter(60)).on(Status, 4, Act::Status(422)).on(Status, 5, Act::Status(422)).on(Status, 6, Act::Status(422)).met_sometimes();
    t_deleted_and_the_acknowledgement_is_overtaken_again_and_again => "bought 1, left 0; web-1 gone":
        one().at(60_000, Delete(1)).on(Detail, 2, Slow(3)).on(Status, 4, Act::Status(422)).on(Status, 5, Act::Status(422)).on(Status, 6, Act::Status(422)).on(Status, 7, Act::Status(422)).met_sometimes();
    t_wiped_by_a_user_while_the_service_is_silent_after_a_restart => "bought 1, left 1, erased 1; web-1 Available":
        one().at(5_000, Step::Reinstall(1)).at(20_000, Step::Kill(0)).away(25_000, Dependency::Service, 40).at(26_000, WipeStatus(1));
    t_edited_while_the_apiserver_is_away => "bought 1, left 1, erased 1; web-1 Available":
        one().away(9_768, Dependency::Apiserver, 5).at(9_867, EditImage(1));
    t_stopped_at_the_console_and_the_intent_to_start_it_is_lost => "bought 1, left 1, stopped 1, started 1; web-1 Available":
        one().at(64_000, Step::ConsoleOff(1)).on(Intent, 2, LoseRequest);
    terminated_again_and_again => "bought 1, left 0; web-1 gone":
        one().tasks(5).at(700, Terminate(0)).at(2_000, Terminate(0)).at(4_000, Terminate(0)).at(30_000, Delete(1)).at(30_100, Terminate(0));
}
