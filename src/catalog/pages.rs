//! Reads a list to its end, and judges what it proves.
//!
//! As with the listing of instances, neither a short page nor `rowCount` ends a list: it ends with an empty page, or with one that
//! has no new rows. A list that may have changed while it was read, or that has a row without an identifier, does not prove that
//! something is missing.

use crate::cloud::{Error, List, ListPage, Offer, RowMemory};
use std::collections::HashSet;
use tokio::time::Instant;

/// More pages than any list has; a longer one repeats itself.
const MOST_PAGES: u32 = 400;

/// A list of the service, read to its end.
#[derive(Debug)]
pub struct OfferList {
    /// Its rows, each identifier once, in the service's order.
    pub rows: Vec<Offer>,
    /// Nothing suggests that the list changed while it was read.
    pub steady: bool,
    /// Each row had an identifier.
    pub readable: bool,
    /// How many pages were requested, including the one that showed the end.
    pub pages: u32,
    /// When the last page had arrived.
    pub read: Instant,
    /// The memory charged for its rows.
    pub memory: Vec<RowMemory>,
}

impl OfferList {
    /// Why the list may lack something that exists, in words for users.
    pub fn doubt(&self) -> Option<&'static str> {
        doubt(self.steady, self.readable)
    }
}

/// See [`OfferList::doubt`].
pub fn doubt(steady: bool, readable: bool) -> Option<&'static str> {
    match (steady, readable) {
        (true, true) => None,
        (false, _) => Some("it changed while it was read: run the command again"),
        (true, false) => Some("it has rows without an identifier, which are left out"),
    }
}

/// Why a list could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The cause, in words for users.
    pub why: String,
    /// The service refuses the token.
    pub unauthorized: bool,
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self {
            why: error.to_string(),
            unauthorized: error.is_unauthorized(),
        }
    }
}

/// Reads a list to its end.
///
/// # Errors
/// A page could not be read, or the list has no end.
pub async fn read<F>(list: &List, page: impl Fn(u32) -> F) -> Result<OfferList, Unread>
where
    F: Future<Output = Result<ListPage<Offer>, Error>>,
{
    let mut assembly = OfferAssembly::default();
    while assembly.pages < MOST_PAGES {
        let is_end = assembly.add(page(assembly.pages + 1).await?);
        if is_end || !list.is_paged() {
            return Ok(assembly.finish());
        }
    }
    Err(Unread {
        why: format!(
            "the list of {} has more than {MOST_PAGES} pages",
            list.name()
        ),
        unauthorized: false,
    })
}

/// A list under construction. It has no client, so its rules can be tested alone.
#[derive(Default)]
struct OfferAssembly {
    rows: Vec<Offer>,
    memory: Vec<RowMemory>,
    known: HashSet<String>,
    last: Vec<String>,
    /// Length and `rowCount` of each page, except an empty or repeated one that ended a list of several pages.
    counts: Vec<(usize, Option<u64>)>,
    unreadable: usize,
    doubled: bool,
    pages: u32,
}

impl OfferAssembly {
    /// Adds a page. Returns whether it was the end.
    fn add(&mut self, page: ListPage<Offer>) -> bool {
        self.pages += 1;
        let served = page.rows.len() + page.unreadable;
        let ids: Vec<String> = page.rows.iter().map(|row| row.id.clone()).collect();
        // Some services repeat their last page for every number beyond.
        let is_end = served == 0 || (!ids.is_empty() && ids == self.last);
        if is_end && self.pages > 1 {
            return true;
        }
        self.counts.push((served, page.row_count));
        self.unreadable += page.unreadable;
        self.memory.extend(page.memory);
        let before = self.rows.len();
        for row in page.rows {
            if self.known.insert(row.id.clone()) {
                self.rows.push(row);
            } else {
                self.doubled = true;
            }
        }
        self.last = ids;
        // A page without new rows that differs from the last one: the list changed or repeats itself, or no row has an identifier.
        is_end || (self.rows.len() == before && self.pages > 1)
    }

    fn finish(self) -> OfferList {
        let listed = u64::try_from(self.rows.len() + self.unreadable).unwrap_or(u64::MAX);
        let is_total = self.counts.iter().all(|(_, count)| *count == Some(listed));
        let counts_pages = self.counts.iter().all(|(served, count)| {
            count.is_none_or(|count| count == 0 || usize::try_from(count) == Ok(*served))
        });
        OfferList {
            steady: !self.doubled && (is_total || counts_pages),
            readable: self.unreadable == 0,
            rows: self.rows,
            pages: self.pages,
            read: Instant::now(),
            memory: self.memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(ids: &[&str], row_count: Option<u64>) -> ListPage<Offer> {
        let row = |id: &&str| Offer {
            id: (*id).to_owned(),
            ..Offer::default()
        };
        ListPage {
            rows: ids.iter().map(row).collect(),
            unreadable: 0,
            row_count,
            memory: None,
        }
    }

    fn listed(pages: &[(&[&str], Option<u64>)]) -> (OfferList, bool) {
        let mut assembly = OfferAssembly::default();
        let mut ended = false;
        for (ids, count) in pages {
            assert!(!ended, "a page after the end");
            ended = assembly.add(page(ids, *count));
        }
        (assembly.finish(), ended)
    }

    #[test]
    fn a_list_ends_with_an_empty_page_or_a_repeated_one() {
        let (list, ended) = listed(&[(&["a", "b"], Some(3)), (&["c"], Some(3))]);
        assert!(!ended, "a short page is not the end");
        assert_eq!(list.rows.len(), 3);
        let (list, ended) = listed(&[(&["a", "b"], Some(3)), (&["c"], Some(3)), (&[], Some(3))]);
        assert!(ended && list.steady);
        let (list, ended) = listed(&[(&["a", "b"], None), (&["a", "b"], None)]);
        assert!(ended && list.steady, "the service ignores the page number");
        assert_eq!(list.rows.len(), 2);
        for count in [None, Some(0)] {
            let (list, ended) = listed(&[(&[], count)]);
            assert!(ended && list.steady);
        }
        let (list, ended) = listed(&[(&[], Some(5))]);
        assert!(ended && !list.steady, "no rows, and a rowCount of five");
    }

    #[test]
    fn a_list_that_changed_between_pages_is_not_steady() {
        let (list, _) = listed(&[(&["a", "b"], Some(3)), (&["b", "c"], Some(4)), (&[], None)]);
        assert!(!list.steady);
        let (list, _) = listed(&[(&["a", "b"], Some(3)), (&["c"], Some(4)), (&[], None)]);
        assert!(!list.steady, "its rowCount changed");
        assert!(list.doubt().unwrap().contains("changed while it was read"));
        let (list, _) = listed(&[(&["a", "b"], Some(2)), (&["c"], Some(1)), (&[], Some(0))]);
        assert!(list.steady, "rowCount of the page");
        assert_eq!(list.doubt(), None);
    }

    #[test]
    fn an_unreadable_row_is_reported() {
        let mut assembly = OfferAssembly::default();
        let mut malformed = page(&["a"], Some(2));
        malformed.unreadable = 1;
        assembly.add(malformed);
        let list = assembly.finish();
        assert!(list.steady && !list.readable);
        assert!(list.doubt().unwrap().contains("without an identifier"));
    }
}
