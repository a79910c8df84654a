//! An operation that the last release left open is carried out once: an object that the last release wrote while a verb was
//! open (`tests/released`) replaces the object of the run at the same point, and another process continues.

use crate::fault::Step::{
    ConsoleRelease, Delete, EditImage, EditPower, Kill, Released, Restart, RotatePassword,
};
use crate::judges;
use crate::named::play::{Play, one};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;

/// How many seconds the task of a verb runs: it is open at [`KILLED`], and earlier tasks have ended.
const TASK: u64 = 30;
/// When the verb is requested, in milliseconds.
const ASKED: u64 = 125_000;
/// When the process is killed; another one starts a second later.
const KILLED: u64 = 130_000;
/// When the object is replaced, in between.
const REPLACED: u64 = 130_500;

/// A life in which a verb is open at [`KILLED`], by the name of the stored object; and the expected result.
fn lives() -> Vec<(&'static str, Play, &'static str)> {
    let bought = || one().tasks(TASK);
    let mut creating = one().tasks(2 * TASK);
    creating.schedule.steps[0].at = ASKED;
    vec![
        (
            "after-create",
            creating,
            "bought 1, left 1; web-1 Available",
        ),
        (
            "after-reinstall",
            bought().at(ASKED, EditImage(1)),
            "bought 1, left 1, erased 1; web-1 Available",
        ),
        (
            "after-modifypassword",
            bought().at(ASKED, RotatePassword),
            "bought 1, left 1, passwords 1; web-1 Available",
        ),
        (
            "after-stop",
            bought().at(ASKED, EditPower(1)),
            "bought 1, left 1, stopped 1; web-1 Available",
        ),
        (
            "after-start",
            bought()
                .spec(json!({"powerState": "Stopped"}))
                .at(ASKED, EditPower(1)),
            "bought 1, left 1, stopped 1, started 1; web-1 Available",
        ),
        (
            "after-restart",
            bought().at(ASKED, Restart(1)),
            "bought 1, left 1, restarted 1; web-1 Available",
        ),
        (
            "after-release",
            bought().at(ASKED, Delete(1)),
            "bought 1, left 0; web-1 gone",
        ),
    ]
}

/// Its record names the token by a credential of the last release: it does not look replaced, so the service's "no such server"
/// counts, although no listing shows a server of ours.
#[test]
fn an_object_of_the_last_release_is_deleted_after_its_server_was_released_at_the_console() {
    let play = one().tasks(TASK).at(ASKED, Restart(1));
    let play = play
        .at(KILLED, Kill(0))
        .at(REPLACED, Released(1, "after-restart".to_owned()));
    let play = play
        .at(KILLED + 60_000, ConsoleRelease(1))
        .at(KILLED + 61_000, Kill(0));
    let play = play.at(KILLED + 90_000, Delete(1));
    play.holds("bought 1, left 0, restarted 1; web-1 gone");
}

#[test]
fn open_operations_of_the_last_release_are_carried_out_once() {
    let mut played = BTreeSet::new();
    for (name, play, line) in lives() {
        let taken_over = play
            .at(KILLED, Kill(0))
            .at(REPLACED, Released(1, name.to_owned()));
        taken_over.holds(line);
        played.insert(name.to_owned());
    }
    let folder = judges::root().join("tests/released/objects");
    let files = fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    // The other objects, from the round before, are idle.
    let open = names.filter(|name| name.starts_with("after-"));
    let open: BTreeSet<String> = open
        .map(|name| name.trim_end_matches(".json").to_owned())
        .collect();
    assert_eq!(played, open, "each that was kept with a verb open");
}
