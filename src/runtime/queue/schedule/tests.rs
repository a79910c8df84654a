use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Namespace, Account and number.
type Key = (u8, u8, u16);

const FOR_LONG: Duration = Duration::from_secs(600);

fn flow((namespace, account, _): &Key) -> Flow {
    Flow {
        namespace: namespace.to_string().into(),
        account: account.to_string().into(),
    }
}

/// A schedule with its own clock.
struct Bench {
    schedule: Schedule<Key>,
    bound: usize,
    now: Instant,
    runs: BTreeMap<Key, Priority>,
}

impl Bench {
    fn new(places: usize, bound: usize) -> Self {
        Self {
            schedule: Schedule::new(places),
            bound,
            now: Instant::now(),
            runs: BTreeMap::new(),
        }
    }

    fn wake(&mut self, key: Key, priority: Priority) {
        self.schedule.wake(&key, self.now, Some(priority));
        self.advance(Duration::ZERO);
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        let describe = |key: &Key| Some((flow(key), Priority::Resync));
        self.schedule.advance(self.now, describe);
    }

    fn begin(&mut self) -> Option<Key> {
        let begun = self.schedule.begin(|_| self.bound)?;
        let former = self.runs.insert(begun.key, begun.priority);
        assert_eq!(former, None, "reconciled twice at the same time");
        Some(begun.key)
    }

    fn begin_all(&mut self) -> Vec<Key> {
        std::iter::from_fn(|| self.begin()).collect()
    }

    fn end(&mut self, key: Key, after: Duration) {
        self.runs.remove(&key);
        self.schedule.end(&key, self.now, after);
        self.advance(Duration::ZERO);
    }

    fn held(&self, namespace: u8) -> usize {
        self.runs.keys().filter(|(of, ..)| *of == namespace).count()
    }
}

#[test]
fn a_higher_priority_goes_first_and_equal_ones_in_order_of_arrival() {
    let mut bench = Bench::new(1, 1);
    let requests = [
        (1, Priority::Resync),
        (2, Priority::Operation),
        (3, Priority::Change),
        (4, Priority::Change),
        (5, Priority::Operation),
        (6, Priority::Admitted),
    ];
    for (number, priority) in requests {
        bench.wake((0, 0, number), priority);
    }
    let mut order = Vec::new();
    while let Some(key) = bench.begin() {
        order.push(key.2);
        bench.end(key, FOR_LONG);
    }
    assert_eq!(order, [6, 3, 4, 2, 5, 1]);
}

#[test]
fn flows_take_turns_and_many_objects_gain_nothing() {
    let mut bench = Bench::new(1, 1);
    for number in 0..20 {
        for change in 0..20 {
            bench.wake((0, 0, 100 * change + number), Priority::Change);
        }
        bench.wake((1, 0, number), Priority::Resync);
    }
    for _ in 0..20 {
        let pair: BTreeSet<u8> = (0..2)
            .map(|_| {
                let key = bench.begin().unwrap();
                bench.end(key, FOR_LONG);
                key.0
            })
            .collect();
        assert_eq!(pair, BTreeSet::from([0, 1]));
    }
}

#[test]
fn some_slots_stay_free_for_another_namespace() {
    for greedy in [1, 2, 10, 100] {
        let mut bench = Bench::new(256, 1_000);
        for namespace in 0..greedy {
            for number in 0..300 {
                bench.wake((namespace, 0, number), Priority::Change);
            }
        }
        bench.begin_all();
        let held = bench.held(0);
        assert!(held * usize::from(greedy) >= 110, "{greedy}: {held} each");
        bench.wake((200, 0, 0), Priority::Resync);
        assert_eq!(bench.begin(), Some((200, 0, 0)), "next to {greedy}");
    }
}

#[test]
fn a_lower_priority_leaves_slots_for_a_change() {
    let mut bench = Bench::new(256, 8);
    for number in 0..50 {
        bench.wake((0, 0, number), Priority::Resync);
        bench.wake((0, 0, number + 100), Priority::Operation);
    }
    bench.begin_all();
    assert_eq!(bench.runs.len(), 6);
    bench.wake((0, 0, 200), Priority::Change);
    assert_eq!(bench.begin(), Some((0, 0, 200)));
}

