//! The login of an operation, read only when a plan needs it.

use crate::api::Verb;
use crate::api::conditions::{Readiness, Reason};
use crate::credentials::{Chore, KnownLogin, LoginFact};
use crate::instance::observation::Observation;
use crate::instance::plan::step::{NeededRead, OrPlan, Plan, Step};
use crate::instance::times;
use crate::runtime::events::EventNote;

/// The login, or the plan to get one or to report the problem. It is read only when a plan needs it.
pub(super) fn login(observed: &Observation) -> OrPlan<KnownLogin> {
    Err(Box::new(match &observed.login {
        LoginFact::Ready(login) => return Ok(login.clone()),
        LoginFact::Problem(readiness) => Plan::rest(readiness.clone(), times::IDLE_REQUEUE),
        LoginFact::Unread(why) => unread(why),
        LoginFact::Missing => generate(observed),
        LoginFact::Unowned(version) => adopt(observed, version),
        LoginFact::NotAsked => Plan::needing(NeededRead::Login),
    }))
}

/// The login Secret could not be read.
pub(super) fn unread(why: &str) -> Plan {
    let readiness = Readiness::reconciling(Reason::SecretReadFailed, why);
    Plan::rest(readiness, times::SECRET_UNREAD_RETRY)
}

/// The Secret of this Instance exists without its owner reference. It gets the reference back before its password is used, and
/// keeps the password.
pub(super) fn adopt(observed: &Observation, version: &str) -> Plan {
    let name = observed.facts.login_secret().map(|secret| secret.name);
    let note = format!(
        "adopted Secret {}, which was made for this Instance and had lost its owner",
        name.unwrap_or_default()
    );
    let version = version.to_owned();
    Plan::act(Step::Secret(Chore::Keep { version }))
        .with_event(EventNote::normal("SecretAdopted", note))
}

/// The Secret does not exist: the operator generates a password, and reads it once the Secret is written.
fn generate(observed: &Observation) -> Plan {
    let name = observed.facts.login_secret().map(|secret| secret.name);
    let note = format!(
        "wrote a new password into Secret {}",
        name.unwrap_or_default()
    );
    Plan::act(Step::Secret(Chore::Generate))
        .with_event(EventNote::normal("PasswordGenerated", note))
}

/// The login, if the operation needs one.
pub(super) fn credentials(observed: &Observation, verb: Verb) -> OrPlan<Option<KnownLogin>> {
    let login = verb.bears_login().then(|| login(observed));
    login.transpose()
}
