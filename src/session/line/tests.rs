use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};

fn limits(concurrent: usize) -> Limits {
    Limits {
        concurrent,
        ..Limits::default()
    }
}

/// A line, and the subjects that it woke.
fn line(concurrent: usize) -> (Line, Receiver<Subject>) {
    let (woken, told) = channel();
    let woken = Mutex::new(woken);
    let line = Line::new(limits(concurrent), move |subject| {
        woken.lock().unwrap().send(subject).unwrap();
    });
    (line, told)
}

fn name(number: usize) -> Subject {
    number.to_string().into()
}

/// Takes every slot of a priority.
fn fill(line: &Line, priority: CallPriority) -> Vec<Slot> {
    let mut slots = Vec::new();
    for number in 1_000.. {
        match line.ask(&name(number), priority) {
            Some(slot) => slots.push(slot),
            None => {
                line.leave(&name(number));
                break;
            }
        }
    }
    slots
}

#[test]
fn there_are_as_many_slots_as_the_limit_can_use() {
    for (concurrent, slots) in [(0, 9), (1, 9), (8, 16), (50, 100)] {
        let (line, _told) = line(concurrent);
        assert_eq!(fill(&line, CallPriority::Urgent).len(), slots);
    }
}

#[test]
fn what_is_less_urgent_leaves_slots_to_what_is_more_so() {
    let (line, _told) = line(8);
    let mut slots = fill(&line, CallPriority::Resync);
    assert_eq!(slots.len(), 8);
    slots.extend(fill(&line, CallPriority::Operation));
    assert_eq!(slots.len(), 12);
    slots.extend(fill(&line, CallPriority::Urgent));
    assert_eq!(slots.len(), 16);
}

#[test]
fn a_change_of_a_server_does_not_wait_for_those_that_are_yet_to_be_bought() {
    let (line, told) = line(8);
    let mut bought = fill(&line, CallPriority::Purchase);
    assert_eq!(bought.len(), 8);
    for number in 0..500 {
        assert!(line.ask(&name(number), CallPriority::Purchase).is_none());
    }
    // The slots of the operations that follow from a change are free, too.
    let open = fill(&line, CallPriority::Operation);
    assert_eq!(open.len(), 4);
    let changes: Vec<Slot> = (500..504)
        .map(|number| line.ask(&name(number), CallPriority::Urgent).unwrap())
        .collect();
    assert!(line.ask(&name(504), CallPriority::Urgent).is_none());
    drop(bought.pop());
    assert_eq!(told.try_recv(), Ok(name(504)));
    drop((bought, changes, open));
}

#[test]
fn looks_do_not_crowd_purchases_out() {
    let (line, told) = line(8);
    let mut held: Vec<(bool, Slot)> = Vec::new();
    for number in 0..60 {
        let (is_purchase, priority) = match number {
            0..30 => (false, CallPriority::Resync),
            _ => (true, CallPriority::Purchase),
        };
        let slot = line.ask(&name(number), priority);
        held.extend(slot.map(|slot| (is_purchase, slot)));
    }
    for _ in 0..30 {
        drop(held.remove(0));
        for subject in told.try_iter().collect::<Vec<_>>() {
            let is_purchase = subject.parse::<usize>().unwrap() >= 30;
            let slot = line.ask(&subject, CallPriority::Urgent).unwrap();
            held.push((is_purchase, slot));
        }
        if held.iter().filter(|(is_purchase, _)| *is_purchase).count() >= 6 {
            return;
        }
    }
    panic!("{held:?}");
}

#[test]
fn a_slot_that_is_given_back_is_held_for_the_first_in_line() {
    let (line, told) = line(1);
    let mut slots = fill(&line, CallPriority::Urgent);
    assert!(line.ask(&name(1), CallPriority::Operation).is_none());
    assert!(line.ask(&name(2), CallPriority::Urgent).is_none());
    assert!(line.ask(&name(3), CallPriority::Urgent).is_none());
    assert!(
        line.ask(&name(2), CallPriority::Urgent).is_none(),
        "it stands where it stood"
    );
    drop(slots.pop());
    assert_eq!(told.try_recv(), Ok(name(2)));
    assert!(
        line.ask(&name(3), CallPriority::Urgent).is_none(),
        "nobody passes it"
    );
    assert!(line.ask(&name(2), CallPriority::Urgent).is_some());
    // The offer to subject 2 returned at once.
    assert_eq!(told.try_recv(), Ok(name(3)));
    line.leave(&name(3));
    drop(slots);
    assert_eq!(told.try_recv(), Ok(name(1)));
    assert!(told.try_recv().is_err());
}

