//! The table in `docs/operations.md` has exactly the Events that the code publishes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources without their tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// The quoted words that begin with a capital letter.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |text: &&str| {
        text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(char::is_alphabetic)
    };
    text.split('"').skip(1).step_by(2).filter(is_word)
}

/// The reasons of the Events in one source: the first argument if it is a literal, else the literals that the function chooses from.
fn published(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap();
    let mut reasons = BTreeSet::new();
    // The table of verbs has the reasons of their successes.
    for call in ["EventNote::normal(", "EventNote::warning(", "done: ("] {
        for (at, _) in code.match_indices(call) {
            let rest = code[at + call.len()..].trim_start();
            if rest.starts_with('"') {
                reasons.extend(quoted(rest).take(1).map(ToOwned::to_owned));
            } else if let Some(function) = code[..at].rfind("fn ") {
                reasons.extend(quoted(&code[function..at]).map(ToOwned::to_owned));
            }
        }
    }
    reasons
}

#[test]
fn the_table_of_events_in_the_docs_has_exactly_the_events_of_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let emitted: BTreeSet<String> = files
        .iter()
        .flat_map(|file| published(&fs::read_to_string(file).unwrap()))
        .collect();
    assert!(emitted.contains("Imported") && emitted.contains("Reinstalled"));
    let page = fs::read_to_string(root.join("docs/operations.md")).unwrap();
    let section = page.split("\n## Events\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let first = rows.map(|line| line.split('|').nth(1).unwrap());
    let documented: BTreeSet<String> = first
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(
        documented, emitted,
        "the table on the left, the code on the right"
    );
}
