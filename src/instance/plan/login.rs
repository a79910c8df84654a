//! The login that an operation brings: read only once a plan asks for it.

use crate::api::Verb;
use crate::api::conditions::{Readiness, Reason};
use crate::instance::login::{Credentials, LoginFact};
use crate::instance::observation::Observation;
use crate::instance::plan::step::{Needs, Plan, SecretStep, Step, Tell};
use crate::instance::times;
use crate::runtime::events::EventNote;

/// The login, or the plan that says what is the matter with it. It is read only once a plan asks for it.
pub(super) fn login(seen: &Observation) -> Result<Credentials, Box<Plan>> {
    match &seen.login {
        LoginFact::Ready(credentials) => Ok(credentials.clone()),
        LoginFact::Problem(readiness) => Err(Box::new(Plan::rest(
            Tell::of(readiness.clone()),
            times::IDLE_REQUEUE,
        ))),
        LoginFact::Unread(why) => Err(Box::new(unread(why))),
        LoginFact::Missing => Err(Box::new(generate(seen))),
        LoginFact::NotAsked => {
            let mut plan = Plan::rest(Tell::default(), times::PASS_RECHECK);
            plan.needs = Needs::Login;
            Err(Box::new(plan))
        }
    }
}

/// The Secret with the login could not be read.
pub(super) fn unread(why: &str) -> Plan {
    let readiness = Readiness::reconciling(Reason::SecretUnread, why);
    Plan::rest(Tell::of(readiness), times::SECRET_UNREAD_RETRY)
}

/// No Secret is there: a password is made, and looked at once it is written.
pub(super) fn generate(seen: &Observation) -> Plan {
    let name = seen.facts.login_secret().map(|secret| secret.name);
    let note = format!(
        "wrote a new password into Secret {}",
        name.unwrap_or_default()
    );
    let mut tell = Tell::default();
    tell.events
        .push(EventNote::normal("PasswordGenerated", note));
    Plan::act(Step::Secret(SecretStep::Generate), tell)
}

/// The login, where the operation needs one.
pub(super) fn credentials(
    seen: &Observation,
    verb: Verb,
) -> Result<Option<Credentials>, Box<Plan>> {
    if verb.bears_login() {
        login(seen).map(Some)
    } else {
        Ok(None)
    }
}
