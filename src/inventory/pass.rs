//! One listing pass: every page of a place, from the first to the end, or an error.
//!
//! The reader does not trust the service in three respects. The service may ignore `pageSize`, so a short page is not the end: only
//! an empty page is. (Some services repeat their last page for every number beyond; there, that page under a number far beyond is
//! the end.) `rowCount` may be the total or the length of the page, so it never ends a pass. A total that matches makes even short
//! pages trustworthy; any other value can only cast doubt. And the list may change between two pages, which can hide a server that
//! existed all the time. A pass in which that may have happened is not *steady* and proves no absence.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::row::Row;
use crate::api::Marker;
use crate::cloud::{self, CallPriority, Client, ListPage, NoMemory, Place, RowMemory, ServerId};

/// More pages than any place has: 200,000 servers at 50 a page. A listing with as many counts as endless.
const MOST_PAGES: u32 = 4_000;

/// How far beyond the current page to probe whether it is the last: farther than a list grows while it is read.
const PROBE_DISTANCE: u32 = 1_000;

/// A complete listing of a place.
#[derive(Debug)]
pub struct Pass {
    /// When the first page was about to be requested.
    pub began: Instant,
    /// After the last answer.
    pub ended: Instant,
    /// Every server that was listed.
    pub rows: HashMap<ServerId, Arc<Row>>,
    /// The number of pages with servers on them. Another pass costs this many calls, and one or two for the end.
    pub pages: usize,
    /// By marker: the ids of the servers whose names bear it, sorted.
    pub by_marker: HashMap<Marker, Vec<ServerId>>,
    /// Whether nothing suggests that the list changed while it was read.
    pub steady: bool,
    /// A row had no name, so the absence of a marker cannot be proven.
    pub(super) nameless: bool,
}

impl Pass {
    /// Whether two passes show the same servers.
    pub(super) fn same_ids(&self, other: &Self) -> bool {
        self.rows.len() == other.rows.len()
            && self.rows.keys().all(|id| other.rows.contains_key(id))
    }

    /// Whether the pass shows a server with this id or marker.
    pub(super) fn shows(&self, id: Option<&ServerId>, marker: &Marker) -> bool {
        id.is_some_and(|id| self.rows.contains_key(id)) || !self.bearing(marker).is_empty()
    }

    /// The ids of the servers that bear a marker.
    pub(super) fn bearing(&self, marker: &Marker) -> &[ServerId] {
        self.by_marker.get(marker).map_or(&[], Vec::as_slice)
    }
}

/// Why a listing was not read to its end. The results of earlier passes stay valid.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The call for a page failed.
    #[error(transparent)]
    Cloud(cloud::Error),
    /// A row has no id. It may be one of our servers, so the whole pass is useless.
    #[error("the instance list has a row without an id near page {page}")]
    RowWithoutId { page: u32 },
    /// Pages repeat without an end.
    #[error("the instance list repeats itself near page {page}")]
    Repeats { page: u32 },
    /// The list has too many pages.
    #[error("the instance list has {MOST_PAGES} pages or more")]
    Endless,
}

/// Identifies a kind of failure, regardless of the message and numbers that come with it.
pub(super) type Kind = (&'static str, Option<u16>, Option<String>);

impl PassError {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Cloud(error) => {
                let code = error.code().map(ToOwned::to_owned);
                (error.category(), error.status(), code)
            }
            Self::RowWithoutId { .. } => ("row_without_id", None, None),
            Self::Repeats { .. } => ("repeats", None, None),
            Self::Endless => ("endless", None, None),
        }
    }

    /// The service answered that there is no such place.
    pub fn is_no_such_place(&self) -> bool {
        matches!(self, Self::Cloud(error) if error.is_no_such_place())
    }
}

