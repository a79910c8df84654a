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

/// Slots, and the subjects that they woke.
fn slots(concurrent: usize) -> (CallSlots, Receiver<InstanceUid>) {
    let (waker, woken) = channel();
    let waker = Mutex::new(waker);
    let slots = CallSlots::new(limits(concurrent), move |subject| {
        waker.lock().unwrap().send(subject).unwrap();
    });
    (slots, woken)
}

fn name(number: usize) -> InstanceUid {
    number.to_string().into()
}

/// Takes every slot of a priority.
fn fill(slots: &CallSlots, priority: CallPriority) -> Vec<Slot> {
    let mut held = Vec::new();
    for number in 1_000.. {
        match slots.ask(&name(number), priority) {
            Some(slot) => held.push(slot),
            None => {
                slots.leave(&name(number));
                break;
            }
        }
    }
    held
}

#[test]
fn there_are_as_many_slots_as_the_limit_can_use() {
    for (concurrent, number) in [(0, 9), (1, 9), (8, 16), (50, 100)] {
        let (slots, _woken) = slots(concurrent);
        assert_eq!(fill(&slots, CallPriority::Urgent).len(), number);
    }
}

#[test]
fn a_less_urgent_call_leaves_slots_to_more_urgent_ones() {
    let (slots, _woken) = slots(8);
    let mut held = fill(&slots, CallPriority::Resync);
    assert_eq!(held.len(), 8);
    held.extend(fill(&slots, CallPriority::Operation));
    assert_eq!(held.len(), 12);
    held.extend(fill(&slots, CallPriority::Urgent));
    assert_eq!(held.len(), 16);
}

#[test]
fn a_change_of_a_server_does_not_wait_for_purchases() {
    let (slots, woken) = slots(8);
    let mut bought = fill(&slots, CallPriority::Purchase);
    assert_eq!(bought.len(), 8);
    for number in 0..500 {
        assert!(slots.ask(&name(number), CallPriority::Purchase).is_none());
    }
    // The slots of the operations that follow from a change are free, too.
    let open = fill(&slots, CallPriority::Operation);
    assert_eq!(open.len(), 4);
    let changes: Vec<Slot> = (500..504)
        .map(|number| slots.ask(&name(number), CallPriority::Urgent).unwrap())
        .collect();
    assert!(slots.ask(&name(504), CallPriority::Urgent).is_none());
    drop(bought.pop());
    assert_eq!(woken.try_recv(), Ok(name(504)));
    drop((bought, changes, open));
}

#[test]
fn a_free_slot_wakes_the_first_waiter_and_the_next_ones_when_that_leaves() {
    let (slots, woken) = slots(1);
    let mut held = fill(&slots, CallPriority::Urgent);
    assert!(slots.ask(&name(1), CallPriority::Operation).is_none());
    assert!(slots.ask(&name(2), CallPriority::Urgent).is_none());
    assert!(slots.ask(&name(3), CallPriority::Urgent).is_none());
    // It keeps its position.
    assert!(slots.ask(&name(2), CallPriority::Operation).is_none());
    drop(held.pop());
    assert_eq!(woken.try_recv(), Ok(name(2)));
    let second = slots.ask(&name(2), CallPriority::Operation).unwrap();
    assert!(woken.try_recv().is_err());
    drop(second);
    assert_eq!(woken.try_recv(), Ok(name(3)));
    slots.leave(&name(3));
    assert_eq!(woken.try_recv(), Ok(name(1)));
}

#[test]
fn an_object_that_becomes_more_urgent_moves_up() {
    let (slots, woken) = slots(1);
    let mut held = fill(&slots, CallPriority::Urgent);
    for number in 1..4 {
        assert!(slots.ask(&name(number), CallPriority::Urgent).is_none());
    }
    assert!(slots.ask(&name(0), CallPriority::Purchase).is_none());
    assert!(slots.ask(&name(0), CallPriority::Urgent).is_none());
    for number in [1, 2, 3, 0] {
        drop(held.pop());
        assert_eq!(woken.try_recv(), Ok(name(number)));
        let slot = slots.ask(&name(number), CallPriority::Purchase).unwrap();
        assert_eq!(slot.priority, CallPriority::Urgent);
        held.insert(0, slot);
    }
}

#[test]
fn additional_slots_wake_the_waiters_at_once() {
    let (slots, woken) = slots(1);
    let held = fill(&slots, CallPriority::Urgent);
    for number in 0..20 {
        assert!(slots.ask(&name(number), CallPriority::Urgent).is_none());
    }
    slots.set_limits(limits(16));
    assert_eq!(woken.try_iter().count(), 20);
    slots.set_limits(limits(1));
    drop(held.into_iter().next());
    assert!(slots.ask(&name(0), CallPriority::Urgent).is_some());
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
    fn slots_are_bounded_none_is_lost_and_each_waiter_gets_one(
        acts in prop::collection::vec(acts(), 1..300),
    ) {
        let (slots, woken) = slots(1);
        let number = slots.number();
        let mut held = BTreeMap::new();
        for act in acts {
            match act {
                Act::Ask(who, priority) if !held.contains_key(&who) => {
                    if let Some(slot) = slots.ask(&name(who), priority) {
                        held.insert(who, slot);
                    }
                }
                Act::Give(nth) => {
                    let nth = nth % held.len().max(1);
                    if let Some(who) = held.keys().nth(nth).copied() {
                        held.remove(&who);
                    }
                }
                Act::Leave(who) if !held.contains_key(&who) => slots.leave(&name(who)),
                Act::Ask(..) | Act::Leave(_) => {}
            }
            prop_assert!(held.len() <= number);
            let state = slots.lock();
            prop_assert_eq!(state.held.iter().sum::<usize>(), held.len());
            prop_assert_eq!(state.waiting.len(), state.positions.len());
        }
        held.clear();
        let mut rounds = 0;
        while !slots.lock().waiting.is_empty() {
            for subject in woken.try_iter().collect::<Vec<_>>() {
                // The subject takes its slot, calls and drops it, or it no longer waits.
                drop(slots.ask(&subject, CallPriority::Resync));
            }
            rounds += 1;
            prop_assert!(rounds < 100, "a subject never gets a slot");
        }
        prop_assert_eq!(slots.lock().held, [0; PRIORITIES]);
    }
}
