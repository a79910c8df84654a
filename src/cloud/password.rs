//! The service's rules for passwords (specification section 8), and the generator of passwords.

use crate::api::PasswordSpecialCharacters;
use rand::{Rng, RngExt};
use secrecy::SecretString;
use zeroize::Zeroize;

/// The special characters of a password (specification section 8).
const SPECIAL: &str = "()~!@#$*-+={}[]:;,.?/";
/// One edition of the service's documentation also counts this one as special (field note 22).
const BACKTICK: char = '`';

/// Length of generated passwords: more than 150 bits, and below the maximum of the service.
const LENGTH: usize = 28;
/// Letters and digits of generated passwords, without those that are easily confused (0 O 1 I l).
const PLAIN: &[u8; 57] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
/// A generated password has one of these two as its only special character: neither has a meaning for a shell, a URL or YAML in
/// the middle of a word.
const HARMLESS: &[u8; 2] = b"-.";

/// Generates a password that meets the service's rules, from an unpredictable generator.
pub fn generate() -> SecretString {
    draw(&mut rand::rng())
}

/// Draws until all rules are met, so that all valid passwords of this form are equally likely; about one draw in sixty is repeated.
fn draw(rng: &mut impl Rng) -> SecretString {
    loop {
        let mut text = String::with_capacity(LENGTH);
        let special = rng.random_range(1..LENGTH - 1);
        for at in 0..LENGTH {
            let from: &[u8] = if at == special { HARMLESS } else { PLAIN };
            text.push(char::from(from[rng.random_range(0..from.len())]));
        }
        if broken_rule(&text, PasswordSpecialCharacters::ExactlyOne).is_none() {
            return SecretString::from(text);
        }
        text.zeroize();
    }
}

/// The first rule in section 8 of the specification that a password breaks. The text does not contain the password.
pub fn broken_rule(password: &str, specials: PasswordSpecialCharacters) -> Option<&'static str> {
    let count = |test: fn(char) -> bool| password.chars().filter(|&c| test(c)).count();
    let several = specials == PasswordSpecialCharacters::AtLeastOne;
    let special = match several {
        true => count(is_special),
        false => count(|c| SPECIAL.contains(c)),
    };
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
    } else if several && special == 0 {
        Some("needs at least one special character, of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? / `")
    } else if !several && special != 1 {
        Some("needs exactly one special character, of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? /")
    } else if plain + special != length {
        Some(
            "has a character that is neither a letter A-Z a-z, a digit, nor one of ( ) ~ ! @ # $ * - + = { } [ ] : ; , . ? /",
        )
    } else {
        None
    }
}

fn is_special(c: char) -> bool {
    c == BACKTICK || SPECIAL.contains(c)
}

/// A text of the service without the words that could contain a password: a reason that quotes the password must not end up in
/// status.
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

/// Whether a word contains a run of letters, digits and special characters that could be a password.
fn could_hold_one(word: &str) -> bool {
    let runs = word.split(|c: char| !c.is_ascii_alphanumeric() && !is_special(c));
    runs.filter(|run| run.len() >= 8).any(|run| {
        let has = |test: fn(&char) -> bool| run.chars().any(|c| test(&c));
        has(char::is_ascii_uppercase)
            && has(char::is_ascii_lowercase)
            && has(char::is_ascii_digit)
            && run.chars().any(is_special)
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
        fn every_generated_password_meets_the_rules(seed: u64) {
            let drawn = draw(&mut StdRng::seed_from_u64(seed));
            let text = drawn.expose_secret();
            prop_assert_eq!(broken_rule(text, PasswordSpecialCharacters::ExactlyOne), None);
            prop_assert_eq!(broken_rule(text, PasswordSpecialCharacters::AtLeastOne), None);
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
        // Far more than half of all draws meet the rules, so the rules cost less than one bit.
        let plain = u32::try_from(PLAIN.len()).map(f64::from).unwrap().log2();
        let places = u32::try_from(LENGTH - 1).map(f64::from).unwrap();
        assert!(plain * places - 1.0 >= 100.0);
        let (mut rng, mut met) = (StdRng::seed_from_u64(1), 0);
        for _ in 0..1000 {
            let text: String = (0..LENGTH - 1)
                .map(|_| char::from(PLAIN[rng.random_range(0..PLAIN.len())]))
                .collect();
            let text = format!("{text}-");
            met += u32::from(broken_rule(&text, PasswordSpecialCharacters::ExactlyOne).is_none());
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
        for (text, hidden) in [
            (
                "password 'Canary7pass!word' is too weak",
                "password [hidden] is too weak",
            ),
            ("got Abcdef1!, wanted more", "got [hidden] wanted more"),
            ("password=Abc!def1", "[hidden]"),
            ("pwd:Ab1#cdefg", "[hidden]"),
            ("(Abcdefg1!)", "[hidden]"),
            ("got Ab!c1!d`ef", "got [hidden]"),
            (
                "image img-debian12aaaa is gone: Error 12 (E-7)",
                "image img-debian12aaaa is gone: Error 12 (E-7)",
            ),
        ] {
            assert_eq!(hide_in(text), hidden);
        }
    }

    #[test]
    fn several_special_characters_are_allowed_if_the_account_requires_at_least_one() {
        let broken = |password| broken_rule(password, PasswordSpecialCharacters::AtLeastOne);
        for good in ["Abcdef1!", "Abcdef1!!", "A?b!cdef1", "Abcdef1`"] {
            assert_eq!(broken(good), None, "{good}");
        }
        for (bad, rule) in [
            ("Abcdef12", "needs at least one special"),
            ("Abcdef1!_", "has a character"),
            ("abcdef1!!", "needs at least one of A-Z"),
        ] {
            assert!(broken(bad).unwrap().starts_with(rule), "{bad}");
        }
    }

    #[test]
    fn the_rules_of_the_specification() {
        let broken_rule = |password| broken_rule(password, PasswordSpecialCharacters::ExactlyOne);
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
