//! What a broken object may cost while nobody mends it.

use crate::support::World;
use cloud_simulator::{Entry, Source};

/// Calls that a broken object may cost in the window.
const CALLS: usize = 6;
/// Passes of the listing are shared by all Instances of an Account and counted apart: one every five seconds,
/// which vary by a tenth.
const PASSES: usize = 14;
/// Writes of the Account's status in the window: it follows the counts of its servers, at most once in 30 s.
const ACCOUNT_WRITES: usize = 2;
/// Turns of the object in the window: more would be a hot loop, also where it calls and writes nothing.
const TURNS: usize = 30;

/// What a broken object costs.
#[derive(Clone, Copy, Debug)]
pub struct Bill {
    /// Calls that came to the service, without listings.
    pub calls: usize,
    /// Passes of the listing that all Instances share.
    pub passes: usize,
    /// The calls that these were.
    pub pages: usize,
    /// Calls that found no service.
    pub unsent: usize,
    /// Writes on Instances: there is no other than the broken one.
    pub writes: usize,
    /// Writes on Accounts.
    pub account_writes: usize,
    /// Events of the namespace.
    pub events: usize,
    /// Turns of Instances.
    pub turns: usize,
}

impl Bill {
    /// What was spent until now.
    pub async fn of(world: &mut World) -> Self {
        let (_, metrics) = world.operator().metrics().await;
        let ledger = world.sim.ledger();
        let called = |entry: &&Entry| entry.source == Source::Call;
        let listed = |entry: &&Entry| called(entry) && entry.path == "/instance/list";
        let listings = ledger.entries().filter(listed).count();
        let first = |entry: &&Entry| listed(entry) && entry.request["page"] == "1";
        let writes = world.all_writes().await;
        Self {
            calls: ledger.entries().filter(called).count() - listings,
            passes: ledger.entries().filter(first).count(),
            pages: listings,
            unsent: sum(&metrics, "cloud_calls_total", "result=\"not_sent\""),
            writes: writes.iter().filter(|e| e.resource == "instances").count(),
            account_writes: writes.iter().filter(|e| e.resource == "accounts").count(),
            events: writes.iter().filter(|e| e.resource == "events").count(),
            turns: sum(&metrics, "reconciles_total", "kind=\"Instance\""),
        }
    }

    /// What was spent since.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            passes: self.passes - before.passes,
            pages: self.pages - before.pages,
            unsent: self.unsent - before.unsent,
            writes: self.writes - before.writes,
            account_writes: self.account_writes - before.account_writes,
            events: self.events - before.events,
            turns: self.turns - before.turns,
        }
    }

    /// What was more than it may be.
    pub fn too_much(&self) -> Vec<String> {
        let bounds = [
            ("calls", self.calls + self.unsent, CALLS),
            ("passes of the listing", self.passes, PASSES),
            ("writes", self.writes, 0),
            ("writes of Accounts", self.account_writes, ACCOUNT_WRITES),
            ("turns", self.turns, TURNS),
        ];
        bounds
            .into_iter()
            .filter(|(_, spent, most)| spent > most)
            .map(|(what, spent, most)| format!("{spent} {what} in a minute, at most {most}"))
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
