//! The Secrets that the operator writes: a first password before the purchase, a new one when the old one expires, the one in
//! force, and the connection Secret.

use crate::api::Operation;
use crate::cloud::ServerId;
use crate::instance::fact::ConnectionFact;
use crate::instance::login::LoginFact;
use crate::instance::memory::kinds::{Connected, Connection};
use crate::instance::observation::Observation;
use crate::instance::plan::login;
use crate::instance::plan::step::{NeededRead, Plan, SecretStep, Step};
use crate::instance::{connection, observation, times};
use jiff::Timestamp;
use std::time::Duration;

/// The step before an operation that set a generated password is reported as done: the Secret must show that password as the one
/// in force. If we reported first, a crash before the Secret write would leave the wrong password in the Secret.
pub(super) fn settle_first(
    observed: &Observation,
    operation: &Operation,
    id: &ServerId,
) -> Option<Plan> {
    let target = operation.target.password_secret.as_ref();
    let brought = target.filter(|_| operation.verb.bears_login())?;
    observed.facts.spec.login.generate.as_ref()?;
    let plan = match &observed.login {
        LoginFact::NotAsked => Plan::needing(NeededRead::Login),
        LoginFact::Unread(why) => login::unread(why),
        LoginFact::Unowned(version) => login::adopt(observed, version),
        LoginFact::Ready(credentials)
            if credentials.secret.as_ref() == Some(brought)
                && credentials
                    .generated
                    .as_ref()
                    .is_some_and(|it| !it.is_settled) =>
        {
            let version = brought.clone();
            Plan::act(Step::Secret(SecretStep::Settle { version }))
        }
        // It is settled, or it was changed since, which makes the next operation due.
        LoginFact::Ready(_) | LoginFact::Missing | LoginFact::Problem(_) => return None,
    };
    Some(plan.with_id(Some(id.clone())).in_flight())
}

/// No other step is due: the Secret of a generated password gets its marker and the labels and annotations of the spec, and an
/// expired password is followed by another one.
pub(super) fn renew(observed: &Observation, mut plan: Plan) -> Plan {
    let facts = &observed.facts;
    let (Some(generate), Some(version)) = (&facts.spec.login.generate, &observed.secret_version)
    else {
        return plan;
    };
    let (every, template) = (generate.rotates_every(), generate.template.as_ref());
    let applied = plan
        .changes
        .applied
        .as_ref()
        .or(facts.status.applied.as_ref());
    let in_force = applied.and_then(|applied| applied.password_secret.as_ref());
    let detail = plan.changes.detail.as_ref().unwrap_or(&facts.status.detail);
    let is_running = observation::text(detail, "ecsStatus") == Some("STARTED");
    let every = every.filter(|_| is_running);
    let is_unmarked = observed.secret_is_unmarked;
    let is_needed = every.is_some() || template.is_some() || is_unmarked;
    if !is_needed || in_force != Some(version) || !is_quiet(observed, &plan) {
        return plan;
    }
    if is_unmarked {
        let version = version.clone();
        plan.step = Step::Secret(SecretStep::Keep { version });
        return plan;
    }
    let known = observed.memory.secrets.login.as_deref();
    let Some(known) = known.filter(|known| known.version == *version) else {
        plan.needs = Some(NeededRead::LoginMetadata);
        return plan.within(times::UNREADABLE_RETRY);
    };
    let version = version.clone();
    if template.is_some() && known.template.as_ref() != template {
        plan.step = Step::Secret(SecretStep::Keep { version });
        return plan;
    }
    let Some(every) = every else {
        return plan;
    };
    match due_in(known.rotated_at, every, observed.wall_clock) {
        Due::In(left) => return plan.within(left),
        Due::Now => plan.step = Step::Secret(SecretStep::Renew { version }),
        Due::Unknown => plan.step = Step::Secret(SecretStep::Settle { version }),
    }
    plan
}

/// Whether the server is Ready as the spec demands, and nothing is to be done or read.
fn is_quiet(observed: &Observation, plan: &Plan) -> bool {
    matches!(plan.step, Step::Rest)
        && plan.needs.is_none()
        && plan.is_ready()
        && !observed.facts.deleting
        && !observed.is_open()
}

/// When the next password is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Now,
    In(Duration),
    /// The recorded time is missing or impossible, so the period begins again.
    Unknown,
}

