use std::time::Duration;

use futures::FutureExt;
use proptest::prelude::*;

use super::*;

fn has_room(share: &Share, bytes: usize) -> Option<Room> {
    share.room(bytes).now_or_never()
}

#[tokio::test]
async fn one_alone_has_half_of_the_room_for_calls_and_a_newcomer_finds_some() {
    let budget = Budget::new(900, 0);
    let greedy = budget.share();
    greedy.ended(true);
    let mut rooms: Vec<Room> = std::iter::from_fn(|| has_room(&greedy, 10)).collect();
    assert_eq!(rooms.len(), 45);
    let other = budget.share();
    other.ended(true);
    let theirs: Vec<Room> = std::iter::from_fn(|| has_room(&other, 10)).collect();
    assert_eq!(theirs.len(), 23, "half of what is left");
    rooms.truncate(1);
    let next = has_room(&greedy, 10);
    assert!(next.is_some(), "what is given back is free at once");
}

#[tokio::test]
async fn those_whose_services_do_not_answer_leave_a_third_to_the_others() {
    let budget = Budget::new(900, 0);
    let silent: Vec<Share> = (0..100).map(|_| budget.share()).collect();
    let rooms: Vec<Room> = silent.iter().filter_map(|one| has_room(one, 10)).collect();
    assert_eq!(rooms.len(), 60, "each one, as long as there is room");
    let good = budget.share();
    assert!(has_room(&good, 10).is_none(), "nothing is known of it yet");
    good.ended(true);
    assert!(has_room(&good, 10).is_some());
}

#[tokio::test]
async fn who_waits_is_woken_in_order_and_keeps_nobody_else_waiting() {
    let budget = Budget::new(90, 0);
    let (one, two, good) = (budget.share(), budget.share(), budget.share());
    let held = has_room(&one, 30).unwrap();
    let (wait_one, wait_two) = (one.room(30), two.room(20));
    let (mut wait_one, mut wait_two) = (Box::pin(wait_one), Box::pin(wait_two));
    assert!(
        wait_one.as_mut().now_or_never().is_none(),
        "it has its half"
    );
    let got = has_room(&two, 20);
    assert!(
        got.is_some(),
        "what another waits for is not this one's matter"
    );
    assert!(wait_two.as_mut().now_or_never().is_none());
    good.ended(true);
    let of_good = has_room(&good, 30);
    assert!(of_good.is_some(), "nor the good one's");
    drop((held, of_good));
    assert!(wait_one.as_mut().now_or_never().is_some());
    drop(got);
    assert!(wait_two.as_mut().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_waiting_leaves_no_trace() {
    let budget = Budget::new(30, 0);
    let share = budget.share();
    let held = has_room(&share, 10).unwrap();
    let waited = tokio::time::timeout(Duration::from_secs(1), share.room(10)).await;
    assert!(waited.is_err());
    drop(held);
    assert!(has_room(&share, 10).is_some());
    assert_eq!(budget.calls().used, 0);
}

#[tokio::test]
async fn a_call_that_is_larger_than_all_room_is_made_alone() {
    let share = Budget::new(30, 0).share();
    assert!(has_room(&share, 1_000).is_some());
}

#[tokio::test]
async fn an_answer_that_was_good_again_opens_the_rest_at_once() {
    let budget = Budget::new(30, 0);
    let share = budget.share();
    let held = has_room(&share, 10).unwrap();
    let mut waiting = Box::pin(share.room(10));
    assert!(waiting.as_mut().now_or_never().is_none());
    share.ended(true);
    assert!(waiting.as_mut().now_or_never().is_some());
    drop(held);
}

#[test]
fn fifty_that_keep_all_they_can_leave_as_much_to_the_next() {
    let budget = Budget::new(0, KEPT);
    let shares: Vec<Share> = (0..51).map(|_| budget.share()).collect();
    let mut charges = Vec::new();
    while let Some(more) = shares[..50]
        .iter()
        .map(|share| share.charge(400).ok())
        .collect::<Option<Vec<_>>>()
    {
        charges.extend(more);
    }
    let each = KEPT / 51;
    assert!(
        shares[0].kept().abs_diff(each) < 1_000,
        "{}",
        shares[0].kept()
    );
    let mut mine = 0;
    while let Ok(charge) = shares[50].charge(400) {
        charges.push(charge);
        mine += 400;
    }
    assert!(mine > each / 2 - 1_000, "{mine} of {each}");
    drop(charges);
    assert_eq!(budget.inner.kept.used.load(Ordering::Relaxed), 0);
}

proptest! {
    /// Whatever is taken, given back and given up, in whichever order.
    #[test]
    fn no_more_is_handed_out_than_there_is_and_all_comes_back(
        steps in proptest::collection::vec((0..4usize, 1..400usize, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let budget = Budget::new(1_000, 1_000);
        let shares: Vec<Share> = (0..4).map(|_| budget.share()).collect();
        let (mut rooms, mut waits, mut charges) = (Vec::new(), Vec::new(), Vec::new());
        for (who, bytes, takes, well) in steps {
            let share = &shares[who];
            share.ended(well);
            if takes {
                let mut room = Box::pin(share.room(bytes));
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
            prop_assert!(budget.calls().used <= 1_000);
            prop_assert!(budget.inner.kept.used.load(Ordering::Relaxed) <= 1_000);
        }
        drop((rooms, charges));
        for wait in waits {
            drop(wait.now_or_never());
        }
        prop_assert_eq!(budget.calls().used, 0);
        prop_assert_eq!(budget.inner.kept.used.load(Ordering::Relaxed), 0);
    }
}
