//! The rules of Kubernetes for names. The client library inserts names into paths unchanged, so invalid ones must be refused
//! before that: a name could contain a path.

use thiserror::Error;

/// Longest name of a Secret, a ConfigMap, an Account or an Instance.
const LONGEST_NAME: usize = 253;
/// Longest name of a namespace.
const LONGEST_LABEL: usize = 63;

/// Rule of the schema for the name of a Secret, a ConfigMap or an Account: [`object_name`] in CEL, without the length.
pub const NAME_RULE: &str =
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')";
/// The schema's message for a violation of [`NAME_RULE`].
pub const NAME_MESSAGE: &str = "must be a name that Kubernetes takes: lower case letters, digits, '-' and '.', with a letter or \
     digit at the beginning, at the end and beside each '.'";
/// Rule of the schema for a key of a Secret or a ConfigMap.
pub const KEY_RULE: &str =
    "self.matches('^[-._a-zA-Z0-9]+$') && self != '.' && !self.startsWith('..')";
/// The schema's message for a violation of [`KEY_RULE`].
pub const KEY_MESSAGE: &str = "must be a key that a Secret can have: letters, digits, '-', '_' and '.', and not '.' alone or '..' at the beginning";

/// A text that is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no name that Kubernetes takes (lower case letters, digits, '-' and '.')")]
pub struct InvalidName(String);

/// Checks the name of an object: a DNS subdomain.
///
/// # Errors
/// The text is not a valid name.
pub fn object_name(text: &str) -> Result<(), InvalidName> {
    let is_name = text.len() <= LONGEST_NAME && text.split('.').all(is_label);
    name_if(text, is_name)
}

/// Checks the name of a namespace: a DNS label.
///
/// # Errors
/// The text is not a valid name.
pub fn namespace(text: &str) -> Result<(), InvalidName> {
    name_if(text, text.len() <= LONGEST_LABEL && is_label(text))
}

fn name_if(text: &str, is_name: bool) -> Result<(), InvalidName> {
    match is_name {
        true => Ok(()),
        // Enough to recognize the text.
        false => Err(InvalidName(text.chars().take(64).collect())),
    }
}

fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| plain(*first))
        && bytes.last().is_some_and(|last| plain(*last))
        && bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_exactly_if_kubernetes_accepts_them() {
        let long = "a".repeat(63);
        let names = ["a", "0", "web-1", "a.b.c", "a-b.0-1", "x--y", &long];
        for name in names {
            assert_eq!(object_name(name), Ok(()), "{name}");
        }
        let longest = format!("{long}.{long}.{long}.{}", "b".repeat(61));
        assert_eq!((longest.len(), object_name(&longest)), (253, Ok(())));
        for bad in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a.",
            "-a",
            "a-",
            "a.-b",
            "A",
            "a_b",
            "a b",
            "ä",
            "a/b",
            "../../victim/secrets/x",
            "?limit=1",
            "x#y",
            "a%2fb",
            "a\n",
            "a\u{202e}b",
            &format!("{longest}b"),
        ] {
            assert!(object_name(bad).is_err(), "{bad:?}");
            assert!(namespace(bad).is_err(), "{bad:?}");
        }
        assert_eq!(namespace("team-a"), Ok(()));
        assert_eq!(namespace(&long), Ok(()));
        assert!(namespace("a.b").is_err(), "a namespace has no dots");
        assert!(namespace(&format!("{long}a")).is_err());
    }

    #[test]
    fn an_invalid_name_is_shown_on_one_line_and_cut() {
        let text = format!("a\n\u{1b}[31m{}", "x".repeat(1000));
        let message = object_name(&text).unwrap_err().to_string();
        assert!(!message.contains(char::is_control), "{message:?}");
        assert!(message.len() < 200, "{message}");
    }
}
