//! The answers as text for people.

use super::files::place;
use super::verdict::{Answer, Effect};
use crate::output::line;
use anstyle::{AnsiColor, Style};
use cloud_server_operator::api::{counted, printable};
use serde_json::Value;
use std::collections::BTreeMap;

/// The maximum number of characters of a value in a line.
const SHOWN: usize = 80;

/// Lines for people, in colours.
pub(super) fn text(answers: &[Answer]) -> String {
    let mut text = String::new();
    for answer in answers {
        let style = style(answer.verdict);
        let words = answer.verdict.words();
        text.push_str(&format!(
            "{}/{}: {style}{words}{style:#}\n",
            printable(&answer.namespace),
            printable(&answer.name)
        ));
        for finding in &answer.effects {
            let style = self::style(finding.effect);
            let what = match (&finding.operation, finding.reason) {
                (Some(operation), _) => operation.clone(),
                (None, Some(reason)) => reason.to_owned(),
                (None, None) if finding.effect == answer.verdict => String::new(),
                (None, None) => finding.effect.words().to_owned(),
            };
            let colon = if what.is_empty() { "" } else { ": " };
            text.push_str(&format!(
                "    {style}{what}{style:#}{colon}{}\n",
                printable(&finding.why)
            ));
        }
        if matches!(answer.verdict, Effect::Refused) {
            let place = place(&answer.file, answer.line);
            text.push_str(&format!("    in {}\n", printable(&place)));
        }
        for change in &answer.changes {
            let (from, to) = (value(&change.from), value(&change.to));
            text.push_str(&format!(
                "    {}: {from} → {to}\n",
                printable(&change.field)
            ));
        }
        for note in &answer.notes {
            let dim = Style::new().dimmed();
            text.push_str(&format!("    {dim}note: {}{dim:#}\n", printable(note)));
        }
    }
    text.push_str(&summary(answers));
    text
}

/// The number of Instances with each verdict.
fn summary(answers: &[Answer]) -> String {
    let mut counts = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer.verdict).or_insert(0) += 1;
    }
    let parts = counts.into_iter().map(|(effect, count)| {
        let style = style(effect);
        format!("{count} {style}{}{style:#}", effect.words_for(count))
    });
    let parts: Vec<String> = parts.collect();
    let colon = if parts.is_empty() { "" } else { ": " };
    let count = counted(answers.len(), "Instance");
    format!("{count}{colon}{}\n", parts.join(", "))
}

fn style(effect: Effect) -> Style {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match effect {
        Effect::Nothing => Style::new().dimmed(),
        Effect::InPlace | Effect::TakesOver => colour(AnsiColor::Green),
        Effect::Restart | Effect::NewServer => colour(AnsiColor::Yellow),
        Effect::Waits => colour(AnsiColor::Magenta),
        Effect::ErasesDisk | Effect::Refused => colour(AnsiColor::Red).bold(),
        Effect::Unknown => colour(AnsiColor::Yellow).bold(),
    }
}

/// The beginning of a value.
fn value(value: &Value) -> String {
    let text = line(Some(value), "none");
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::super::changes::Change;
    use super::super::verdict::Finding;
    use super::*;
    use serde_json::json;

    #[test]
    fn each_verdict_is_counted_in_words_that_fit_the_number() {
        let of = |verdict: Effect| Answer {
            namespace: "n".to_owned(),
            name: "w".to_owned(),
            file: "f".to_owned(),
            line: 1,
            verdict,
            effects: vec![],
            changes: vec![],
            notes: vec![],
        };
        let all = |verdicts: &[Effect]| {
            let answers: Vec<Answer> = verdicts.iter().copied().map(of).collect();
            anstream::adapter::strip_str(&summary(&answers)).to_string()
        };
        use Effect::{ErasesDisk, NewServer, Waits};
        assert_eq!(
            all(&[NewServer, Waits, ErasesDisk]),
            "3 Instances: 1 new server, 1 waits, 1 ERASES THE DISK\n"
        );
        assert_eq!(
            all(&[NewServer, Waits, ErasesDisk].repeat(2)),
            "6 Instances: 2 new servers, 2 wait, 2 ERASE THE DISK\n"
        );
        assert_eq!(all(&[]), "0 Instances\n");
    }

    #[test]
    fn each_effect_has_a_line_with_its_cause() {
        let answer = Answer {
            namespace: "team-a".to_owned(),
            name: "web".to_owned(),
            file: "f".to_owned(),
            line: 1,
            verdict: Effect::ErasesDisk,
            effects: vec![Finding {
                operation: Some("reinstall".to_owned()),
                ..Finding::of(Effect::ErasesDisk, "image a → b\u{1b}[0m")
            }],
            changes: vec![Change {
                field: "spec.image.id".to_owned(),
                from: json!("a"),
                to: json!(null),
            }],
            notes: vec![],
        };
        let coloured = text(&[answer]);
        assert!(coloured.contains("\u{1b}["), "{coloured:?}");
        let plain = anstream::adapter::strip_str(&coloured).to_string();
        assert_eq!(
            plain,
            "team-a/web: ERASES THE DISK\n    reinstall: image a → b [0m\n    spec.image.id: a → none\n\
             1 Instance: 1 ERASES THE DISK\n"
        );
    }
}