/// Reads a pass. Evaluates `priority` before each page, because an Instance may begin to wait for the pass meanwhile.
pub(super) async fn read(
    client: &Client,
    place: &Place,
    priority: impl Fn() -> CallPriority,
    former: Option<Arc<Pass>>,
) -> Result<Pass, PassError> {
    let began = Instant::now();
    let mut builder = PassBuilder::new(former);
    loop {
        let (priority, number) = (priority(), builder.next_page());
        let charge = |bytes| client.charge(bytes).map(Some);
        let row = |fields: &Map<String, Value>| builder.row(fields, charge);
        let page = client
            .instances_page(priority, place, number, row)
            .await
            .map_err(PassError::Cloud)?;
        if builder.add(page)? == Progress::Done {
            return Ok(builder.finish(began, Instant::now()));
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
}

/// A pass under construction. It has no clock and no client, so its rules can be tested alone.
#[derive(Default)]
pub(super) struct PassBuilder {
    former: Option<Arc<Pass>>,
    rows: HashMap<ServerId, Arc<Row>>,
    by_marker: HashMap<Marker, Vec<ServerId>>,
    /// Length and `rowCount` of every page that had rows, without a repeated last page.
    pages: Vec<(usize, Option<u64>)>,
    /// `rowCount` of the empty page at the end.
    end_count: Option<u64>,
    /// The ids of the last page.
    last: Vec<ServerId>,
    number: u32,
    doubled: bool,
    nothing_new: u32,
    nameless: bool,
    /// A page repeated the one before: probe whether it is the last.
    probes: bool,
}

impl PassBuilder {
    pub(super) fn new(former: Option<Arc<Pass>>) -> Self {
        Self {
            former,
            ..Self::default()
        }
    }

    /// The number of the next page to request.
    pub(super) fn next_page(&self) -> u32 {
        self.number + if self.probes { PROBE_DISTANCE } else { 1 }
    }

    fn repeats(&self) -> PassError {
        PassError::Repeats { page: self.number }
    }

    pub(super) fn add(&mut self, page: ListPage<Arc<Row>>) -> Result<Progress, PassError> {
        self.number += 1;
        if page.unreadable > 0 {
            return Err(PassError::RowWithoutId { page: self.number });
        }
        if page.rows.is_empty() && !self.probes {
            self.end_count = page.row_count;
            return Ok(Progress::Done);
        }
        if self.number >= MOST_PAGES {
            return Err(PassError::Endless);
        }
        let ids: Vec<ServerId> = page.rows.iter().map(|row| row.id.clone()).collect();
        if self.probes {
            return match ids == self.last {
                true => Ok(Progress::Done),
                false => Err(self.repeats()),
            };
        }
        if ids == self.last {
            // Either a page of servers was inserted in front, or the service repeats its last page for every number beyond.
            self.probes = true;
            return Ok(Progress::More);
        }
        self.pages.push((ids.len(), page.row_count));
        self.last = ids;
        self.take(page.rows)?;
        Ok(Progress::More)
    }

    /// The part of a row that is kept: the row of the former pass if nothing changed. None if the row has no id.
    pub(super) fn row(
        &mut self,
        fields: &Map<String, Value>,
        charge: impl FnOnce(usize) -> Result<Option<RowMemory>, NoMemory>,
    ) -> Result<Option<Arc<Row>>, NoMemory> {
        let Some(row) = Row::read(fields) else {
            return Ok(None);
        };
        let former = self.former.as_ref();
        let former = former.and_then(|former| former.rows.get(&row.id));
        match former.filter(|former| ***former == row) {
            Some(former) => Ok(Some(former.clone())),
            None => Ok(Some(Arc::new(row.charged(charge)?))),
        }
    }

    fn take(&mut self, fresh: Vec<Arc<Row>>) -> Result<(), PassError> {
        let before = self.rows.len();
        for row in fresh {
            self.nameless |= row.name.is_none();
            let (id, marker) = (row.id.clone(), row.marker.clone());
            if self.rows.insert(id.clone(), row).is_some() {
                self.doubled = true;
            } else if let Some(marker) = marker {
                self.by_marker.entry(marker).or_default().push(id);
            }
        }
        // An insertion in front can cause one page without new rows; a second one means that the listing repeats itself.
        self.nothing_new = if self.rows.len() == before {
            self.nothing_new + 1
        } else {
            0
        };
        match self.nothing_new {
            0 | 1 => Ok(()),
            _ => Err(self.repeats()),
        }
    }

    /// `rowCount`, if every page that had rows gave the same.
    fn total(&self) -> Option<u64> {
        let (_, first) = self.pages.first()?;
        first.filter(|first| self.pages.iter().all(|(_, count)| *count == Some(*first)))
    }

    /// Whether the pass is evidence of absence.
    fn is_steady(&self) -> bool {
        let listed = count(self.rows.len());
        if self.doubled {
            return false;
        }
        if self.rows.is_empty() {
            return self.end_count.unwrap_or(0) == 0;
        }
        // `rowCount` as the total is the strongest evidence: it reveals even a server that a shifting list hides.
        if self.total() == Some(listed)
            && self.end_count.is_none_or(|end| end == listed || end == 0)
        {
            return true;
        }
        // Without such a total, `rowCount` must be the length of each page, or useless. Then the only evidence is that no page
        // before the last was short. This suffices together with a second pass that shows the same ids: a server slips across a
        // page boundary only if one before it vanishes, and that one is missing from the second pass.
        let mut pages = self.pages.iter();
        let of_page = pages
            .clone()
            .all(|(rows, row_count)| *row_count == Some(count(*rows)));
        let no_use = pages.all(|(_, row_count)| matches!(row_count, None | Some(0)));
        let Some(((last, _), full)) = self.pages.split_last() else {
            return false;
        };
        let size = full.first().map_or(*last, |(rows, _)| *rows);
        let is_even = full.iter().all(|(rows, _)| *rows == size) && *last <= size;
        (of_page || no_use) && self.end_count.unwrap_or(0) == 0 && is_even
    }

    pub(super) fn finish(mut self, began: Instant, ended: Instant) -> Pass {
        self.by_marker
            .values_mut()
            .for_each(|ids| ids.sort_unstable());
        // Spare capacity would be kept with the pass.
        self.rows.shrink_to_fit();
        self.by_marker.shrink_to_fit();
        Pass {
            began,
            ended,
            steady: self.is_steady(),
            rows: self.rows,
            pages: self.pages.len(),
            by_marker: self.by_marker,
            nameless: self.nameless,
        }
    }
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
