//! Passes and views made by hand, for tests of what is concluded from them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::pass::{Assembly, Pass};
use super::view::View;
use crate::cloud::Page;

/// A whole pass that shows these rows and took a second.
pub(crate) fn pass(
    began: Instant,
    rows: Vec<Map<String, Value>>,
    row_count: Option<u64>,
) -> Arc<Pass> {
    let mut assembly = Assembly::new(None);
    let page = Page { rows, row_count };
    assembly.add(&page).unwrap();
    Arc::new(assembly.finish(began, began + Duration::from_secs(1)))
}

/// What is known after these passes, the newest last.
pub(crate) fn view(previous: Option<Arc<Pass>>, newest: Option<Arc<Pass>>) -> View {
    View {
        newest,
        previous,
        ..View::default()
    }
}
