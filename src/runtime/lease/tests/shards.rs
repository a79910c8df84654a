//! Several processes that share the shards out, in virtual time.

use super::*;
use std::collections::HashMap;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// Who acts on what.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<(Shard, String, Term)>>>);

impl World {
    /// Somebody begins to act: nobody else may act on anything that is in that shard.
    fn begins(&self, shard: Shard, who: &str, term: &Term) {
        let mut acting = self.0.lock().unwrap();
        acting.retain(|(_, _, term)| term.holds());
        // Those of another number have namespaces in common.
        let number = |shard: Shard| shard.to_string().rsplit('-').next().map(str::to_owned);
        let overlaps = |other: Shard| other == shard || number(other) != number(shard);
        let other = acting.iter().find(|(other, _, _)| overlaps(*other));
        assert!(other.is_none(), "{who} begins {shard} beside {other:?}");
        acting.push((shard, who.to_owned(), term.clone()));
    }

    /// How many shards each has that has any.
    fn counts(&self) -> Vec<usize> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        let acting = self.0.lock().unwrap();
        for (_, who, _) in acting.iter().filter(|(_, _, term)| term.holds()) {
            *counts.entry(who.clone()).or_default() += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable();
        counts
    }
}

/// One process: it acts on what it wins, and needs a while to give up what is wanted.
struct Process(tokio::task::JoinHandle<()>);

impl Process {
    fn begin(server: &Server, world: &World, name: &str, shards: u16) -> Self {
        let mut contest = one_of(server, name, shards);
        let (world, name) = (world.clone(), name.to_owned());
        let holdings = contest.holdings.clone();
        Self(tokio::spawn(async move {
            let (mut kept, mut leaving) = (HashMap::new(), JoinSet::new());
            loop {
                match contest.next().await {
                    Event::Won(won) => {
                        let term = Term::awaited();
                        assert!(term.lasts_until(won.until));
                        world.begins(won.shard, &name, &term);
                        let done = CancellationToken::new();
                        let (of, until) = (term.clone(), done.clone());
                        let (shard, lease) = (won.shard, won.lease);
                        let keep = async move { lease.keep(&of, &until).await };
                        let keeper = AbortOnDropHandle::new(tokio::spawn(keep));
                        kept.insert(shard, (term, done, keeper));
                    }
                    Event::Wanted(shard) => {
                        let (term, done, keeper) = kept.remove(&shard).unwrap();
                        let holdings = holdings.clone();
                        leaving.spawn(async move {
                            sleep(3 * SECOND).await;
                            done.cancel();
                            term.end();
                            keeper.await.unwrap().unwrap().release().await;
                            holdings.left(shard);
                        });
                    }
                }
            }
        }))
    }

    /// As a SIGKILL does.
    fn kill(self) {
        self.lives();
        self.0.abort();
    }

    /// Nothing that it did was wrong.
    fn lives(&self) {
        assert!(!self.0.is_finished(), "see its panic");
    }
}

#[tokio::test(start_paused = true)]
async fn shards_move_one_by_one_to_whoever_has_fewest() {
    let (server, world) = (Server::default(), World::default());
    let mut processes = vec![Process::begin(&server, &world, "a", 8)];
    sleep(60 * SECOND).await;
    assert_eq!(world.counts(), [8], "alone");
    for name in ["b", "c", "d"] {
        processes.push(Process::begin(&server, &world, name, 8));
        sleep(180 * SECOND).await;
        let shared = world.counts();
        let (least, most) = (shared[0], shared[shared.len() - 1]);
        assert!(most - least < 2, "{shared:?} with {name}");
        assert_eq!(shared.len(), processes.len());
        assert_eq!(shared.iter().sum::<usize>(), 8);
    }
    processes.remove(1).kill();
    sleep(SECOND * 60).await;
    assert_eq!(world.counts(), [2, 3, 3], "b is dead");
    let before = server.0.lock().unwrap().writes;
    sleep(60 * SECOND).await;
    assert_eq!(world.counts(), [2, 3, 3], "and all stays so");
    let renewals = server.0.lock().unwrap().writes - before;
    // Eight Leases, each renewed every two seconds, and nothing else.
    assert!((200..=250).contains(&renewals), "{renewals} writes");
    processes.iter().for_each(Process::lives);
}

#[tokio::test(start_paused = true)]
async fn many_that_begin_at_once_share_fairly() {
    let (server, world) = (Server::default(), World::default());
    let all = ["a", "b", "c", "d"].map(|name| Process::begin(&server, &world, name, 4));
    sleep(120 * SECOND).await;
    assert_eq!(world.counts(), [1, 1, 1, 1]);
    all.iter().for_each(Process::lives);
}

