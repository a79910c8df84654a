//! Section 8 of the specification: the rules for passwords and names.

use super::reply::Refusal;
use crate::readings::PasswordSpecials;

/// The special characters that a password may contain.
pub const SPECIAL: &str = "()~!@#$*-+={}[]:;,.?/";

/// Checks a password.
///
/// # Errors
/// `InvalidPassword.Malformed` names the violated rule. The message never repeats the password.
pub fn password(text: &str, specials: PasswordSpecials) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::malformed("Password", rule));
    let length = text.chars().count();
    if !(8..=30).contains(&length) {
        return refuse("The password must have 8 to 30 characters");
    }
    let has = |test: fn(&char) -> bool| text.chars().any(|each| test(&each));
    if !(has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_digit))
    {
        return refuse(
            "The password must have an uppercase letter, a lowercase letter and a digit",
        );
    }
    let others: Vec<char> = (text.chars())
        .filter(|each| !each.is_ascii_alphanumeric())
        .collect();
    match specials {
        PasswordSpecials::ExactlyOne => match others[..] {
            [special] if SPECIAL.contains(special) => Ok(()),
            _ => refuse(
                "The password must have exactly one special character of ()~!@#$*-+={}[]:;,.?/",
            ),
        },
        PasswordSpecials::AtLeastOne => {
            let allowed = |each: &char| SPECIAL.contains(*each) || *each == '`';
            if !others.is_empty() && others.iter().all(allowed) {
                Ok(())
            } else {
                refuse(
                    "The password must have at least one special character of ()~!@#$*-+={}[]:;,.?/`",
                )
            }
        }
    }
}

/// Checks an instance name.
///
/// # Errors
/// `InvalidInstanceName.Malformed` names the violated rule.
pub fn instance_name(text: &str) -> Result<(), Refusal> {
    let refuse = |rule: &str| Err(Refusal::malformed("InstanceName", rule));
    if text.chars().count() > 64 {
        return refuse("The instance name must have at most 64 characters");
    }
    if !text
        .chars()
        .all(|each| each.is_ascii_alphanumeric() || each == '-')
    {
        return refuse("The instance name may have letters, digits and hyphens only");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_judged_by_each_rule() {
        let table = [
            ("Abcdef1!", true),
            ("Abcdefghijklmnopqrstuvwxyz012!", true),
            ("Abcdef1", false),
            ("Abcde1!", false),
            ("Abcdefghijklmnopqrstuvwxyz0123!", false),
            ("abcdefg1!", false),
            ("ABCDEFG1!", false),
            ("Abcdefgh!", false),
            ("Abcdefg12", false),
            ("Abcdef1!!", false),
            ("Abcdef1!?", false),
            ("Abcdef1_", false),
            ("Abcdef1%", false),
            ("Abcdef1 ", false),
            ("Abcdéf1!", false),
            ("", false),
        ];
        for (text, good) in table {
            let judged = password(text, PasswordSpecials::ExactlyOne);
            assert_eq!(judged.is_ok(), good, "{text}");
        }
        for special in SPECIAL.chars() {
            let text = format!("Abcdef1{special}");
            assert!(
                password(&text, PasswordSpecials::ExactlyOne).is_ok(),
                "{text}"
            );
        }
    }

    #[test]
    fn several_special_characters_are_good_where_one_is_the_least() {
        let table = [
            ("Abcdef1!", true),
            ("Abcdef1!!", true),
            ("Abc?def1`", true),
            ("Abcdef12", false),
            ("Abcdef1!_", false),
            ("Abcde1!", false),
        ];
        for (text, good) in table {
            let judged = password(text, PasswordSpecials::AtLeastOne);
            assert_eq!(judged.is_ok(), good, "{text}");
        }
    }

    #[test]
    fn names_are_judged_by_each_rule() {
        for (text, good) in [
            ("web-1", true),
            (&*"a".repeat(64), true),
            (&*"a".repeat(65), false),
            ("web_1", false),
            ("web.1", false),
            ("web 1", false),
            ("wéb", false),
            ("-", true),
        ] {
            assert_eq!(instance_name(text).is_ok(), good, "{text}");
        }
    }
}
