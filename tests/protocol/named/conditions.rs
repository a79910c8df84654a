//! Another controller has its own condition in the status of an Instance. In every run, `OthersConditions` judges each write of
//! status, and `Writes` each minute; here the other controller writes at particular moments.

use super::play::{Play, one};
use super::schedules;
use crate::fault::Act::{After, Before, CrashAfter};
use crate::fault::Kind::{Create, Intent, Receipt, Status};
use crate::fault::Step::{self, EditImage, OthersCondition, OthersList};

/// Repeats the step a hundred times in ten seconds.
fn again_and_again(play: Play, step: &Step) -> Play {
    (0..100).fold(play, |play, n| play.at(10_000 + 100 * n, step.clone()))
}

schedules! {
    condition_changes_again_and_again => "bought 1, left 1; web-1 Available":
        again_and_again(one(), &OthersCondition(1));
    condition_changes_right_before_each_write_of_a_reinstall => "bought 1, left 1, erased 1; web-1 Available":
        one().at(4_000, EditImage(1)).on(Intent, 2, Before(OthersCondition(1))).on(Receipt, 2, Before(OthersCondition(1))).on(Status, 2, Before(OthersCondition(1)));
    condition_changes_after_a_crash => "bought 1, left 1; web-1 Available":
        one().on(Create, 1, CrashAfter).on(Intent, 2, After(OthersCondition(1)));
    list_replaced_once => "bought 1, left 1; web-1 Available":
        one().at(10_000, OthersList(1));
    list_replaced_again_and_again => "bought 1, left 1; web-1 Available":
        again_and_again(one(), &OthersList(1));
    list_replaced_while_a_reinstall_runs => "bought 1, left 1, erased 1; web-1 Available":
        one().tasks(10).at(30_000, EditImage(1)).at(33_000, OthersList(1));
}
