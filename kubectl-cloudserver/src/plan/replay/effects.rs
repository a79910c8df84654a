//! The effects of steps on an observation, and stand-ins for facts that could not be read.

use cloud_server_operator::api::{Operation, Verb};
use cloud_server_operator::cloud::{Detail, ServerId, ServerPower};
use cloud_server_operator::credentials::{KnownLogin, LoginFact};
use cloud_server_operator::instance::fact::Fact;
use cloud_server_operator::instance::observation::{AccountFact, Observation, SessionFacts};
use jiff::tz::Offset;
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// A login in place of one that was not read. It is sent nowhere.
pub(super) fn stand_in(observed: &Observation) -> LoginFact {
    LoginFact::Ready(KnownLogin {
        secret: observed.secret_version.clone(),
        ..KnownLogin::default()
    })
}

/// Whether the server has a name of this Instance. An unknown name counts as one.
pub(super) fn is_own(observed: &Observation) -> bool {
    let Fact::Known(detail) = &observed.detail else {
        return true;
    };
    let name = detail.name();
    name.is_none_or(|name| observed.facts.is_own_name(&detail.id, name))
}

/// Why the server was not read.
pub(super) fn unread(observed: &Observation, id: &ServerId) -> String {
    let why = match (&observed.account, &observed.detail) {
        (AccountFact::NotFound, _) => {
            format!("there is no Account {}", observed.account_key.name)
        }
        (AccountFact::Unusable(problem), _) => problem.message.clone(),
        (_, Fact::Unknown(why)) => why.clone(),
        _ => "its Account has not been read".to_owned(),
    };
    format!("server {id} could not be read: {why}")
}

/// Assumes the server as status shows it, and its Account as usable.
pub(super) fn as_in_status(observed: &mut Observation, id: ServerId) {
    let fields = observed.facts.status.detail.clone();
    observed.detail = Fact::Known(Detail { id, fields });
    if !matches!(observed.account, AccountFact::AccountSession(_)) {
        let record = observed.facts.purchase();
        let credential = record.map_or("", |record| record.credential.as_str());
        observed.account = AccountFact::AccountSession(SessionFacts {
            settle: Duration::ZERO,
            imports: Default::default(),
            credential: credential.into(),
            former_credential: None,
            utc_offset: Offset::UTC,
            knows_our_account: false,
        });
    }
}

/// Continues as if the pauses after failures were over.
pub(super) fn without_pauses(observed: &mut Observation) -> ControlFlow<()> {
    let status = Arc::make_mut(&mut observed.facts.status);
    status.operation = None;
    status.retries.retain(|retry| retry.not_before.is_none());
    ControlFlow::Continue(())
}

/// Ends the operation with success: sets the applied values, and shows the server as the operation leaves it.
pub(super) fn complete(observed: &mut Observation, operation: &Operation) {
    let id = observed.facts.id().map(|id| id.to_string());
    let status = Arc::make_mut(&mut observed.facts.status);
    let mut applied = operation.target.clone();
    if applied.image.is_empty() {
        applied.image = status.applied.take().unwrap_or_default().image;
    }
    // The spec no longer names the Secret with the pending password, so the password that the spec names now must be set.
    if operation.waiting_password && observed.facts.spec.login.generate.is_none() {
        applied.password_secret = None;
    }
    let shows = match operation.verb {
        Verb::Reinstall => Some(("imageResourceUUID", json!(applied.image))),
        Verb::Start | Verb::Restart => Some(("ecsStatus", json!(ServerPower::Started))),
        Verb::Stop => Some(("ecsStatus", json!(ServerPower::Stopped))),
        Verb::Create | Verb::Release | Verb::ModifyPassword => None,
    };
    if let (Fact::Known(detail), Some((field, value))) = (&mut observed.detail, shows) {
        detail.fields.insert(field.to_owned(), value);
        status.detail.clone_from(&detail.fields);
    }
    status.applied = Some(applied);
    (status.operation, status.unfinished_image) = (None, None);
    (status.attempt, status.id) = (operation.attempt, id);
    observed.memory.stop_following();
    observed.task = Fact::NotRead;
}

/// The cause of an operation, with old and new values.
pub(super) fn cause(observed: &Observation, operation: &Operation) -> String {
    let (facts, target) = (&observed.facts, &operation.target);
    let former = facts.status.applied.clone().unwrap_or_default();
    let was_image = match former.image.is_empty() {
        true => operation.before.image.clone(),
        false => Some(former.image),
    };
    match operation.verb {
        Verb::ModifyPassword => {
            let secret = facts.login_secret().map(|secret| secret.name);
            format!(
                "the password in effect was not set from this version of Secret {}; the one there is sent, even if it is the same",
                secret.unwrap_or_default()
            )
        }
        Verb::Start if facts.status.left_off => "a reinstall left the server off".to_owned(),
        Verb::Start | Verb::Stop => format!("spec.powerState is {:?}", facts.spec.power_state),
        Verb::Create | Verb::Release | Verb::Reinstall | Verb::Restart => {
            let (reinstall, restart) = (target.reinstall.clone(), target.restart.clone());
            let all = [
                ("image", was_image, Some(target.image.clone())),
                ("key pair", former.key, target.key.clone()),
                ("spec.reinstall.token", former.reinstall, reinstall),
                ("spec.restart.token", former.restart, restart),
            ];
            let changed = all.into_iter().filter(|(_, was, now)| was != now);
            let word = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
            let words =
                changed.map(|(field, was, now)| format!("{field} {} → {}", word(was), word(now)));
            words.collect::<Vec<_>>().join(", ")
        }
    }
}
