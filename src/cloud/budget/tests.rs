use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::*;

use super::super::bounds::Bounds;
use super::super::cloud_call::CloudCall;
use super::*;

fn has_room(share: &Share, bytes: usize) -> Option<Reservation> {
    share.reserve(bytes).now_or_never()
}

/// Takes reservations one after another until the budget is used up.
fn all_of(share: &Share, bytes: usize) -> Vec<Reservation> {
    std::iter::from_fn(|| has_room(share, bytes)).collect()
}

#[tokio::test]
async fn a_single_client_leaves_memory_for_first_calls_of_others_and_for_other_namespaces() {
    let budget = Budget::new(1200, 0);
    let greedy = budget.share("a");
    greedy.ended(true);
    let mut rooms = all_of(&greedy, 10);
    assert_eq!(rooms.len(), 20, "what it has, thrice, and the three sixths");
    let others: Vec<Share> = (0..100).map(|_| budget.share("a")).collect();
    let mut theirs: Vec<Reservation> = others.iter().flat_map(|one| all_of(one, 10)).collect();
    assert_eq!(theirs.len(), 20, "a first call for each client");
    let known = budget.share("a");
    known.ended(true);
    theirs.extend(has_room(&known, 10));
    assert_eq!(
        theirs.len(),
        21,
        "a client with an answer finds memory next to them"
    );
    let elsewhere = budget.share("b");
    assert!(has_room(&elsewhere, 700).is_some());
    rooms.truncate(1);
    theirs.clear();
    let next = has_room(&greedy, 10);
    assert!(next.is_some(), "returned memory is free at once");
}

/// The memory limit of the process is determined at run time and may change.
#[tokio::test]
async fn the_remaining_memory_limits_calls_and_rows_and_one_call_is_always_possible() {
    let budget = Budget::default();
    let share = budget.share("a");
    let charge = share.charge(MEBIBYTE).unwrap();
    budget.fit(20 * MEBIBYTE);
    assert_eq!(budget.size_for_calls(), 12 * MEBIBYTE);
    // A single client gets a third of the 9 MiB that may be kept now.
    let kept = share.charge(MEBIBYTE).unwrap();
    assert!(share.charge(4 * MEBIBYTE).is_err());
    let room = has_room(&share, 2 * MEBIBYTE).unwrap();
    budget.fit(0);
    assert_eq!(budget.size_for_calls(), STORE_MIN);
    assert!(
        share.charge(MEBIBYTE).is_err(),
        "at most a third of the rest"
    );
    assert!(budget.share("b").charge(MEBIBYTE).is_ok());
    let mut next = Box::pin(share.reserve(30 * MEBIBYTE));
    assert!(
        next.as_mut().now_or_never().is_none(),
        "another call is in flight"
    );
    drop(room);
    assert!(
        next.now_or_never().is_some(),
        "a single call may take any amount"
    );
    budget.fit(usize::MAX);
    assert_eq!(budget.size_for_calls(), CALLS_MAX);
    drop((charge, kept));
    assert!(share.charge(KEPT_MAX / 4).is_ok());
}

/// Memory that is reserved for silent services is not resident while they are silent, and rows must not take it meanwhile.
#[tokio::test]
async fn calls_in_flight_and_rows_never_exceed_the_remaining_memory() {
    const LEFT: usize = 60 * MEBIBYTE;
    let budget = Budget::default();
    budget.fit(LEFT);
    let shares: Vec<Share> = (0..60).map(|n| budget.share(&n.to_string())).collect();
    let calls: Vec<_> = shares
        .iter()
        .flat_map(|share| all_of(share, MEBIBYTE))
        .collect();
    let (mut rows, mut kept) = (Vec::new(), 0);
    for _ in 0..20 {
        budget.fit(LEFT - kept);
        for share in &shares {
            while let Ok(charge) = share.charge(MEBIBYTE / 4) {
                rows.push(charge);
            }
        }
        kept = rows.len() * MEBIBYTE / 4;
        let promised = calls.len() * MEBIBYTE;
        assert!(kept + promised <= LEFT, "{kept} and {promised}");
    }
    assert!(
        kept > STORE_MIN && calls.len() > 20,
        "{kept}, {}",
        calls.len()
    );
}

