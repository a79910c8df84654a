//! How commands print: tables for people, JSON and YAML for programs, and messages on standard error.

use crate::PROGRAM;
use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use cloud_server_operator::api::printable;
use cloud_server_operator::program;
use comfy_table::Table;
use serde_json::Value;
use std::process::ExitCode;

/// How a list is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// The columns that matter most.
    #[default]
    Table,
    /// All columns.
    Wide,
    /// The rows with all their fields, as JSON.
    Json,
    /// The same rows, as YAML.
    Yaml,
}

/// When a table shows a column.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    Always,
    /// Only with `-o wide`.
    Wide,
    /// With `-o wide`, and in a table whose rows differ in this column.
    Distinguishing,
}
pub(super) use Shown::{Always, Distinguishing, Wide};

/// A column of a table: its title, the field of the row, and when it is shown.
pub(super) type Column = (&'static str, &'static str, Shown);

/// Whether a table without `-o wide` shows the column.
fn is_shown((_, field, shown): &Column, rows: &[Value]) -> bool {
    match shown {
        Always => true,
        Wide => false,
        Distinguishing => rows
            .windows(2)
            .any(|two| two[0].get(field) != two[1].get(field)),
    }
}

/// The rows in the requested form.
///
/// # Errors
/// A row cannot be serialized, which no answer of the service can cause.
pub(super) fn render(output: Output, columns: &[Column], rows: &[Value]) -> Result<String, String> {
    let shown = columns.iter().filter(|column| is_shown(column, rows));
    let text = match output {
        Output::Table => table(&shown, rows),
        Output::Wide => table(&columns.iter(), rows),
        Output::Json => serde_json::to_string_pretty(rows).map_err(|error| error.to_string())?,
        Output::Yaml => serde_saphyr::to_string(&rows).map_err(|error| error.to_string())?,
    };
    Ok(text)
}

/// A table as kubectl draws it: no lines, titles in capitals, all columns to the left.
fn table<'a>(columns: &(impl Iterator<Item = &'a Column> + Clone), rows: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(columns.clone().map(|column| column.0));
    for row in rows {
        table.add_row(columns.clone().map(|column| line(row.get(column.1), "-")));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.trim_fmt()
}

/// A value as one line of text, regardless of its content; `absent` stands for none and null.
pub(super) fn line(value: Option<&Value>, absent: &str) -> String {
    match value {
        None | Some(Value::Null) => absent.to_owned(),
        Some(Value::String(text)) => printable(text).into_owned(),
        Some(other) => printable(&other.to_string()).into_owned(),
    }
}

/// Lines as one text. Each stays one line, regardless of its content.
pub(super) fn joined(lines: &[String]) -> String {
    let lines = lines.iter().map(|line| printable(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Writes an answer to standard output.
pub(super) fn print(text: &str) -> ExitCode {
    program::print(PROGRAM, &coloured(text, &std::io::stdout()))
}

/// Writes the answer, unless it is empty. Returns `status`, or a failure if the answer could not be written.
pub(super) fn finish(answer: &str, status: u8) -> ExitCode {
    match answer.is_empty() || print(answer) == ExitCode::SUCCESS {
        true => ExitCode::from(status),
        false => ExitCode::FAILURE,
    }
}

/// Writes a message for people to standard error.
pub(super) fn note(text: &str) {
    program::note(&coloured(text, &std::io::stderr()));
}

/// Reports on standard error why a command failed.
pub(super) fn failed(why: &str) -> ExitCode {
    program::failed(PROGRAM, why)
}

/// A text with its colours if `stream` shows them, and without them otherwise.
fn coloured(text: &str, stream: &impl RawStream) -> String {
    match AutoStream::choice(stream) {
        ColorChoice::Never => anstream::adapter::strip_str(text).to_string(),
        ColorChoice::Auto | ColorChoice::AlwaysAnsi | ColorChoice::Always => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: [Column; 3] = [
        ("NAME", "name", Always),
        ("CPU", "cpu", Always),
        ("NOTE", "note", Wide),
    ];

    #[test]
    fn a_table_has_a_line_for_each_row_and_nothing_else() {
        let rows = [
            json!({"name": "one", "cpu": 16, "note": "a\u{1b}[31mb\nc"}),
            json!({"name": "two and more"}),
        ];
        let text = render(Output::Table, &COLUMNS, &rows).unwrap();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines,
            [
                vec!["NAME", "CPU"],
                vec!["one", "16"],
                vec!["two", "and", "more", "-"]
            ]
        );
        let wide = render(Output::Wide, &COLUMNS, &rows).unwrap();
        assert!(
            wide.contains("a [31mb c") && !wide.contains('\u{1b}'),
            "{wide}"
        );
        assert_eq!(wide.lines().count(), 3);
    }

    #[test]
    fn a_column_that_distinguishes_rows_is_shown_where_they_differ() {
        let columns = [
            ("NAME", "name", Always),
            ("REGION", "region", Distinguishing),
        ];
        let of = |regions: [&str; 2]| {
            let rows = regions.map(|region| json!({"name": "small", "region": region}));
            render(Output::Table, &columns, &rows).unwrap()
        };
        let several = of(["r-1", "r-2"]);
        assert!(
            several.contains("REGION") && several.contains("r-2"),
            "{several}"
        );
        let one = of(["r-1", "r-1"]);
        assert!(!one.contains("REGION"), "{one}");
    }

    #[test]
    fn programs_get_the_rows_as_they_are() {
        let rows = [json!({"name": "one", "more": {"a": [1]}})];
        let read: Vec<Value> =
            serde_json::from_str(&render(Output::Json, &COLUMNS, &rows).unwrap()).unwrap();
        assert_eq!(read, rows);
        let yaml = render(Output::Yaml, &COLUMNS, &rows).unwrap();
        assert!(yaml.contains("name: one"), "{yaml}");
    }
}
