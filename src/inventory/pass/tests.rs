use proptest::prelude::*;
use serde_json::json;

use super::super::testing;
use super::super::view::{NoEvidence, View};
use super::*;

/// The meaning of `rowCount` at a service.
#[derive(Clone, Copy, Debug)]
enum Count {
    Total,
    OfPage,
    Zero,
    None,
}

/// The answer to a page number beyond the end.
#[derive(Clone, Copy, Debug)]
enum Beyond {
    Empty,
    LastAgain,
}

/// A listing as the service holds it. The numbers are ids; an id is never reused.
#[derive(Clone, Debug)]
struct Listing {
    ids: Vec<u32>,
    size: usize,
    count: Count,
    beyond: Beyond,
}

fn uid(id: u32) -> String {
    format!("uid-{id}")
}

fn row(id: u32) -> Map<String, Value> {
    let name = format!("web-{}", Marker::of_uid(&uid(id)));
    let row = json!({"ecsResourceUUID": format!("ecs-{id}"), "instanceName": name});
    row.as_object().cloned().unwrap()
}

impl Listing {
    fn page(&self, number: u32) -> Page {
        let pages = self.ids.len().div_ceil(self.size).max(1);
        let number = match self.beyond {
            Beyond::Empty => number as usize,
            Beyond::LastAgain => pages.min(number as usize),
        };
        let ids = self.ids.chunks(self.size).nth(number - 1).unwrap_or(&[]);
        let row_count = match self.count {
            Count::Total => Some(self.ids.len() as u64),
            Count::OfPage => Some(ids.len() as u64),
            Count::Zero => Some(0),
            Count::None => None,
        };
        let rows = ids.iter().map(|id| row(*id)).collect();
        Page {
            rows,
            row_count,
            unreadable: 0,
            memory: None,
        }
    }
}

fn now() -> Instant {
    Instant::now()
}

/// A page as the service sends it.
type Page = crate::cloud::ListPage<Map<String, Value>>;

fn add(builder: &mut PassBuilder, page: &Page) -> Result<Progress, PassError> {
    let page = testing::page(builder, page.rows.clone(), page.row_count);
    builder.add(page)
}

fn pass(pages: &[Page]) -> Result<Pass, PassError> {
    let mut builder = PassBuilder::new(None);
    let began = now();
    for page in pages {
        if add(&mut builder, page)? == Progress::Done {
            break;
        }
    }
    Ok(builder.finish(began, now()))
}

fn pages(listed: &[(&[u32], Option<u64>)]) -> Vec<Page> {
    let page = |(ids, row_count): &(&[u32], Option<u64>)| Page {
        rows: ids.iter().map(|id| row(*id)).collect(),
        row_count: *row_count,
        unreadable: 0,
        memory: None,
    };
    listed.iter().map(page).collect()
}

fn steady(listed: &[(&[u32], Option<u64>)]) -> bool {
    pass(&pages(listed)).unwrap().steady
}

#[test]
fn both_readings_of_row_count_can_be_steady_and_neither_can_be_mixed() {
    // `rowCount` as the total, as the length of the page, missing, and always zero.
    assert!(steady(&[
        (&[1, 2], Some(3)),
        (&[3], Some(3)),
        (&[], Some(3))
    ]));
    assert!(steady(&[
        (&[1, 2], Some(3)),
        (&[3], Some(3)),
        (&[], Some(0))
    ]));
    assert!(steady(&[
        (&[1, 2], Some(2)),
        (&[3], Some(1)),
        (&[], Some(0))
    ]));
    assert!(steady(&[(&[1, 2], None), (&[3], None), (&[], None)]));
    assert!(steady(&[
        (&[1, 2], Some(0)),
        (&[3], Some(0)),
        (&[], Some(0))
    ]));
    assert!(steady(&[(&[], Some(0))]) && steady(&[(&[], None)]));
    // A total that changed, one that is too high, and one that is too low.
    assert!(!steady(&[
        (&[1, 2], Some(4)),
        (&[3], Some(3)),
        (&[], Some(3))
    ]));
    assert!(!steady(&[(&[1, 2], Some(3)), (&[], Some(3))]));
    assert!(!steady(&[
        (&[1, 2], Some(3)),
        (&[3], Some(3)),
        (&[], Some(2))
    ]));
    assert!(!steady(&[(&[1, 2], Some(1)), (&[], Some(1))]));
    assert!(!steady(&[(&[], Some(5))]));
    assert!(!steady(&[
        (&[1, 2], Some(2)),
        (&[3], Some(1)),
        (&[], Some(3))
    ]));
    // A server that is listed twice, and a short page before the last.
    assert!(!steady(&[
        (&[1, 2], Some(3)),
        (&[2, 3], Some(3)),
        (&[], Some(3))
    ]));
    assert!(!steady(&[
        (&[1, 2], None),
        (&[3], None),
        (&[4, 5], None),
        (&[], None)
    ]));
}

