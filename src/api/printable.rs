use std::borrow::Cow;

/// Invisible characters that change how the adjacent text is read: they reverse its direction, hide in the middle of a name, or
/// join and separate letters. The list contains Unicode's format characters and default-ignorable code points, except the few
/// that have a visible shape.
const HIDDEN: [(char, char); 21] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{fffe}', '\u{ffff}'),
];

/// A count with its noun: `1 server`, `2 servers`.
pub fn counted(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// A text of any origin in a form that is safe to show: on one line, without control of a terminal and without invisible
/// characters. For messages, tables and lines; data stays unchanged.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_break(c) || is_hidden(c)) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().filter(|c| !is_hidden(*c));
    shown.map(|c| if is_break(c) { ' ' } else { c }).collect()
}

/// Whether the character ends a line or controls a terminal.
fn is_break(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Whether the character is invisible.
pub fn is_hidden(c: char) -> bool {
    // Most texts are pure ASCII.
    !c.is_ascii() && HIDDEN.iter().any(|(from, to)| (*from..=*to).contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn invisible_characters_are_removed_and_control_characters_become_spaces() {
        for (text, shown) in [
            ("web-1 → ready, готово", "web-1 → ready, готово"),
            ("", ""),
            ("a\u{202e}txt.exe\u{202c}", "atxt.exe"),
            ("\u{2066}admin\u{2069}\u{200b}", "admin"),
            ("a\u{1b}[31mred\u{1b}[0m", "a [31mred [0m"),
            ("a\r\n\tb\u{85}c\u{9b}31md\u{2028}e", "a   b c 31md e"),
            ("\u{feff}x\u{e0041}\u{fe0f}y", "xy"),
        ] {
            assert_eq!(printable(text), shown, "{text:?}");
        }
    }

    proptest! {
        /// Uses Unicode's own properties, independently of the table above.
        #[test]
        fn no_control_format_or_ignorable_character_stays(
            text in r"([\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}]|[\p{Cf}--\p{Prepended_Concatenation_Mark}]|[a-zа-я]){0,24}",
        ) {
            let shown = printable(&text);
            let is_plain = |c: char| c == ' ' || matches!(c, 'a'..='z' | 'а'..='я');
            prop_assert!(shown.chars().all(is_plain), "{text:?}: {shown:?}");
            let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic() && is_plain(*c)).collect::<String>();
            prop_assert_eq!(letters(&text), letters(&shown));
            prop_assert_eq!(printable(&shown), &*shown);
        }

        #[test]
        fn visible_characters_stay(text in r"[\p{L}\p{N}\p{P}\p{S} --\p{Default_Ignorable_Code_Point}]{0,24}") {
            prop_assert_eq!(printable(&text), &*text);
        }
    }
}
