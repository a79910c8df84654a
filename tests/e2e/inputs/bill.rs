//! The maximum cost of a broken object until it is fixed.

use crate::support::World;
use cloud_simulator::{Entry, Source};
use jiff::Timestamp;

/// Calls per minute for a broken object.
const CALLS: usize = 6;
/// Probes of the service are shared by all Instances of an Account: one after each call that casts doubt on the service, at
/// least ten seconds apart.
const PROBES: usize = 6;
/// Listing passes are shared by all Instances of an Account and counted separately: one every five seconds, ± a tenth.
const PASSES: usize = 14;
/// Writes per minute to the record of an Instance whose create is refused: an intent and its end for each attempt.
const WRITES: usize = 4;
/// Writes per minute to the Account's status: the counts of its servers, at most once in 30 s.
const ACCOUNT_WRITES: usize = 2;
/// Reconciles of the object per minute: more would be a hot loop, even without calls and writes.
const RECONCILES: usize = 30;

/// The cost up to a moment, as far as it can be counted immediately.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    at: Timestamp,
    calls: usize,
    probes: usize,
    passes: usize,
    unsent: usize,
    reconciles: usize,
}

impl Count {
    /// The cost up to now.
    pub async fn of(world: &mut World) -> Self {
        let (_, metrics) = world.operator().metrics().await;
        let ledger = world.sim.ledger();
        let called = |entry: &&Entry| entry.source == Source::Call;
        let listed = |entry: &&Entry| called(entry) && entry.path == "/instance/list";
        let listings = ledger.entries().filter(listed).count();
        let probed = |entry: &&Entry| called(entry) && entry.path == "/sshkey/list";
        let probes = ledger.entries().filter(probed).count();
        let first = |entry: &&Entry| listed(entry) && entry.request["page"] == "1";
        Self {
            at: Timestamp::now(),
            calls: ledger.entries().filter(called).count() - listings - probes,
            probes,
            passes: ledger.entries().filter(first).count(),
            unsent: sum(&metrics, "cloud_calls_total", "result=\"not_sent\""),
            reconciles: sum(
                &metrics,
                "controller_runtime_reconcile_total",
                "controller=\"instance\"",
            ),
        }
    }
}

/// The cost of a broken object.
#[derive(Clone, Copy, Debug)]
pub struct Bill {
    /// The length of the window.
    pub seconds: usize,
    /// Calls that reached the service, without listings and probes.
    pub calls: usize,
    /// Probes.
    pub probes: usize,
    /// Passes of the shared listing.
    pub passes: usize,
    /// Calls that did not reach the service.
    pub unsent: usize,
    /// Writes to Instances: there is only the broken one.
    pub writes: usize,
    /// Writes to Accounts.
    pub account_writes: usize,
    /// Writes of the status of Instances.
    pub statuses: usize,
    /// Reconciles of Instances.
    pub reconciles: usize,
}

impl Bill {
    /// The cost since then. Writes are counted by the time of their requests, since their lines may be written later.
    pub async fn since(before: &Count, world: &mut World) -> Self {
        let now = Count::of(world).await;
        let mut writes = world.all_writes_since(before.at).await;
        writes.retain(|entry| entry.received_at < now.at);
        let on = |resource: &str| writes.iter().filter(|e| e.resource == resource).count();
        Self {
            seconds: usize::try_from(now.at.duration_since(before.at).as_secs()).unwrap(),
            calls: now.calls - before.calls,
            probes: now.probes - before.probes,
            passes: now.passes - before.passes,
            unsent: now.unsent - before.unsent,
            statuses: writes
                .iter()
                .filter(|e| e.resource == "instances" && e.subresource == "status")
                .count(),
            writes: on("instances"),
            account_writes: on("accounts"),
            reconciles: now.reconciles - before.reconciles,
        }
    }

    /// The excesses in a window of this length, which is longer than a minute on a stalled machine.
    pub fn too_much(&self) -> Vec<String> {
        let most = |in_a_minute: usize| (in_a_minute * self.seconds.max(60)).div_ceil(60);
        let bounds = [
            ("calls", self.calls + self.unsent, most(CALLS)),
            (
                "questions whether the service answers",
                self.probes,
                most(PROBES),
            ),
            ("passes of the listing", self.passes, most(PASSES)),
            ("writes of status", self.statuses, 0),
            ("writes", self.writes, most(WRITES)),
            (
                "writes of Accounts",
                self.account_writes,
                most(ACCOUNT_WRITES),
            ),
            ("reconciles", self.reconciles, most(RECONCILES)),
        ];
        bounds
            .into_iter()
            .filter(|(_, spent, most)| spent > most)
            .map(|(what, spent, most)| {
                format!("{spent} {what} in {} s, at most {most}", self.seconds)
            })
            .collect()
    }
}

/// The sum of a counter over all labels that contain this one.
fn sum(metrics: &str, name: &str, label: &str) -> usize {
    metrics
        .lines()
        .filter(|line| line.contains(name) && line.contains(label))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok())
        .sum()
}
