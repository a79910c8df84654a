//! What the last release left behind is taken over: objects as it wrote them while a verb was open (`tests/released`), each put in
//! the place of one that stands at the same point here. Its own identifiers go, since the service of a run has others.

use crate::fault::Step::{Delete, EditImage, EditPower, Kill, Released, Restart, RotatePassword};
use crate::judges;
use crate::named::play::{Play, one};
use cloud_server_operator::api::names::BINDING;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Whatever a verb needs is over by then, and its task runs for as long again.
const TASK: u64 = 30;
/// Nothing acts from here on, for a second.
const TAKEN: u64 = 130_000;

/// Writes what a version writes, as the kept one of another version has it: the marks of the operator, and status. What is a
/// value here and there, at the same place, is the one of here; the rest is what the other version wrote.
pub fn write(object: &mut Value, kept: &Value) {
    let mut kept = json!({"metadata": kept["metadata"], "status": kept["status"]});
    let mut values = BTreeMap::new();
    pair(&kept, object, &mut values);
    // None is a part of one that is still to come.
    let mut values: Vec<(String, String)> = values.into_iter().collect();
    values.sort_by_key(|(theirs, _)| Reverse(theirs.len()));
    replace(&mut kept, &values);
    object["metadata"]["annotations"] = kept["metadata"]["annotations"].take();
    object["metadata"]["finalizers"] = kept["metadata"]["finalizers"].take();
    object["status"] = kept["status"].take();
}

/// Which text there is which one here.
fn pair(theirs: &Value, ours: &Value, values: &mut BTreeMap<String, String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (field, theirs) in theirs {
                match ours.get(field) {
                    Some(ours) if field == BINDING => pair(&parsed(theirs), &parsed(ours), values),
                    Some(ours) => pair(theirs, ours, values),
                    None => {}
                }
            }
        }
        (Value::String(theirs), Value::String(ours)) if theirs != ours => {
            values.insert(theirs.clone(), ours.clone());
        }
        _ => {}
    }
}

fn replace(value: &mut Value, values: &[(String, String)]) {
    match value {
        Value::String(text) => {
            for (theirs, ours) in values {
                *text = text.replace(theirs, ours);
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|value| replace(value, values)),
        Value::Object(all) => all.values_mut().for_each(|value| replace(value, values)),
        _ => {}
    }
}

fn parsed(record: &Value) -> Value {
    serde_json::from_str(record.as_str().unwrap()).unwrap()
}

/// The object of this name that the last release left behind.
fn kept(name: &str) -> Value {
    let file = judges::root().join(format!("tests/released/objects/{name}.json"));
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// A life until a verb is open, each with the name of the kept object; and what comes of it once another process goes on.
fn lives() -> Vec<(&'static str, Play, &'static str)> {
    let at = TAKEN - 5_000;
    let bought = || one().tasks(TASK);
    let mut creating = one().tasks(2 * TASK);
    creating.schedule.steps[0].at = at;
    vec![
        ("create", creating, "bought 1, left 1; web-1 Available"),
        (
            "reinstall",
            bought().at(at, EditImage(1)),
            "bought 1, left 1, erased 1; web-1 Available",
        ),
        (
            "modifypassword",
            bought().at(at, RotatePassword),
            "bought 1, left 1, passwords 1; web-1 Available",
        ),
        (
            "stop",
            bought().at(at, EditPower(1)),
            "bought 1, left 1, stopped 1; web-1 Available",
        ),
        (
            "start",
            bought()
                .spec(json!({"powerState": "Stopped"}))
                .at(at, EditPower(1)),
            "bought 1, left 1, stopped 1, started 1; web-1 Available",
        ),
        (
            "restart",
            bought().at(at, Restart(1)),
            "bought 1, left 1, restarted 1; web-1 Available",
        ),
        (
            "release",
            bought().at(at, Delete(1)),
            "bought 1, left 0; web-1 gone",
        ),
    ]
}

#[test]
fn what_the_last_release_left_open_is_carried_out_once() {
    let mut played = BTreeSet::new();
    for (verb, play, line) in lives() {
        let name = format!("after-{verb}");
        let taken_over = play
            .at(TAKEN, Kill(0))
            .at(TAKEN + 500, Released(1, kept(&name)));
        taken_over.holds(line);
        played.insert(name);
    }
    let folder = judges::root().join("tests/released/objects");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let names = files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned());
    let names = names.filter(|name| name.starts_with("after-")).collect();
    assert_eq!(played, names, "every object that was kept with a verb open");
}
