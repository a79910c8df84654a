//! The reference of both command lines, which is generated, does not drift from its source.

mod commands;

use std::path::Path;

#[test]
fn the_reference_of_the_command_lines_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands.md");
    let page = commands::page();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap();
    assert!(found == page, "docs/commands.md: run make generate");
}
