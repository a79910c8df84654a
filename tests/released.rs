//! The new version reads the objects and definitions of the last release. `tests/released` contains the definitions, and
//! objects as that release wrote them while each verb was in flight. `make released` recreates them for the next release.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

#[allow(dead_code, reason = "the judges are others' as well")]
#[path = "../tools/judges.rs"]
mod judges;

use cloud_server_operator::api::names::BINDING;
use cloud_server_operator::api::{Instance, PurchaseRecord, Verb};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

/// The file with both definitions.
const FILE: &str = "cloudserver.dev.yaml";

/// The definitions in a file, in order.
fn definitions(path: &str) -> Vec<String> {
    let text = fs::read_to_string(judges::root().join(path)).unwrap();
    let parts = text.split("---\n").filter(|part| part.contains("kind:"));
    parts.map(ToOwned::to_owned).collect()
}

/// The verdict of crdify on a change of a definition.
fn compared(old: &str, new: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let files = [("old.yaml", old), ("new.yaml", new)].map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        format!("file://{}", path.display())
    });
    let config = folder.path().join("config.yaml");
    // A changed description is not an incompatibility, and neither is an additional allowed value of a field.
    fs::write(
        &config,
        "validations: [{name: description, enforcement: Warn}, \
         {name: enum, enforcement: Error, configuration: {additionPolicy: Allow}}]",
    )
    .unwrap();
    let mut crdify = Command::new(judges::program("crdify"));
    crdify
        .arg("--config")
        .arg(config)
        .args(files)
        .output()
        .unwrap()
}

/// Rules that exist in only one of the two versions. A firewall may be absent, so its rule also compares absent fields. An
/// Instance whose name is too long for its generated login Secret is refused; before, it never got a server.
const CHANGED_RULES: [&str; 3] = [
    "!has(oldSelf.status) || !has(oldSelf.status.id) || self.spec.firewall == oldSelf.spec.firewall",
    "!has(oldSelf.status) || !has(oldSelf.status.id) || (has(self.spec.firewall) == has(oldSelf.spec.firewall) && \
     (!has(self.spec.firewall) || self.spec.firewall == oldSelf.spec.firewall))",
    "!has(self.spec.login.generate) || has(self.spec.login.generate.secretName) || self.metadata.name.size() <= 247",
];

/// An alternative that several rules have now: they accept more.
const ALTERNATIVE: &str = "(has(oldSelf.status.conditions) && \
     oldSelf.status.conditions.exists(c, c.reason == 'SpecChangedAfterPurchase')) || ";

/// Removes the parts that crdify cannot judge: messages of rules, the rules and the alternative above, and three more changes. No
/// field is nullable any more: an object with a null still works, as `tests/e2e/rules/nulls.rs` shows. `missingCodes` is a set: an
/// Account that lists a code twice is refused. A status that is not written yet has a condition.
fn comparable(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        if fields.get("nullable").is_some_and(Value::is_boolean) {
            fields.remove("nullable");
        }
        if fields
            .get("x-kubernetes-list-type")
            .is_some_and(|list| list == "set")
        {
            fields.remove("x-kubernetes-list-type");
        }
        if fields
            .get("default")
            .is_some_and(|status| status["observedGeneration"] == -1)
        {
            fields.remove("default");
        }
        if let Some(rules) = fields
            .get_mut("x-kubernetes-validations")
            .and_then(Value::as_array_mut)
        {
            for rule in rules.iter_mut() {
                let text = rule["rule"].as_str().unwrap().replace(ALTERNATIVE, "");
                rule["rule"] = text.into();
            }
            rules.retain(|rule| !CHANGED_RULES.iter().any(|changed| rule["rule"] == *changed));
            for rule in rules.iter_mut().filter_map(Value::as_object_mut) {
                rule.remove("message");
            }
        }
        fields.values_mut().for_each(comparable);
    }
    schema
        .as_array_mut()
        .into_iter()
        .flatten()
        .for_each(comparable);
}

fn comparable_text(definition: &str) -> String {
    let mut definition: Value = serde_saphyr::from_str(definition).unwrap();
    comparable(&mut definition);
    definition.to_string()
}

#[test]
fn the_definitions_accept_everything_that_the_last_release_accepted() {
    let [old, new] =
        ["tests/released", "crds"].map(|folder| definitions(&format!("{folder}/{FILE}")));
    assert_eq!((old.len(), new.len()), (2, 2));
    for (old, new) in old.iter().zip(&new) {
        let comparison = compared(&comparable_text(old), &comparable_text(new));
        let [stdout, stderr] =
            [&comparison.stdout, &comparison.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(comparison.status.success(), "{stdout}{stderr}");
    }
}

#[test]
fn a_definition_that_accepts_less_is_noticed() {
    let all = definitions(&format!("tests/released/{FILE}"));
    for (was, is) in [("maxLength: 253", "maxLength: 25"), ("- Stopped\n", "")] {
        let old = all.iter().find(|old| old.contains(was)).unwrap();
        let comparison = compared(old, &old.replace(was, is));
        let stdout = String::from_utf8_lossy(&comparison.stdout);
        assert!(
            !comparison.status.success() && !stdout.is_empty(),
            "{was}: {stdout}"
        );
    }
}

/// The objects written by the last release.
fn objects() -> Vec<Value> {
    let folder = judges::root().join("tests/released/objects");
    let files = fs::read_dir(folder).unwrap();
    files
        .map(|file| serde_json::from_slice(&fs::read(file.unwrap().path()).unwrap()).unwrap())
        .collect()
}

/// A field that this version does not know, or names differently, would be lost with the next write.
#[test]
fn nothing_of_an_object_of_the_last_release_is_lost_by_reading_and_writing_it() {
    for object in objects() {
        let name = &object["metadata"]["name"];
        let read: Instance = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), object, "{name}");
        let text = object["metadata"]["annotations"][BINDING].as_str().unwrap();
        let record = PurchaseRecord::parse(text).unwrap();
        assert_eq!(record.to_text(), text, "{name}");
    }
}

#[test]
fn each_verb_was_open_when_the_objects_of_the_last_release_were_kept() {
    let mut open = BTreeSet::new();
    for object in objects() {
        let read: Instance = serde_json::from_value(object).unwrap();
        let is_deleted = read.metadata.deletion_timestamp.is_some();
        open.extend(is_deleted.then_some(Verb::Release));
        let status = read.status.unwrap_or_default();
        // A create that has just begun is only in the record.
        let is_creating = status.applied.is_none().then_some(Verb::Create);
        open.extend(is_creating);
        open.extend(status.operation.map(|operation| operation.verb));
    }
    let verbs = BTreeSet::from([
        Verb::Create,
        Verb::Reinstall,
        Verb::ModifyPassword,
        Verb::Start,
        Verb::Stop,
        Verb::Restart,
        Verb::Release,
    ]);
    assert!(open.is_superset(&verbs), "{open:?}");
}
