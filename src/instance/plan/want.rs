//! When a recorded server is to become another than it is: decides which operation comes next.
//!
//! The spec is compared with what the service last took ([`Applied`]), never with the last look, so that only a change of
//! the spec or of a Secret erases or changes anything (design section 4, rules 10 and 11). One operation at a time: what
//! is open is resolved in [`pursue`](super::pursue) before the spec is looked at again.

use super::{
    Needs, Plan, Request, Step, Tell, buy, cause, erase, frozen, judge, pursue, refer, restraint,
    words,
};
use crate::api::{Applied, Before, Binding, ForceStop, OpenOperation, PowerState, Verb};
use crate::cloud::{ImageId, Login, PasswordRequest, ReinstallRequest, ServerId};
use crate::instance::login::{Credentials, LoginFact};
use crate::instance::observe::{Fact, Observation, is_idle};
use crate::instance::references;
use serde_json::{Map, Value};

/// What the spec asks for, as far as it can be told without reading a Secret. Without an image where that, or the key pair, is not
/// looked up yet: then nothing is asked for.
pub(super) fn as_specified(seen: &Observation) -> Applied {
    let spec = &seen.facts.spec;
    let key = references::key(seen).map(|key| key.id);
    // Where image or key is not looked up, nothing can be said about the installation.
    let image = references::image(seen).filter(|_| !references::installation_is_open(seen));
    Applied {
        image: image.map(|image| image.id).unwrap_or_default(),
        password_secret: seen.secret_version.clone().filter(|_| key.is_none()),
        key,
        restart: spec.restart.as_ref().map(|restart| restart.token.clone()),
        reinstall: spec
            .reinstall
            .as_ref()
            .map(|reinstall| reinstall.token.clone()),
    }
}

/// What the spec asks for, with the Secret as it was read.
pub(super) fn as_read(seen: &Observation, credentials: &Credentials) -> Applied {
    Applied {
        password_secret: credentials.secret.clone(),
        ..as_specified(seen)
    }
}

/// What the service last took; where status lost it, or tells of another server, what the record tells.
pub(super) fn applied(seen: &Observation, binding: &Binding) -> Applied {
    let status = &seen.facts.status;
    let is_of_it = status.id.is_none() || status.id == binding.id;
    let told = status.applied.clone().filter(|_| is_of_it);
    told.filter(|applied| !applied.image.is_empty())
        .unwrap_or_else(|| last_applied(seen, binding))
}

/// What the recorded operation was to make of the server. Where the record does not say, or was made for a former life of
/// the object (a restored backup), what the spec says counts: nothing destructive follows from a missing record.
pub(super) fn recorded(seen: &Observation, binding: &Binding) -> Applied {
    let operation = &binding.operation;
    if is_former(seen, binding) && seen.facts.spec.login.generate.is_some() {
        // The Secret of the former life went with it, and nobody has set what stands in the one of this life.
        return Applied {
            password_secret: None,
            ..as_specified(seen)
        };
    }
    if is_former(seen, binding) {
        return as_specified(seen);
    }
    let generates = seen.facts.spec.login.generate.is_some();
    let mut target = operation.target.clone();
    // Nobody moves it to where the spec looks for the password by now: the one that stands there is set.
    let is_stranded = operation.waiting_password && !generates;
    if is_stranded {
        target.password_secret = None;
    }
    if !target.image.is_empty() {
        return target;
    }
    // Of the password alone something may be known: of one that the operator makes always, and after an operation that came
    // later than the purchase, where none is recorded because it is still to be set.
    let is_later = operation.verb != Verb::Create;
    let is_known = is_later || is_stranded || generates || target.password_secret.is_some();
    let specified = as_specified(seen);
    if !is_known {
        return specified;
    }
    Applied {
        password_secret: target.password_secret,
        ..specified
    }
}

/// What was applied, as the record tells it. The image that a reinstall was to install which ended badly is not: the wish
/// stands, also where status lost what was applied before it. Its token and key count as applied, since nothing tells
/// whether they were before, and nothing destructive follows from a missing record.
fn last_applied(seen: &Observation, binding: &Binding) -> Applied {
    let (operation, mut target) = (&binding.operation, recorded(seen, binding));
    if is_former(seen, binding) || !ended_badly(seen, binding) {
        return target;
    }
    match operation.verb {
        Verb::Reinstall if !operation.target.image.is_empty() => {
            let before = operation.before.image.clone();
            target.image = before.unwrap_or(target.image);
        }
        // Setting a password does no harm twice: the wish stands.
        Verb::ModifyPassword => target.password_secret = None,
        Verb::Reinstall
        | Verb::Create
        | Verb::Release
        | Verb::Start
        | Verb::Stop
        | Verb::Restart => {}
    }
    target
}

