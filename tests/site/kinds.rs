//! Other projects have kinds called Instance and Account, too, and kubectl then picks one by the name of its group. So a command that
//! changes objects, or reads those of many namespaces, names ours in full.

/// Commands that change an object, whichever kind of the name kubectl picks.
const CHANGES: [&str; 7] = [
    "annotate", "delete", "edit", "label", "patch", "replace", "scale",
];

/// Flags that mean more objects than one.
const ALL: [&str; 3] = ["--all", "--all-namespaces", "-A"];

/// Names that kubectl takes for a kind of ours, or for that of another project.
const SHORT: [&str; 6] = [
    "account",
    "accounts",
    "csacct",
    "csinst",
    "instance",
    "instances",
];

/// Each command of kubectl in a page, a template, a script or a source file: to the end of its line, or of what is quoted as code.
pub fn commands(text: &str) -> Vec<String> {
    // A string of Rust and a command of a shell go on after a backslash.
    let text = text.replace("\\\n", " ");
    let mut found = Vec::new();
    for (at, _) in text.match_indices("kubectl ") {
        let end: &[char] = if text[..at].ends_with('`') {
            &['`', '|', ';']
        } else {
            &['\n', '`', '|', ';']
        };
        let command = text[at..].split(end).next().unwrap_or_default();
        found.push(command.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    found
}

/// The kinds that a command should name in full and does not.
pub fn ambiguous(command: &str) -> Vec<&str> {
    let words: Vec<&str> = command.split(' ').collect();
    let ours = words.get(1) == Some(&"cloudserver");
    let is_any = |names: &[&str]| words.iter().any(|word| names.contains(word));
    if ours || !(is_any(&CHANGES) || is_any(&ALL)) {
        return Vec::new();
    }
    let kinds = words.iter().flat_map(|word| {
        let kind = word.split('/').next().unwrap_or_default();
        kind.split(',')
    });
    kinds.filter(|kind| SHORT.contains(kind)).collect()
}

#[test]
fn commands_that_change_or_read_more_than_one_name_their_kinds_in_full() {
    for (command, expected) in [
        ("kubectl delete instances --all -A", &["instances"][..]),
        ("kubectl delete instance web-1", &["instance"]),
        ("kubectl -n a patch instance/web-1 -p x", &["instance"]),
        ("kubectl get csinst -A", &["csinst"]),
        (
            "kubectl annotate instances,accounts --all a=b",
            &["instances", "accounts"],
        ),
        ("kubectl delete instances.cloudserver.dev --all -A", &[]),
        ("kubectl delete accounts.cloudserver.dev/default", &[]),
        ("kubectl get instances", &[]),
        ("kubectl cloudserver wait --all instance", &[]),
    ] {
        assert_eq!(ambiguous(command), expected, "{command}");
    }
}

#[test]
fn a_command_ends_with_its_line_or_with_its_quotation() {
    let text = "Type `kubectl delete\ninstance a` and\n\n    kubectl get a | kubectl delete -f -\n\"run: kubectl \\\n     patch b\"";
    assert_eq!(
        commands(text),
        [
            "kubectl delete instance a",
            "kubectl get a",
            "kubectl delete -f -",
            "kubectl patch b\""
        ]
    );
}
