//! Whether status may be out of date: the condition `Synced` is false if the server was not confirmed for long, or if the service
//! cannot be queried for it.

use crate::api::conditions::{Reason, SYNCED, Synced};
use crate::instance::observation::{AccountFact, Observation};
use crate::instance::times;
use std::time::Duration;

/// Whether the server in status is confirmed; None if that is unknown, or if status names no server.
pub(super) fn synced(observed: &Observation) -> Option<Synced> {
    observed.facts.status_id()?;
    let confirmed = observed.memory.observations.confirmed;
    let is_late = observed.now
        >= confirmed.unwrap_or(observed.memory.origin.first_seen) + times::CONFIRMED_WITHIN;
    let name = &observed.account_key.name;
    judge(&observed.account, name, confirmed.is_some(), is_late)
}

/// The same for an Account of this name. Pure, with a message that stays the same while the cause does.
fn judge(account: &AccountFact, name: &str, is_confirmed: bool, is_late: bool) -> Option<Synced> {
    let (reason, why) = match account {
        AccountFact::NotFound(name) => {
            let why = format!("Account {name} does not exist: the server is not looked at");
            return Some(Synced::No(Reason::AccountNotFound, why));
        }
        AccountFact::Unusable(problem) if waits_for_somebody(problem.reason) || is_late => {
            // The service's message may differ at each try, so only the Account reports it.
            let why = format!("Account {name} cannot be used, and its status says why");
            (problem.reason, why)
        }
        // The obstacle's message may differ at each read.
        AccountFact::AccountSession(_) if is_late => {
            let minutes = times::CONFIRMED_WITHIN.as_secs() / 60;
            let why = format!(
                "for {minutes} minutes neither its detail nor a listing of its zone told whether the server is there"
            );
            (Reason::ServerReadFailed, why)
        }
        AccountFact::AccountSession(_) => return is_confirmed.then_some(Synced::Yes),
        AccountFact::Unusable(_) | AccountFact::Pending => return None,
    };
    let why = format!("what stands here of the server was seen before: {why}");
    Some(Synced::No(reason, why))
}

/// When the answer may change without another reason for a reconcile.
pub fn again(observed: &Observation) -> Option<Duration> {
    observed.facts.status_id()?;
    let mut told = observed.facts.status.conditions.iter();
    if told.any(|told| told.type_ == SYNCED && told.status == "False") {
        return matches!(observed.account, AccountFact::AccountSession(_))
            .then_some(times::UNCONFIRMED_RECHECK);
    }
    let since = observed
        .memory
        .observations
        .confirmed
        .unwrap_or(observed.memory.origin.first_seen);
    let late = (since + times::CONFIRMED_WITHIN).saturating_duration_since(observed.now);
    Some(late.max(times::UNCONFIRMED_RECHECK))
}

/// Whether only human action can fix it.
fn waits_for_somebody(reason: Reason) -> bool {
    !matches!(
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
    fn who_has_to_be_mended_is_told_at_once_and_what_may_pass_once_it_lasts() {
        let told = |account: &AccountFact, is_late| match judge(account, "main", true, is_late) {
            Some(Synced::No(reason, why)) => Some((reason, why)),
            Some(Synced::Yes) | None => None,
        };
        let gone = AccountFact::NotFound("main".to_owned());
        let refused = unusable(Reason::TokenRefused);
        for (account, reason) in [
            (&gone, Reason::AccountNotFound),
            (&refused, Reason::TokenRefused),
        ] {
            let now = told(account, false).unwrap();
            assert_eq!(now.0, reason);
            // A server that was observed a moment ago is not reported as unobserved for minutes.
            assert!(now.1.contains("Account main"), "{}", now.1);
            assert!(!now.1.contains("minutes"), "{}", now.1);
            assert_eq!(told(account, true), Some(now), "no other words later");
        }
        for reason in [Reason::ServiceUnreachable, Reason::RateLimited] {
            let away = unusable(reason);
            assert_eq!(told(&away, false), None);
            assert_eq!(told(&away, true).unwrap().0, reason);
        }
        assert_eq!(told(&AccountFact::Pending, true), None);
    }
}
