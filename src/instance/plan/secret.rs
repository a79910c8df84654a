//! The login of an operation, read only when a plan needs it, and the Secrets that the operator writes: a first password before the
//! purchase, a new one when the old one expires, the one in force, and the connection Secret.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Operation, Reference, Verb};
use crate::cloud::ServerPower;
use crate::credentials::{
    Chore, Connection, ConnectionLogin, KnownConnection, KnownLogin, LoginFact, Upkeep, upkeep,
};
use crate::instance::observation::Observation;
use crate::instance::plan::policy;
use crate::instance::plan::step::{NeededRead, OrPlan, Plan, Step};
use crate::instance::{references, times};
use crate::runtime::events::EventNote;
use std::time::Duration;

/// The login, or the plan to get one or to report the problem. It is read only when a plan needs it.
pub(super) fn login(observed: &Observation) -> OrPlan<KnownLogin> {
    Err(Box::new(match &observed.login {
        LoginFact::Ready(login) => return Ok(login.clone()),
        LoginFact::Problem(readiness) => Plan::rest(readiness.clone(), times::IDLE_REQUEUE),
        LoginFact::Unread(why) => unread(why),
        LoginFact::Missing => generate(observed),
        LoginFact::Reclaimable(version) => restore_owner(observed, version),
        LoginFact::NotRead => Plan::needing(NeededRead::Login),
    }))
}

/// The login Secret could not be read.
fn unread(why: &str) -> Plan {
    let readiness = Readiness::reconciling(Reason::SecretReadFailed, why);
    Plan::rest(readiness, times::SECRET_UNREAD_RETRY)
}

/// The Secret of this Instance exists without its owner reference. It gets the reference back before its password is used, and
/// keeps the password.
fn restore_owner(observed: &Observation, version: &str) -> Plan {
    let version = version.to_owned();
    let note = "adopted the Secret that was made for this Instance and had lost its owner";
    let event = EventNote::normal("SecretAdopted", note);
    write(observed, Chore::Keep { version }, event)
}

/// The Secret does not exist: the operator generates a password, and reads it once the Secret is written.
fn generate(observed: &Observation) -> Plan {
    let event = EventNote::normal("PasswordGenerated", "wrote a new password into the Secret");
    write(observed, Chore::Generate, event)
}

/// Writes the login Secret, whose name completes the Event.
fn write(observed: &Observation, chore: Chore, mut event: EventNote) -> Plan {
    let name = observed.facts.login_secret().map(|secret| secret.name);
    event.note = format!("{} {}", event.note, name.unwrap_or_default());
    Plan::act(Step::Secret(chore)).with_event(event)
}

/// The login, if the operation needs one.
pub(super) fn credentials(observed: &Observation, verb: Verb) -> OrPlan<Option<KnownLogin>> {
    let login = verb.bears_login().then(|| login(observed));
    login.transpose()
}

/// The step before an operation that set a generated password is reported as done: the Secret must show that password as the one
/// in force. If we reported first, a crash before the Secret write would leave the wrong password in the Secret.
pub(super) fn settle_first(observed: &Observation, operation: &Operation) -> Option<Plan> {
    let target = operation.target.password_secret.as_ref();
    let version = target.filter(|_| operation.verb.bears_login())?;
    observed.facts.spec.login.generate.as_ref()?;
    let plan = match &observed.login {
        LoginFact::NotRead => Plan::needing(NeededRead::Login),
        LoginFact::Unread(why) => unread(why),
        LoginFact::Reclaimable(current) => restore_owner(observed, current),
        LoginFact::Ready(login) if login.is_waiting() && login.secret.as_ref() == Some(version) => {
            let version = version.clone();
            Plan::act(Step::Secret(Chore::Settle { version }))
        }
        // The Secret shows the password as in force, or was changed or lost since, which makes the next operation due.
        LoginFact::Ready(_) | LoginFact::Missing | LoginFact::Problem(_) => return None,
    };
    Some(plan.listing_often())
}