/// Whether the history tells that the recorded operation was not done.
pub(super) fn ended_badly(seen: &Observation, binding: &Binding) -> bool {
    let history = &seen.facts.status.history;
    let entry = history
        .iter()
        .find(|entry| entry.attempt == i64::from(binding.attempt));
    entry.is_some_and(|entry| !entry.succeeded)
}

/// Whether the recorded operation was announced for a former life of the object.
pub(super) fn is_former(seen: &Observation, binding: &Binding) -> bool {
    let made_for = Some(&binding.operation.uid).filter(|uid| !uid.is_empty());
    *made_for.unwrap_or(&binding.uid) != seen.facts.uid
}

/// What has to be done, the first one first. Where one cannot be done now, the next one is: a server is started before its
/// password is set, since a service may want it running for that, and a reinstall that the service refuses holds up
/// nothing else.
pub(super) fn wanted(
    seen: &Observation,
    binding: &Binding,
    applied: &Applied,
    detail: &Map<String, Value>,
) -> Vec<Verb> {
    let spec = as_specified(seen);
    let other_key = match spec.image.is_empty() {
        // Not looked up yet, but it is known whether there is to be one.
        true => applied.key.is_some() != seen.facts.spec.login.ssh_key.is_some(),
        false => spec.key != applied.key,
    };
    let reinstall = erase::reinstall(seen, binding, applied, detail) == erase::Reinstall::Due;
    // With another key a password means a reinstall, which brings it.
    let password = !other_key
        && (lacks_secret(seen)
            || is_new(
                spec.password_secret.as_ref(),
                applied.password_secret.as_ref(),
            ))
        && !is_same_password(seen, applied);
    let restart = is_new(spec.restart.as_ref(), applied.restart.as_ref());
    let state = judge::text(detail, "ecsStatus");
    let power = seen.facts.spec.power_state;
    let all = [
        (Verb::Reinstall, reinstall),
        (
            Verb::Start,
            power == PowerState::Running && state == Some("STOPPED"),
        ),
        (Verb::ModifyPassword, password),
        (
            Verb::Stop,
            power == PowerState::Stopped && state == Some("STARTED"),
        ),
        (
            Verb::Restart,
            restart && power != PowerState::Stopped && state == Some("STARTED"),
        ),
    ];
    let wanted = all.into_iter().filter(|(_, is_wanted)| *is_wanted);
    wanted.map(|(verb, _)| verb).collect()
}

/// A word that stands in the spec and was not applied; one that was taken out of the spec asks for nothing.
pub(super) fn is_new(specified: Option<&String>, applied: Option<&String>) -> bool {
    specified.is_some() && specified != applied
}

/// The spec wants another image than was applied. One that the server shows already is a drift that the spec accepts, but
/// for what a reinstall to it left behind that did not end well.
pub(super) fn is_other_image(
    seen: &Observation,
    binding: &Binding,
    applied: &Applied,
    spec: &Applied,
    detail: &Map<String, Value>,
) -> bool {
    let shows_it = judge::text(detail, "imageResourceUUID") == Some(spec.image.as_str());
    let tried = binding.unfinished.as_ref() == Some(&spec.image)
        || (binding.operation.verb == Verb::Reinstall
            && recorded(seen, binding).image == spec.image);
    spec.image != applied.image && (!shows_it || tried)
}

/// What counts as applied without a call, once nothing has to be done: an image that the server has already, a Secret
/// that was touched and holds the same password, a restart of a server that is off.
pub(super) fn taken_over(
    seen: &Observation,
    binding: &Binding,
    applied: &Applied,
    detail: &Map<String, Value>,
) -> Applied {
    let is_done = wanted(seen, binding, applied, detail).is_empty();
    if !is_done || !is_idle(judge::pending(detail)) {
        return applied.clone();
    }
    let mut specified = match &seen.login {
        // What was read may be newer than what the watch has told.
        LoginFact::Ready(credentials) if is_same_password(seen, applied) => {
            as_read(seen, credentials)
        }
        _ => as_specified(seen),
    };
    if erase::reinstall(seen, binding, applied, detail).is_held() {
        // What only a reinstall brings, and none may begin, is not there.
        specified.image.clone_from(&applied.image);
        specified.reinstall.clone_from(&applied.reinstall);
        if specified.key != applied.key {
            specified.key.clone_from(&applied.key);
            specified
                .password_secret
                .clone_from(&applied.password_secret);
        }
    }
    // A Secret that is missing takes nothing away, and neither does a token that was taken out.
    let password_secret = match &specified.key {
        Some(_) => None,
        None => specified
            .password_secret
            .or_else(|| applied.password_secret.clone()),
    };
    // Without a word for its power nobody can say whether the server could have been restarted.
    let restart = match judge::text(detail, "ecsStatus") {
        Some("STARTED" | "STOPPED") => specified.restart,
        _ => None,
    };
    let is_unknown = specified.image.is_empty();
    let (image, key) = match is_unknown {
        true => (applied.image.clone(), applied.key.clone()),
        false => (specified.image, specified.key),
    };
    Applied {
        password_secret,
        restart: restart.or_else(|| applied.restart.clone()),
        // A token asks for an image, and is carried out once that is known.
        reinstall: specified
            .reinstall
            .filter(|_| !is_unknown)
            .or_else(|| applied.reinstall.clone()),
        image,
        key,
    }
}

