//! Decides which operation comes next when a recorded server must change, and plans its call.
//!
//! The spec is compared with what the service last accepted ([`Applied`](crate::api::Applied)), and for the power state with the
//! last observation. So an external change erases nothing and sets no password (rules 10 and 11). Operations run one at a time: an
//! open one is resolved in [`follow`](super::follow) before the spec is compared again.

use crate::api::conditions::Readiness;
use crate::api::{Before, ForceStop, Operation, Verb};
use crate::cloud::{ServerId, ServerPower};
use crate::credentials::{KnownLogin, LoginFact};
use crate::instance::fact::Fact;
use crate::instance::observation;
use crate::instance::observation::{Observation, is_idle};
use crate::instance::plan::diff::{as_read, as_specified, target};
use crate::instance::plan::due::Comparison;
use crate::instance::plan::evidence::plan_while_breaker_open;
use crate::instance::plan::secret::credentials;
use crate::instance::plan::step::{NeededRead, OrPlan, Plan, Step, either, first};
use crate::instance::plan::verbs::row;
use crate::instance::plan::{attempt, cause, ended, judge, policy, words};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value};

/// Whether an operation may begin or be repeated: the server is idle, in a known state, ours, and as purchased, and the circuit
/// breaker is closed.
pub(super) fn may_operate(observed: &Observation, detail: &Map<String, Value>) -> bool {
    is_idle(observation::pending(detail))
        && observed.unknown_state(detail).is_none()
        && may_cut_power(observed, detail)
}

/// The same for a power cut, except that the server may be busy with the stop that does not take effect, and in an unknown state.
pub(super) fn may_cut_power(observed: &Observation, detail: &Map<String, Value>) -> bool {
    judge::is_ours(observed, detail)
        && judge::bought_otherwise(observed).is_none()
        && plan_while_breaker_open(observed).is_none()
}

/// The plan of the next operation comes first, if one is due and nothing prevents it.
pub(super) fn begin(server: &Comparison<'_>, id: &ServerId) -> OrPlan<()> {
    let observed = server.observed;
    let due = server.operations();
    let is_touched = due.contains(&Verb::ModifyPassword) && observed.secret_version.is_some();
    if policy::is_observed(observed) && is_touched && matches!(observed.login, LoginFact::NotRead) {
        // A new version of the Secret without another password is no difference, and only the login shows that.
        return Err(Box::new(Plan::needing(NeededRead::Login)));
    }
    if due.is_empty() || policy::restriction(observed).is_some() {
        return Ok(());
    }
    first(plan_while_breaker_open(observed))?;
    if !may_operate(observed, server.detail) {
        // `judge` reports the obstacle instead.
        return Ok(());
    }
    let mut first_wait: Option<Plan> = None;
    for verb in due {
        let plan = match ended::pause(observed, verb, &server.applied) {
            Some((left, why)) => Plan::rest(why, left),
            None => either(announce(server, id, verb)),
        };
        if matches!(plan.step, Step::Operate { .. } | Step::Secret(_)) || plan.needs.is_some() {
            return Err(Box::new(plan));
        }
        // Report the operation that comes first in the order.
        first_wait.get_or_insert(plan);
    }
    first(first_wait)
}

/// The plan that announces a new operation and makes its call.
fn announce(server: &Comparison<'_>, id: &ServerId, verb: Verb) -> OrPlan<Plan> {
    let (observed, applied, detail) = (server.observed, &server.applied, server.detail);
    if verb == Verb::Reinstall && !matches!(observed.detail, Fact::Known(_)) {
        // Never erase a disk based on an old observation.
        return Ok(Plan::needing(NeededRead::Detail));
    }
    let credentials = credentials(observed, verb)?;
    let waiting_password = credentials.as_ref().is_some_and(KnownLogin::is_waiting);
    let specified = match &credentials {
        Some(credentials) => as_read(observed, credentials),
        None => as_specified(observed),
    };
    let target = target(verb, applied, specified);
    let operation = Operation {
        verb,
        attempt: i64::from(attempt::next_attempt(observed)),
        nonce: String::new(),
        started_at: Time(observed.wall_clock),
        generation: observed.facts.generation,
        cause: Some(cause::of(observed, verb, applied, &target)),
        stage: None,
        power_cut: verb == Verb::Stop && observed.facts.spec.stop_policy.force == ForceStop::Always,
        target,
        waiting_password,
        before: Before {
            image: observation::text(detail, "imageResourceUUID").map(ToOwned::to_owned),
            running: ServerPower::of(detail) == Some(ServerPower::Started) || server.left_off,
        },
        accepted: false,
        task_id: None,
        end: None,
    };
    Ok(call(id, operation, true))
}

/// The plan that makes the current call of an operation. `announce`: the intent of the call is written first.
pub(super) fn call(id: &ServerId, operation: Operation, announce: bool) -> Plan {
    let why = Readiness::progress(row(operation.verb).reason, words::running(&operation, id));
    Plan::act(Step::Operate {
        operation: Box::new(operation),
        announce,
    })
    .because(Some(why))
}