#[test]
fn a_request_during_a_reconcile_is_served_after_it_and_the_earlier_time_counts() {
    let mut bench = Bench::new(4, 4);
    let key = (0, 0, 0);
    bench.wake(key, Priority::Resync);
    assert_eq!(bench.begin(), Some(key));
    bench.wake(key, Priority::Change);
    bench.wake(key, Priority::Resync);
    assert_eq!(bench.begin(), None);
    bench.end(key, FOR_LONG);
    assert_eq!(bench.begin(), Some(key));
    assert_eq!(bench.runs[&key], Priority::Change);
    bench.end(key, Duration::from_secs(10));
    let due = Some(bench.now + Duration::from_secs(10));
    assert_eq!(bench.schedule.next_due(), due);
    let later = bench.now + Duration::from_secs(20);
    bench.schedule.wake(&key, later, None);
    assert_eq!(bench.schedule.next_due(), due);
    let sooner = bench.now + Duration::from_secs(5);
    bench.schedule.wake(&key, sooner, None);
    assert_eq!(bench.schedule.next_due(), Some(sooner));
}

#[test]
fn deleted_objects_leave_nothing_behind() {
    let mut bench = Bench::new(4, 4);
    for account in 0..50 {
        bench.wake((0, account, 0), Priority::Change);
        bench.wake((0, account, 0), Priority::Admitted);
    }
    while let Some(key) = bench.begin() {
        bench.end(key, FOR_LONG);
    }
    let schedule = &mut bench.schedule;
    schedule.advance(bench.now + FOR_LONG, |_| None);
    assert!(schedule.objects.is_empty() && schedule.timers.is_empty());
    assert!(schedule.flows.is_empty() && schedule.turns.is_empty() && schedule.held.is_empty());
    assert_eq!(schedule.waiting, [0; 4]);
}

#[derive(Clone, Debug)]
enum Act {
    Wake(Key, Priority),
    Begin,
    End { nth: usize, after: u64 },
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Act> {
    let priority = prop::sample::select(Priority::ALL.to_vec());
    prop_oneof![
        4 => ((0..3_u8, 0..3_u8, 0..4_u16), priority).prop_map(|(key, p)| Act::Wake(key, p)),
        3 => Just(Act::Begin),
        2 => (any::<usize>(), 0..30_u64).prop_map(|(nth, after)| Act::End { nth, after }),
        1 => (0..20_u64).prop_map(Act::Wait),
    ]
}

proptest! {
    #[test]
    fn bounds_hold_each_new_namespace_gets_a_slot_and_no_request_is_lost(
        acts in prop::collection::vec(acts(), 1..200),
        places in 1..12_usize,
        bound in 1..5_usize,
    ) {
        let mut bench = Bench::new(places, bound);
        // Objects whose requested reconcile has not begun yet.
        let mut pending = BTreeSet::new();
        for act in acts {
            match act {
                Act::Wake(key, priority) => {
                    bench.wake(key, priority);
                    pending.insert(key);
                }
                Act::Begin => {
                    if let Some(key) = bench.begin() {
                        pending.remove(&key);
                    } else if bench.runs.len() < places {
                        let holders: BTreeSet<u8> = bench.runs.keys().map(|key| key.0).collect();
                        let new = pending.iter().find(|key| !holders.contains(&key.0));
                        prop_assert_eq!(new, None, "a slot is free, and its namespace holds none");
                    }
                }
                Act::End { nth, after } => {
                    let count = bench.runs.len().max(1);
                    let key = bench.runs.keys().nth(nth % count).copied();
                    if let Some(key) = key {
                        bench.end(key, Duration::from_secs(after));
                    }
                }
                Act::Wait(seconds) => bench.advance(Duration::from_secs(seconds)),
            }
            prop_assert!(bench.runs.len() <= places);
            prop_assert_eq!(bench.runs.len(), bench.schedule.running());
            let mut flows = BTreeMap::<(u8, u8), usize>::new();
            for key in bench.runs.keys() {
                *flows.entry((key.0, key.1)).or_default() += 1;
            }
            prop_assert!(flows.values().all(|held| *held <= bound));
        }
        // All reconciles end, and each request is served.
        for _ in 0..1_000 {
            while let Some(key) = bench.begin() {
                pending.remove(&key);
            }
            let Some(key) = bench.runs.keys().next().copied() else { break };
            bench.end(key, FOR_LONG * 1_000);
        }
        prop_assert!(pending.is_empty(), "never begun: {:?}", pending);
        let waiting: usize = Priority::ALL.iter().map(|p| bench.schedule.waiting(*p)).sum();
        prop_assert_eq!(waiting, 0);
    }
}
