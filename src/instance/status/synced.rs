//! Whether status may be out of date: the condition `Synced` is false if the server was not confirmed for long, or if the service
//! cannot be queried for it.

use crate::api::conditions::{AdditionalCondition, Reason, SYNCED};
use crate::instance::observation::{AccountFact, Observation};
use crate::instance::times;
use std::time::Duration;
use tokio::time::Instant;

/// The condition `Synced`; None if it is unknown, or if status names no server.
pub(super) fn synced(observed: &Observation) -> Option<AdditionalCondition> {
    observed.facts.status_id()?;
    let is_confirmed = observed.memory.observations.confirmed.is_some();
    let is_late = observed.now >= late_at(observed);
    let name = &observed.account_key.name;
    judge(&observed.account, name, is_confirmed, is_late)
}

/// From when on the server counts as unconfirmed.
fn late_at(observed: &Observation) -> Instant {
    let confirmed = observed.memory.observations.confirmed;
    confirmed.unwrap_or(observed.memory.origin.since) + times::CONFIRMED_WITHIN
}

/// The condition from plain values; `name` is the Account's. The message stays the same while the cause does: the service's
/// messages may differ at each try, so only the Account reports them.
fn judge(
    account: &AccountFact,
    name: &str,
    is_confirmed: bool,
    is_late: bool,
) -> Option<AdditionalCondition> {
    let (reason, why) = match account {
        AccountFact::NotFound => (
            Reason::AccountNotFound,
            format!("Account {name} does not exist"),
        ),
        AccountFact::Unusable(problem) if is_late || !passes(problem.reason) => (
            problem.reason,
            format!("Account {name} cannot be used; see its status"),
        ),
        AccountFact::AccountSession(_) if is_late => {
            let minutes = times::CONFIRMED_WITHIN.as_secs() / 60;
            let why = format!(
                "for {minutes} minutes neither its detail nor a listing of its zone has shown whether the server exists"
            );
            (Reason::ServerReadFailed, why)
        }
        AccountFact::AccountSession(_) if is_confirmed => {
            return Some(AdditionalCondition {
                type_: SYNCED,
                is_true: true,
                reason: Reason::Available,
                message: "the service recently showed whether the server exists".to_owned(),
            });
        }
        AccountFact::AccountSession(_) | AccountFact::Unusable(_) | AccountFact::Pending => {
            return None;
        }
    };
    Some(AdditionalCondition {
        type_: SYNCED,
        is_true: false,
        reason,
        message: format!("server status may be out of date: {why}"),
    })
}

/// The time until the condition may change although nothing else triggers a reconcile.
pub fn again(observed: &Observation) -> Option<Duration> {
    observed.facts.status_id()?;
    let mut conditions = observed.facts.status.conditions.iter();
    if conditions.any(|it| it.type_ == SYNCED && it.status == "False") {
        return matches!(observed.account, AccountFact::AccountSession(_))
            .then_some(times::UNCONFIRMED_RECHECK);
    }
    let late = late_at(observed).saturating_duration_since(observed.now);
    Some(late.max(times::UNCONFIRMED_RECHECK))
}

/// Whether the problem of an Account may pass without human action.
fn passes(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ServiceUnreachable
            | Reason::RateLimited
            | Reason::SecretReadFailed
            | Reason::ConfigMapReadFailed
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Problem;

    fn unusable(reason: Reason) -> AccountFact {
        AccountFact::Unusable(Problem {
            reason,
            message: "with a number of the request in it".to_owned(),
        })
    }

    #[test]
    fn a_permanent_problem_is_shown_at_once_and_a_temporary_one_once_it_lasts() {
        let problem = |account: &AccountFact, is_late| {
            let condition = judge(account, "main", true, is_late)?;
            (!condition.is_true).then_some((condition.reason, condition.message))
        };
        let gone = AccountFact::NotFound;
        let refused = unusable(Reason::TokenRefused);
        for (account, reason) in [
            (&gone, Reason::AccountNotFound),
            (&refused, Reason::TokenRefused),
        ] {
            let now = problem(account, false).unwrap();
            assert_eq!(now.0, reason);
            // A server that was observed a moment ago is not reported as unobserved for minutes.
            assert!(now.1.contains("Account main"), "{}", now.1);
            assert!(!now.1.contains("minutes"), "{}", now.1);
            assert_eq!(problem(account, true), Some(now), "the same message later");
        }
        for reason in [Reason::ServiceUnreachable, Reason::RateLimited] {
            let away = unusable(reason);
            assert_eq!(problem(&away, false), None);
            assert_eq!(problem(&away, true).unwrap().0, reason);
        }
        assert_eq!(problem(&AccountFact::Pending, true), None);
    }
}
