//! The end of a run, and its result.

use super::{MOST_REQUESTS, Outcome};
use crate::oracle::{Rule, Verdict};
use crate::universe::Universe;
use std::collections::BTreeMap;

/// Whether nothing was written or called since all was idle, except the unavoidable requests of Instances that retry in vain.
pub(super) fn is_still(universe: &Universe, before: &BTreeMap<String, u64>) -> Verdict {
    let in_vain = universe.oracle.asking_in_vain(&universe.kube);
    let more = |(name, now): (&String, &u64)| {
        let more = now - before.get(name).copied().unwrap_or(0);
        (more > 0).then(|| (name.clone(), more))
    };
    let mut moved: Vec<(String, u64)> = universe.changes.iter().filter_map(more).collect();
    let is_excused = moved.iter().all(|(name, _)| in_vain.contains(name));
    moved.sort_by_key(|(name, _)| in_vain.contains(name));
    let why = moved
        .first()
        .map(|(name, more)| format!("L1: {more} writes or calls for {name} while all was idle"));
    Verdict::of(why, is_excused)
}

/// The verdicts of all rules on the final state.
pub(super) fn at_the_end(universe: &Universe) -> Vec<(Rule, Verdict)> {
    let (kube, cloud) = (&universe.kube, &universe.cloud);
    universe.oracle.judge_idle(kube, cloud, universe.password())
}

/// Ends the run with these final verdicts.
pub(super) fn ended(universe: &mut Universe, found: Vec<(Rule, Verdict)>) -> Outcome {
    for (rule, verdict) in found {
        universe.oracle.judge(rule, verdict);
    }
    outcome(universe)
}

pub(super) fn outcome(universe: &mut Universe) -> Outcome {
    let asks_on = universe.requests() > MOST_REQUESTS;
    let why = asks_on.then(|| format!("L3: {} requests", universe.requests()));
    let verdict = Verdict::of(why, false);
    universe.oracle.judge(Rule::Ends, verdict);
    universe.tally.ends(&universe.kube, &universe.cloud);
    Outcome {
        violations: universe.oracle.violations.clone(),
        trace: universe.trace(),
        moments: universe.moments(),
        requests: universe.requests(),
        unmet: universe.unmet.clone(),
        kinds: universe.kinds.clone(),
        states: universe.states.clone(),
        surplus: universe.oracle.surplus,
        tally: universe.tally.clone(),
        pace: universe.pace.clone(),
        judged: universe.oracle.counted(),
        neighbours: universe.done_for_neighbours(),
    }
}
