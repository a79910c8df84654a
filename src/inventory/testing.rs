//! Builds passes and views for tests.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::ListingFailure;
use super::pass::{Pass, PassBuilder};
use super::row::Row;
use super::view::View;
use crate::cloud::ListPage;

/// A page of these rows, for a pass under construction.
pub(super) fn page(
    builder: &mut PassBuilder,
    rows: Vec<Map<String, Value>>,
    row_count: Option<u64>,
) -> ListPage<Arc<Row>> {
    let served = rows.len();
    let read = |row: Map<String, Value>| builder.row(&row, |_| Ok(None)).unwrap();
    let rows: Vec<_> = rows.into_iter().filter_map(read).collect();
    ListPage {
        unreadable: served - rows.len(),
        rows,
        row_count,
        memory: None,
    }
}

/// A complete pass that shows these rows and took a second.
pub(crate) fn pass(
    began: Instant,
    rows: Vec<Map<String, Value>>,
    row_count: Option<u64>,
) -> Arc<Pass> {
    let mut builder = PassBuilder::new(None);
    let page = page(&mut builder, rows, row_count);
    builder.add(page).unwrap();
    Arc::new(builder.finish(began, began + Duration::from_secs(1)))
}

/// The view after these passes.
pub(crate) fn view(previous: Option<Arc<Pass>>, newest: Option<Arc<Pass>>) -> View {
    View {
        newest,
        previous,
        ..View::default()
    }
}

/// The view of a zone for which the service answered "no such place" to passes that began at these times.
pub(crate) fn view_of_unknown_zone(tries: [Instant; 2]) -> View {
    View {
        nowhere: tries.map(Some),
        ..View::default()
    }
}

/// The view of a place from whose listing many servers vanished at once.
pub(crate) fn view_of_open_breaker() -> View {
    View {
        breaker_open: true,
        ..View::default()
    }
}

impl ListingFailure {
    /// A value for tests.
    pub(crate) fn of(since: Instant, began: Timestamp, message: &str) -> Self {
        Self {
            since,
            began,
            message: message.to_owned(),
            is_refused: false,
            kind: ("", None, None),
        }
    }
}
