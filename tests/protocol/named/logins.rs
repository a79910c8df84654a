//! Generated logins: wherever the process is interrupted, the Secret contains the password that the server has.

use super::play::{Play, lease, no_lease, one};
use super::schedules;
use crate::fault::Act::{
    After, Before, CrashAfter, CrashBefore, Cut, FalseNotFound, Late, LoseAnswer, LoseRequest,
    NotSent, PauseAfter, PauseBefore, Status, StatusAfter, TaskFails, Twice,
};
use crate::fault::Kind::{Create, Password, Receipt, Secret, Task};
use crate::fault::Step::{
    Apply, ConsoleRelease, Delete, DropConnection, DropLogin, EditImage, EditLogin, EditPower,
    Kill, Reinstall, Replace, Restart, RestoreEtcd, RotatePassword, SnapshotEtcd, Spec, Terminate,
    WipeStatus,
};
use crate::fault::{Dependency, Kind};
use crate::specs::{generated, goes_on, paused, rotates, rotates_no_more};
use serde_json::json;

/// The operator generates the password.
fn login() -> Play {
    one().spec(generated())
}

/// The password is rotated once, after half a minute. Writes of Secrets: the login, the connection, the new password, its
/// completion, the connection again.
fn rotated() -> Play {
    login()
        .at(4_000, Spec(1, rotates()))
        .at(45_000, Spec(1, rotates_no_more()))
}

/// A user puts another password into the Secret.
fn edited() -> Play {
    login().at(4_000, EditLogin(1))
}

