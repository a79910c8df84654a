//! The counterexamples of the model-checked protocol, each as a schedule with its name there. What broke simpler rules must
//! not break these. A name that ends in `limit` shows what is not promised, and that it stays at that. What came later than
//! that protocol is played in [`operations`] and [`logins`], what is refused or fails for long in [`refusals`], a key that is lost
//! in [`keys`].

mod keys;
mod logins;
mod operations;
mod refusals;

use crate::fault::{Act, Dependency, Kind, On, Rule, Step, Timed};
use crate::run::{Look, Operators, Schedule, run};
use crate::universe::{ImportBy, Setting};
use cloud_simulator::readings::ReleaseWhileCreating;
use serde_json::Value;
use std::time::Duration;

/// A schedule in the making.
struct Play(Schedule, Count);

/// How many servers there are to be, where the judge alone would let more pass.
#[derive(Default)]
struct Count {
    bought: Option<usize>,
    left: Option<usize>,
}

/// One operator, a server that takes half a second, and the object applied.
fn one() -> Play {
    let setting = Setting {
        seed: 7,
        ..Setting::default()
    };
    let apply = Timed {
        at: 500,
        step: Step::Apply(1),
    };
    let schedule = Schedule {
        setting,
        operators: Operators::One,
        watch_delay: Duration::from_millis(50),
        rules: Vec::new(),
        steps: vec![apply],
    };
    Play(schedule, Count::default())
}

/// Two operators, of which one holds the Lease.
fn lease() -> Play {
    let mut play = one();
    play.0.operators = Operators::Lease;
    play
}

/// Two operators at once.
fn no_lease() -> Play {
    let mut play = one();
    play.0.operators = Operators::NoLease;
    play
}

impl Play {
    fn on(mut self, kind: Kind, nth: u32, act: Act) -> Self {
        let on = On::Nth(kind, nth);
        self.0.rules.push(Rule { on, act });
        self
    }

    fn at(mut self, millis: u64, step: Step) -> Self {
        self.0.steps.push(Timed { at: millis, step });
        self
    }

    /// Nothing is there to answer from here on, for so many seconds.
    fn away(self, millis: u64, dependency: Dependency, seconds: u64) -> Self {
        self.at(millis, Step::Away(dependency))
            .at(millis + 1000 * seconds, Step::Back(dependency))
    }

    fn visible_late(mut self, seconds: u64) -> Self {
        self.0.setting.readings.visible_late = Duration::from_secs(seconds);
        self
    }

    fn tasks(mut self, seconds: u64) -> Self {
        self.0.setting.tasks = Duration::from_secs(seconds);
        self
    }

    fn spec(mut self, patch: Value) -> Self {
        self.0.setting.spec.push(patch);
        self
    }

    fn import(mut self, by: ImportBy) -> Self {
        self.0.setting.import = Some(by);
        self
    }

    /// The Account lets no Instance import a server.
    fn denied(mut self) -> Self {
        self.0.setting.imports = false;
        self
    }

    /// The operating system takes so long to stop.
    fn stops_in(mut self, seconds: u64) -> Self {
        self.0.setting.stop = Some(Duration::from_secs(seconds));
        self
    }

    fn settle(mut self, seconds: u32) -> Self {
        self.0.setting.settle = seconds;
        self
    }

    fn stale(mut self, seconds: u64) -> Self {
        self.0.watch_delay = Duration::from_secs(seconds);
        self
    }

    /// The service releases what it is still creating.
    fn released_at_any_time(mut self) -> Self {
        self.0.setting.readings.release_while_creating = ReleaseWhileCreating::Allowed;
        self
    }

    /// So many servers are bought in all.
    fn buys(mut self, servers: usize) -> Self {
        self.1.bought = Some(servers);
        self
    }

    /// So many are there at the end.
    fn leaves(mut self, servers: usize) -> Self {
        self.1.left = Some(servers);
        self
    }

