//! Several processes with several shards, in virtual time.

use super::*;

/// The processes that act, each with its shard and its term.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<(Shard, String, Term)>>>);

impl World {
    /// A process begins to act. No other one may act on a namespace of its shard.
    fn begins(&self, shard: Shard, name: &str, term: &Term) {
        let mut acting = self.0.lock().unwrap();
        acting.retain(|(_, _, term)| term.holds());
        // Shards of another number have namespaces in common.
        let overlaps = |other: Shard| other == shard || !other.is_sibling(shard);
        let other = acting.iter().find(|(other, _, _)| overlaps(*other));
        assert!(other.is_none(), "{name} begins {shard}, next to {other:?}");
        acting.push((shard, name.to_owned(), term.clone()));
    }

    /// The names of the processes that act, in the order of their shards.
    fn acting(&self) -> Vec<String> {
        let acting = self.0.lock().unwrap();
        let mut acting: Vec<_> = acting.iter().filter(|(_, _, term)| term.holds()).collect();
        acting.sort_by_key(|(shard, _, _)| *shard);
        acting
            .into_iter()
            .map(|(_, name, _)| name.clone())
            .collect()
    }
}

/// One process. It acts from the time when it wins the Lease of its shard until it loses that Lease.
struct Process(tokio::task::JoinHandle<()>);

impl Process {
    fn begin(server: &Server, world: &World, name: &str, shard: Shard) -> Self {
        let mut candidate = candidate(server, name, shard);
        let (world, name) = (world.clone(), name.to_owned());
        Self(tokio::spawn(async move {
            let lease = candidate.win().await;
            let term = Term::awaited();
            assert!(term.extend_until(lease.until()));
            world.begins(shard, &name, &term);
            lease.keep(term, CancellationToken::new()).await;
        }))
    }

    /// One process for each shard of this number, as a StatefulSet with one replica per shard has.
    fn set(server: &Server, world: &World, name: &str, shards: u16) -> Vec<Self> {
        let all = Shard::all(shards).enumerate();
        all.map(|(index, shard)| Self::begin(server, world, &format!("{name}-{index}"), shard))
            .collect()
    }

    /// Ends it like SIGKILL. Its task must not have panicked before.
    fn kill(self) {
        assert!(!self.0.is_finished(), "see its panic");
        self.0.abort();
    }
}

fn names(name: &str, count: u16) -> Vec<String> {
    (0..count).map(|index| format!("{name}-{index}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_its_shard_and_no_other_one() {
    let (server, world) = (Server::default(), World::default());
    let mut active = Process::set(&server, &world, "active", 3);
    sleep(10 * SECOND).await;
    let standbys = Process::set(&server, &world, "standby", 3);
    sleep(60 * SECOND).await;
    assert_eq!(world.acting(), names("active", 3));
    active.remove(1).kill();
    sleep(25 * SECOND).await;
    assert_eq!(world.acting(), ["active-0", "standby-1", "active-2"]);
    active.into_iter().chain(standbys).for_each(Process::kill);
}

/// The holder may not have noticed yet: no process begins before the holder's own clock has ended its term.
#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_not_free_at_once() {
    for (before, after) in [(1, 1), (2, 3), (3, 2)] {
        for moment in 0..20 {
            let (server, world) = (Server::default(), World::default());
            let old = Process::set(&server, &world, "old", before);
            sleep(10 * SECOND).await;
            let new = Process::set(&server, &world, "new", after);
            sleep(10 * SECOND + Duration::from_millis(100 * moment)).await;
            server.0.lock().unwrap().leases.clear();
            sleep(60 * SECOND).await;
            assert_eq!(world.acting(), names("new", after));
            assert!(old.iter().all(|process| process.0.is_finished()));
            new.into_iter().for_each(Process::kill);
        }
    }
}

/// This happens during a rollout with another number of shards.
#[tokio::test(start_paused = true)]
async fn another_number_of_shards_waits_until_the_last_former_process_has_ended() {
    for (before, after) in [(1, 4), (4, 1), (2, 3)] {
        let (server, world) = (Server::default(), World::default());
        let mut old = Process::set(&server, &world, "old", before);
        sleep(30 * SECOND).await;
        let new = Process::set(&server, &world, "new", after);
        sleep(60 * SECOND).await;
        assert_eq!(world.acting(), names("old", before));
        let last = old.remove(0);
        old.into_iter().for_each(Process::kill);
        sleep(60 * SECOND).await;
        assert_eq!(world.acting(), ["old-0"], "the last one still acts");
        last.kill();
        sleep(60 * SECOND).await;
        assert_eq!(world.acting(), names("new", after));
        new.into_iter().for_each(Process::kill);
    }
}

/// Each may take a Lease that the other one has not seen yet. Then at least one of them sees the other before it acts.
#[tokio::test(start_paused = true)]
async fn of_two_numbers_of_shards_that_start_at_once_only_one_acts() {
    for delay in 0..20 {
        let (server, world) = (Server::default(), World::default());
        // Answers are delayed, so that both processes read before either has written.
        server.set(Mood::Slow(Duration::from_millis(100)));
        let one = Process::set(&server, &world, "one", 1);
        sleep(Duration::from_millis(20 * delay)).await;
        let two = Process::set(&server, &world, "two", 2);
        sleep(60 * SECOND).await;
        let acting = world.acting();
        assert!(
            acting == names("one", 1) || acting == names("two", 2),
            "{acting:?}"
        );
        one.into_iter().chain(two).for_each(Process::kill);
    }
}
