//! All that commands print: tables for people, JSON and YAML for programs. A lint forbids `print!` and its like everywhere.

use crate::api::printable;
pub(super) use crate::program::{note, print};
use clap::ValueEnum;
use comfy_table::{CellAlignment, Table};
use serde_json::Value;

/// How a list is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// The columns that matter most.
    #[default]
    Table,
    /// All columns.
    Wide,
    /// The rows as the service serves them.
    Json,
    /// The same as YAML.
    Yaml,
}

/// A column of a table.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// The row's field.
    pub(super) field: &'static str,
    /// Shown by `-o wide` only.
    pub(super) wide: bool,
    /// Shown in every table whose rows differ in it.
    pub(super) telling: bool,
    pub(super) is_number: bool,
}

impl Column {
    pub(super) const fn text(title: &'static str, field: &'static str) -> Self {
        Self {
            title,
            field,
            wide: false,
            telling: false,
            is_number: false,
        }
    }

    pub(super) const fn number(title: &'static str, field: &'static str) -> Self {
        Self {
            is_number: true,
            ..Self::text(title, field)
        }
    }

    pub(super) const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    /// Shown by `-o wide`, and where it tells rows apart.
    pub(super) const fn telling(self) -> Self {
        Self {
            telling: true,
            ..self.wide()
        }
    }

    fn is_shown(&self, rows: &[Value]) -> bool {
        let differ = || {
            rows.windows(2)
                .any(|two| two[0].get(self.field) != two[1].get(self.field))
        };
        !self.wide || (self.telling && differ())
    }
}

/// The rows in the form that was asked for.
///
/// # Errors
/// A row has no such form, which no answer of the service can bring about.
pub(super) fn render(output: Output, columns: &[Column], rows: &[Value]) -> Result<String, String> {
    let text = match output {
        Output::Table => table(columns.iter().filter(|column| column.is_shown(rows)), rows),
        Output::Wide => table(columns.iter(), rows),
        Output::Json => serde_json::to_string_pretty(rows).map_err(|error| error.to_string())?,
        Output::Yaml => serde_saphyr::to_string(&rows).map_err(|error| error.to_string())?,
    };
    Ok(text)
}

/// As kubectl draws tables: no lines, titles in capitals.
fn table<'a>(columns: impl Iterator<Item = &'a Column> + Clone, rows: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(columns.clone().map(|column| column.title));
    for row in rows {
        table.add_row(columns.clone().map(|column| cell(row, column.field)));
    }
    for (at, column) in columns.enumerate() {
        if let Some(drawn) = table.column_mut(at) {
            drawn.set_padding((0, 3));
            if column.is_number {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table.trim_fmt()
}

/// One line of text, whatever the service put there.
fn cell(row: &Value, field: &str) -> String {
    let text = match row.get(field) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    printable(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: [Column; 3] = [
        Column::text("NAME", "name"),
        Column::number("CPU", "cpu"),
        Column::text("NOTE", "note").wide(),
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
    fn a_column_that_tells_rows_apart_is_shown_where_they_differ() {
        let columns = [
            Column::text("NAME", "name"),
            Column::text("REGION", "region").telling(),
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
