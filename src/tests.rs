//! What is generated stands in the repository, and does not drift from its source.

mod decodes;
mod events;
mod reference;
mod secrets;

use crate::api::conditions::Reason;
use std::path::PathBuf;

/// Fails when a file differs from what it is generated from; `make generate` writes it anew.
fn same(path: &str, wanted: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, wanted).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == wanted, "{path} is out of date: run make generate");
}

#[test]
fn the_custom_resource_definitions_are_up_to_date() {
    same("crds/cloudserver.dev.yaml", &crate::crds_yaml().unwrap());
}

#[test]
fn the_reference_of_the_two_kinds_is_up_to_date() {
    same("docs/api.md", &reference::page());
}

#[test]
fn the_pages_of_reasons_are_up_to_date() {
    let mut index = String::from(
        "# Reasons of the conditions\n\n\
         What stands in `reason` of a condition of an Instance or Account, and what it says about the world; a page for each says\n\
         what a person can do about it. `Ready` always stands; `Reconciling` (waiting helps), `Stalled` (somebody has to\n\
         mend something; most of it is tried again all the same, slowly) and `Drifted` (only a human may resolve it) stand only\n\
         while they are true, and point to the message of `Ready`. So does `UnsafeRights` of an\n\
         Account (the operator may do what it must not). `Synced` of an Instance says how far its status can be believed: it is\n\
         false where the server could not be confirmed for five minutes (`ServerUnobserved`, or the reason of its Account), and at\n\
         once where somebody has to mend the Account (its reason) or it is gone; `Ready` then says what was seen last. Generated from `src/api/conditions.rs`.\n\n\
         | Reason | Meaning |\n|---|---|\n",
    );
    for reason in Reason::ALL {
        let (name, meaning, remedy) = (reason.as_str(), reason.meaning(), reason.remedy());
        index.push_str(&format!("| [`{name}`](reasons/{name}.md) | {meaning} |\n"));
        let page = format!(
            "# {name}\n\n{meaning}\n\n**What to do:** {remedy}\n\n[All reasons](../conditions.md)\n"
        );
        same(&format!("docs/reasons/{name}.md"), &page);
    }
    same("docs/conditions.md", &index);
}

#[test]
fn no_page_tells_of_a_reason_that_is_gone() {
    let pages = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/reasons");
    for page in std::fs::read_dir(pages).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let known = Reason::ALL
            .iter()
            .any(|reason| name == format!("{}.md", reason.as_str()));
        assert!(known, "docs/reasons/{name} is of no reason: remove it");
    }
}

#[test]
fn every_description_of_the_definitions_is_written() {
    let text = crate::crds_yaml().unwrap();
    assert!(
        !text.contains("Auto-generated"),
        "a derived description stands for a missing one"
    );
}

#[test]
fn every_field_of_the_record_is_described() {
    use crate::api::{Marker, PurchaseRecord, Refusal, Resolved, ResolvedReference};
    let pin = || ResolvedReference {
        id: "img-1".into(),
        from: "name \"Ubuntu\"".into(),
    };
    let whole = PurchaseRecord {
        cluster: "c".into(),
        namespace: "n".into(),
        name: "n".into(),
        uid: "u".into(),
        marker: Marker::of_uid("u"),
        attempt: 1,
        nonce: "n".into(),
        id: Some("ecs-1".into()),
        imported: Some("by-hand".into()),
        task: Some("t".into()),
        started_at: jiff::Timestamp::UNIX_EPOCH,
        generation: 1,
        cause: Some(crate::api::Cause::Spec),
        target: crate::api::Applied::default(),
        waiting_password: true,
        package: "p".into(),
        firewall: "f".into(),
        resolved: Some(Resolved {
            image: Some(pin()),
            ..Resolved::default()
        }),
        places: vec!["r/z".into()],
        lost: 1,
        failed: 1,
        refused: Some(Refusal {
            reason: "CreateRefused".into(),
            message: "create was refused".into(),
        }),
        recreated: 1,
        account: "default".into(),
        credential: "0".into(),
    };
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    let page = std::fs::read_to_string(page).unwrap();
    for field in serde_json::to_value(whole)
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
    {
        let is_described =
            page.contains(&format!("`{field}`")) || page.contains(&format!("\"{field}\":"));
        assert!(
            is_described,
            "docs/architecture.md does not tell of the record's {field}"
        );
    }
}