#[test]
fn a_short_page_is_not_the_end() {
    let listed = [
        (&[1, 2][..], None),
        (&[3][..], None),
        (&[4][..], None),
        (&[], None),
    ];
    assert_eq!(pass(&pages(&listed)).unwrap().rows.len(), 4);
}

#[test]
fn a_page_that_repeats_is_the_end_only_if_one_far_beyond_is_the_same() {
    let repeats = |listed: &[(&[u32], Option<u64>)]| {
        matches!(pass(&pages(listed)), Err(PassError::Repeats { .. }))
    };
    let (one, other): (&[u32], &[u32]) = (&[1, 2], &[3, 4]);
    assert!(steady(&[
        (one, Some(4)),
        (other, Some(4)),
        (other, Some(4)),
        (other, Some(4))
    ]));
    assert!(steady(&[(one, Some(2)), (one, Some(2)), (one, Some(2))]));
    assert!(steady(&[(one, None), (one, None), (one, None)]));
    assert!(repeats(&[(one, None), (one, None), (&[], None)]));
    assert!(repeats(&[(one, Some(2)), (one, Some(2)), (other, Some(2))]));
    assert!(
        repeats(&[(one, None), (other, None), (one, None), (other, None)]),
        "a circle"
    );
}

#[test]
fn a_row_without_an_id_spoils_the_pass() {
    let mut page = Listing {
        ids: vec![1, 2],
        size: 9,
        count: Count::Total,
        beyond: Beyond::Empty,
    }
    .page(1);
    page.rows[1].remove("ecsResourceUUID");
    assert!(matches!(
        pass(&[page]),
        Err(PassError::RowWithoutId { page: 1 })
    ));
}

#[test]
fn an_endless_listing_is_given_up() {
    let mut builder = PassBuilder::new(None);
    let last = (0..).find_map(|id| {
        let page = testing::page(&mut builder, vec![row(id)], None);
        builder.add(page).err()
    });
    assert!(matches!(last, Some(PassError::Endless)));
}

#[test]
fn rows_without_names_are_no_proof_about_a_marker() {
    let mut page = pages(&[(&[1], None)]).remove(0);
    page.rows[0].remove("instanceName");
    let since = now();
    let pass = Arc::new(pass(&[page]).unwrap());
    let view = View {
        newest: Some(pass.clone()),
        previous: Some(pass),
        ..View::default()
    };
    assert_eq!(
        view.proven_absent(&Marker::of_uid("x"), None, since),
        Err(NoEvidence::Nameless)
    );
}

#[test]
fn an_unchanged_row_is_shared_with_the_former_pass() {
    let pages = pages(&[(&[1, 2], None), (&[], None)]);
    let former = Arc::new(pass(&pages).unwrap());
    let mut builder = PassBuilder::new(Some(former.clone()));
    pages
        .iter()
        .for_each(|page| assert!(add(&mut builder, page).is_ok()));
    let pass = builder.finish(now(), now());
    assert!(
        former
            .rows
            .iter()
            .all(|(id, row)| Arc::ptr_eq(row, &pass.rows[id]))
    );
}

