//! Events and log lines for changes of an Account's status.

use super::Context;
use crate::api::conditions::{READY, Readiness, Reason, State};
use crate::api::{Account, AccountStatus, counted};
use crate::runtime::events::EventNote;
use crate::runtime::watch::ObjectKey;
use jiff::Timestamp;
use kube::Resource;

/// Publishes and logs the changes between the former status and the written one.
pub(super) async fn tell(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    former: &AccountStatus,
    next: &AccountStatus,
    readiness: &Readiness,
    wall_clock: Timestamp,
) {
    for event in changes(former, next, readiness, wall_clock) {
        let (namespace, name, reason) = (&key.namespace, &key.name, event.reason);
        let note = Some(&event.note).filter(|_| !quotes_a_change(reason));
        tracing::info!(namespace, name, reason, note, "account");
        context
            .events
            .publish(&account.object_ref(&()), &event)
            .await;
    }
}

/// Whether the message quotes the service's answer to a mutating call. These messages appear in status and Event only: they may
/// contain a password that the service refused, and a log may reach more readers.
fn quotes_a_change(reason: &str) -> bool {
    reason == Reason::AccountNotNormal.as_str()
}

/// Whether this reason shows that the service answered, so that an outage is over. A problem with the Secret or the endpoint
/// shows nothing about the service.
fn shows_an_answer(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Available | Reason::TokenRefused | Reason::AccountNotNormal | Reason::RateLimited
    )
}

/// The changes that deserve an Event. Pure.
fn changes(
    former: &AccountStatus,
    next: &AccountStatus,
    readiness: &Readiness,
    wall_clock: Timestamp,
) -> Vec<EventNote> {
    let reason = |status: &AccountStatus| {
        let mut conditions = status.conditions.iter();
        let ready = conditions.find(|condition| condition.type_ == READY);
        ready.map(|ready| ready.reason.clone())
    };
    let mut events = Vec::new();
    if let (Some(since), None) = (&former.unreachable_since, &next.unreachable_since)
        && shows_an_answer(readiness.reason)
    {
        let seconds = wall_clock.duration_since(since.0).as_secs().max(0);
        let note = format!(
            "the service answers again: it did not for {}",
            span(seconds)
        );
        events.push(EventNote::normal("ServiceRecovered", note));
    }
    if reason(former) != reason(next) {
        let (reason, message) = (readiness.reason.as_str(), readiness.message.clone());
        events.push(match readiness.state {
            State::Ready => EventNote::normal(reason, message),
            // The service asks for fewer requests; no human needs to act.
            State::Reconciling if readiness.reason == Reason::RateLimited => {
                EventNote::normal(reason, message)
            }
            State::Reconciling | State::Stalled | State::Drifted => {
                EventNote::warning(reason, message)
            }
        });
    }
    events.extend(limit_reached(former, next));
    events
}

/// An Instance waits for a limit, and none waited before.
fn limit_reached(former: &AccountStatus, next: &AccountStatus) -> Option<EventNote> {
    let former = former.limits.as_ref().map_or(0, |limits| limits.waiting);
    let limits = next.limits.as_ref();
    let limits = limits.filter(|limits| former == 0 && limits.waiting > 0)?;
    let first = limits.next.first()?;
    let names = limits.next.iter().map(|waits| waits.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    let others = limits.waiting - i64::try_from(limits.next.len()).unwrap_or_default();
    let others = match others {
        1.. => format!(", and {others} more"),
        _ => String::new(),
    };
    let reason = Reason::AccountLimitReached.as_str();
    if first.reason == reason {
        let allowed = limits.instances.allowed.unwrap_or_default();
        let used = instances(limits.instances.used);
        let note = format!(
            "{used} with a server, or about to have one, where spec.maxInstances allows {allowed}; waiting: {names}{others}"
        );
        return Some(EventNote::warning(reason, note));
    }
    let note = format!(
        "as many creates were sent within a minute as spec.createRate.perMinute allows; waiting: {names}{others}"
    );
    Some(EventNote::normal(Reason::CreateRateReached.as_str(), note))
}

fn instances(n: i64) -> String {
    counted(usize::try_from(n).unwrap_or_default(), "Instance")
}

/// A duration as text, to the second.
fn span(seconds: i64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{LimitUse, LimitsStatus, WaitingInstance};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn said(readiness: &Readiness, since: Option<i64>) -> AccountStatus {
        let at = |second| Time(Timestamp::from_second(second).unwrap());
        AccountStatus {
            conditions: readiness.to_conditions(&[], 1, Timestamp::UNIX_EPOCH),
            unreachable_since: since.map(at),
            ..AccountStatus::default()
        }
    }

    fn waits(name: &str) -> WaitingInstance {
        WaitingInstance {
            name: name.to_owned(),
            reason: "AccountLimitReached".to_owned(),
        }
    }

    #[test]
    fn an_outage_is_told_when_it_begins_and_when_it_ends_with_how_long_it_was() {
        let wall_clock = Timestamp::from_second(300).unwrap();
        let well = Readiness::ready(Reason::Available, "well");
        let away = Readiness::reconciling(Reason::ServiceUnreachable, "away since then");
        let (up, down) = (said(&well, None), said(&away, Some(95)));
        let told = |a: &AccountStatus, b: &AccountStatus, readiness: &Readiness| {
            let event = changes(a, b, readiness, wall_clock).into_iter();
            let told = event.map(|event| (event.warning, event.reason, event.note));
            told.collect::<Vec<_>>()
        };
        assert_eq!(
            told(&up, &down, &away),
            [(true, "ServiceUnreachable", "away since then".to_owned())]
        );
        let again = "the service answers again: it did not for 3 min 25 s".to_owned();
        assert_eq!(
            told(&down, &up, &well),
            [
                (false, "ServiceRecovered", again),
                (false, "Available", "well".to_owned())
            ]
        );
        // If the operator can no longer call the service, that is not an answer.
        let lost = Readiness::reconciling(Reason::TokenNotFound, "no Secret");
        let unasked = told(&down, &said(&lost, None), &lost);
        assert_eq!(unasked, [(true, "TokenNotFound", "no Secret".to_owned())]);
        assert_eq!(told(&up, &up, &well), []);
        assert_eq!(told(&down, &down, &away), []);
        let limits = |waiting, names: &[&str]| LimitsStatus {
            waiting,
            next: names.iter().map(|name| waits(name)).collect(),
            instances: LimitUse {
                used: 1,
                allowed: Some(1),
            },
            ..LimitsStatus::default()
        };
        let full = AccountStatus {
            limits: Some(limits(3, &["a", "b"])),
            ..up.clone()
        };
        let [(true, "AccountLimitReached", note)] = &told(&up, &full, &well)[..] else {
            panic!("a limit that is reached is told");
        };
        assert_eq!(
            note,
            "1 Instance with a server, or about to have one, where spec.maxInstances allows 1; waiting: a, b, and 1 more"
        );
        let fuller = AccountStatus {
            limits: Some(limits(4, &["a"])),
            ..up.clone()
        };
        assert_eq!(told(&full, &fuller, &well), [], "once");
        let first = told(&AccountStatus::default(), &up, &well);
        assert_eq!(first, [(false, "Available", "well".to_owned())]);
    }
}
