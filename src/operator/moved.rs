//! Commands that were part of this program until version 0.1. Remove this file after version 0.2.

use std::ffi::OsStr;

const MOVED: [&str; 16] = [
    "catalog",
    "completion",
    "describe",
    "import",
    "instances",
    "pause",
    "plan",
    "reconcile",
    "reinstall",
    "restart",
    "resume",
    "start",
    "status",
    "stop",
    "support",
    "wait",
];

/// The new place of the command that this word named in earlier versions, if it named one.
pub fn moved(word: Option<&OsStr>) -> Option<String> {
    let word = MOVED.iter().find(|moved| word == Some(OsStr::new(moved)))?;
    Some(format!(
        "{word} is a command of the kubectl plugin now: run `kubectl cloudserver {word}`. The plugin is the program \
         kubectl-cloudserver in PATH: a release has it as an archive, and `cargo build --locked --release --package \
         kubectl-cloudserver` builds it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_moved_names_the_plugin_and_how_to_get_it() {
        let why = moved(Some(OsStr::new("plan"))).unwrap();
        assert!(why.contains("`kubectl cloudserver plan`"), "{why}");
        assert!(why.contains("--package kubectl-cloudserver"), "{why}");
        for other in [None, Some("run"), Some("crds"), Some("--help"), Some("x")] {
            assert_eq!(moved(other.map(OsStr::new)), None);
        }
    }
}