/// Uses the time in the Secret and nothing that is lost with a process. A time that is more than a whole period in the future
/// comes from a wrong clock: it is corrected, and no password is generated for it.
fn due_in(stamp: Option<Timestamp>, every: Duration, now: Timestamp) -> Due {
    let Some(stamp) = stamp else {
        return Due::Unknown;
    };
    let age = now.as_second().saturating_sub(stamp.as_second());
    let every = i64::try_from(every.as_secs()).unwrap_or(i64::MAX);
    if age >= every {
        Due::Now
    } else if age < every.saturating_neg() {
        Due::Unknown
    } else {
        let left = u64::try_from(every.saturating_sub(age)).unwrap_or(u64::MAX);
        Due::In(Duration::from_secs(left))
    }
}

/// No other step is due: the connection Secret gets the values in force. It is no part of the server, so an obstacle is reported
/// next to the readiness and leaves the server Ready.
pub(super) fn connect(observed: &Observation, mut plan: Plan) -> Plan {
    // A server that is being dropped needs no connection Secret.
    let is_dropped = plan.changes.forget_server;
    if !matches!(plan.step, Step::Rest) || plan.needs.is_some() || is_dropped {
        return plan;
    }
    let Some(wanted) = connection::wanted(observed) else {
        return plan;
    };
    if let Some((_, rest)) = obstacle(observed) {
        return plan.within(rest);
    }
    // Status reports the obstacle to the last write until this one is over.
    let connection = observed.memory.secrets.connection.as_deref();
    let is_retry = connection.is_some_and(|last| last.trouble.is_some());
    match (known(observed, &wanted), &observed.connection) {
        (Some(Connected { trouble: None, .. }), _) => plan,
        (_, ConnectionFact::NotAsked) => {
            plan.needs = Some(NeededRead::Connection);
            plan.within(times::UNREADABLE_RETRY)
        }
        (_, ConnectionFact::Differs(_)) => {
            plan.step = Step::Secret(SecretStep::Connect);
            plan.why = plan.why.filter(|_| !is_retry);
            plan
        }
        (_, ConnectionFact::Unread) => {
            plan.why = plan.why.filter(|_| !is_retry);
            plan.within(times::UNREADABLE_RETRY)
        }
        (_, ConnectionFact::Same | ConnectionFact::NotOurs) => plan,
    }
}

/// Whether the Secret was read in this reconcile.
fn is_looked_at(observed: &Observation) -> bool {
    matches!(
        observed.connection,
        ConnectionFact::Same | ConnectionFact::NotOurs
    )
}

/// The obstacle to writing the connection Secret, and how long the next attempt waits.
pub(super) fn obstacle(observed: &Observation) -> Option<(&str, Duration)> {
    let wanted = connection::wanted(observed)?;
    let trouble = known(observed, &wanted)?.trouble.as_ref()?;
    let rest = match trouble.until {
        Some(at) => at.saturating_duration_since(observed.now),
        None => times::IDLE_REQUEUE,
    };
    (!rest.is_zero()).then_some((&*trouble.words, rest))
}

/// The last attempt to write this content, unless the Secret was changed since.
fn known<'a>(observed: &'a Observation, wanted: &Connection) -> Option<&'a Connected> {
    let known = observed.memory.secrets.connection.as_deref()?;
    let is_current = known.version == observed.connection_version || is_looked_at(observed);
    (known.wanted == *wanted && is_current).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap()
    }

    #[test]
    fn another_password_is_due_by_the_time_that_stands_on_the_secret() {
        let day = 24 * HOUR;
        for (stamp, now, due) in [
            (Some(at(0)), at(0), Due::In(day)),
            (Some(at(0)), at(23), Due::In(HOUR)),
            (Some(at(0)), at(24), Due::Now),
            (Some(at(0)), at(900_000), Due::Now),
            // The clocks of two machines differ, or a clock was set back by less than a period.
            (Some(at(5)), at(0), Due::In(29 * HOUR)),
            (Some(at(24)), at(0), Due::In(2 * day)),
            (Some(at(25)), at(0), Due::Unknown),
            (None, at(0), Due::Unknown),
        ] {
            assert_eq!(due_in(stamp, day, now), due, "{stamp:?} {now}");
        }
    }

    #[test]
    fn a_clock_that_jumps_makes_one_password_at_most() {
        let (mut stamp, mut made) = (at(0), 0);
        // The clock jumps ahead by years, runs on, and jumps back; each result is written as returned.
        for now in [at(1), at(90_000), at(90_001), at(2), at(3), at(10)] {
            match due_in(Some(stamp), 24 * HOUR, now) {
                Due::Now => (made, stamp) = (made + 1, now),
                Due::Unknown => stamp = now,
                Due::In(_) => {}
            }
        }
        assert_eq!((made, stamp), (1, at(2)));
    }
}
