//! Value parsers of flags. A name becomes part of the path of a request, so only valid names are accepted.

use cloud_server_operator::api::valid::{self, InvalidName};

/// The name of an object.
pub(super) fn object_name(text: &str) -> Result<String, InvalidName> {
    valid::object_name(text).map(|()| text.to_owned())
}

/// The name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, InvalidName> {
    valid::namespace(text).map(|()| text.to_owned())
}