/// The Secret that the operator is to make is not there: whoever took it away wants another password.
fn lacks_secret(seen: &Observation) -> bool {
    seen.facts.spec.login.generate.is_some() && seen.secret_version.is_none()
}

/// Whether the password that was read is the one that the server has: it is the version that was applied, or was settled
/// from it by ourselves, or holds what this process knows to be on the server. One that waits in a Secret of ours is not:
/// it is set once more, so that its end shows there.
fn is_same_password(seen: &Observation, applied: &Applied) -> bool {
    let LoginFact::Ready(credentials) = &seen.login else {
        return false;
    };
    let generated = credentials.generated.as_ref();
    let in_force = applied.password_secret.as_ref();
    let is_applied = in_force.is_some() && in_force == credentials.secret.as_ref();
    let settled_from = generated.and_then(|generated| generated.settled_from.as_ref());
    let is_settled_from = in_force.is_some() && in_force == settled_from;
    let current = seen.memory.password.current;
    let is_known = current.is_some() && credentials.digest == current;
    is_applied
        || (generated.is_none_or(|generated| generated.is_settled) && (is_settled_from || is_known))
}

/// Whether an operation may be begun or repeated: the server is idle and ours, and nothing is in doubt.
pub(super) fn may_operate(
    seen: &Observation,
    binding: &Binding,
    detail: &Map<String, Value>,
) -> bool {
    is_idle(judge::pending(detail))
        && judge::is_ours(seen, detail)
        && judge::bought_otherwise(seen, binding).is_none()
        && frozen(seen).is_none()
}

/// The next operation, if one is wanted and nothing stands in its way.
pub(super) fn begin(
    seen: &Observation,
    binding: &Binding,
    id: &ServerId,
    detail: &Map<String, Value>,
) -> Option<Plan> {
    let applied = applied(seen, binding);
    let wanted = wanted(seen, binding, &applied, detail);
    let is_touched = wanted.contains(&Verb::ModifyPassword) && seen.secret_version.is_some();
    if restraint::is_observed(seen) && is_touched && matches!(seen.login, LoginFact::NotAsked) {
        // A Secret that was only touched is no difference.
        let mut plan = Plan::rest(Tell::default().with_id(Some(id.clone())), super::SOON);
        plan.needs = Needs::Login;
        return Some(plan);
    }
    if wanted.is_empty() || restraint::restraint(seen).is_some() {
        return None;
    }
    if let Some(mut plan) = frozen(seen) {
        plan.tell.id = Some(id.clone());
        return Some(plan);
    }
    if !may_operate(seen, binding, detail) {
        // What stands in the way is said instead.
        return None;
    }
    let mut held_up: Option<Plan> = None;
    for verb in wanted {
        let plan = match pursue::pause(seen, binding, verb, &applied) {
            Some(left) => Plan::rest(
                Tell::of(pursue::waiting(seen, verb)).with_id(Some(id.clone())),
                left,
            ),
            None => announce(seen, binding, id, verb, &applied, detail),
        };
        if matches!(plan.step, Step::Call { .. } | Step::Secret(_)) || plan.needs != Needs::Nothing
        {
            return Some(plan);
        }
        // What is wanted first is what is told.
        held_up.get_or_insert(plan);
    }
    held_up
}

/// Whether what the recorded attempt asked for is still what the spec and the Secret ask for.
pub(super) fn is_still_asked(seen: &Observation, binding: &Binding) -> bool {
    let operation = &binding.operation;
    let same_secret = seen.secret_version.is_none()
        || operation.target.password_secret.is_none()
        || seen.secret_version == operation.target.password_secret;
    operation.generation == seen.facts.generation && (!operation.verb.bears_login() || same_secret)
}

