//! What is generated stands in the repository, and does not drift from its source.

use crate::api::conditions::Reason;
use std::path::PathBuf;

/// Fails when a file differs from what it is generated from; `make generate` writes it anew.
fn same(path: &str, wanted: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
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
fn the_page_of_reasons_is_up_to_date() {
    let mut page = String::from(
        "# Reasons of the conditions\n\n\
         What stands in `reason` of a condition of an Instance or Account, what it says about the world, and what a person\n\
         can do about it. `Ready` always stands; `Reconciling` (waiting helps), `Stalled` (waiting cannot help) and\n\
         `Drifted` (only a human may resolve it) stand only while they are true. Generated from `src/api/conditions.rs`.\n\n\
         | Reason | Meaning | Remedy |\n|---|---|---|\n",
    );
    for reason in Reason::ALL {
        page.push_str(&format!(
            "| `{}` | {} | {} |\n",
            reason.as_str(),
            reason.meaning(),
            reason.remedy()
        ));
    }
    same("docs/conditions.md", &page);
}

#[test]
fn every_description_of_the_definitions_is_written() {
    let text = crate::crds_yaml().unwrap();
    assert!(
        !text.contains("Auto-generated"),
        "a derived description stands for a missing one"
    );
}