/// A change between two pages. It never touches the server in question.
#[derive(Clone, Debug)]
enum Change {
    Nothing,
    Remove(prop::sample::Index),
    InsertFront,
    InsertBack,
    InsertAt(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => Just(Change::Nothing),
        3 => any::<prop::sample::Index>().prop_map(Change::Remove),
        1 => Just(Change::InsertFront),
        1 => Just(Change::InsertBack),
        1 => any::<prop::sample::Index>().prop_map(Change::InsertAt),
    ]
}

const TARGET: u32 = 1000;

impl Listing {
    fn change(&mut self, change: &Change, next: &mut u32) {
        let at = match change {
            Change::Nothing => return,
            Change::Remove(index) => {
                let victim = index.index(self.ids.len());
                if self.ids[victim] != TARGET {
                    self.ids.remove(victim);
                }
                return;
            }
            Change::InsertFront => 0,
            Change::InsertBack => self.ids.len(),
            Change::InsertAt(index) => index.index(self.ids.len() + 1),
        };
        *next += 1;
        self.ids.insert(at, *next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// The promise behind a second create: a server that existed all the time is never proven absent, regardless of purchases and
    /// releases while pages are read and of the meaning of `rowCount`.
    #[test]
    fn a_server_that_always_existed_is_never_proven_absent(
        before in 0u32..7,
        after in 0u32..4,
        size in 1usize..4,
        count in prop_oneof![Just(Count::Total), Just(Count::OfPage), Just(Count::Zero), Just(Count::None)],
        beyond in prop_oneof![Just(Beyond::Empty), Just(Beyond::LastAgain)],
        changes in prop::collection::vec(change(), 0..14),
    ) {
        let ids = (0..before).chain([TARGET]).chain(100..100 + after).collect();
        let mut listing = Listing { ids, size, count, beyond };
        let (mut changes, mut next) = (changes.into_iter(), 2000);
        let (target, marker, since) = (ServerId::from("ecs-1000"), Marker::of_uid(&uid(TARGET)), now());
        let mut view = View::default();
        for _ in 0..4 {
            let mut builder = PassBuilder::new(view.newest.clone());
            let began = now();
            let outcome = loop {
                let page = listing.page(builder.next_page());
                match add(&mut builder, &page) {
                    Ok(Progress::More) => {}
                    Ok(Progress::Done) => break Ok(builder.finish(began, now())),
                    Err(error) => break Err(error),
                }
                if let Some(change) = changes.next() {
                    listing.change(&change, &mut next);
                }
            };
            if let Ok(pass) = outcome {
                view.previous = view.newest.replace(Arc::new(pass));
            }
            let absence = view.proven_absent(&marker, Some(&target), since);
            prop_assert_ne!(absence, Ok(()), "{:?}", listing);
        }
    }

    /// If nothing changes, two passes are enough.
    #[test]
    fn two_passes_of_an_unchanged_listing_prove_absence(
        number in 0u32..9,
        size in 1usize..5,
        count in prop_oneof![Just(Count::Total), Just(Count::OfPage), Just(Count::Zero), Just(Count::None)],
        beyond in prop_oneof![Just(Beyond::Empty), Just(Beyond::LastAgain)],
    ) {
        let listing = Listing { ids: (0..number).collect(), size, count, beyond };
        let since = now();
        let mut view = View::default();
        for expected in [Err(NoEvidence::Stale), Ok(())] {
            std::thread::sleep(std::time::Duration::from_nanos(1));
            let mut builder = PassBuilder::new(None);
            let began = now();
            while {
                let page = listing.page(builder.next_page());
                add(&mut builder, &page).unwrap() == Progress::More
            } {}
            view.previous = view.newest.replace(Arc::new(builder.finish(began, now())));
            prop_assert_eq!(view.proven_absent(&Marker::of_uid("other"), None, since), expected);
        }
    }
}
