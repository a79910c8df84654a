//! Other projects have kinds called Instance and Account as well, and kubectl then chooses one by the name of its group. So a
//! command that changes objects, or reads objects of many namespaces, must use the full name of our kinds.

/// Commands that change an object, regardless of which kind kubectl chooses.
const CHANGES: [&str; 7] = [
    "annotate", "delete", "edit", "label", "patch", "replace", "scale",
];

/// Flags that select more than one object.
const ALL: [&str; 3] = ["--all", "--all-namespaces", "-A"];

/// Names that kubectl may interpret as one of our kinds or as a kind of another project.
const SHORT: [&str; 6] = [
    "account",
    "accounts",
    "csacct",
    "csinst",
    "instance",
    "instances",
];

/// Each kubectl command in a page, a template, a script or a source file: up to the end of its line or of the quoted code.
pub fn commands(text: &str) -> Vec<String> {
    // A backslash at the end of a line continues a Rust string or a shell command.
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

/// The kinds that a command should name in full but does not.
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
