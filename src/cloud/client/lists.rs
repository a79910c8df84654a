//! The lists of the service, page by page.

use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use super::super::answer::{Answer, Reading, row_count};
use super::super::budget::{NoMemory, RowMemory};
use super::super::decode::fields;
use super::super::error::Error;
use super::super::ids::Place;
use super::super::offers::{List, Offer};
use super::super::rate_limiter::CallPriority;
use super::super::wire::{ListPage, hide};
use super::{Client, PAGE_SIZE};

/// Memory of a whole row, as a multiple of its text: each short field costs a map entry.
const WHOLE_ROW: usize = 8;

impl Client {
    /// One page of the instances of a zone; the first is page 1 (field note 7). `read` converts each row as it arrives to the value
    /// that is kept; it returns none for a row that is not a server.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn instances_page<R: Send>(
        &self,
        priority: CallPriority,
        place: &Place,
        page: u32,
        mut read: impl FnMut(&Map<String, Value>) -> Result<Option<R>, NoMemory> + Send,
    ) -> Result<ListPage<R>, Error> {
        let list = List::Servers(place.clone());
        self.rows(priority, &list, page, |row, _| read(&row)).await
    }

    /// One page of a list (the first is page 1), or the whole list if it arrives in one answer. Takes memory for its rows. Drops
    /// packages of other zones than the requested one, which a service may send.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn offers(
        &self,
        priority: CallPriority,
        list: &List,
        page: u32,
    ) -> Result<ListPage<Offer>, Error> {
        let (share, is_whole) = (&self.caller.share, self.caller.whole_rows);
        let token = self.caller.token.expose_secret();
        let copies = if is_whole { WHOLE_ROW } else { list.memory() };
        let mut memory: Option<RowMemory> = None;
        let read = |mut row: Map<String, Value>, size: usize| {
            hide(&mut row, &[token]);
            let Some(mut offer) = Offer::read(list, &row) else {
                return Ok(None);
            };
            // A copy of a row's texts is no longer than the row. Twice the type itself, since the list grows by doubling.
            let taken = share.charge(copies * size + 2 * size_of::<Offer>())?;
            match &mut memory {
                Some(all) => all.join(taken),
                none => *none = Some(taken),
            }
            if is_whole {
                offer.fields = row;
            }
            Ok(Some(offer))
        };
        let listed = self.rows(priority, list, page, read).await?;
        Ok(within(list, ListPage { memory, ..listed }))
    }

    /// One page of a list. `read` gets each row that is an object, with the length of its text, as it arrives.
    async fn rows<R: Send>(
        &self,
        priority: CallPriority,
        list: &List,
        page: u32,
        mut read: impl FnMut(Map<String, Value>, usize) -> Result<Option<R>, NoMemory> + Send,
    ) -> Result<ListPage<R>, Error> {
        let ((region, zone), page) = (list.place(), page.to_string());
        let paging = list.is_paged().then_some(page.as_str());
        let size = PAGE_SIZE.to_string();
        let query = [
            ("regionCode", region),
            ("zoneCode", zone),
            ("page", paging),
            ("pageSize", paging.map(|_| size.as_str())),
        ];
        let query = query
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let query: Vec<_> = query.collect();
        let call = self.read(priority, list.call(), &query).await;
        let (mut rows, mut unreadable) = (Vec::new(), 0);
        let mut take = |text: &[u8]| {
            let row = fields(text)?.map(|row| read(row, text.len()));
            let row = row.transpose()?.flatten();
            unreadable += usize::from(row.is_none());
            rows.extend(row);
            Ok(())
        };
        let counted = |answer: Answer, reading: &Reading<'_>| {
            let count = answer.listed.then(|| row_count(&answer.body));
            answer.result(count, "it carries no list of the requested kind", reading)
        };
        let row_count = self.caller.run(call, &mut take, counted).await?;
        Ok(ListPage {
            rows,
            unreadable,
            row_count,
            memory: None,
        })
    }
}

/// Drops the packages of other places than the requested one. A service that ignores the query's parameters returns those of all
/// zones, and the same code may denote another package elsewhere. A row without a place counts as belonging to the requested place.
fn within(list: &List, mut page: ListPage<Offer>) -> ListPage<Offer> {
    if let List::Packages { region, zone } = list {
        let all = page.rows.len();
        let is = |shown: &Option<String>, requested: &String| {
            shown.as_ref().is_none_or(|shown| shown == requested)
        };
        page.rows.retain(|row| {
            is(&row.region, region) && zone.as_ref().is_none_or(|zone| is(&row.zone, zone))
        });
        if page.rows.len() < all {
            // The count included the dropped rows.
            page.row_count = None;
        }
    }
    page
}
