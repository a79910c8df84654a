//! The service's rules for passwords (specification section 8), and passwords that meet them.

use rand::{Rng, RngExt};
use secrecy::SecretString;
use zeroize::Zeroize;

/// Special characters of which a password has exactly one (specification section 8).
const SPECIAL: &str = "()~!@#$*-+={}[]:;,.?/";

/// Characters of a password that we make: more than 150 bits, and room below the most that the service takes.
const LENGTH: usize = 28;
/// Letters and digits of a password that we make: without those that are taken for one another (0 O 1 I l).
const PLAIN: &[u8; 57] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
/// Its one special character: none of these means anything to a shell, a URL or YAML in the middle of a word.
const HARMLESS: &[u8; 2] = b"-.";

/// A new password that meets the service's rules, of a generator that nobody can predict.
pub fn generate() -> SecretString {
    draw(&mut rand::rng())
}

/// Draws until each rule is met, so that every password that meets them is as likely as any other; one in fifty is
/// drawn again.
fn draw(rng: &mut impl Rng) -> SecretString {
    loop {
        let mut text = String::with_capacity(LENGTH);
        let special = rng.random_range(1..LENGTH - 1);
        for at in 0..LENGTH {
            let from: &[u8] = if at == special { HARMLESS } else { PLAIN };
            text.push(char::from(from[rng.random_range(0..from.len())]));
        }
        if broken_rule(&text).is_none() {
            return SecretString::from(text);
        }
        text.zeroize();
    }
}

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
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use secrecy::ExposeSecret;

    proptest! {
        #[test]
        fn whatever_is_drawn_meets_every_rule(seed: u64) {
            let drawn = draw(&mut StdRng::seed_from_u64(seed));
            let text = drawn.expose_secret();
            prop_assert_eq!(broken_rule(text), None);
            prop_assert_eq!(text.len(), LENGTH);
            let edges = [text.chars().next(), text.chars().last()];
            prop_assert!(edges.iter().flatten().all(char::is_ascii_alphanumeric));
        }
    }

    #[test]
    fn a_password_that_we_make_cannot_be_guessed() {
        let mut letters = PLAIN.to_vec();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), PLAIN.len(), "each letter once");
        // Of all that can be drawn, far more than half meets the rules: less than one bit is lost to them.
        let plain = u32::try_from(PLAIN.len()).map(f64::from).unwrap().log2();
        let places = u32::try_from(LENGTH - 1).map(f64::from).unwrap();
        assert!(plain * places - 1.0 >= 100.0);
        let (mut rng, mut met) = (StdRng::seed_from_u64(1), 0);
        for _ in 0..1000 {
            let text: String = (0..LENGTH - 1)
                .map(|_| char::from(PLAIN[rng.random_range(0..PLAIN.len())]))
                .collect();
            met += u32::from(broken_rule(&format!("{text}-")).is_none());
        }
        assert!(met > 900, "{met} of 1000");
    }

    #[test]
    fn no_two_are_alike() {
        let all: std::collections::HashSet<String> = (0..200)
            .map(|_| generate().expose_secret().to_owned())
            .collect();
        assert_eq!(all.len(), 200);
    }

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
        for (password, readiness) in [
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
            assert_eq!(broken_rule(password), readiness, "{password}");
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