#[test]
fn who_becomes_more_urgent_moves_up_and_one_in_four_goes_to_who_has_waited_longest() {
    let (line, told) = line(1);
    let mut slots = fill(&line, CallPriority::Urgent);
    assert!(line.ask(&name(0), CallPriority::Resync).is_none());
    for number in 1..6 {
        assert!(line.ask(&name(number), CallPriority::Operation).is_none());
    }
    assert!(line.ask(&name(5), CallPriority::Urgent).is_none());
    let mut order = Vec::new();
    for _ in 0..6 {
        drop(slots.pop());
        let next = told.try_recv().unwrap();
        // The woken subject takes its slot and keeps it.
        slots.insert(0, line.ask(&next, CallPriority::Urgent).unwrap());
        order.push(next);
    }
    assert_eq!(order, [5, 1, 2, 0, 3, 4].map(name));
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_not_held_for_ever_for_who_does_not_come() {
    let (line, told) = line(1);
    let mut slots = fill(&line, CallPriority::Urgent);
    assert!(line.ask(&name(1), CallPriority::Urgent).is_none());
    assert!(line.ask(&name(2), CallPriority::Urgent).is_none());
    drop(slots.pop());
    assert_eq!(told.try_recv(), Ok(name(1)));
    tokio::time::sleep(OFFER - Duration::from_secs(1)).await;
    assert!(told.try_recv().is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(told.try_recv(), Ok(name(2)));
    let of_two = line.ask(&name(2), CallPriority::Urgent);
    // A late subject joins the end of the line.
    assert!(line.ask(&name(3), CallPriority::Urgent).is_none());
    assert!(line.ask(&name(1), CallPriority::Urgent).is_none());
    assert!(told.try_recv().is_err());
    drop(of_two);
    assert_eq!(told.try_recv(), Ok(name(3)));
    drop(line.ask(&name(3), CallPriority::Urgent));
    assert_eq!(told.try_recv(), Ok(name(1)));
    assert!(line.ask(&name(1), CallPriority::Urgent).is_some());
}

#[test]
fn more_slots_are_offered_as_soon_as_the_limits_allow_them() {
    let (line, told) = line(1);
    let slots = fill(&line, CallPriority::Urgent);
    for number in 0..20 {
        assert!(line.ask(&name(number), CallPriority::Urgent).is_none());
    }
    line.set_limits(limits(16));
    assert_eq!(told.try_iter().count(), 20);
    line.set_limits(limits(1));
    drop(slots);
    assert!(told.try_recv().is_err());
}

#[derive(Clone, Debug)]
enum Act {
    Ask(usize, CallPriority),
    Give(usize),
    Leave(usize),
}

fn acts() -> impl Strategy<Value = Act> {
    let priority = prop::sample::select(CallPriority::ALL.to_vec());
    prop_oneof![
        5 => (0..40_usize, priority).prop_map(|(who, priority)| Act::Ask(who, priority)),
        3 => any::<usize>().prop_map(Act::Give),
        1 => (0..40_usize).prop_map(Act::Leave),
    ]
}

proptest! {
    #[test]
    fn slots_are_never_too_many_none_is_lost_and_everybody_in_line_gets_one(
        acts in prop::collection::vec(acts(), 1..300),
    ) {
        let (line, told) = line(1);
        let slots = line.slots();
        let mut held = BTreeMap::new();
        for act in acts {
            match act {
                Act::Ask(who, priority) if !held.contains_key(&who) => {
                    if let Some(slot) = line.ask(&name(who), priority) {
                        held.insert(who, slot);
                    }
                }
                Act::Give(nth) => {
                    let nth = nth % held.len().max(1);
                    if let Some(who) = held.keys().nth(nth).copied() {
                        held.remove(&who);
                    }
                }
                Act::Leave(who) if !held.contains_key(&who) => line.leave(&name(who)),
                Act::Ask(..) | Act::Leave(_) => {}
            }
            prop_assert!(held.len() <= slots);
            let state = line.lock();
            let taken: usize = state.held.iter().sum();
            prop_assert_eq!(taken, held.len() + state.offers.len());
            prop_assert_eq!(state.waiting.len(), state.queues.iter().map(BTreeMap::len).sum::<usize>());
            // No slot is free while a subject that may use it waits.
            prop_assert_eq!(state.next(), None);
        }
        held.clear();
        let mut rounds = 0;
        while !line.lock().waiting.is_empty() || !line.lock().offers.is_empty() {
            for subject in told.try_iter().collect::<Vec<_>>() {
                // The subject takes its slot, calls, and drops it; or it had left the line.
                drop(line.ask(&subject, CallPriority::Urgent));
            }
            rounds += 1;
            prop_assert!(rounds < 100, "somebody waits for ever");
        }
        prop_assert_eq!(line.lock().held, [0; PRIORITIES]);
    }
}