/// Announces an attempt and makes its call.
fn announce(
    seen: &Observation,
    binding: &Binding,
    id: &ServerId,
    verb: Verb,
    applied: &Applied,
    detail: &Map<String, Value>,
) -> Plan {
    if verb == Verb::Reinstall && !matches!(seen.detail, Fact::Known(_)) {
        // A disk is not erased after a look of yesterday.
        let mut plan = Plan::rest(Tell::default().with_id(Some(id.clone())), super::SOON);
        plan.needs = Needs::Detail;
        return plan;
    }
    let credentials = match credentials(seen, verb) {
        Ok(credentials) => credentials,
        Err(mut plan) => {
            plan.tell.id = Some(id.clone());
            return *plan;
        }
    };
    let waiting_password = credentials.as_ref().is_some_and(Credentials::is_waiting);
    let specified = match &credentials {
        Some(credentials) => as_read(seen, credentials),
        None => as_specified(seen),
    };
    let target = target(verb, applied, specified);
    let operation = OpenOperation {
        verb,
        started_at: seen.wall,
        generation: seen.facts.generation,
        uid: seen.facts.uid.clone(),
        cause: Some(cause::of(seen, binding, verb, applied, &target)),
        power_cut: verb == Verb::Stop && seen.facts.spec.stop_policy.force == ForceStop::Always,
        target,
        waiting_password,
        before: Before {
            image: judge::text(detail, "imageResourceUUID").map(ToOwned::to_owned),
            running: judge::text(detail, "ecsStatus") == Some("STARTED")
                || was_running(seen, binding),
        },
    };
    let unfinished = unfinished(binding, verb, applied);
    let resolved = refer::after(seen, binding, verb);
    let binding = Binding {
        unfinished,
        resolved,
        attempt: buy::next_attempt(seen),
        nonce: String::new(),
        task: None,
        operation,
        ..binding.clone()
    };
    let tell = Tell::progress(words::reason(verb), words::asking(verb, id));
    let tell = tell.with_id(Some(id.clone()));
    match request(seen, &binding, id, credentials) {
        Some(request) => Plan::act(
            Step::Call {
                binding: Box::new(binding),
                announce: true,
                request: Box::new(request),
            },
            tell,
        ),
        None => Plan::rest(tell, super::SOON),
    }
}

/// A server that was stopped for a reinstall which did not come about ran before.
fn was_running(seen: &Observation, binding: &Binding) -> bool {
    let mut history = seen.facts.status.history.iter();
    let ended = history.find(|entry| entry.attempt == i64::from(binding.attempt));
    let in_vain = ended.is_some_and(|entry| entry.verb == Verb::Reinstall && !entry.succeeded);
    in_vain && binding.operation.before.running
}

/// The image of a reinstall that did not end well, for as long as no other one follows.
fn unfinished(former: &Binding, verb: Verb, applied: &Applied) -> Option<String> {
    let tried = match former.operation.verb {
        Verb::Reinstall => Some(&former.operation.target.image),
        _ => former.unfinished.as_ref(),
    };
    tried
        .filter(|image| verb != Verb::Reinstall && **image != applied.image)
        .cloned()
}

/// The login, where the operation needs one.
pub(super) fn credentials(
    seen: &Observation,
    verb: Verb,
) -> Result<Option<Credentials>, Box<Plan>> {
    if verb.bears_login() {
        buy::login(seen).map(Some)
    } else {
        Ok(None)
    }
}

/// What the server is to be after an operation: a reinstall brings all, a password change the password. A server that is
/// reinstalled or started has restarted.
pub(super) fn target(verb: Verb, applied: &Applied, specified: Applied) -> Applied {
    let applied = applied.clone();
    match verb {
        Verb::Create | Verb::Reinstall => Applied {
            restart: specified.restart.or(applied.restart),
            reinstall: specified.reinstall.or(applied.reinstall),
            ..specified
        },
        Verb::ModifyPassword => Applied {
            password_secret: specified.password_secret,
            ..applied
        },
        Verb::Start | Verb::Restart => Applied {
            restart: specified.restart.or(applied.restart.clone()),
            ..applied
        },
        Verb::Stop | Verb::Release => applied,
    }
}

/// The call that a record announces; none where the login does not fit the operation.
pub(super) fn request(
    seen: &Observation,
    binding: &Binding,
    id: &ServerId,
    credentials: Option<Credentials>,
) -> Option<Request> {
    let region = seen.facts.places.last().map(|place| place.region.clone())?;
    let server = id.clone();
    let login = credentials.map(|credentials| credentials.login);
    match (binding.operation.verb, login) {
        (Verb::Reinstall, Some(login)) => Some(Request::Reinstall(ReinstallRequest {
            server,
            image: ImageId::from(binding.operation.target.image.as_str()),
            region,
            login,
        })),
        (Verb::ModifyPassword, Some(Login::Password(password))) => {
            Some(Request::ModifyPassword(PasswordRequest {
                server,
                region,
                password,
            }))
        }
        (Verb::Start, _) => Some(Request::Start(server)),
        (Verb::Stop, _) => Some(Request::Stop {
            id: server,
            force: seen.facts.spec.stop_policy.force == ForceStop::Always,
        }),
        (Verb::Restart, _) => Some(Request::Restart(server)),
        (Verb::Create | Verb::Release | Verb::Reinstall | Verb::ModifyPassword, _) => None,
    }
}