schedules! {
    made_before_the_server => "bought 1, left 1; web-1 Available":
        login();
    made_and_a_crash_before_it => "bought 1, left 1; web-1 Available":
        login().on(Secret, 1, CrashBefore);
    made_and_a_crash_after_it => "bought 1, left 1; web-1 Available":
        login().on(Secret, 1, CrashAfter);
    made_and_the_answer_is_lost => "bought 1, left 1; web-1 Available":
        login().on(Secret, 1, LoseAnswer);
    made_and_the_request_is_lost => "bought 1, left 1; web-1 Available":
        login().on(Secret, 1, LoseRequest);
    made_and_refused_for_a_while => "bought 1, left 1; web-1 Available":
        login().on(Secret, 1, Status(403)).on(Secret, 2, Status(500)).on(Secret, 3, StatusAfter(504));
    made_and_edited_before_the_purchase => "bought 1, left 1, passwords 1; web-1 Available":
        login().on(Create, 1, Before(EditLogin(1)));
    made_and_edited_right_after_the_purchase => "bought 1, left 1, passwords 1; web-1 Available":
        login().on(Create, 1, After(EditLogin(1)));
    made_and_edited_while_the_answer_is_lost => "bought 1, left 1, passwords 1; web-1 Available":
        login().on(Create, 1, LoseAnswer).at(800, EditLogin(1));
    made_and_a_crash_after_the_purchase => "bought 1, left 1; web-1 Available":
        login().on(Create, 1, CrashAfter);
    made_and_bought_late => "bought 1, left 1, passwords 1; web-1 Available":
        login().on(Create, 1, Late(15)).at(2_000, EditLogin(1)).at(3_000, Kill(0));
    made_and_bought_twice => "bought 2, left 1; web-1 Available":
        login().on(Create, 1, Twice);
    made_and_the_create_fails => "bought 2, left 1; web-1 Available":
        login().on(Create, 1, TaskFails).at(900, EditLogin(1));
    made_by_two_processes_at_once => "bought 1, left 1; web-1 Available":
        no_lease().spec(generated());
    made_by_a_process_that_was_paused => "bought 1, left 1; web-1 Available":
        lease().spec(generated()).on(Secret, 1, PauseBefore(40));
    made_dropped_and_handed_over_with_a_watch_that_is_late => "bought 1, left 1, passwords 1; web-1 Available":
        lease().stale(25).spec(generated()).on(Receipt, 1, After(DropLogin(1))).at(1_100, Terminate(0));
    made_deleted_and_made_again => "bought 2, left 1; web-1 Available":
        login().at(4_000, Delete(1)).at(4_100, Apply(1)).at(20_000, Apply(1));
    made_and_a_namesake_before_the_garbage_is_gone => "bought 2, left 1; web-1 Available":
        login().at(4_000, Delete(1)).at(6_500, Apply(1)).at(6_600, Apply(1));
    made_where_a_password_was_given_before => "bought 1, left 1, passwords 2; web-1 Available":
        one().at(4_000, Spec(1, generated())).on(Secret, 1, CrashAfter).on(Password, 1, LoseAnswer);

    rotated_once => "bought 1, left 1, passwords 1; web-1 Available":
        rotated();
    rotated_and_a_crash_before_the_new_one => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 3, CrashBefore);
    rotated_and_a_crash_after_the_new_one => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 3, CrashAfter);
    rotated_and_the_new_one_is_not_acknowledged => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 3, LoseAnswer);
    rotated_and_the_new_one_never_arrives => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 3, LoseRequest);
    rotated_and_the_call_is_lost => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Password, 1, LoseRequest);
    rotated_and_the_answer_is_lost => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Password, 1, LoseAnswer);
    rotated_and_not_sent => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Password, 1, NotSent);
    rotated_and_cut_off => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Password, 1, Cut).on(Task, 2, FalseNotFound);
    rotated_late => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Password, 1, Late(12));
    rotated_twice_by_a_middlebox => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Password, 1, Twice);
    rotated_and_it_fails => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Password, 1, TaskFails);
    rotated_and_it_fails_thrice => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Password, 1, TaskFails).on(Password, 2, TaskFails).on(Password, 3, TaskFails);
    rotated_and_a_crash_before_the_call => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Password, 1, CrashBefore);
    rotated_and_a_crash_after_the_call => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Password, 1, CrashAfter);
    rotated_and_a_crash_before_its_end_is_written => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 4, CrashBefore);
    rotated_and_a_crash_after_its_end_is_written => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 4, CrashAfter);
    rotated_and_its_end_is_not_acknowledged => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 4, LoseAnswer);
    rotated_and_its_end_never_arrives => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 4, LoseRequest);
    rotated_and_a_crash_before_the_connection_secret_is_written => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 5, CrashBefore);
    rotated_and_edited_before_the_call => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Password, 1, Before(EditLogin(1)));
    rotated_and_edited_after_the_call => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Password, 1, After(EditLogin(1)));
    rotated_and_edited_before_its_end_is_written => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Secret, 4, Before(EditLogin(1)));
    rotated_and_edited_before_the_new_one => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Secret, 3, Before(EditLogin(1)));
    rotated_and_dropped_before_the_call => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Password, 1, Before(DropLogin(1)));
    rotated_and_dropped_before_its_end_is_written => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Secret, 4, Before(DropLogin(1)));
    rotated_with_its_status_wiped => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Password, 1, After(WipeStatus(1))).on(Secret, 4, Before(WipeStatus(1)));
    rotated_with_status_and_process_lost => "bought 1, left 1, passwords 2; web-1 Available":
        rotated().on(Password, 1, CrashAfter).at(33_000, WipeStatus(1));
    rotated_while_the_service_is_away => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().away(29_000, Dependency::Service, 10);
    rotated_while_the_apiserver_goes => "bought 1, left 1, passwords 1; web-1 Available":
        login().at(4_000, Spec(1, rotates())).away(31_000, Dependency::Apiserver, 10).at(55_000, Spec(1, rotates_no_more()));
    rotated_and_paused => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().on(Password, 1, After(Spec(1, paused()))).at(120_000, Spec(1, goes_on()));
    rotated_and_stopped => "bought 1, left 1, stopped 1, started 1, passwords 1; web-1 Available":
        rotated().on(Secret, 3, After(EditPower(1))).at(90_000, EditPower(1));
    rotated_and_reinstalled => "bought 1, left 1, erased 1, passwords 1; web-1 Available":
        rotated().on(Password, 1, Before(EditImage(1)));
    rotated_and_released_at_the_console => "bought 1, left 0; web-1 ServerMissing":
        rotated().on(Password, 1, After(ConsoleRelease(1)));
    rotated_and_deleted => "bought 1, left 0, passwords 1; web-1 gone":
        login().at(4_000, Spec(1, rotates())).on(Password, 1, After(Delete(1)));
    rotated_by_a_process_that_was_paused_limit => "bought 1, left 1, passwords 2; web-1 Available | bought 1, left 1, passwords 1; web-1 Available":
        lease().spec(generated()).at(4_000, Spec(1, rotates())).at(45_000, Spec(1, rotates_no_more())).on(Password, 1, PauseBefore(40));
    rotated_and_taken_over_before_its_end_is_written => "bought 1, left 1, passwords 1; web-1 Available":
        lease().spec(generated()).at(4_000, Spec(1, rotates())).at(45_000, Spec(1, rotates_no_more())).on(Secret, 4, PauseBefore(40));
    rotated_and_etcd_restored => "bought 1, left 1, passwords 6; web-1 Available":
        rotated().at(20_000, SnapshotEtcd).at(60_000, RestoreEtcd);

    edited_by_a_user => "bought 1, left 1, passwords 1; web-1 Available":
        edited();
    edited_and_a_crash_after_the_call => "bought 1, left 1, passwords 2; web-1 Available":
        edited().on(Password, 1, CrashAfter);
    edited_and_the_answer_is_lost => "bought 1, left 1, passwords 2; web-1 Available":
        edited().on(Password, 1, LoseAnswer);
    edited_again_while_it_is_set => "bought 1, left 1, passwords 2; web-1 Available":
        edited().on(Password, 1, After(EditLogin(1)));
    edited_again_while_it_is_late => "bought 1, left 1, passwords 2; web-1 Available":
        edited().on(Password, 1, Late(12)).at(5_000, EditLogin(1));
    edited_again_before_its_end_is_written => "bought 1, left 1, passwords 2; web-1 Available":
        edited().on(Secret, 3, Before(EditLogin(1)));
    edited_and_it_fails => "bought 1, left 1, passwords 1; web-1 Available":
        edited().on(Password, 1, TaskFails).at(5_000, EditLogin(1));
    edited_with_its_status_wiped => "bought 1, left 1, passwords 1; web-1 Available":
        edited().at(4_500, WipeStatus(1)).on(Password, 1, After(WipeStatus(1)));
    edited_with_a_reinstall_that_never_went_out_and_a_status_that_is_wiped => "bought 1, left 1, passwords 1; web-1 OutcomeUnknown":
        edited().at(4_000, Reinstall(1)).on(Kind::Reinstall, 1, CrashBefore).at(12_000, WipeStatus(1));
    edited_with_a_reinstall_that_failed_and_whose_task_is_denied => "bought 1, left 1, passwords 1; web-1 ImageDiffers":
        edited().at(4_000, EditImage(1)).on(Kind::Reinstall, 1, TaskFails).on(Task, 2, FalseNotFound).on(Task, 3, FalseNotFound);
    given_again_with_a_reinstall_that_failed_and_whose_task_is_denied => "bought 1, left 1, passwords 1; web-1 ImageDiffers":
        one().at(4_000, RotatePassword).at(4_000, EditImage(1)).on(Kind::Reinstall, 1, TaskFails)
            .on(Task, 2, FalseNotFound).on(Task, 3, FalseNotFound);
    dropped_and_made_again => "bought 1, left 1, passwords 2; web-1 Available":
        login().at(4_000, DropLogin(1)).on(Password, 1, CrashAfter);
    dropped_and_made_again_with_its_answer_lost => "bought 1, left 1, passwords 2; web-1 Available":
        login().at(4_000, DropLogin(1)).on(Secret, 3, LoseAnswer).on(Password, 1, LoseAnswer);
    dropped_twice => "bought 1, left 1, passwords 2; web-1 Available":
        login().at(4_000, DropLogin(1)).on(Password, 1, After(DropLogin(1)));
    reinstalled_with_the_same_password => "bought 1, left 1, erased 1; web-1 Available":
        login().at(4_000, EditImage(1)).on(Receipt, 2, CrashBefore);
    edited_while_the_record_of_a_restart_is_lost_with_the_process => "bought 1, left 1, restarted 1, passwords 1; web-1 Available":
        login().tasks(20).at(30_000, Restart(1)).on(Kind::Power, 1, After(EditLogin(1))).at(40_000, Kill(0)).at(40_000, Replace(1)).at(60_000, DropConnection(1));
    edited_again_while_the_record_of_a_password_change_is_lost_with_the_process => "bought 1, left 1, passwords 2; web-1 Available":
        login().tasks(20).at(30_000, EditLogin(1)).at(38_000, EditLogin(1)).at(40_000, Kill(0)).at(40_000, Replace(1)).at(80_000, DropConnection(1));
    rotated_while_the_record_of_the_password_change_is_lost_with_the_process => "bought 1, left 1, passwords 1; web-1 Available":
        rotated().tasks(20).at(60_000, Kill(0)).at(60_000, Replace(1));
    edited_again_while_the_record_of_a_reinstall_is_lost_with_the_process => "bought 1, left 1, erased 1, passwords 1; web-1 Available":
        login().tasks(20).at(30_000, EditImage(1)).at(38_000, EditLogin(1)).at(40_000, Kill(0)).at(40_000, Replace(1)).at(80_000, DropConnection(1));
    given_instead_of_made => "bought 1, left 1, passwords 1; web-1 Available":
        login().at(4_000, Spec(1, json!({"login": {"generate": null, "passwordSecretRef": {"name": "login", "key": "value"}}})));
    connection_dropped => "bought 1, left 1; web-1 Available":
        login().at(4_000, DropConnection(1)).on(Secret, 3, LoseAnswer);
    connection_dropped_again_while_it_is_made_again => "bought 1, left 1; web-1 Available":
        login().at(4_000, DropConnection(1)).on(Secret, 3, PauseAfter(60)).at(9_000, DropConnection(1));
    connection_dropped_while_a_password_is_set => "bought 1, left 1, passwords 1; web-1 Available":
        edited().on(Password, 1, After(DropConnection(1))).on(Secret, 4, CrashBefore);
}
