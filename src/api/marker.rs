use data_encoding::BASE32_NOPAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// Characters of a marker. 13 characters of base32 are 65 bits: among a million servers of one account the chance that
/// two share a marker is below one in ten million.
const LENGTH: usize = 13;

/// Identifies a server of the operator among all others at the service: the end of its name, derived from the UID of the
/// Instance for which it was bought (`docs/decisions/0002-marker-in-the-name.md`).
///
/// Thirteen characters of lower-case base32. The same UID always gives the same marker, so a restarted operator finds a server
/// whose receipt was lost.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Marker(Arc<str>);

impl Marker {
    /// The marker of the Instance with this UID.
    pub fn of_uid(uid: &str) -> Self {
        let encoded = BASE32_NOPAD.encode(&Sha256::digest(uid.as_bytes()));
        let mut encoded = encoded.to_ascii_lowercase();
        encoded.truncate(LENGTH);
        Self(encoded.into())
    }

    /// The marker at the end of a server's name, if the end has the shape of one: a hyphen and thirteen characters of
    /// lower-case base32. The name of a server that the operator did not buy may have this shape by chance.
    pub fn in_name(name: &str) -> Option<Self> {
        let (_, tail) = name.rsplit_once('-')?;
        let fits =
            tail.len() == LENGTH && tail.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'));
        fits.then(|| Self(tail.into()))
    }

    /// The thirteen characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Marker({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_stable_across_releases() {
        // This value must never change: with another derivation, the operator would not recognize any server of an existing
        // fleet.
        assert_eq!(
            Marker::of_uid("11111111-2222-3333-4444-555555555555").as_str(),
            "mzx7ntfklm6ap"
        );
    }

    #[test]
    fn only_a_suffix_of_the_right_form_is_a_marker() {
        assert_eq!(
            Marker::in_name("web-abcdefghij234")
                .map(|m| m.to_string())
                .as_deref(),
            Some("abcdefghij234")
        );
        for name in [
            "web",
            "abcdefghij234",
            "web-abcdefghij23",
            "web-abcdefghij2345",
            "web-ABCDEFGHIJ234",
            "web-abcdefghij018",
        ] {
            assert_eq!(Marker::in_name(name), None, "{name}");
        }
    }
}