/// No other step is due: a generated login gets what it needs, see [`upkeep`].
pub(super) fn renew(observed: &Observation, mut plan: Plan) -> Plan {
    let facts = &observed.facts;
    let (Some(generate), Some(version)) = (&facts.spec.login.generate, &observed.secret_version)
    else {
        return plan;
    };
    let applied = plan.changes.applied.as_ref();
    let applied = applied.or(facts.status.applied.as_ref());
    let in_force = applied.and_then(|applied| applied.password_secret.as_ref());
    if in_force != Some(version) || !is_quiet(observed, &plan) {
        return plan;
    }
    let detail = plan.changes.detail.as_ref().unwrap_or(&facts.status.detail);
    // While the spec forbids changes, no step would set another password on the server.
    let renews = ServerPower::of(detail) == Some(ServerPower::Started)
        && policy::restriction(observed).is_none();
    let known = observed.memory.secrets.login.as_deref();
    let is_unmarked = observed.secret_is_unmarked;
    let now = observed.wall_clock;
    match upkeep(generate, version, is_unmarked, renews, known, now) {
        None => plan,
        Some(Upkeep::Read) => {
            plan.needs = Some(NeededRead::Login);
            plan.within(times::UNREADABLE_RETRY)
        }
        Some(Upkeep::RenewIn(left)) => plan.within(left),
        Some(Upkeep::Write(chore)) => {
            plan.step = Step::Secret(chore);
            plan
        }
    }
}

/// Whether the server is Ready as the spec demands, and nothing is to be done or read.
fn is_quiet(observed: &Observation, plan: &Plan) -> bool {
    matches!(plan.step, Step::Rest)
        && plan.needs.is_none()
        && plan.is_ready()
        && !observed.facts.deleting
        && !observed.is_open()
}

/// No other step is due: the connection Secret gets the values in force. It is no part of the server, so an obstacle is reported
/// next to the readiness and leaves the server Ready.
pub(super) fn connect(observed: &Observation, mut plan: Plan) -> Plan {
    // A server that is being dropped needs no connection Secret.
    let is_dropped = plan.changes.forget_server;
    if !matches!(plan.step, Step::Rest) || plan.needs.is_some() || is_dropped || plan.why.is_none()
    {
        return plan;
    }
    let Some(wanted) = wanted_connection(observed) else {
        return plan;
    };
    match (known(observed, &wanted), obstacle(observed)) {
        (Some(_), None) => return plan,
        (_, Some((_, rest))) if !rest.is_zero() => return plan.within(rest),
        _ => {}
    }
    plan = plan.within(times::UNREADABLE_RETRY);
    plan.step = Step::Secret(Chore::Connect(wanted.into()));
    plan
}

/// The content that the connection Secret should have now; None while a value of it is unknown, an operation is open, or the object
/// is being deleted.
pub(super) fn wanted_connection(observed: &Observation) -> Option<Connection> {
    let facts = &observed.facts;
    let reference = facts.spec.connection_secret.as_ref()?;
    let login = match facts.spec.login.ssh_key {
        Some(_) => ConnectionLogin::Key(references::id(observed, Reference::SshKey)?),
        None => ConnectionLogin::Password(observed.secret_version.clone()?),
    };
    let is_settled = !facts.deleting && !facts.is_open();
    Connection::wanted(reference, &facts.status, login).filter(|_| is_settled)
}

/// The obstacle that the last write of the connection Secret met, and how long the next write still waits.
pub(super) fn obstacle(observed: &Observation) -> Option<(&str, Duration)> {
    let trouble = known(observed, &wanted_connection(observed)?)?
        .trouble
        .as_ref()?;
    let rest = match trouble.until {
        Some(at) => at.saturating_duration_since(observed.now),
        None => times::IDLE_REQUEUE,
    };
    Some((&*trouble.words, rest))
}

/// The result of the last write of this content, unless the Secret was changed since.
fn known<'a>(observed: &'a Observation, wanted: &Connection) -> Option<&'a KnownConnection> {
    let known = observed.memory.secrets.connection.as_deref()?;
    (known.wanted == *wanted && known.version == observed.connection_version).then_some(known)
}