/// Its keeper finds out, and that ends the process. Nobody begins a second time meanwhile, whenever it happens.
#[tokio::test(start_paused = true)]
async fn who_acts_on_a_shard_does_not_take_its_lease_again_where_that_is_deleted_or_emptied() {
    for moment in 0..20 {
        for is_deleted in [true, false] {
            let (server, world) = (Server::default(), World::default());
            let process = Process::begin(&server, &world, "a", 2);
            sleep(10 * SECOND + Duration::from_millis(100 * moment)).await;
            assert_eq!(world.counts(), [2]);
            {
                let mut inner = server.0.lock().unwrap();
                inner.version += 1;
                let version = inner.version.to_string();
                if is_deleted {
                    inner.leases.remove("l-0-of-2");
                } else {
                    let lease = inner.leases.get_mut("l-0-of-2").unwrap();
                    lease["metadata"]["resourceVersion"] = version.into();
                    lease["spec"]["holderIdentity"] = "".into();
                }
            }
            sleep(30 * SECOND).await;
            assert_eq!(world.counts(), [1], "deleted: {is_deleted}");
            process.kill();
        }
    }
}

/// Its holder may not have noticed yet: nobody begins before that one's own clock has ended its term.
#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_not_free_at_once() {
    for (before, after) in [(1, 1), (2, 3), (3, 2)] {
        for moment in 0..20 {
            let (server, world) = (Server::default(), World::default());
            let old = Process::begin(&server, &world, "old", before);
            sleep(10 * SECOND).await;
            let new = Process::begin(&server, &world, "new", after);
            sleep(10 * SECOND + Duration::from_millis(100 * moment)).await;
            server.0.lock().unwrap().leases.clear();
            sleep(60 * SECOND).await;
            let counts = world.counts();
            assert_eq!(counts, [usize::from(after)], "{before}, {after}");
            new.kill();
            old.0.abort();
        }
    }
}

/// One that is gone asks for nothing, and keeps nobody else from asking.
#[tokio::test(start_paused = true)]
async fn the_wish_of_who_died_costs_one_move_at_most() {
    let (server, world) = (Server::default(), World::default());
    let first = Process::begin(&server, &world, "a", 2);
    sleep(30 * SECOND).await;
    for lease in ["l-0-of-2", "l-1-of-2"] {
        let mut inner = server.0.lock().unwrap();
        inner.version += 1;
        let version = inner.version.to_string();
        let lease = inner.leases.get_mut(lease).unwrap();
        lease["metadata"]["annotations"] = json!({"cloudserver.dev/wanted-by": "gone 1"});
        lease["metadata"]["resourceVersion"] = version.into();
    }
    sleep(60 * SECOND).await;
    assert_eq!(world.counts(), [2], "what was given up came back");
    let second = Process::begin(&server, &world, "b", 2);
    sleep(60 * SECOND).await;
    assert_eq!(world.counts(), [1, 1]);
    first.kill();
    second.kill();
}

/// As while a Deployment is rolled out with another number of shards.
#[tokio::test(start_paused = true)]
async fn who_counts_otherwise_waits_until_the_others_are_gone() {
    for (before, after) in [(1, 4), (4, 1), (2, 3)] {
        let (server, world) = (Server::default(), World::default());
        let old = Process::begin(&server, &world, "old", before);
        sleep(30 * SECOND).await;
        assert_eq!(world.counts(), [usize::from(before)]);
        let new = Process::begin(&server, &world, "new", after);
        sleep(60 * SECOND).await;
        assert_eq!(world.counts(), [usize::from(before)], "the old one acts");
        old.kill();
        sleep(60 * SECOND).await;
        assert_eq!(world.counts(), [usize::from(after)]);
        new.kill();
    }
}

/// Each may take a Lease that the other one does not know of yet: then at least one sees the other, before it acts.
#[tokio::test(start_paused = true)]
async fn of_two_that_count_differently_and_begin_at_once_one_acts() {
    for delay in 0..20 {
        let (server, world) = (Server::default(), World::default());
        // Answers take a while, so that both look before either has written.
        server.set(Mood::Slow(Duration::from_millis(100)));
        let one = Process::begin(&server, &world, "one", 1);
        sleep(Duration::from_millis(20 * delay)).await;
        let two = Process::begin(&server, &world, "two", 2);
        sleep(60 * SECOND).await;
        let counts = world.counts();
        assert!(counts == [1] || counts == [2], "{counts:?}");
        one.kill();
        two.kill();
    }
}
