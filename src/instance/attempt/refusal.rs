//! The sentences for calls that the service refused, with the remedy.

use crate::api::conditions::Reason;
use crate::api::{Reference, Stage, Verb};
use crate::cloud::{Error, ServerPower};
use crate::instance::fact::Fact;
use crate::instance::observation::Observation;
use crate::instance::outcome::Outcome;
use crate::instance::references;

/// The service refused a call, so it had no effect.
pub(super) fn refused(error: &Error, verb: Verb, observed: &Observation) -> Outcome {
    let account = &observed.account_key.name;
    let reason = reason_of(error, verb, observed);
    let message = match reason {
        Reason::TokenRefused => {
            format!("Account {account}: {error}: put a valid token into the Secret that it names")
        }
        Reason::AccountNotNormal => format!(
            "Account {account}: {error}: resolve this with the service; the operator retries automatically"
        ),
        Reason::CreateRefused | Reason::OperationRefused => {
            format!("{error}: {}", remedy(error, verb, observed))
        }
        _ => error.to_string(),
    };
    Outcome::Refused {
        message,
        reason,
        after: error.retry_after(),
    }
}

/// The remedy: the field of the refused request that the service's error code refers to, with its value; a general one if it names
/// none. A change of another field helps nothing, and of the image it would cost the disk.
fn remedy(error: &Error, verb: Verb, observed: &Observation) -> String {
    let code = error.code().unwrap_or_default().to_ascii_lowercase();
    let (spec, secret) = (&observed.facts.spec, observed.facts.login_secret());
    // Name the field that the user wrote: the selector's, if the identifier was looked up.
    let named = |reference: Reference| {
        let meaning = references::meaning(observed, reference)?;
        let field = match meaning.pin {
            Some(_) => reference.field(),
            None => reference.exact_field(),
        };
        Some((field, meaning.id))
    };
    let firewall = match &spec.firewall {
        None => Some(("spec.firewall", "it is left out".to_owned())),
        Some(_) => named(Reference::Firewall),
    };
    let password = secret.map(|secret| ("the password in Secret", secret.name));
    let fields = [
        ("password", password),
        ("image", named(Reference::Image)),
        ("sshkey", named(Reference::SshKey)),
        ("package", named(Reference::Package)),
        ("firewall", firewall),
        ("zone", Some(("spec.zone", spec.zone.clone()))),
        ("region", Some(("spec.region", spec.region.clone()))),
    ];
    let sent = match verb {
        Verb::Create => fields.len(),
        Verb::Reinstall => 3,
        Verb::ModifyPassword => 1,
        Verb::Start | Verb::Stop | Verb::Restart | Verb::Release => 0,
    };
    let mut named = fields.into_iter().take(sent);
    let named = named.find_map(|(word, field)| field.filter(|_| code.contains(word)));
    let open = observed.open();
    let was_stopped = open.is_some_and(|open| open.stage == Some(Stage::Erasing));
    match (named, was_stopped) {
        (Some((field, value)), _) => format!("fix {field} ({value})"),
        (None, false) => "fix the spec, or resolve this with the service; the operator retries at once when the spec changes, and \
                 otherwise every few minutes"
            .to_owned(),
        (None, true) => "fix the spec, or resolve this with the service; the operator retries when the spec changes, and otherwise \
                 once a day, since the server is stopped for each try"
            .to_owned(),
    }
}

/// The reason for a refusal. `CreateRefused` and `OperationRefused` remain if nothing shows that waiting helps.
fn reason_of(error: &Error, verb: Verb, observed: &Observation) -> Reason {
    if error.is_unauthorized() {
        Reason::TokenRefused
    } else if error.is_account_not_normal() {
        Reason::AccountNotNormal
    } else if error.is_rate_limited() {
        Reason::RateLimited
    } else if verb == Verb::Reinstall && error.requires_stopped_server() && !is_stopped(observed) {
        Reason::Stopping
    } else if error.is_conflict() {
        Reason::ServiceBusy
    } else if error.requires_stopped_server() && verb == Verb::Reinstall {
        // The server is stopped already, so the refusal has another cause.
        Reason::OperationRefused
    } else if error.is_retryable() {
        Reason::ServiceUnreachable
    } else if verb == Verb::Create {
        Reason::CreateRefused
    } else {
        Reason::OperationRefused
    }
}

fn is_stopped(observed: &Observation) -> bool {
    matches!(&observed.detail, Fact::Known(detail) if detail.power() == Some(ServerPower::Stopped))
}
