//! The files of the chart that have no parameters are copies: helm reads no file outside of a chart, and tools that fetch a
//! chart from a repository omit links.

use crate::{chart, root};
use std::collections::BTreeSet;
use std::fs;

/// The source of each file in `files/`.
const COPIES: [(&str, &str); 9] = [
    ("crds.yaml", "crds/cloudserver.dev.yaml"),
    ("operator-role.yaml", "deploy/shared/operator-role.yaml"),
    ("user-roles.yaml", "deploy/shared/user-roles.yaml"),
    ("secrets-policy.yaml", "deploy/shared/secrets-policy.yaml"),
    (
        "deletion-protection.yaml",
        "deploy/shared/deletion-protection.yaml",
    ),
    ("records-policy.yaml", "deploy/records/policy.yaml"),
    ("record-writer.yaml", "deploy/records/record-writer.yaml"),
    ("rules.yaml", "deploy/observability/rules.yaml"),
    ("dashboard.json", "deploy/observability/dashboard.json"),
];

#[test]
fn the_copies_are_up_to_date() {
    let files = chart().join("files");
    for (copy, source) in COPIES {
        let expected = fs::read_to_string(root().join(source)).unwrap();
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            fs::write(files.join(copy), &expected).unwrap();
        }
        let found = fs::read_to_string(files.join(copy)).unwrap_or_default();
        assert!(
            found == expected,
            "deploy/chart/files/{copy} is not {source}: run make generate"
        );
    }
    let there = fs::read_dir(files).unwrap();
    let there = there.map(|file| file.unwrap().file_name().into_string().unwrap());
    let known = COPIES.map(|(copy, _)| copy.to_owned());
    assert_eq!(there.collect::<BTreeSet<_>>(), BTreeSet::from(known));
}
