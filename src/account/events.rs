//! Events and log lines for changes of an Account's status.

use crate::api::AccountStatus;
use crate::api::conditions::{READY, Readiness, Reason, State};
use crate::runtime::events::EventNote;
use crate::runtime::watch::ObjectKey;
use jiff::{SignedDuration, Timestamp};

/// Logs an Event, without its message if the reason is `AccountNotNormal`: that message may quote the service's answer to a
/// mutating call, which may contain a refused password. It appears in status and Event only, since a log may reach more readers.
pub(super) fn log(key: &ObjectKey, event: &EventNote) {
    let (namespace, name, reason) = (&key.namespace, &key.name, event.reason);
    let note = Some(&event.note).filter(|_| reason != Reason::AccountNotNormal.as_str());
    tracing::info!(namespace, name, reason, note, "account");
}

/// The changes that deserve an Event. Pure.
pub(super) fn changes(
    former: &AccountStatus,
    next: &AccountStatus,
    readiness: &Readiness,
    wall_clock: Timestamp,
) -> Vec<EventNote> {
    let mut events = Vec::new();
    if let (Some(since), State::Ready) = (&former.unreachable_since, readiness.state) {
        let seconds = wall_clock.duration_since(since.0).as_secs().max(0);
        let lasted = SignedDuration::from_secs(seconds);
        let note = format!("the service answers again after {lasted:#}");
        events.push(EventNote::normal("ServiceRecovered", note));
    }
    let reason = readiness.reason.as_str();
    let mut conditions = former.conditions.iter();
    if !conditions.any(|it| it.type_ == READY && it.reason == reason) {
        events.push(EventNote {
            // The service is rate limiting requests: no human needs to act.
            warning: readiness.state != State::Ready && readiness.reason != Reason::RateLimited,
            reason,
            note: readiness.message.clone(),
        });
    }
    events.extend(limit_reached(former, next));
    events
}

/// The Event if Instances wait for a limit and none waited before.
fn limit_reached(former: &AccountStatus, next: &AccountStatus) -> Option<EventNote> {
    let former = former.limits.as_ref().map_or(0, |limits| limits.waiting);
    let limits = next.limits.as_ref();
    let limits = limits.filter(|limits| former == 0 && limits.waiting > 0)?;
    let names = limits.next.iter().map(|waits| waits.name.as_str());
    let mut names = names.collect::<Vec<_>>().join(", ");
    let others = limits.waiting - i64::try_from(limits.next.len()).unwrap_or_default();
    if others > 0 {
        names = format!("{names}, and {others} more");
    }
    let reason = Reason::AccountLimitReached.as_str();
    // If Instances wait for both limits, the Event names this one, which does not pass with time.
    if limits.next.iter().any(|waits| waits.reason == reason) {
        // Absent if the limit was removed, and an Instance has not checked again.
        let (used, allowed) = (limits.instances.used, limits.instances.allowed?);
        let note = format!(
            "the limit spec.maxInstances is reached: {used} of {allowed} Instances have a server or are about to get one; waiting: {names}"
        );
        return Some(EventNote::warning(reason, note));
    }
    let note = format!(
        "as many creates were sent within a minute as spec.createRate.perMinute allows; waiting: {names}"
    );
    Some(EventNote::normal(Reason::CreateRateReached.as_str(), note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{LimitUse, LimitsStatus, WaitingInstance};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn status(readiness: &Readiness, since: Option<i64>) -> AccountStatus {
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
    fn an_outage_is_an_event_at_its_start_and_at_its_end() {
        let wall_clock = Timestamp::from_second(300).unwrap();
        let well = Readiness::ready(Reason::Available, "well");
        let away = Readiness::reconciling(Reason::ServiceUnreachable, "away since then");
        let (up, down) = (status(&well, None), status(&away, Some(95)));
        let events = |a: &AccountStatus, b: &AccountStatus, readiness: &Readiness| {
            let event = changes(a, b, readiness, wall_clock).into_iter();
            let all = event.map(|event| (event.warning, event.reason, event.note));
            all.collect::<Vec<_>>()
        };
        assert_eq!(
            events(&up, &down, &away),
            [(true, "ServiceUnreachable", "away since then".to_owned())]
        );
        let again = "the service answers again after 3m 25s".to_owned();
        assert_eq!(
            events(&down, &up, &well),
            [
                (false, "ServiceRecovered", again),
                (false, "Available", "well".to_owned())
            ]
        );
        // If the operator can no longer call the service, that is not an answer.
        let lost = Readiness::reconciling(Reason::TokenNotFound, "no Secret");
        let unasked = events(&down, &status(&lost, None), &lost);
        assert_eq!(unasked, [(true, "TokenNotFound", "no Secret".to_owned())]);
        assert_eq!(events(&up, &up, &well), []);
        assert_eq!(events(&down, &down, &away), []);
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
        let [(true, "AccountLimitReached", note)] = &events(&up, &full, &well)[..] else {
            panic!("no Event shows that a limit is reached");
        };
        assert_eq!(
            note,
            "the limit spec.maxInstances is reached: 1 of 1 Instances have a server or are about to get one; waiting: a, b, and 1 more"
        );
        let fuller = AccountStatus {
            limits: Some(limits(4, &["a"])),
            ..up.clone()
        };
        assert_eq!(events(&full, &fuller, &well), [], "once");
        let mut both = limits(2, &["a", "b"]);
        both.next[0].reason = Reason::CreateRateReached.as_str().to_owned();
        let mut both = AccountStatus {
            limits: Some(both),
            ..up.clone()
        };
        let reason = |next: &AccountStatus| events(&up, next, &well).pop().map(|event| event.1);
        assert_eq!(reason(&both), Some("AccountLimitReached"));
        // The limit was removed, and the Instances have not checked again.
        both.limits.as_mut().unwrap().instances.allowed = None;
        assert_eq!(reason(&both), None);
        let first = events(&AccountStatus::default(), &up, &well);
        assert_eq!(first, [(false, "Available", "well".to_owned())]);
    }
}
