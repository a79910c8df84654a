//! The service's rules for passwords (specification section 8).

/// Special characters of which a password has exactly one (specification section 8).
const SPECIAL: &str = "()~!@#$*-+={}[]:;,.?/";

/// The first rule of the specification's section 8 that a password breaks, in words that do not tell the password.
pub fn broken_rule(password: &str) -> Option<&'static str> {
    let count = |test: fn(char) -> bool| password.chars().filter(|&c| test(c)).count();
    let special = count(|c| SPECIAL.contains(c));
    let plain = count(|c| c.is_ascii_alphanumeric());
    let length = password.chars().count();
    if !(8..=30).contains(&length) {
        Some("must have 8 to 30 characters")
    } else if count(|c| c.is_ascii_uppercase()) == 0 {
        Some("needs at least one of A-Z")
    } else if count(|c| c.is_ascii_lowercase()) == 0 {
        Some("needs at least one of a-z")
    } else if count(|c| c.is_ascii_digit()) == 0 {
        Some("needs at least one digit")
    } else if special != 1 {
        Some("needs exactly one special character, of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? /")
    } else if plain + special != length {
        Some(
            "has a character that is neither a letter A-Z a-z, a digit, nor one of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? /",
        )
    } else {
        None
    }
}

/// A text of the service without any word that could hold a password: a reason that quotes the one it was given must not
/// end up in status.
pub(super) fn hide_in(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace);
    words
        .map(|part| {
            let word = part.trim_end();
            if could_hold_one(word) {
                format!("[hidden]{}", &part[word.len()..])
            } else {
                part.to_owned()
            }
        })
        .collect()
}

/// Whether a word has a special character between, before or after letters and digits enough for a password.
fn could_hold_one(word: &str) -> bool {
    let plain = |c: &char| c.is_ascii_alphanumeric();
    word.char_indices()
        .filter(|(_, c)| SPECIAL.contains(*c))
        .any(|(at, special)| {
            let before = word[..at].chars().rev().take_while(plain);
            let after = word[at + special.len_utf8()..].chars().take_while(plain);
            let around: String = before.chain(after).collect();
            let has = |test: fn(&char) -> bool| around.chars().any(|c| test(&c));
            around.len() >= 7
                && has(char::is_ascii_uppercase)
                && has(char::is_ascii_lowercase)
                && has(char::is_ascii_digit)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_the_service_quotes_is_hidden() {
        for (said, told) in [
            (
                "password 'Canary7pass!word' is too weak",
                "password [hidden] is too weak",
            ),
            ("got Abcdef1!, wanted more", "got [hidden] wanted more"),
            ("password=Abc!def1", "[hidden]"),
            ("pwd:Ab1#cdefg", "[hidden]"),
            ("(Abcdefg1!)", "[hidden]"),
            (
                "image img-debian12aaaa is gone: Error 12 (E-7)",
                "image img-debian12aaaa is gone: Error 12 (E-7)",
            ),
        ] {
            assert_eq!(hide_in(said), told);
        }
    }

    #[test]
    fn the_rules_of_the_specification() {
        for (password, verdict) in [
            ("Abcdef1!", None),
            ("Abc1!", Some("must have 8 to 30 characters")),
            (
                "Abcdefghijklmnopqrstuvwxyz12345!",
                Some("must have 8 to 30 characters"),
            ),
            ("abcdef1!", Some("needs at least one of A-Z")),
            ("ABCDEF1!", Some("needs at least one of a-z")),
            ("Abcdefg!", Some("needs at least one digit")),
        ] {
            assert_eq!(broken_rule(password), verdict, "{password}");
        }
        assert!(
            broken_rule("Abcdef12")
                .unwrap()
                .starts_with("needs exactly one special")
        );
        assert!(
            broken_rule("Abcdef1!!")
                .unwrap()
                .starts_with("needs exactly one special")
        );
        assert!(
            broken_rule("Abcdef1! x")
                .unwrap()
                .starts_with("has a character")
        );
    }
}
