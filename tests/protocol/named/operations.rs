//! Imports, policies, replacements and references by name: features that are newer than the model-checked protocol.

use super::play::{Play, lease, no_lease, one};
use super::schedules;
use crate::fault::Act::{
    After, Before, CrashAfter, CrashBefore, FalseNotFound, Late, LoseAnswer, LoseRequest, Meddle,
    NotSent, Omit, PauseAfter, PauseBefore, TaskFails, Twice,
};
use crate::fault::Dependency::Service;
use crate::fault::Kind::{
    Create, Detail, Finalizer, Intent, Listing, Power, Query, Receipt, Reinstall, Release, Status,
};
use crate::fault::Step::{
    Acknowledge, Answers, Apply, Back, Backup, ConsoleMigrate, ConsoleOff, ConsoleOn,
    ConsoleRebuild, ConsoleRelease, Copy, Delete, EditImage, EditPower, ForceFinalizers, Imports,
    Kill, Label, LimitToken, OfferImage, Replace, Restart, Restock, RestoreBackup, RestoreEtcd,
    SellOut, SnapshotEtcd, Spec, TasksFail, Terminate, WipeStatus, WithdrawImage,
};
use crate::fault::{Act, Dependency, Kind};
use crate::specs::{
    by_name, forces, generated, goes_on, management, paused, protected, recreates,
    recreates_no_more, reinstalls, retains,
};
use crate::universe::ImportBy;
use cloud_simulator::catalogue::example;
use serde_json::json;

/// A server that was bought externally is imported.
fn import() -> Play {
    one().import(ImportBy::Name)
}

/// The server is released externally, and is replaced up to this number of times.
fn recreated(limit: u8) -> Play {
    one().spec(recreates(limit)).at(4_000, ConsoleRelease(1))
}

/// Another image is requested, and etcd is restored to a state before that just when the disk is about to be erased. The next
/// step then gives the object the version on which the plan was based.
fn put_back_between_look_and_intent(then: crate::fault::Step) -> Play {
    let edited = one().at(3_900, SnapshotEtcd).at(4_000, EditImage(1));
    let put_back = edited.on(Detail, 2, Before(RestoreEtcd));
    put_back.on(Intent, 2, Before(then))
}

/// A token that confirms an image that the spec does not request.
fn acknowledge_another() -> crate::fault::Step {
    let reinstall = json!({"token": "another", "image": example().windows_image});
    Spec(1, json!({"reinstall": reinstall}))
}

