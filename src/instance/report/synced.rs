//! How far a status can be believed: the condition `Synced` is false where the server could not be confirmed for long, or where
//! nobody can be asked for it.

use crate::api::InstanceStatus;
use crate::api::conditions::{Reason, SYNCED, Synced};
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::observe::{AccountFact, Observation};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A server that is not confirmed is looked for this often in the listings, which costs no call.
const CONFIRMED_AGAIN: Duration = Duration::from_secs(20);
/// That this alone changed is said this often.
const AGAIN: Duration = Duration::from_secs(30);
/// A server that was not seen for this long is not confirmed: five quiet listings. A short outage costs no write.
const CONFIRMED_FOR: Duration = Duration::from_secs(300);

/// Whether the server that status tells of is confirmed; none where that is not known, or where status tells of no server.
pub(super) fn synced(seen: &Observation) -> Option<Synced> {
    seen.facts.told_id()?;
    let confirmed = seen.memory.confirmed;
    let is_late = seen.now >= confirmed.unwrap_or(seen.memory.first_seen) + CONFIRMED_FOR;
    let (reason, why) = match &seen.account {
        AccountFact::NotFound(name) => {
            let why = format!("Account {name} does not exist: the server is not looked at");
            return Some(Synced::No(Reason::AccountNotFound, why));
        }
        AccountFact::Unusable(problem) if waits_for_somebody(problem.reason) || is_late => {
            // The service's words may be others at each try: the Account says them.
            let why = "it cannot be used, and its status says why";
            (problem.reason, why.to_owned())
        }
        // What stands in the way may be other words at each look.
        AccountFact::Seat(_) if is_late => {
            let why = "neither the server nor a listing of its zone could be read";
            (Reason::ServerUnobserved, why.to_owned())
        }
        AccountFact::Seat(_) => return confirmed.map(|_| Synced::Yes),
        AccountFact::Unusable(_) | AccountFact::Pending => return None,
    };
    let name = &seen.account_key.name;
    let why = format!("the server could not be confirmed lately; Account {name}: {why}");
    Some(Synced::No(reason, why))
}

/// How long until this may be another answer, where nothing else brings a reconcile before.
pub fn again(seen: &Observation) -> Option<Duration> {
    seen.facts.told_id()?;
    let mut told = seen.facts.status.conditions.iter();
    if told.any(|told| told.type_ == SYNCED && told.status == "False") {
        return matches!(seen.account, AccountFact::Seat(_)).then_some(CONFIRMED_AGAIN);
    }
    let since = seen.memory.confirmed.unwrap_or(seen.memory.first_seen);
    let late = (since + CONFIRMED_FOR).saturating_duration_since(seen.now);
    Some(late.max(CONFIRMED_AGAIN))
}

/// The rest of the wait where nothing but this is news: two processes that see it differently must not write for ever.
pub(super) fn wait(
    facts: &Facts,
    next: &InstanceStatus,
    memory: &Mutex<Memory>,
) -> Option<Duration> {
    let without = |status: &InstanceStatus| {
        let mut rest = status.clone();
        rest.conditions.retain(|told| told.type_ != SYNCED);
        rest
    };
    let (former, next) = (&*facts.status, next);
    if !super::differs(former, next) || super::differs(&without(former), &without(next)) {
        return None;
    }
    let (now, mut memory) = (Instant::now(), open(memory));
    let rest = memory
        .synced
        .map(|at| (at + AGAIN).saturating_duration_since(now));
    let rest = rest.filter(|rest| !rest.is_zero());
    if rest.is_none() {
        memory.synced = Some(now);
    }
    rest
}

/// Whether no time mends it.
fn waits_for_somebody(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::ServiceUnreachable
            | Reason::RateLimited
            | Reason::SecretUnread
            | Reason::ConfigMapUnread
    )
}
