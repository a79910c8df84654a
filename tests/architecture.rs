//! Arrows between the folders of `src/` go one way: whoever stands lower in the list may use whoever stands above.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::path::Path;

/// From the bottom up. Rooms of one line are neighbours that do not know each other.
const FLOORS: [&[&str]; 9] = [
    &["api"],
    &["runtime"],
    &["cloud"],
    &["inventory"],
    &["catalog"],
    &["session"],
    &["instance", "account"],
    &["cli"],
    &["tests"],
];

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// Every `crate::x` in a source, with the groups of `use crate::{x, y}` taken apart.
fn rooms_used(source: &str) -> Vec<String> {
    let mut used = Vec::new();
    for (at, _) in source.match_indices("crate::") {
        let rest = &source[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            used.push(word(rest));
            continue;
        };
        let mut depth = 0_usize;
        let mut start = true;
        for (index, letter) in group.char_indices() {
            match letter {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => start = true,
                _ if start && !letter.is_whitespace() => {
                    used.push(word(&group[index..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    used
}

fn word(text: &str) -> String {
    text.chars()
        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
        .collect()
}

fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn rooms_use_only_the_rooms_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).unwrap();
        let room = inside
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_str()
            .unwrap();
        if inside.components().count() == 1 {
            // lib.rs and main.rs stand outside of the house.
            continue;
        }
        let Some(own) = floor(room) else {
            wrong.push(format!(
                "{}: the room {room} has no floor in this test",
                inside.display()
            ));
            continue;
        };
        for used in rooms_used(&fs::read_to_string(&file).unwrap()) {
            let allowed = used == room || floor(&used).is_none_or(|other| other < own);
            if !allowed {
                wrong.push(format!("{}: {room} uses {used}", inside.display()));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "arrows that go up:\n{}", wrong.join("\n"));
}

#[test]
fn the_plan_has_no_client() {
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/instance/plan");
    let mut files = Vec::new();
    sources(&plan, &mut files);
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for word in [
            "async fn",
            ".await",
            "Client",
            "Instant::now()",
            "Timestamp::now()",
        ] {
            let said = text
                .lines()
                .any(|line| !line.trim_start().starts_with("//") && line.contains(word));
            let is_test = file.ends_with("tests.rs");
            assert!(
                !said || is_test,
                "{}: a plan is a pure function, and this is none: {word}",
                file.display()
            );
        }
    }
}

#[test]
fn groups_of_imports_are_taken_apart() {
    let source = "use crate::{account, instance};\nuse crate::api::{Binding, Verb};\nuse crate::{cloud::{Place, ServerId}, session::Seat};";
    assert_eq!(
        rooms_used(source),
        ["account", "instance", "api", "cloud", "session"]
    );
}
