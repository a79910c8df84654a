//! Checks the imports between the folders of `src/`: a folder may only use folders above it in the list. The files of a crate
//! must not import each other in a cycle.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "architecture/imports.rs"]
mod imports;

use imports::Crate;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From the bottom up. Modules on one line do not know each other.
const LAYERS: [&[&str]; 11] = [
    &["api"],
    &["runtime"],
    &["cloud", "program"],
    &["inventory"],
    &["catalog"],
    &["session"],
    &["credentials"],
    &["instance", "account"],
    &["wiring"],
    &["operator"],
    &["tests"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
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
fn modules_use_only_the_modules_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).unwrap();
        let module = inside
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_str()
            .unwrap();
        if inside.components().count() == 1 {
            // lib.rs and main.rs do not belong to a layer.
            continue;
        }
        let Some(own) = layer(module) else {
            wrong.push(format!(
                "{}: the module {module} has no layer in this test",
                inside.display()
            ));
            continue;
        };
        for used in imports::modules(&fs::read_to_string(&file).unwrap()) {
            let allowed = used == module || layer(&used).is_none_or(|other| other < own);
            if !allowed {
                wrong.push(format!("{}: {module} uses {used}", inside.display()));
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
            "Context",
            "Instant::now()",
            "Timestamp::now()",
        ] {
            let is_used = text
                .lines()
                .any(|line| !line.trim_start().starts_with("//") && names(line, word));
            let is_test = file.ends_with("tests.rs");
            assert!(
                !is_used || is_test,
                "{}: a plan is a pure function, and this is none: {word}",
                file.display()
            );
        }
    }
}

/// Conditions are written for users. The planner reads typed fields of status instead, so that no text decides anything.
#[test]
fn the_plan_reads_no_condition() {
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/instance/plan");
    let mut files = Vec::new();
    sources(&plan, &mut files);
    for file in files.iter().filter(|file| !is_test(file)) {
        let text = fs::read_to_string(file).unwrap();
        assert!(!text.contains(".conditions"), "{}", file.display());
    }
}

/// Whether a line has this word, and not only as the beginning of a longer one.
fn names(line: &str, word: &str) -> bool {
    let is_longer = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric());
    line.match_indices(word)
        .any(|(at, _)| !is_longer(&line[at + word.len()..]))
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for folder in [
        "src",
        "kubectl-cloudserver/src",
        "simulator/src",
        "devcluster/src",
    ] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut files = Vec::new();
        sources(&root, &mut files);
        let texts = files.iter().filter(|file| !is_test(file)).map(|file| {
            let inside = file.strip_prefix(&root).unwrap();
            (inside.to_owned(), fs::read_to_string(file).unwrap())
        });
        let circle = Crate::of(texts).circle();
        assert!(
            circle.is_none(),
            "{folder}: {}",
            circle.unwrap().join(" → ")
        );
    }
}

/// Names that many files use for a private type: its meaning is that of the file.
const PRIVATE_NAMES: [&str; 2] = ["Inner", "State"];

/// A reader who searches for a type finds one.
#[test]
fn each_type_has_a_name_of_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut homes = BTreeMap::<String, BTreeSet<String>>::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        let inside = file.strip_prefix(&root).unwrap().display().to_string();
        for line in without_tests(&fs::read_to_string(file).unwrap()).lines() {
            if let Some(name) = defined_type(line) {
                homes
                    .entry(name.to_owned())
                    .or_default()
                    .insert(inside.clone());
            }
        }
    }
    homes.retain(|name, files| files.len() > 1 && !PRIVATE_NAMES.contains(&name.as_str()));
    let shared: Vec<String> = homes
        .iter()
        .map(|(name, files)| format!("{name}: {files:?}"))
        .collect();
    assert!(
        shared.is_empty(),
        "types that share a name:\n{}",
        shared.join("\n")
    );
}

/// The text before the unit tests, which stand at the end of a file.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]").next().unwrap_or_default()
}

/// The type that a line defines.
fn defined_type(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(scoped) if scoped.starts_with('(') => scoped.split_once(") ")?.1,
        Some(public) => public.trim_start(),
        None => line,
    };
    let (keyword, rest) = line.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric());
    ["struct", "enum", "trait", "type"]
        .contains(&keyword)
        .then(|| &rest[..end.unwrap_or(rest.len())])
}

#[test]
fn the_name_of_a_type_is_found_in_every_scope() {
    for line in [
        "struct Row {",
        "pub struct Row<'a> {",
        "pub(super) enum Row {",
        "pub(in crate::instance) type Row = u8;",
    ] {
        assert_eq!(defined_type(line), Some("Row"), "{line}");
    }
    assert_eq!(defined_type("    type Error = Row;"), None);
}

/// Tests may import the modules that they test.
fn is_test(file: &Path) -> bool {
    let parts = file
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    parts
        .into_iter()
        .any(|part| matches!(&*part, "tests" | "tests.rs" | "testing.rs"))
}

#[test]
fn groups_of_imports_are_taken_apart() {
    let source = "use crate::{account, instance};\nuse crate::api::{PurchaseRecord, Verb};\nuse crate::{cloud::{Place, ServerId}, session::AccountSession};\nfn f() { crate::operator::g(); }";
    assert_eq!(
        imports::modules(source),
        ["account", "api", "cloud", "instance", "operator", "session"]
            .map(ToOwned::to_owned)
            .into()
    );
}

#[test]
fn a_circle_is_found_also_behind_a_name_that_is_handed_on() {
    let files = |last: &'static str| {
        Crate::of([
            ("lib.rs".into(), "pub mod a;\nmod b;".to_owned()),
            ("a/mod.rs".into(), "mod c;\npub use c::Thing;".to_owned()),
            (
                "a/c.rs".into(),
                "use crate::b::Other;\npub struct Thing(Other);".to_owned(),
            ),
            ("b.rs".into(), last.to_owned()),
        ])
    };
    assert_eq!(files("pub struct Other;").circle(), None);
    let circle = files("use crate::a::Thing;\npub struct Other(Thing);").circle();
    assert_eq!(circle.unwrap(), ["a/c.rs", "b.rs", "a/c.rs"]);
}
