//! How values of flags are read that several commands take.

use crate::api::valid;

/// The name of an Instance: it becomes part of a path.
pub(super) fn instance_name(text: &str) -> Result<String, String> {
    match valid::object_name(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(_) => Err(
            "the name of an Instance consists of lower-case letters, digits, - and ., and begins and ends with a letter or digit"
                .to_owned(),
        ),
    }
}