schedules! {
    import_by_id => "bought 0, left 1; web-1 Available":
        one().import(ImportBy::Id);
    import_that_the_account_does_not_allow => "bought 0, left 1; web-1 ImportDenied":
        import().denied();
    import_that_the_account_does_not_allow_before_it_does => "bought 0, left 0; web-1 gone":
        import().denied().at(20_000, Imports(true)).at(40_000, Delete(1));
    import_that_the_account_allows_no_more_stays => "bought 0, left 1, stopped 1; web-1 Available":
        import().at(4_000, Imports(false)).at(8_000, EditPower(1)).at(9_000, Kill(0));
    import_that_the_account_allows_no_more_is_released_with_its_instance => "bought 0, left 0; web-1 gone":
        import().at(4_000, Imports(false)).at(8_000, Delete(1));
    import_that_the_account_allows_no_more_and_its_record_is_dropped => "bought 0, left 0; web-1 gone":
        import().at(4_000, Imports(false)).at(8_000, Replace(1)).at(8_100, Kill(0)).at(60_000, Delete(1));
    import_that_the_account_denies_after_its_record => "bought 0, left 1; web-1 Available":
        import().on(Intent, 1, After(Imports(false))).on(Status, 2, CrashBefore);
    import_by_name_and_a_crash_before_its_record => "bought 0, left 1; web-1 Available":
        import().on(Intent, 1, CrashBefore);
    import_and_a_crash_right_after_its_record => "bought 0, left 1; web-1 Available":
        import().on(Intent, 1, CrashAfter);
    import_of_a_server_that_is_released_before_status_shows_it => "bought 0, left 0; web-1 ImportNotFound":
        import().spec(recreates(1)).on(Intent, 1, After(ConsoleRelease(1)));
    import_whose_record_is_not_acknowledged => "bought 0, left 1; web-1 Available":
        import().on(Intent, 1, LoseAnswer).on(Kind::Read, 2, LoseRequest);
    import_whose_record_never_arrives => "bought 0, left 1; web-1 Available":
        import().on(Intent, 1, LoseRequest);
    import_of_one_server_by_two => "bought 0, left 1; web-1 ImportConflict, web-2 Available | bought 0, left 1; web-1 Available, web-2 ImportConflict":
        import().at(500, Apply(2));
    import_of_one_server_by_two_and_a_crash_after_the_first_record => "bought 0, left 1; web-1 ImportConflict, web-2 Available | bought 0, left 1; web-1 Available, web-2 ImportConflict":
        import().at(500, Apply(2)).on(Intent, 1, CrashAfter);
    import_of_one_server_by_two_and_the_record_of_the_first_is_lost_on_its_way_back => "bought 0, left 1; web-1 ImportConflict, web-2 Available | bought 0, left 1; web-1 Available, web-2 ImportConflict":
        import().at(500, Apply(2)).on(Intent, 1, LoseAnswer);
    import_of_one_server_by_two_whose_records_are_seen_late => "bought 0, left 1; web-1 Available, web-2 ImportConflict | bought 0, left 1; web-1 ImportConflict, web-2 Available":
        import().stale(25).at(500, Apply(2)).at(3_000, Kill(0));
    import_of_one_server_by_two_under_two_processes => "bought 0, left 1; web-1 ImportConflict, web-2 Available | bought 0, left 1; web-1 Available, web-2 ImportConflict":
        no_lease().import(ImportBy::Id).at(500, Apply(2));
    import_of_one_server_by_two_and_a_process_that_was_paused_limit => "bought 0, left 1; web-1 Available, web-2 ImportConflict | bought 0, left 1; web-1 ImportConflict, web-2 Available":
        lease().import(ImportBy::Id).at(500, Apply(2)).on(Intent, 1, PauseBefore(40));
    import_of_one_server_by_two_under_two_processes_and_one_is_deleted_limit => "bought 0, left 1; web-1 gone, web-2 Available | bought 0, left 0; web-1 gone, web-2 ImportNotFound | bought 0, left 0; web-1 gone, web-2 ServerMissing":
        no_lease().import(ImportBy::Id).at(500, Apply(2)).at(2_900, Delete(1));
    import_of_one_server_by_two_under_two_processes_and_the_other_one_is_deleted_limit => "bought 0, left 0; web-1 ImportNotFound, web-2 gone | bought 0, left 1; web-1 Available, web-2 gone":
        no_lease().import(ImportBy::Id).at(500, Apply(2)).at(6_000, Delete(2));
    import_of_one_server_by_two_whose_first_is_forced_away_from_a_process_that_was_paused_limit => "bought 0, left 1; web-1 gone, web-2 Available | bought 0, left 0; web-1 gone, web-2 ServerMissing":
        lease().import(ImportBy::Id).at(500, Apply(2)).at(6_000, Delete(1)).on(Release, 1, PauseBefore(60)).at(10_000, ForceFinalizers(1)).met_sometimes();
    import_of_one_server_by_two_and_a_hand_over_limit => "bought 0, left 1; web-1 ImportConflict, web-2 Available | bought 0, left 1; web-1 Available, web-2 ImportConflict":
        lease().import(ImportBy::Id).stale(25).at(600, Apply(2)).on(Intent, 1, After(Terminate(0)));
    import_of_one_server_by_two_and_the_first_record_is_refused => "bought 0, left 1; web-1 Available, web-2 ImportConflict | bought 0, left 1; web-1 ImportConflict, web-2 Available":
        import().at(500, Apply(2)).on(Intent, 1, Act::Status(429));
    import_of_one_server_by_two_and_the_first_record_fails => "bought 0, left 1; web-1 ImportConflict, web-2 Available | bought 0, left 1; web-1 Available, web-2 ImportConflict":
        import().at(500, Apply(2)).on(Intent, 1, Act::Status(500)).on(Kind::Read, 2, LoseRequest);
    import_of_one_server_by_two_and_the_first_goes => "bought 0, left 1; web-1 gone, web-2 Available":
        import().at(500, Apply(2)).at(6_000, Spec(1, retains())).at(8_000, Delete(1));
    import_of_one_server_by_two_and_etcd_is_restored_under_the_first_record => "bought 0, left 1; web-1 Available, web-2 ImportConflict | bought 0, left 1; web-1 ImportConflict, web-2 Available":
        import().tasks(8).stale(25).at(600, Apply(2)).at(7_000, SnapshotEtcd).on(Intent, 1, PauseAfter(60)).at(30_000, RestoreEtcd);
    import_that_is_listed_late => "bought 0, left 1; web-1 Available":
        import().on(Listing, 1, Omit).on(Detail, 1, FalseNotFound);
    import_deleted_releases_it_once => "bought 0, left 0; web-1 gone":
        import().at(4_000, Delete(1)).on(Release, 1, LoseAnswer);
    import_deleted_and_a_crash_after_its_release => "bought 0, left 0; web-1 ImportNotFound":
        import().at(4_000, Delete(1)).on(Release, 1, CrashAfter).at(60_000, Apply(1));
    import_deleted_while_its_record_is_written => "bought 0, left 1; web-1 gone":
        import().on(Intent, 1, Before(Delete(1)));
    import_deleted_right_after_its_record => "bought 0, left 0; web-1 gone":
        import().on(Intent, 1, After(Delete(1)));
    import_that_is_kept_and_imported_again => "bought 0, left 1; web-1 Available":
        import().spec(retains()).at(4_000, Delete(1)).at(30_000, Apply(1));
    import_released_at_the_console => "bought 0, left 0; web-1 ServerMissing":
        import().at(4_000, ConsoleRelease(1)).at(4_000, WipeStatus(1)).at(6_000, Kill(0));
    import_released_at_the_console_is_not_bought_again => "bought 0, left 0; web-1 ImportNotFound":
        import().spec(recreates(3)).at(4_000, ConsoleRelease(1));
    import_whose_record_and_status_are_lost => "bought 0, left 1; web-1 Available":
        import().at(4_000, Replace(1)).at(4_000, WipeStatus(1)).at(4_100, Kill(0));
    import_wiped_and_restored => "bought 0, left 1; web-1 Available":
        import().at(4_000, Backup(1)).at(5_000, Spec(1, retains())).at(6_000, Delete(1)).at(60_000, RestoreBackup(1));
    import_with_a_password_that_the_operator_makes_restored => "bought 0, left 1, passwords 2; web-1 Available":
        import().spec(generated()).at(8_000, Backup(1)).at(9_000, Spec(1, retains())).at(10_000, Delete(1)).at(60_000, RestoreBackup(1));
    import_that_was_copied => "bought 0, left 1; web-1 Available, web-6 gone":
        import().at(4_000, Copy(1)).at(20_000, Delete(6));
    import_reinstalled_by_a_change_of_the_spec => "bought 0, left 1, erased 1; web-1 Available":
        import().at(4_000, EditImage(1)).on(Reinstall, 1, CrashAfter);
    import_stopped => "bought 0, left 1, stopped 1; web-1 Available":
        import().at(4_000, EditPower(1)).on(Power, 1, LoseAnswer);
    import_of_a_server_that_is_another_one => "bought 0, left 1; web-1 ImportDiffers":
        import().spec(json!({"image": {"id": example().other_image}}));
    import_only_observed => "bought 0, left 1; web-1 gone":
        import().spec(management("Observe")).at(4_000, EditPower(1)).at(9_000, Delete(1));
    import_paused_and_going_on => "bought 0, left 1; web-1 Available":
        import().spec(paused()).at(20_000, Spec(1, goes_on()));
    import_with_a_password_that_the_operator_makes => "bought 0, left 1, passwords 2; web-1 Available":
        import().spec(generated()).on(Kind::Password, 1, CrashAfter);

    recreate_a_server_that_was_released => "bought 2, left 1; web-1 Available":
        recreated(1);
    recreate_a_server_whose_create_was_not_seen_to_end => "bought 2, left 1; web-1 Available":
        one().tasks(5).spec(recreates(1)).at(6_000, ConsoleRelease(1));
    recreate_a_server_whose_create_was_not_seen_to_end_and_a_crash => "bought 2, left 1; web-1 Available":
        one().tasks(5).spec(recreates(1)).at(6_000, ConsoleRelease(1)).at(6_010, Kill(0));
    recreate_a_server_on_which_a_call_was_lost => "bought 2, left 1, stopped 1; web-1 Available":
        one().spec(recreates(1)).at(4_000, EditPower(1)).on(Intent, 2, CrashAfter).at(4_500, ConsoleRelease(1));
    recreate_nothing_while_the_token_is_limited_to_another_region => "bought 1, left 1; web-1 Available":
        one().spec(recreates(1)).at(4_000, LimitToken(true)).at(200_000, LimitToken(false));
    recreate_nothing_of_four_while_the_token_is_limited_to_another_region => "bought 4, left 4; web-1 Available, web-2 Available, web-3 Available, web-4 Available":
        one().spec(recreates(1)).at(600, Apply(2)).at(600, Apply(3)).at(600, Apply(4)).at(15_000, LimitToken(true)).at(300_000, LimitToken(false));
    recreate_nothing_after_a_restart_while_the_token_is_limited_to_another_region => "bought 1, left 1; web-1 Available":
        one().spec(recreates(1)).at(4_000, LimitToken(true)).at(150_000, Kill(0)).at(200_000, LimitToken(false));
    recreate_nothing_after_a_restart_just_before_the_limit_of_the_token_is_lifted => "bought 1, left 1; web-1 Available":
        one().spec(recreates(1)).at(4_000, LimitToken(true)).at(196_000, Kill(0)).at(200_000, LimitToken(false));
    recreate_nothing_after_an_edit_while_the_token_is_limited_to_another_region => "bought 1, left 1; web-1 Available":
        one().spec(recreates(1)).at(4_000, LimitToken(true)).at(190_000, EditPower(1)).at(195_000, EditPower(1)).at(200_000, LimitToken(false));
    recreate_nothing_and_deleted_right_after_the_limit_of_the_token_is_lifted => "bought 1, left 0; web-1 gone":
        one().spec(recreates(1)).at(4_000, LimitToken(true)).at(200_000, LimitToken(false)).at(200_010, Delete(1)).at(210_000, Kill(0));
    recreate_is_no_matter_of_a_first_server_that_a_limited_token_may_not_buy => "bought 1, left 1; web-1 Available":
        one().spec(recreates(1)).at(100, LimitToken(true)).at(100_000, LimitToken(false));
    recreate_no_more_while_it_is_sold_out => "bought 1, left 0; web-1 ServerMissing":
        recreated(1).at(5_000, SellOut).at(150_000, Spec(1, recreates_no_more())).at(200_000, Restock);
    recreate_less_while_it_is_sold_out => "bought 1, left 0; web-1 RecreateLimitReached":
        recreated(1).at(5_000, SellOut).at(150_000, Spec(1, recreates(0))).at(200_000, Restock);
    recreate_no_more_and_a_crash_before_the_call => "bought 1, left 0; web-1 ServerMissing":
        recreated(1).on(Create, 2, CrashBefore).on(Intent, 2, After(Spec(1, recreates_no_more())));
    recreate_no_more_while_it_is_sold_out_and_a_restart => "bought 1, left 0; web-1 ServerMissing":
        recreated(1).at(5_000, SellOut).at(150_000, Spec(1, recreates_no_more())).at(160_000, Kill(0)).at(500_000, Restock);
    recreate_no_more_while_it_is_sold_out_and_the_record_is_dropped => "bought 1, left 0; web-1 ServerMissing":
        recreated(1).at(5_000, SellOut).at(150_000, Spec(1, recreates_no_more())).at(160_000, Replace(1)).at(200_000, Restock);
    recreate_no_more_while_it_is_sold_out_and_the_record_is_dropped_before_a_restart => "bought 1, left 0; web-1 ServerMissing":
        recreated(1).at(5_000, SellOut).at(150_000, Spec(1, recreates_no_more())).at(160_000, Replace(1)).at(160_000, Kill(0)).at(500_000, Restock);
    recreate_no_more_when_the_second_one_failed_and_a_restart => "bought 2, left 0; web-1 ServerMissing":
        recreated(1).on(Create, 2, TaskFails).at(95_000, Spec(1, recreates_no_more())).at(900_000, Kill(0));
    recreate_no_more_when_the_second_one_failed => "bought 2, left 0; web-1 ServerMissing":
        recreated(1).on(Create, 2, TaskFails).at(95_000, Spec(1, recreates_no_more()));
    recreate_no_more_and_then_once_more => "bought 2, left 1; web-1 Available":
        recreated(1).at(5_000, SellOut).at(150_000, Spec(1, recreates(0))).at(200_000, Restock).at(250_000, Spec(1, recreates(1)));
    recreate_and_a_crash_before_the_second_intent => "bought 2, left 1; web-1 Available":
        recreated(1).on(Intent, 2, CrashBefore);
    recreate_and_a_crash_after_the_second_intent => "bought 2, left 1; web-1 Available":
        recreated(1).on(Intent, 2, CrashAfter);
    recreate_and_the_second_answer_is_lost => "bought 2, left 1; web-1 Available":
        recreated(1).on(Create, 2, LoseAnswer);
    recreate_and_the_second_request_is_lost => "bought 2, left 1; web-1 Available":
        recreated(1).on(Create, 2, LoseRequest);
    recreate_late => "bought 2, left 1; web-1 Available":
        recreated(1).on(Create, 2, Late(15));
    recreate_and_a_crash_after_the_second_purchase => "bought 2, left 1; web-1 Available":
        recreated(1).on(Create, 2, CrashAfter);
    recreate_and_the_second_create_fails => "bought 3, left 1; web-1 Available":
        recreated(1).on(Create, 2, TaskFails);
    recreate_no_more_often_than_the_limit => "bought 2, left 0; web-1 RecreateLimitReached":
        recreated(1).at(120_000, ConsoleRelease(1)).at(121_000, Kill(0)).at(260_000, WipeStatus(1));
    recreate_twice_where_the_limit_is_two => "bought 3, left 0; web-1 RecreateLimitReached":
        recreated(2).at(120_000, ConsoleRelease(1)).at(240_000, ConsoleRelease(1));
    recreate_where_the_limit_is_none => "bought 1, left 0; web-1 RecreateLimitReached":
        recreated(0);
    recreated_and_its_record_is_replaced_before_a_late_watch_shows_it => "bought 2, left 0; web-1 RecreateLimitReached":
        one().stale(25).spec(recreates(1)).at(26_100, ConsoleRelease(1)).at(64_200, Replace(1)).at(150_000, ConsoleRelease(1));
    recreate_once_more_when_the_limit_is_raised => "bought 2, left 1; web-1 Available":
        recreated(0).at(60_000, Spec(1, recreates(1)));
    recreated_where_it_was_released_right_before_an_edit => "bought 2, left 1; web-1 Available":
        one().spec(recreates(1)).at(5_000, ConsoleRelease(1)).at(5_500, EditImage(1)).at(5_900, EditImage(1));
    bought_and_etcd_restored_to_before_that_and_restarted_before_the_server_is_listed => "bought 1, left 1; web-1 Available":
        one().visible_late(2).at(515, SnapshotEtcd).at(700, RestoreEtcd).at(710, Kill(0));
    recreated_and_etcd_restored_to_before_that => "bought 2, left 1; web-1 Available":
        recreated(5).on(Intent, 2, Before(SnapshotEtcd)).on(Receipt, 2, After(RestoreEtcd));
    recreated_and_etcd_restored_to_a_ready_object => "bought 2, left 1; web-1 Available":
        one().spec(recreates(5)).at(5_000, SnapshotEtcd).at(6_000, ConsoleRelease(1)).on(Receipt, 2, After(RestoreEtcd));
    made_again_after_a_failure_unanswered_and_etcd_restored_to_before_that => "bought 2, left 1, passwords 1; web-1 Available":
        one().on(Create, 1, TaskFails).on(Intent, 2, Before(SnapshotEtcd)).on(Create, 2, Late(15)).at(26_000, RestoreEtcd);
    recreated_with_another_image_and_etcd_restored_to_before_that => "bought 2, left 1; web-1 ImageDiffers":
        one().spec(recreates(5)).at(5_000, SnapshotEtcd).at(6_000, ConsoleRelease(1)).at(6_100, EditImage(1)).on(Receipt, 2, After(RestoreEtcd));
    recreated_unanswered_and_etcd_restored_to_before_that_and_deleted => "bought 2, left 0; web-1 gone":
        one().spec(recreates(5)).at(5_000, SnapshotEtcd).at(6_000, ConsoleRelease(1)).on(Create, 2, Late(15)).at(95_000, RestoreEtcd).at(96_000, Delete(1));
    recreated_and_etcd_restored_while_its_answer_is_in_flight => "bought 2, left 1; web-1 Available":
        recreated(5).on(Intent, 2, Before(SnapshotEtcd)).on(Create, 2, After(RestoreEtcd));
    made_again_after_a_failure_and_etcd_restored_to_before_that => "bought 2, left 1; web-1 Available":
        one().tasks(3).at(100, TasksFail(true)).at(8_000, TasksFail(false)).on(Intent, 2, Before(SnapshotEtcd)).on(Receipt, 2, After(RestoreEtcd));
    recreate_nothing_for_a_false_answer => "bought 1, left 1, stopped 1; web-1 Available":
        one().spec(recreates(1)).at(4_000, EditPower(1)).on(Detail, 2, FalseNotFound).on(Listing, 3, Omit);
    recreate_not_while_paused => "bought 2, left 1; web-1 Available":
        recreated(1).at(4_100, Spec(1, paused())).at(200_000, Spec(1, goes_on()));
    recreate_deleted_meanwhile => "bought 2, left 0; web-1 gone":
        recreated(1).on(Create, 2, Before(Delete(1)));
    recreate_deleted_right_after => "bought 2, left 0; web-1 gone":
        recreated(1).on(Create, 2, After(Delete(1)));
    recreate_with_status_and_process_lost => "bought 2, left 1; web-1 Available":
        recreated(1).at(5_000, WipeStatus(1)).at(6_000, Kill(0));
    recreate_while_the_service_is_away => "bought 2, left 1; web-1 Available":
        recreated(1).away(4_100, Dependency::Service, 60);
    recreate_under_a_lease_that_is_handed_over => "bought 2, left 1; web-1 Available":
        lease().spec(recreates(1)).at(4_000, ConsoleRelease(1)).at(10_000, Terminate(0));
    recreate_by_a_process_that_was_paused_limit => "bought 3, left 1; web-1 Available":
        lease().spec(recreates(1)).at(4_000, ConsoleRelease(1)).on(Create, 2, PauseBefore(60));
    recreate_with_a_password_that_the_operator_makes => "bought 2, left 1; web-1 Available":
        recreated(1).spec(generated()).on(Create, 2, LoseAnswer);

    reinstall_on_request_erases_nothing_unasked => "bought 1, left 1; web-1 ReinstallNeedsApproval":
        one().spec(reinstalls("OnRequest")).at(4_000, EditImage(1)).at(6_000, Kill(0)).at(8_000, WipeStatus(1));
    reinstall_on_request_once_acknowledged => "bought 1, left 1, erased 1; web-1 Available":
        one().spec(reinstalls("OnRequest")).at(4_000, EditImage(1)).at(6_000, Acknowledge(1)).on(Reinstall, 1, LoseAnswer);
    reinstall_on_request_and_a_crash_after_it => "bought 1, left 1, erased 1; web-1 Available":
        one().spec(reinstalls("OnRequest")).at(4_000, EditImage(1)).at(6_000, Acknowledge(1)).on(Reinstall, 1, CrashAfter);
    reinstall_on_request_acknowledges_one_image => "bought 1, left 1; web-1 ReinstallNeedsApproval":
        one().spec(reinstalls("OnRequest")).at(4_000, EditImage(1)).at(4_500, acknowledge_another()).at(30_000, Kill(0));
    reinstall_on_request_edited_after_the_acknowledgement => "bought 1, left 1; web-1 ReinstallNeedsApproval":
        one().spec(reinstalls("OnRequest")).at(4_000, EditImage(1)).at(4_200, Acknowledge(1)).at(4_210, EditImage(1));
    reinstall_never => "bought 1, left 1; web-1 ReinstallForbidden":
        one().spec(reinstalls("Never")).at(4_000, EditImage(1)).at(5_000, Acknowledge(1)).at(8_000, WipeStatus(1)).at(8_000, Kill(0));
    reinstall_never_until_it_may => "bought 1, left 1, erased 1; web-1 Available":
        one().spec(reinstalls("Never")).at(4_000, EditImage(1)).at(9_000, Spec(1, reinstalls("Automatic")));
    reinstall_no_more_while_one_is_announced => "bought 1, left 1, erased 1; web-1 Available":
        one().at(4_000, EditImage(1)).on(Reinstall, 1, Before(Spec(1, reinstalls("Never"))));
    reinstall_no_more_while_an_answer_is_lost => "bought 1, left 1; web-1 ReinstallNeedsApproval":
        one().at(4_000, EditImage(1)).on(Reinstall, 1, LoseRequest).at(5_000, Spec(1, reinstalls("OnRequest")));

    retain_an_existing_server => "bought 1, left 1; web-1 gone":
        one().spec(retains()).at(4_000, Delete(1)).on(Finalizer, 1, LoseAnswer);
    retain_a_server_whose_answer_was_lost => "bought 1, left 1; web-1 gone":
        one().spec(retains()).on(Create, 1, LoseAnswer).at(900, Delete(1));
    retain_a_server_that_is_bought_late => "bought 1, left 1; web-1 gone":
        one().spec(retains()).on(Create, 1, Late(15)).at(2_000, Delete(1));
    retain_and_a_crash_after_the_purchase => "bought 1, left 1; web-1 gone":
        one().spec(retains()).on(Create, 1, CrashAfter).at(900, Delete(1)).at(2_500, Kill(0));
    retain_a_doubled_server => "bought 2, left 2; web-1 gone":
        one().spec(retains()).on(Create, 1, Twice).at(1_500, Delete(1));
    retain_set_right_before_the_deletion_and_seen_late => "bought 1, left 1; web-1 gone":
        one().stale(25).at(30_000, Spec(1, retains())).at(30_050, Delete(1));
    retain_set_right_before_the_release => "bought 1, left 0; web-1 gone":
        one().at(4_000, Delete(1)).on(Release, 1, Before(Spec(1, retains())));
    retain_set_after_the_release_was_accepted => "bought 1, left 0; web-1 gone":
        one().tasks(5).at(15_000, Delete(1)).on(Release, 1, After(Spec(1, retains())));
    retain_revoked_while_the_server_is_retained => "bought 1, left 0; web-1 gone":
        one().spec(retains()).at(4_000, Delete(1)).on(Finalizer, 1, Before(Spec(1, json!({"deletionPolicy": "Release"}))));
    retain_with_the_service_away => "bought 1, left 1; web-1 gone":
        one().spec(retains()).away(4_000, Dependency::Service, 60).at(4_500, Delete(1));
    retain_and_apply_again => "bought 2, left 2; web-1 gone":
        one().spec(retains()).at(4_000, Delete(1)).at(9_000, Apply(1)).at(30_000, Delete(1));
    retain_with_a_finalizer_forced_off => "bought 1, left 1; web-1 gone":
        one().spec(retains()).at(4_000, ForceFinalizers(1)).at(5_000, Delete(1));
    omitted_once_and_released_at_the_console => "bought 2, left 0; web-1 gone":
        one().spec(recreates(1)).on(Listing, 3, Omit).at(200_000, ConsoleRelease(1)).at(500_000, Delete(1));
    switched_off_and_the_intent_to_start_is_refused_and_another_field_is_edited => "bought 1, left 1, stopped 1, started 1; web-1 Available":
        one().at(20_000, ConsoleOff(1)).on(Intent, 2, Act::Status(429)).at(64_000, Spec(1, json!({"managementPolicy": "Manage"})));
    switched_off_and_edited_before_the_start_whose_next_read_fails => "bought 1, left 1, stopped 1, started 1; web-1 Available":
        one().at(20_000, ConsoleOff(1)).on(Intent, 2, Before(Spec(1, json!({"resyncPeriod": "20m"}))))
            .on(Detail, 3, Act::Status(500)).on(Detail, 4, Act::Status(500));

    protected_deletion_releases_nothing => "bought 1, left 1; web-1 DeletionProtected":
        one().spec(protected(true)).at(4_000, Delete(1)).at(9_000, Kill(0));
    protected_deletion_goes_on_when_it_may => "bought 1, left 0; web-1 gone":
        one().spec(protected(true)).at(4_000, Delete(1)).at(20_000, Spec(1, protected(false)));
    protected_while_it_is_created => "bought 1, left 1; web-1 DeletionProtected":
        one().spec(protected(true)).on(Create, 1, LoseAnswer).at(900, Delete(1));
    protected_right_before_the_release => "bought 1, left 0; web-1 DeletionProtected":
        one().at(4_000, Delete(1)).on(Release, 1, Before(Spec(1, protected(true))));
    protected_and_seen_late => "bought 1, left 1; web-1 DeletionProtected":
        one().stale(25).at(30_000, Spec(1, protected(true))).at(30_050, Delete(1));

    observe_buys_nothing => "bought 0, left 0; web-1 NoServer":
        one().spec(management("Observe")).at(20_000, Kill(0));
    observe_then_manage => "bought 1, left 1; web-1 Available":
        one().spec(management("Observe")).at(20_000, Spec(1, management("Manage")));
    observe_changes_nothing => "bought 1, left 1; web-1 ObservedOnly":
        one().at(4_000, Spec(1, management("Observe"))).at(7_000, EditImage(1)).at(7_100, EditPower(1)).at(7_200, Restart(1)).at(9_000, Kill(0));
    observe_releases_nothing => "bought 1, left 1; web-1 gone":
        one().at(4_000, Spec(1, management("Observe"))).at(7_000, Delete(1));
    observe_set_right_before_the_purchase => "bought 0, left 0; web-1 NoServer":
        one().on(Create, 1, NotSent).at(700, Spec(1, management("Observe")));
    observe_set_while_an_answer_is_lost => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, LoseAnswer).at(900, Spec(1, management("Observe"))).at(90_000, Spec(1, management("Manage")));
    observe_set_while_a_reinstall_is_lost => "bought 1, left 1; web-1 ObservedOnly":
        one().at(4_000, EditImage(1)).on(Reinstall, 1, LoseRequest).at(4_500, Spec(1, management("Observe")));
    observe_set_while_a_create_fails => "bought 1, left 1; web-1 ObservedOnly":
        one().on(Create, 1, TaskFails).at(800, Spec(1, management("Observe")));
    observe_and_released_at_the_console => "bought 1, left 0; web-1 ServerMissing":
        one().spec(recreates(1)).at(4_000, Spec(1, management("Observe"))).at(7_000, ConsoleRelease(1));
    observe_and_a_doubled_server_that_stays => "bought 2, left 2; web-1 ObservedOnly":
        one().on(Create, 1, Twice).at(1_000, Spec(1, management("Observe")));
    observe_and_a_doubled_server => "bought 2, left 1; web-1 Available":
        one().on(Create, 1, Twice).at(1_000, Spec(1, management("Observe"))).at(90_000, Spec(1, management("Manage")));

    pause_before_anything_is_bought => "bought 1, left 1; web-1 Available":
        one().spec(paused()).at(20_000, Spec(1, goes_on()));
    pause_while_it_is_created => "bought 1, left 1; web-1 Available":
        one().tasks(5).at(900, Spec(1, paused())).at(40_000, Kill(0)).at(60_000, Spec(1, goes_on()));
    pause_while_an_answer_is_lost => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, LoseAnswer).at(900, Spec(1, paused())).at(90_000, Spec(1, goes_on()));
    pause_while_a_request_is_lost => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, LoseRequest).at(900, Spec(1, paused())).at(90_000, Spec(1, goes_on()));
    pause_right_before_the_intent => "bought 1, left 1; web-1 Available":
        one().on(Intent, 1, Before(Spec(1, paused()))).at(30_000, Spec(1, goes_on()));
    pause_holds_up_a_deletion => "bought 1, left 0; web-1 gone":
        one().at(4_000, Spec(1, paused())).at(7_000, Delete(1)).at(9_000, Kill(0)).at(60_000, Spec(1, goes_on()));
    pause_for_good_holds_up_a_deletion => "bought 1, left 1; web-1 Paused":
        one().at(4_000, Spec(1, paused())).at(7_000, Delete(1));
    pause_right_before_a_release => "bought 1, left 0; web-1 gone":
        one().at(4_000, Delete(1)).on(Release, 1, Before(Spec(1, paused()))).at(60_000, Spec(1, goes_on()));
    pause_while_a_disk_is_erased => "bought 1, left 1, erased 2; web-1 Available":
        one().tasks(5).at(15_000, EditImage(1)).at(16_500, Spec(1, paused())).at(17_000, EditImage(1)).at(60_000, Spec(1, goes_on()));
    pause_while_a_server_is_to_be_started_after_a_reinstall_that_a_crash_left_in_doubt => "bought 1, left 1, erased 1; web-1 Paused":
        one().reinstall_stops().at(4_000, EditImage(1)).on(Reinstall, 1, CrashAfter).at(10_000, Spec(1, paused()));
    pause_and_finalizers_forced_off => "bought 1, left 0; web-1 gone":
        one().at(4_000, Spec(1, paused())).at(7_000, ForceFinalizers(1)).at(60_000, Delete(1)).at(90_000, Spec(1, goes_on()));
    reinstall_that_runs_while_etcd_is_restored_and_the_spec_is_edited_again => "bought 1, left 1, erased 1, restarted 1; web-1 ImageDiffers":
        one().tasks(20).at(30_000, SnapshotEtcd).at(31_000, EditImage(1)).at(35_000, RestoreEtcd).at(90_000, Restart(1));
    deleted_under_a_version_that_was_used_before_etcd_was_restored => "bought 1, left 0; web-1 gone":
        put_back_between_look_and_intent(Delete(1));
    never_edited_under_a_version_that_was_used_before_etcd_was_restored => "bought 1, left 1; web-1 Available":
        put_back_between_look_and_intent(Label(1));
    pause_and_etcd_restored => "bought 1, left 1; web-1 Available":
        one().at(600, SnapshotEtcd).at(4_000, Spec(1, paused())).at(7_000, RestoreEtcd);

    stop_by_force_after_the_grace_period => "bought 1, left 1, stopped 1; web-1 Available":
        one().stops_in(60).spec(forces("AfterGracePeriod")).at(4_000, EditPower(1));
    stop_by_force_and_a_crash_in_between => "bought 1, left 1, stopped 1; web-1 Available":
        one().stops_in(60).spec(forces("AfterGracePeriod")).at(4_000, EditPower(1)).at(6_000, Kill(0));
    stop_by_force_and_a_crash_after_the_cut => "bought 1, left 1, stopped 1; web-1 Available":
        one().stops_in(60).spec(forces("AfterGracePeriod")).at(4_000, EditPower(1)).on(Power, 2, CrashAfter);
    stop_by_force_whose_answer_is_lost => "bought 1, left 1, stopped 1; web-1 Available":
        one().stops_in(60).spec(forces("AfterGracePeriod")).at(4_000, EditPower(1)).on(Power, 2, LoseAnswer);
    stop_by_force_when_the_stop_failed => "bought 1, left 1, stopped 1; web-1 Available":
        one().spec(forces("AfterGracePeriod")).at(4_000, EditPower(1)).on(Power, 1, TaskFails);
    stop_by_force_revoked_in_the_grace_period => "bought 1, left 1, stopped 1; web-1 Available":
        one().stops_in(60).spec(forces("AfterGracePeriod")).at(4_000, EditPower(1)).at(6_000, Spec(1, forces("Never")));
    stop_revoked_in_the_grace_period => "bought 1, left 1, stopped 1, started 1; web-1 Available":
        one().stops_in(60).spec(forces("AfterGracePeriod")).at(4_000, EditPower(1)).at(6_000, EditPower(1));
    stop_by_force_while_the_service_fails => "bought 1, left 1, stopped 1; web-1 Available":
        one().stops_in(60).spec(forces("AfterGracePeriod")).at(4_000, EditPower(1)).at(8_000, Answers(Service, 500)).at(600_000, Back(Service));
    stop_by_force_at_once => "bought 1, left 1, stopped 1; web-1 Available":
        one().stops_in(20).spec(forces("Always")).at(4_000, EditPower(1)).on(Power, 1, LoseAnswer);
    stop_that_takes_its_time_is_waited_for => "bought 1, left 1, stopped 1; web-1 Available":
        one().stops_in(60).at(4_000, EditPower(1)).at(6_000, Kill(0));

    fields_that_move_by_themselves_are_no_change => "bought 1, left 1, stopped 1; web-1 Available":
        one().fields_move().at(60_000, EditPower(1));
    a_state_that_is_not_known_passes => "bought 1, left 1, started 1; web-1 Available":
        one().at(15_000, ConsoleMigrate(1)).at(195_000, ConsoleOn(1));
    an_unknown_state_delays_requested_changes => "bought 1, left 1, erased 1, started 1; web-1 Available":
        one().at(15_000, ConsoleMigrate(1)).at(80_000, EditImage(1)).at(90_000, Kill(0)).at(195_000, ConsoleOn(1));
    a_state_that_is_not_known_does_not_keep_the_server => "bought 1, left 0; web-1 gone":
        one().at(15_000, ConsoleMigrate(1)).at(80_000, Delete(1));
    two_hundred_requests_an_hour_are_enough => "bought 1, left 0, erased 1; web-1 gone":
        one().requests(json!({"perHour": 200})).at(200_000, EditImage(1)).at(900_000, Delete(1));

    names_are_looked_up_once => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).at(4_000, OfferImage).at(6_000, WipeStatus(1)).at(8_000, Kill(0));
    names_whose_list_changes_between_intent_and_call => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).on(Create, 1, NotSent).on(Intent, 1, After(OfferImage)).at(20_000, WithdrawImage);
    names_whose_list_changes_while_an_answer_is_lost => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).on(Create, 1, LoseAnswer).at(900, OfferImage).at(1_000, Kill(0));
    names_whose_list_changes_while_a_request_is_lost => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).on(Create, 1, LoseRequest).at(900, OfferImage).at(1_000, WithdrawImage).at(1_100, Kill(0));
    names_whose_list_changes_while_the_service_is_away => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).on(Create, 1, NotSent).away(2_500, Dependency::Service, 400).at(100_000, OfferImage).at(101_000, WithdrawImage).on(Create, 2, NotSent);
    names_that_are_sold_out_when_it_is_called => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).on(Create, 1, Before(SellOut)).at(60_000, Restock);
    names_that_are_not_there_yet => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).at(100, SellOut).at(60_000, Restock);
    names_with_two_matches => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).at(100, OfferImage).at(60_000, WithdrawImage);
    names_whose_lists_cannot_be_read => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).on(Query, 2, LoseRequest).on(Query, 3, Act::Cut).on(Query, 4, Act::Status(500));
    names_withdrawn_and_the_server_rebuilt => "bought 1, left 1, erased 1, stopped 1, started 1; web-1 ImageDiffers":
        one().spec(by_name()).at(4_000, WithdrawImage).at(5_000, ConsoleRebuild(1)).at(6_000, ConsoleOff(1)).at(9_000, Kill(0));
    names_and_a_failed_create => "bought 2, left 1; web-1 Available":
        one().spec(by_name()).on(Create, 1, TaskFails).at(900, OfferImage).at(950, WithdrawImage);
    names_and_a_writer_in_between => "bought 1, left 1; web-1 Available":
        one().spec(by_name()).on(Intent, 1, Meddle).on(Intent, 2, CrashBefore);
}
