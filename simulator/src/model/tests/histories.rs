//! Properties that hold in every history of calls and pauses.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::readings::ListOrder;

/// A step of a random history: a call that concerns the nth server, or the passing of time.
#[derive(Clone, Debug)]
enum Move {
    Create,
    On(Verb, usize),
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let verb = prop::sample::select(Verb::ALL[1..].to_vec());
    let each = prop_oneof![
        3 => Just(Move::Create),
        4 => (verb, 0..8usize).prop_map(|(verb, which)| Move::On(verb, which)),
        3 => (0..1_500u64).prop_map(Move::Wait),
    ];
    prop::collection::vec(each, 0..60)
}

fn request_for(world: &World, step: &Move) -> Option<Request> {
    let (verb, which) = match step {
        Move::Create => return Some(Request::Create(create("web"))),
        Move::Wait(_) => return None,
        Move::On(verb, which) => (*verb, *which),
    };
    let server = world.servers().get(which)?.id.clone();
    Some(match verb {
        Verb::Create => return None,
        Verb::Release => Request::Release(on(&server)),
        Verb::Stop => Request::Stop(on(&server)),
        Verb::Start => Request::Start(on(&server)),
        Verb::Restart => Request::Restart(on(&server)),
        Verb::Reinstall => reinstall(&server),
        Verb::Password => Request::Password(PasswordRequest {
            server: Some(server),
            password: Some(Secret::from("Changed1#")),
            region_code: Some(example().region.to_owned()),
        }),
    })
}

proptest! {
    #[test]
    fn an_acceptance_and_an_effect_are_one(history in moves()) {
        let mut world = world(Readings::default());
        let mut now = 0;
        let (mut begun, mut ended) = (0, 0);
        for step in &history {
            match (step, request_for(&world, step)) {
                (Move::Wait(time), _) => now += time,
                (_, Some(request)) => {
                    let reply = call(&mut world, now, request);
                    prop_assert_eq!(reply.outcome.is_ok(), reply.effect.is_acceptance());
                    begun += usize::from(reply.outcome.is_ok());
                }
                (_, None) => {}
            }
            ended += world.take_events().len();
        }
        world.advance(at(now + 10_000));
        ended += world.take_events().len();
        prop_assert_eq!(begun, ended, "each operation ends once");
        prop_assert!(world.live_servers().iter().all(|server| server.pending == "NONE"));
        prop_assert_eq!(world.next_due(), None);
    }

    #[test]
    fn a_restart_changes_nothing(history in moves(), cut in 0..60usize) {
        let readings = Readings::default();
        let config = Config {
            token: Secret::from(TOKEN),
            durations: Durations::all(Duration::from_millis(1_000)),
            readings: readings.clone(),
            ..Config::default()
        };
        let mut straight = world(readings);
        let mut restarted = straight.clone();
        let mut kept = std::collections::BTreeMap::new();
        let mut now = 0;
        for (round, step) in history.iter().enumerate() {
            if let Move::Wait(time) = step {
                now += time;
            }
            if let Some(request) = request_for(&straight, step) {
                let one = call(&mut straight, now, request.clone());
                let two = call(&mut restarted, now, request);
                prop_assert_eq!(format!("{one:?}"), format!("{two:?}"));
            }
            for record in restarted.take_changes() {
                let key = match &record {
                    Record::Meta(_) => (0, 0),
                    Record::Server(number, _) => (1, *number),
                    Record::Task(number, _) => (2, *number),
                };
                kept.insert(key, record);
            }
            if round == cut {
                let records = kept.values().cloned().collect();
                restarted = World::restore(config.clone(), records).unwrap();
            }
        }
        straight.advance(at(now + 10_000));
        restarted.advance(at(now + 10_000));
        prop_assert_eq!(straight.servers(), restarted.servers());
    }

    #[test]
    fn pages_miss_and_double_nothing_in_a_quiet_world(
        servers in 0..40usize, size in 1..=50usize, oldest_first: bool,
    ) {
        let list_order = if oldest_first { ListOrder::OldestFirst } else { ListOrder::NewestFirst };
        let mut world = world(Readings { list_order, ..Readings::default() });
        let made: Vec<String> =
            (0..servers).map(|_| accepted(call(&mut world, 0, Request::Create(create("web")))).1).collect();
        let pages: Vec<String> =
            (1..=servers.div_ceil(size) + 1).flat_map(|page| listed(&mut world, 1, page, size)).collect();
        prop_assert_eq!(pages.len(), servers);
        prop_assert_eq!(pages.iter().collect::<BTreeSet<_>>(), made.iter().collect::<BTreeSet<_>>());
        prop_assert_eq!(pages.first(), if oldest_first { made.first() } else { made.last() });
    }
}