    /// Plays it under several seeds, which move the network's delays and the watches.
    fn holds(mut self) {
        let seeds = std::env::var("NAMED_SEEDS").ok();
        let seeds = seeds.and_then(|text| text.parse().ok()).unwrap_or(8);
        let mut has_happened = false;
        for seed in 1..=seeds {
            self.0.setting.seed = seed;
            let outcome = run(&self.0, Look::Trace);
            assert!(
                outcome.violations.is_empty(),
                "seed {seed}: {:#?}\n{}",
                outcome.violations,
                outcome.trace.join("\n")
            );
            let counted = [
                (self.1.bought, outcome.bought),
                (self.1.left, outcome.alive),
            ];
            for (wanted, is) in counted {
                assert_eq!(
                    wanted.unwrap_or(is),
                    is,
                    "seed {seed}: servers bought, or left\n{}",
                    outcome.trace.join("\n")
                );
            }
            has_happened |= outcome.unmet == 0;
            if seeds == 1 {
                // For people, with --nocapture.
                println!("{}", outcome.trace.join("\n"));
            }
        }
        assert!(
            has_happened,
            "the faults of this schedule never find their requests"
        );
    }
}

macro_rules! schedules {
    ($($name:ident: $play:expr;)*) => {
        $(#[test] fn $name() { $play.holds(); })*
    };
}
use schedules;

use Act::{
    After, Before, CrashAfter, CrashBefore, FalseNotFound, Late, LoseAnswer, LoseRequest, Omit,
    PauseAfter, PauseBefore, StatusAfter, TaskFails, Twice,
};
use Kind::{
    Create, Detail, Finalizer, Intent, Listing, Password, Read, Receipt, Reinstall, Release, Status,
};
use Step::{
    Apply, Backup, ConsoleRelease, Copy, Delete, EditImage, ForceFinalizers, Hides, Immigrate,
    Kill, Label, Replace, RestoreBackup, RestoreEtcd, RotatePassword, SnapshotEtcd, Terminate,
    WipeStatus,
};

schedules! {
    q1a_answer_lost_server_not_listed_yet_deleted:
        one().visible_late(5).on(Create, 1, LoseAnswer).at(700, Delete(1));
    q1b_crash_after_the_post_deleted_and_recreated:
        one().on(Create, 1, CrashAfter).at(900, Delete(1)).at(40_000, Apply(1));
    q1b_executed_late_and_deleted_meanwhile:
        one().on(Create, 1, Late(15)).at(2_000, Delete(1));
    q1c_settling_too_short_and_deleted_limit:
        one().settle(3).on(Create, 1, Late(15)).at(2_000, Delete(1));
    q1d_executed_twice_then_deleted:
        one().on(Create, 1, Twice).at(5_000, Delete(1));
    q1d_executed_twice_not_listed_yet_then_deleted:
        one().visible_late(5).on(Create, 1, Twice).at(1_500, Delete(1));
    q1e_a_listing_omits_the_server_of_a_lost_answer:
        one().on(Create, 1, LoseAnswer).on(Listing, 3, Omit);
    q1e_it_shows_late_and_the_first_listing_of_the_proof_omits_it:
        one().visible_late(19).on(Create, 1, LoseAnswer).on(Listing, 5, Omit).buys(1);
    q1e_executed_late_and_a_listing_after_the_settling_time_omits_it:
        one().on(Create, 1, Late(19)).on(Listing, 5, Omit);
    q1e_executed_late_and_the_second_listing_of_the_proof_omits_it:
        one().on(Create, 1, Late(19)).on(Listing, 6, Omit);
    q1f_executed_twice_deleted_and_recreated:
        one().on(Create, 1, Twice).at(3_000, Delete(1)).at(3_100, Apply(1)).at(30_000, Apply(1));
    q1i_settling_too_short_heals_without_deletion:
        one().settle(3).on(Create, 1, Late(15)).on(Create, 2, LoseAnswer);
    q1j_settling_too_short_and_status_wiped:
        one().settle(3).on(Create, 1, Late(15)).at(14_000, WipeStatus(1)).on(Release, 1, Late(4));

    q2a_object_taken_away_by_force_while_its_create_is_on_the_wire:
        one().on(Create, 1, Before(Delete(1))).on(Receipt, 1, Before(ForceFinalizers(1))).released_at_any_time().leaves(0);
    q7_two_processes_see_a_new_object_at_the_same_time:
        no_lease().buys(1).leaves(1);
    s6_another_password_is_told_while_it_is_set:
        one().tasks(10).at(30_000, RotatePassword);
    s6_another_password_is_set_and_a_process_takes_over_whose_watch_is_late:
        lease().stale(25).tasks(10).at(30_000, RotatePassword).at(32_000, Step::Terminate(0));
    q2h_the_intent_is_found_on_an_object_that_was_deleted_meanwhile:
        one().on(Intent, 1, Act::Cut).on(Kind::Read, 3, Act::Before(Delete(1))).buys(0);
    q2a_finalizer_forced_off_a_live_object:
        one().at(4_000, ForceFinalizers(1));
    q2a_finalizer_forced_off_right_after_the_receipt:
        one().on(Receipt, 1, After(ForceFinalizers(1)));
    q2b_replaced_by_a_manifest_without_record:
        one().at(4_000, Replace(1));
    q2b_replaced_right_before_the_receipt:
        one().on(Receipt, 1, Before(Replace(1)));
    q2c_etcd_restored_to_before_the_intent:
        one().at(600, SnapshotEtcd).at(4_000, RestoreEtcd).buys(1).leaves(1);
    q2c_etcd_restored_to_before_the_intent_and_restarted:
        one().on(Intent, 1, Before(SnapshotEtcd)).at(4_000, RestoreEtcd).at(4_000, Kill(0)).buys(1).leaves(1);
    q2c_etcd_restored_between_intent_and_post:
        one().on(Intent, 1, Before(SnapshotEtcd)).on(Create, 1, Before(RestoreEtcd)).buys(1).leaves(1);
    q2d_stale_watch_deleted_and_recreated:
        one().stale(25).on(Create, 1, LoseAnswer).at(3_000, Delete(1)).at(40_000, Apply(1));
    q2e_a_resource_version_comes_again_after_a_restore:
        one().on(Intent, 1, Before(SnapshotEtcd)).on(Create, 1, After(RestoreEtcd)).at(4_000, Label(1));
    q2f_status_wiped_at_every_moment:
        one().on(Status, 2, After(WipeStatus(1))).on(Status, 3, After(WipeStatus(1))).at(9_000, WipeStatus(1));
    q2g_the_answer_to_the_intent_is_lost:
        one().on(Intent, 1, LoseAnswer);
    q2g_an_intent_never_arrives_and_another_process_writes_the_same_number:
        no_lease().on(Intent, 1, LoseRequest).on(Create, 1, LoseAnswer);
    q2g_an_intent_comes_late_and_another_process_wrote_the_same_number:
        lease().on(Intent, 1, PauseBefore(40)).on(Create, 1, LoseAnswer);
    q2h_the_intent_is_answered_with_504_and_stands:
        one().on(Intent, 1, StatusAfter(504)).on(Read, 3, LoseRequest);
    q2j_replaced_and_crashed_before_it_is_listed_limit:
        one().visible_late(5).on(Create, 1, CrashAfter).at(700, Replace(1));
    q2k_etcd_restored_with_an_open_intent:
        one().on(Create, 1, Before(SnapshotEtcd)).at(20_000, RestoreEtcd).at(20_500, Kill(0));

    q2n_etcd_restored_right_after_the_post_and_restarted:
        one().on(Intent, 1, Before(SnapshotEtcd)).on(Create, 1, After(RestoreEtcd)).on(Receipt, 1, CrashBefore).buys(1).leaves(1);

    q3a_status_wiped_and_released_at_the_console:
        one().at(4_000, ConsoleRelease(1)).at(4_000, WipeStatus(1));
    q3a_released_at_the_console_wiped_and_restarted:
        one().at(4_000, ConsoleRelease(1)).at(4_000, WipeStatus(1)).at(4_000, Kill(0));
    q3b_status_wiped_and_executed_twice:
        one().on(Create, 1, Twice).at(2_500, WipeStatus(1));
    q3c_executed_twice_a_crash_at_the_receipt_and_wiped:
        one().on(Create, 1, Twice).on(Receipt, 1, CrashBefore).at(3_000, WipeStatus(1));
    q3d_a_paused_process_writes_its_receipt_late:
        lease().on(Receipt, 1, PauseBefore(60));
    q3d_a_process_paused_before_its_post_and_its_receipt:
        lease().on(Create, 1, PauseBefore(60)).on(Receipt, 1, PauseBefore(60));
    q3e_a_receipt_and_a_record_of_paused_processes_come_late:
        lease().on(Receipt, 1, PauseBefore(60)).on(Intent, 2, PauseBefore(60)).at(70_000, WipeStatus(1));
    q3f_a_late_receipt_meets_a_namesake:
        lease().on(Receipt, 1, PauseBefore(100)).at(2_000, Delete(1)).at(70_000, Apply(1));

    q3g_executed_twice_wiped_and_released_at_the_console:
        one().on(Create, 1, Twice).at(2_500, WipeStatus(1)).at(2_550, ConsoleRelease(1));

    q4a_a_copy_under_another_name:
        one().at(4_000, Copy(1)).at(20_000, Delete(6));
    q4b_a_copy_deleted_and_the_status_wiped:
        one().at(4_000, Copy(1)).at(4_100, WipeStatus(1)).at(9_000, Delete(6));
    q4c_a_copy_and_a_crash:
        one().at(4_000, Copy(1)).at(4_200, Kill(0)).at(9_000, Delete(1));
    q4d_finalizer_forced_while_a_release_runs_then_restored_limit:
        one().at(4_000, Backup(1)).at(5_000, Delete(1)).on(Release, 1, Before(ForceFinalizers(1))).at(9_000, RestoreBackup(1));
    q4e_a_record_of_another_cluster_that_names_this_very_object:
        one().at(4_000, Immigrate(1)).at(20_000, Delete(6)).at(25_000, Kill(0));
    q4f_deleted_and_restored_from_a_backup:
        one().at(4_000, Backup(1)).at(5_000, Delete(1)).at(60_000, RestoreBackup(1));
    q4f_forced_away_and_restored_from_a_backup:
        one().at(4_000, Backup(1)).at(5_000, ForceFinalizers(1)).at(5_000, Delete(1)).at(9_000, RestoreBackup(1));
    q4g_a_copy_and_a_restore:
        one().at(4_000, Copy(1)).at(4_100, Backup(1)).at(5_000, Delete(1)).at(60_000, RestoreBackup(1)).at(70_000, Delete(6));

    q5a_a_reinstall_whose_answer_was_lost:
        one().at(4_000, EditImage(1)).on(Reinstall, 1, LoseAnswer);
    q5a_a_reinstall_whose_request_was_lost:
        one().at(4_000, EditImage(1)).on(Reinstall, 1, LoseRequest);
    q5b_settling_too_short_for_a_late_reinstall_limit:
        one().settle(3).at(4_000, EditImage(1)).on(Reinstall, 1, Late(40));
    q5c_flipped_back_while_a_late_reinstall_is_under_way:
        one().at(4_000, EditImage(1)).on(Reinstall, 1, Late(12)).at(5_000, EditImage(1));
    q5d_flipped_back_while_it_runs:
        one().tasks(8).at(15_000, EditImage(1)).at(17_000, EditImage(1));
    q5e_flipped_there_and_back_and_there:
        one().tasks(5).at(15_000, EditImage(1)).at(16_000, EditImage(1)).at(17_000, EditImage(1)).on(Reinstall, 1, LoseAnswer);
    q5f_the_same_image_again_and_the_answer_lost:
        one().at(4_000, Step::Reinstall(1)).on(Reinstall, 1, LoseAnswer);
    q5f_the_same_image_again_and_a_crash_after_the_call:
        one().at(4_000, Step::Reinstall(1)).on(Reinstall, 1, CrashAfter);
    q5h_the_same_image_then_another:
        one().at(4_000, Step::Reinstall(1)).on(Reinstall, 1, LoseAnswer).at(9_000, EditImage(1));
    q5i_it_fails_and_its_task_is_lost:
        one().at(4_000, EditImage(1)).on(Reinstall, 1, TaskFails).on(Receipt, 2, CrashBefore);
    q5k_paused_before_the_reinstall_and_taken_over:
        lease().at(4_000, EditImage(1)).on(Reinstall, 1, PauseBefore(60));
    q5l_paused_after_the_reinstall_and_taken_over:
        lease().tasks(5).at(15_000, EditImage(1)).on(Reinstall, 1, PauseAfter(60));
    q5p_another_password_while_one_is_under_way:
        one().at(4_000, RotatePassword).on(Password, 1, LoseAnswer).at(30_000, RotatePassword);
    q5q_another_password_while_the_older_call_is_late:
        one().at(4_000, RotatePassword).on(Password, 1, Late(12)).at(5_000, RotatePassword);
    q5r_settling_too_short_for_a_late_password_limit:
        one().settle(3).at(4_000, RotatePassword).on(Password, 1, Late(12)).at(5_000, RotatePassword);
    q5s_a_paused_process_changes_the_password_late_limit:
        lease().at(4_000, RotatePassword).on(Password, 1, PauseBefore(40)).at(30_000, RotatePassword);

    q6a_a_false_not_found_while_a_release_was_lost:
        one().at(4_000, Delete(1)).on(Release, 1, LoseRequest).on(Detail, 2, FalseNotFound);
    q6c_a_release_that_is_late_and_fails:
        one().at(4_000, Delete(1)).on(Release, 1, Late(10)).on(Release, 2, TaskFails);
    q6d_two_lies_in_a_row_limit:
        one().at(4_000, Delete(1)).on(Release, 1, LoseRequest).on(Detail, 2, FalseNotFound).at(4_000, Hides(true)).at(120_000, Hides(false));
    q6f_listings_leave_out_a_server_whose_release_fails:
        one().tasks(8).at(15_000, Delete(1)).on(Release, 1, TaskFails).at(15_000, Hides(true)).at(120_000, Hides(false));
    q6f_listings_leave_out_a_server_whose_release_comes_late:
        one().at(4_000, Delete(1)).on(Release, 1, Late(12)).at(4_000, Hides(true)).at(120_000, Hides(false));
    q6e_released_at_the_console_while_it_is_deleted:
        one().tasks(5).at(15_000, Delete(1)).on(Release, 1, After(ConsoleRelease(1)));

    q7a_paused_before_the_post_and_taken_over:
        lease().on(Create, 1, PauseBefore(60));
    q7a_paused_after_the_post_and_taken_over:
        lease().on(Create, 1, PauseAfter(60));
    q7b_paused_and_deleted_meanwhile:
        lease().on(Create, 1, PauseAfter(60)).at(3_000, Delete(1));
    q7c_paused_and_the_status_wiped:
        lease().on(Create, 1, PauseBefore(60)).at(45_000, WipeStatus(1)).at(62_000, WipeStatus(1));
    q7d_paused_wiped_and_crashed:
        lease().on(Create, 1, PauseBefore(60)).at(45_000, WipeStatus(1)).at(50_000, Kill(1));
    q7e_paused_deleted_and_crashed_limit:
        lease().on(Create, 1, PauseBefore(90)).at(3_000, Delete(1)).at(80_000, Kill(1));
    q7f_two_at_once:
        no_lease();
    q7f_two_at_once_and_an_answer_lost:
        no_lease().on(Create, 1, LoseAnswer).at(40_000, EditImage(1));
    q7g_two_at_once_executed_twice_and_wiped:
        no_lease().on(Create, 1, Twice).at(2_500, WipeStatus(1)).at(6_000, WipeStatus(1));
    q7h_every_purchase_is_made_by_a_paused_process:
        lease().on(Create, 1, PauseBefore(100)).on(Create, 2, PauseBefore(100));
    q7j_a_paused_post_lands_after_the_deletion:
        lease().on(Create, 1, PauseBefore(100)).at(3_000, Delete(1));
    q7k_a_pause_and_a_wipe_at_the_worst_moment:
        lease().on(Create, 1, PauseBefore(60)).on(Status, 3, After(WipeStatus(1))).at(61_000, WipeStatus(1));
    q7n_a_late_receipt_meets_an_object_that_was_deleted_and_recreated:
        lease().on(Receipt, 1, PauseBefore(60)).at(2_000, Delete(1)).at(30_000, Apply(1)).at(45_000, Apply(1));
    q7o_a_deposed_process_wakes_before_its_post_when_the_other_is_dead:
        lease().on(Create, 1, PauseBefore(60)).at(40_000, Kill(1)).at(58_000, Kill(1));

    q8a_executed_twice_and_the_recorded_one_released_at_the_console:
        one().on(Create, 1, Twice).at(2_500, ConsoleRelease(1));
    q8b_executed_twice_wiped_and_released_late:
        one().on(Create, 1, Twice).at(2_500, WipeStatus(1)).on(Release, 1, Late(5)).at(9_000, ConsoleRelease(1));
    q8d_executed_twice_wiped_and_the_recorded_one_released_before_the_surplus_is:
        one().on(Create, 1, Twice).at(2_500, WipeStatus(1)).on(Release, 1, Late(5)).at(40_000, ConsoleRelease(1));
    q8e_executed_twice_and_released_right_before_the_surplus_is:
        one().on(Create, 1, Twice).on(Release, 1, Before(ConsoleRelease(1)));
    q9a_status_and_record_lost_with_a_take_over:
        lease().visible_late(5).on(Create, 1, Twice).at(2_500, Replace(1)).at(2_500, WipeStatus(1)).at(2_600, Kill(0));

    q9b_status_and_record_lost_under_two_at_once_limit:
        no_lease().visible_late(5).on(Create, 1, Twice).at(2_500, Replace(1)).at(2_500, WipeStatus(1));

    qba_an_object_born_here_is_recreated:
        one().on(Intent, 1, LoseAnswer).on(Create, 1, LoseRequest).at(2_000, Delete(1)).at(40_000, Apply(1));
    qbd_taken_over_right_after_it_was_born:
        lease().on(Intent, 1, PauseBefore(30)).on(Create, 1, CrashAfter).at(50_000, WipeStatus(1));
    qbe_replaced_handed_over_and_lost_limit:
        lease().visible_late(5).on(Create, 1, CrashAfter).at(700, Replace(1));
    qbg_a_copy_a_restore_and_a_crash:
        one().at(4_000, Copy(1)).at(4_000, Backup(1)).at(5_000, Delete(1)).on(Finalizer, 1, CrashAfter).at(60_000, RestoreBackup(1));

    l2_the_service_is_away_while_a_server_is_bought:
        one().away(900, Dependency::Service, 90);
    l2_the_service_is_away_for_an_hour:
        one().tasks(5).away(3_000, Dependency::Service, 3_600);
    l2_the_service_is_away_after_an_answer_was_lost:
        one().on(Create, 1, LoseAnswer).away(1_500, Dependency::Service, 600);
    l2_the_service_is_away_while_a_disk_is_erased:
        one().tasks(8).at(12_000, EditImage(1)).away(14_000, Dependency::Service, 300);
    l2_the_service_is_away_while_a_server_is_released:
        one().at(4_000, Delete(1)).away(4_050, Dependency::Service, 300);
    l2_the_service_is_away_and_the_process_is_killed:
        one().away(900, Dependency::Service, 120).at(60_000, Kill(0));
    l2_the_apiserver_is_away_while_a_server_is_bought:
        one().away(700, Dependency::Apiserver, 90);
    l2_the_apiserver_is_away_for_an_hour:
        one().tasks(5).away(3_000, Dependency::Apiserver, 3_600);
    l2_the_apiserver_is_away_while_a_disk_is_erased:
        one().tasks(8).at(12_000, EditImage(1)).away(14_000, Dependency::Apiserver, 300);
    l2_the_apiserver_is_away_while_a_server_is_released:
        one().at(4_000, Delete(1)).away(4_050, Dependency::Apiserver, 300);
    l2_both_are_away_one_after_the_other:
        one().tasks(5).away(700, Dependency::Apiserver, 60).away(30_000, Dependency::Service, 120);

    handed_over_while_a_server_is_bought:
        lease().tasks(5).at(900, Terminate(0)).at(30_000, Terminate(1)).at(60_000, EditImage(1));
    handed_over_while_an_answer_is_lost:
        lease().on(Create, 1, LoseAnswer).at(900, Terminate(0)).at(40_000, Terminate(1));
    handed_over_while_a_disk_is_erased:
        lease().tasks(5).at(12_000, EditImage(1)).at(12_100, Terminate(0)).at(14_000, Terminate(1));
    handed_over_while_a_server_is_released:
        lease().at(4_000, Delete(1)).at(4_050, Terminate(0)).at(8_000, Terminate(1));
    handed_over_with_a_watch_that_is_late:
        lease().stale(25).at(4_000, EditImage(1)).at(5_000, Terminate(0)).at(9_000, EditImage(1)).at(9_500, Terminate(1));
    t_edited_and_paused_before_that_is_acknowledged:
        one().at(60_000, EditImage(1)).on(Read, 3, PauseAfter(60));
    t_edited_while_the_apiserver_is_away:
        one().away(9_768, Dependency::Apiserver, 5).at(9_867, EditImage(1));
    t_stopped_at_the_console_and_the_intent_to_start_it_is_lost:
        one().at(64_000, Step::ConsoleOff(1)).on(Intent, 2, LoseRequest);
    told_to_end_again_and_again:
        one().tasks(5).at(700, Terminate(0)).at(2_000, Terminate(0)).at(4_000, Terminate(0)).at(30_000, Delete(1)).at(30_100, Terminate(0));
}