/// The other namespaces have many services that answered once, so that they count as answering, and are silent afterwards.
#[tokio::test]
async fn a_new_namespace_can_always_make_one_call_next_to_ten_others() {
    let budget = Budget::default();
    let mut held = Vec::new();
    for number in 0..10 {
        for _ in 0..20 {
            let client = budget.share(&format!("other-{number}"));
            client.ended(true);
            held.extend(all_of(&client, Bounds::short().memory()));
        }
    }
    let whole_list = Bounds::of(CloudCall::Packages).memory();
    for bytes in [Bounds::of_probe().memory(), whole_list] {
        let at_once = ["new", "newer", "newest"]
            .map(|name| has_room(&budget.share(name), bytes))
            .map(|room| room.is_some());
        assert_eq!(at_once, [true; 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_wait_leaves_nothing_reserved() {
    let budget = Budget::new(30, 0);
    let share = budget.share("a");
    let held = all_of(&share, 10);
    let waited = tokio::time::timeout(Duration::from_secs(1), share.reserve(10)).await;
    assert!(waited.is_err());
    drop(held);
    assert!(has_room(&share, 10).is_some());
    assert_eq!(budget.stores()[CALLS].used, 0);
}

#[tokio::test]
async fn a_call_larger_than_the_budget_is_made_alone() {
    let share = Budget::new(30, 0).share("a");
    assert!(has_room(&share, 1_000).is_some());
}

#[tokio::test]
async fn a_successful_answer_opens_the_remaining_budget_at_once() {
    let budget = Budget::new(120, 0);
    let silent: Vec<Share> = (0..100).map(|_| budget.share("a")).collect();
    let held: Vec<Reservation> = silent.iter().flat_map(|one| all_of(one, 10)).collect();
    let share = budget.share("a");
    let mut waiting = Box::pin(share.reserve(10));
    assert!(waiting.as_mut().now_or_never().is_none());
    share.ended(true);
    assert!(waiting.as_mut().now_or_never().is_some());
    drop(held);
}

#[test]
fn fifty_namespaces_at_their_limit_leave_a_share_for_the_next() {
    let budget = Budget::new(0, KEPT_MAX);
    let shares: Vec<Share> = (0..51).map(|n| budget.share(&n.to_string())).collect();
    let mut charges = Vec::new();
    while let Some(more) = shares[..50]
        .iter()
        .map(|share| share.charge(400).ok())
        .collect::<Option<Vec<_>>>()
    {
        charges.extend(more);
    }
    let each = KEPT_MAX / 52;
    assert!(
        shares[0].kept().abs_diff(each) < 1_000,
        "{}",
        shares[0].kept()
    );
    // Another client of a namespace that has taken its share gets half of that.
    let mut second = 0;
    let share = budget.share("7");
    while let Ok(charge) = share.charge(400) {
        charges.push(charge);
        second += 400;
    }
    assert!(second < each, "{second} of {each}");
    let mut mine = 0;
    while let Ok(charge) = shares[50].charge(400) {
        charges.push(charge);
        mine += 400;
    }
    assert!(mine > each / 3, "{mine} of {each}");
    drop(charges);
    assert_eq!(budget.stores()[KEPT].used, 0);
}

proptest! {
    /// Room is taken, returned and given up in any order.
    #[test]
    fn the_budget_is_never_exceeded_and_is_returned_completely(
        steps in proptest::collection::vec((0..4usize, 1..400usize, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let budget = Budget::new(1_000, 1_000);
        let shares: Vec<Share> = ["a", "a", "b", "c"].map(|name| budget.share(name)).to_vec();
        let (mut rooms, mut waits, mut charges) = (Vec::new(), Vec::new(), Vec::new());
        for (who, bytes, takes, well) in steps {
            let share = &shares[who];
            share.ended(well);
            if takes {
                let mut room = Box::pin(share.reserve(bytes));
                match room.as_mut().now_or_never() {
                    Some(room) => rooms.push(room),
                    None => waits.push(room),
                }
                charges.extend(share.charge(bytes));
            } else {
                rooms.pop();
                charges.pop();
                if well {
                    waits.pop();
                }
            }
            prop_assert!(budget.stores()[CALLS].used <= 1_000);
            prop_assert!(budget.stores()[KEPT].used <= 1_000);
        }
        drop((rooms, charges));
        for wait in waits {
            drop(wait.now_or_never());
        }
        prop_assert_eq!(budget.stores()[CALLS].used, 0);
        prop_assert_eq!(budget.stores()[KEPT].used, 0);
    }
}
