//! The tables of `docs/features.md` and `docs/threat-model.md` are correct as far as a machine can check: their examples, tests
//! and sections exist, and the first lists every example.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rows of the table: the feature, its example, its tests.
fn rows(page: &str) -> Vec<[String; 3]> {
    let table = page.split("|---|---|---|\n").nth(1).unwrap();
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    lines
        .map(|line| {
            let cells: Vec<String> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
            let [_, feature, example, tests, _] = <[String; 5]>::try_from(cells).unwrap();
            [feature, example, tests]
        })
        .collect()
}

/// The texts between backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The targets of links.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1);
    targets
        .map(|rest| rest.split(')').next().unwrap())
        .collect()
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter_map(|c| match c {
        ' ' | '-' => Some('-'),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn each_feature_has_tests_that_are_there() {
    let page = fs::read_to_string(root().join("docs/features.md")).unwrap();
    let rows = rows(&page);
    assert!(rows.len() >= 30, "{rows:#?}");
    for [feature, _, tests] in &rows {
        let (mut file, mut named) = (None, 0);
        for word in quoted(tests) {
            if word.ends_with(".rs") {
                let path = root().join("tests/e2e").join(word);
                let text = fs::read_to_string(&path);
                file = Some(text.unwrap_or_else(|_| panic!("{feature}: no file {word}")));
                continue;
            }
            let text = file
                .as_ref()
                .unwrap_or_else(|| panic!("{feature}: {word} in which file?"));
            // A function, a line of a macro that generates one, or a named schedule.
            let is_there = [
                format!("fn {word}("),
                format!("    {word}, "),
                format!("    {word}: "),
                format!("    {word} => "),
            ];
            let is_there = is_there.iter().any(|words| text.contains(words));
            assert!(is_there, "{feature}: no test {word}");
            named += 1;
        }
        assert!(named > 0, "{feature}: which test shows it?");
    }
}

/// The attributes of the test `name`, if the file has a test of that name.
fn attributes<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let at = text.find(&format!("fn {name}("))?;
    let above = text[..at].rfind("\n\n").map_or(0, |blank| blank + 2);
    // A preceding function may end without an empty line after it.
    let above = text[above..at]
        .rfind("}\n")
        .map_or(above, |end| above + end + 2);
    let attributes = &text[above..at];
    ["#[test]", "#[tokio::test"]
        .iter()
        .any(|test| attributes.contains(test))
        .then_some(attributes)
}

/// The tests named for each threat exist and run in `make test`, unless the row states that they need `make torture`.
#[test]
fn each_threat_has_tests_that_are_there_and_are_run() {
    let page = fs::read_to_string(root().join("docs/threat-model.md")).unwrap();
    let rows = rows(page.split("\n## Threats\n").nth(1).unwrap());
    assert!(rows.len() >= 20, "{rows:#?}");
    for [threat, defence, tests] in &rows {
        if threat.starts_with("**") && defence.is_empty() && tests.is_empty() {
            continue;
        }
        assert!(!defence.is_empty(), "{threat}: no defence is named");
        let (mut file, mut named) = (None, 0);
        for word in quoted(tests) {
            if word.ends_with(".rs") {
                let text = fs::read_to_string(root().join(word));
                file = Some(text.unwrap_or_else(|_| panic!("{threat}: no file {word}")));
                continue;
            }
            if word.starts_with("make ") {
                continue;
            }
            let text = file
                .as_ref()
                .unwrap_or_else(|| panic!("{threat}: {word} in which file?"));
            let attributes = attributes(text, word);
            let attributes = attributes.unwrap_or_else(|| panic!("{threat}: no test {word}"));
            assert!(
                !attributes.contains("#[ignore") || tests.contains("`make torture`"),
                "{threat}: {word} is not run by `make test`: write `make torture` there"
            );
            named += 1;
        }
        assert!(named > 0, "{threat}: which test shows it?");
    }
    let open = page.split("\n## Open points\n").nth(1);
    let open = open.expect("a section \"Open points\"");
    assert!(
        open.contains("\n* "),
        "no open threat is listed, which is not credible"
    );
}

/// A reference always concerns the object's own namespace: no field can name another one.
#[test]
fn no_reference_names_a_namespace() {
    for file in fs::read_dir(root().join("crds")).unwrap() {
        let file = file.unwrap().path();
        let fields = fs::read_to_string(&file).unwrap();
        let fields = fields.lines().map(str::trim);
        let named = fields
            .filter(|line| line.ends_with(':'))
            .filter(|line| line.to_lowercase().contains("namespace"));
        assert_eq!(named.collect::<Vec<_>>(), [""; 0], "{}", file.display());
    }
}

#[test]
fn only_a_test_is_a_test() {
    let text = "#[test]\nfn one() {}\nfn helper() {}\n\n/// Slow.\n#[tokio::test]\n#[ignore = \"slow\"]\nasync fn two() {}\n";
    assert_eq!(attributes(text, "one"), Some("#[test]\n"));
    assert_eq!(attributes(text, "helper"), None);
    assert_eq!(attributes(text, "three"), None);
    assert!(attributes(text, "two").unwrap().contains("#[ignore"));
}

#[test]
fn each_example_is_in_the_table_and_each_link_resolves() {
    let docs = root().join("docs");
    let page = fs::read_to_string(docs.join("features.md")).unwrap();
    for link in links(&page) {
        let (file, section) = link.split_once('#').unwrap_or((link, ""));
        let target = match file {
            "" => docs.join("features.md"),
            file => docs.join(file),
        };
        let text = fs::read_to_string(&target);
        let text = text.unwrap_or_else(|_| panic!("the link {link} leads nowhere"));
        assert!(
            section.is_empty() || anchors(&text).contains(section),
            "no section {link}"
        );
    }
    let table: String = rows(&page).concat().concat();
    let named: BTreeSet<&str> = links(&table).into_iter().collect();
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_manifest = name.ends_with(".yaml") && name != "kustomization.yaml";
        let link = format!("../examples/{name}");
        assert!(
            !is_manifest || named.contains(link.as_str()),
            "no feature has the example {name}"
        );
    }
}
