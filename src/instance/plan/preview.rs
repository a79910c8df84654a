//! Predicts the effects of an object before a user applies it. A reconcile and the preview use the same decisions, but a
//! reconcile makes one at a time, and the preview makes all of them.
//!
//! A reconcile does one thing and observes again, while a user who reads a preview wants to know everything that follows. The
//! preview therefore lists all operations that are due on a server, treats an open operation as done, and reports obstacles in
//! the words of status.

use crate::api::conditions::{Readiness, Reason, State};
use crate::api::{Applied, OnExternalDeletion, PowerState, PurchaseRecord, Verb};
use crate::cloud::ServerId;
use crate::instance::fact::Fact;
use crate::instance::facts::Record;
use crate::instance::observation::{AccountFact, Observation, is_idle};
use crate::instance::plan::step::{Plan, SecretStep, Step};
use crate::instance::plan::{diff, due, erase, judge, resolve, words};
use crate::instance::resolved_references::Meaning;
use crate::instance::{observation, references};
use crate::session::Rival;
use serde_json::{Map, Value};

/// One planned change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedChange {
    /// An operation of the service; [`Verb::Create`] buys a server.
    Operation(Verb),
    /// An existing server is recorded as this Instance's server.
    TakeOver(ServerId),
    /// A Secret of the operator is written.
    Secret,
}

/// A planned change with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    pub planned: PlannedChange,
    /// The cause, in words for users: from what to what.
    pub why: String,
}

/// Information that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Whose answer is missing and why, in words for users.
    pub why: String,
    /// The reason that status would have, if any.
    pub reason: Option<Reason>,
}

/// The predicted effects of an object.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// The changes, in order.
    pub acts: Vec<Act>,
    /// The operation in progress, which ends before these changes begin.
    pub first: Option<String>,
    /// The obstacle that needs human action, in the words of status.
    pub held: Option<Readiness>,
    /// Information whose absence makes a prediction impossible.
    pub unknown: Option<Unknown>,
    /// Why the server could not be read, if its status was used instead.
    pub unseen: Option<Unknown>,
    /// Notes for users that change nothing.
    pub notes: Vec<String>,
}

impl Preview {
    fn of(planned: PlannedChange, why: impl Into<String>) -> Self {
        let why = why.into();
        Self {
            acts: vec![Act { planned, why }],
            ..Self::default()
        }
    }

    fn held(readiness: Readiness) -> Self {
        Self {
            held: Some(readiness),
            ..Self::default()
        }
    }

    fn unknown(unknown: Unknown) -> Self {
        Self {
            unknown: Some(unknown),
            ..Self::default()
        }
    }
}

/// Predicts the effects of the observed object, given the plan that a reconcile would make.
pub fn preview(observed: &Observation, plan: &Plan) -> Preview {
    let facts = &observed.facts;
    if facts.deleting {
        let message = "this Instance is being deleted, and whatever is applied to it is gone with it: wait until it is gone, \
                       and apply it then";
        return Preview::held(Readiness::stalled(Reason::Releasing, message));
    }
    match &facts.record {
        Record::Speaks(record) if record.id.is_some() && observed.create_failed().is_none() => {
            of_server(observed, plan, record)
        }
        Record::Speaks(_) | Record::None | Record::Invalid(_) => without_server(observed, plan),
    }
}

/// No current server is recorded: the plan's step decides.
fn without_server(observed: &Observation, plan: &Plan) -> Preview {
    match &plan.step {
        Step::Buy { .. } => Preview::of(PlannedChange::Operation(Verb::Create), purchase(observed)),
        Step::Secret(step @ (SecretStep::Generate | SecretStep::Keep { .. })) => {
            let secret = observed.facts.login_secret().map(|secret| secret.name);
            let secret = secret.unwrap_or_default();
            let why = match step {
                SecretStep::Generate => format!("a password is made in Secret {secret}"),
                _ => format!("Secret {secret} gets this Instance as its owner again"),
            };
            let mut preview = Preview::of(PlannedChange::Secret, why);
            let planned = PlannedChange::Operation(Verb::Create);
            let why = purchase(observed);
            preview.acts.push(Act { planned, why });
            preview
        }
        Step::Record { record } => {
            let id = ServerId::from(record.id.clone().unwrap_or_default());
            let why = match &record.imported {
                Some(name) => format!("spec.import names it; it is called {name} at the service"),
                None => "its name ends in the marker of this Instance".to_owned(),
            };
            Preview::of(PlannedChange::TakeOver(id), why)
        }
        Step::Rest
        | Step::Operate { .. }
        | Step::Auxiliary { .. }
        | Step::Release { .. }
        | Step::Secret(_)
        | Step::Finish
        | Step::LetGo { .. } => match plan.readiness() {
            Some(readiness) => waits(observed, readiness),
            None => Preview::unknown(Unknown {
                why: "the operator has not looked at its Account yet".to_owned(),
                reason: None,
            }),
        },
    }
}

/// The meaning of a readiness for a preview.
fn waits(observed: &Observation, readiness: &Readiness) -> Preview {
    match readiness.reason {
        // The wait ends without human action, and its result is known.
        Reason::CreateRateReached | Reason::CreateFailed | Reason::RecordedByOtherCluster => {
            let mut preview =
                Preview::of(PlannedChange::Operation(Verb::Create), purchase(observed));
            preview.notes.push(readiness.message.clone());
            preview
        }
        Reason::Creating
        | Reason::CreateUnconfirmed
        | Reason::CheckingForExistingServer
        | Reason::Importing
        | Reason::ReferenceLookupFailed
        | Reason::SecretReadFailed
        | Reason::ServerReadFailed
        | Reason::ServiceUnreachable
        | Reason::ServiceBusy
        | Reason::RateLimited
        | Reason::InventoryUnreliable => Preview::unknown(Unknown {
            why: readiness.message.clone(),
            reason: Some(readiness.reason),
        }),
        _ => Preview::held(readiness.clone()),
    }
}

/// The parameters of the purchase.
fn purchase(observed: &Observation) -> String {
    let written = |meaning: Option<Meaning>| match meaning {
        Some(Meaning {
            id,
            pin: Some(found),
        }) => format!("{id} ({})", found.from),
        Some(Meaning { id, pin: None }) => id,
        None => "not looked up".to_owned(),
    };
    format!(
        "package {} in {}, image {}",
        written(references::package(observed)),
        observed.facts.place(),
        written(references::image(observed))
    )
}

/// A server is recorded: predicts everything that its spec asks for.
fn of_server(observed: &Observation, plan: &Plan, record: &PurchaseRecord) -> Preview {
    let id = record.id.as_deref().unwrap_or_default();
    if observed.rival != Rival::None {
        return match plan.readiness() {
            Some(readiness) => Preview::held(readiness.clone()),
            None => Preview::unknown(Unknown {
                why: format!("another Instance has server {id}"),
                reason: None,
            }),
        };
    }
    let detail = match &observed.detail {
        Fact::Known(detail) => &detail.fields,
        Fact::Absent => return missing(observed, plan, record),
        Fact::NotAsked | Fact::Unknown(_) if observed.facts.status.detail.is_empty() => {
            return Preview::unknown(unseen(observed, id));
        }
        Fact::NotAsked | Fact::Unknown(_) => &observed.facts.status.detail,
    };
    let mut preview = Preview::default();
    if !matches!(observed.detail, Fact::Known(_)) {
        preview.unseen = Some(unseen(observed, id));
    }
    let open = observed.open();
    let is_open = open.is_some();
    let applied = match &open {
        Some(open) => {
            preview.first = Some(format!("the {} that runs now", open.verb));
            diff::brought(observed, open)
        }
        None => diff::applied(observed, record),
    };
    if let (false, Some(word)) = (
        is_open,
        observation::pending(detail).filter(|w| !is_idle(Some(w))),
    ) {
        preview.first = Some(format!("what the service does now ({word})"));
    }
    if let Some(readiness) = judge::bought_otherwise(observed) {
        preview.held = Some(readiness);
        return preview;
    }
    // The observation is older than the result of the open operation.
    let after = open.map(|open| once_done(open.verb, &applied, detail));
    let detail = after.as_ref().unwrap_or(detail);
    let mut wanted = due::wanted(observed, &applied, detail);
    if wanted.contains(&Verb::Reinstall) {
        // A reinstall sets the login, and counts as a restart.
        wanted.retain(|verb| !matches!(verb, Verb::ModifyPassword | Verb::Restart));
    }
    for verb in wanted {
        let why = reason(observed, verb, &applied, detail);
        let planned = PlannedChange::Operation(verb);
        preview.acts.push(Act { planned, why });
    }
    stands_in_the_way(observed, plan, &applied, detail, &mut preview);
    if preview.acts.is_empty() && matches!(plan.step, Step::Secret(_)) {
        let why = match &plan.step {
            Step::Secret(SecretStep::Renew { .. }) => "the generated password is due for another",
            Step::Secret(SecretStep::Keep { .. }) => {
                "the login Secret lacks its owner, or a label or an annotation of the spec"
            }
            _ => "a Secret of the operator does not say what is in force",
        };
        let (planned, why) = (PlannedChange::Secret, why.to_owned());
        preview.acts.push(Act { planned, why });
    }
    preview
}

/// The server after the open operation has succeeded. A manifest that reverts the operation's target asks to undo it, which for
/// an image means erasing the disk again.
fn once_done(verb: Verb, applied: &Applied, detail: &Map<String, Value>) -> Map<String, Value> {
    let shows = match verb {
        Verb::Reinstall => Some(("imageResourceUUID", applied.image.as_str())),
        Verb::Start | Verb::Restart => Some(("ecsStatus", "STARTED")),
        Verb::Stop => Some(("ecsStatus", "STOPPED")),
        Verb::Create | Verb::Release | Verb::ModifyPassword => None,
    };
    let mut after = detail.clone();
    after.extend(shows.map(|(field, word)| (field.to_owned(), Value::from(word))));
    after
}

/// Adds the obstacles to the changes, and notes.
fn stands_in_the_way(
    observed: &Observation,
    plan: &Plan,
    applied: &Applied,
    detail: &Map<String, Value>,
    preview: &mut Preview,
) {
    if let Some(trouble) = resolve::trouble(observed) {
        let Preview { held, unknown, .. } = waits(observed, &trouble);
        (preview.held, preview.unknown) = (held, unknown);
        return;
    }
    if references::installation_is_open(observed) {
        preview.unknown = Some(Unknown {
            why: "what spec.image or spec.login.sshKey means could not be looked up".to_owned(),
            reason: Some(Reason::ReferenceLookupFailed),
        });
        return;
    }
    if let Some(readiness) = erase::held(observed, applied, detail) {
        preview.held = Some(readiness);
        return;
    }
    let is_ours = judge::is_ours(observed, detail);
    let readiness = judge::judge(observed, applied, detail);
    let written = plan.readiness();
    match (readiness.reason, written) {
        _ if !is_ours => preview.held = Some(readiness),
        // A missing or invalid password or key delays the operations that need it.
        (_, Some(written)) if !preview.acts.is_empty() && holds_up(written.reason) => {
            preview.held = Some(written.clone());
        }
        (Reason::ImageDiffers | Reason::NameDiffers, _) => preview.notes.push(readiness.message),
        (Reason::PowerStateDiffers, _) if preview.first.is_none() => {
            preview.notes.push(readiness.message);
        }
        _ => {}
    }
}

/// Whether a user, or a Secret, must provide something first.
fn holds_up(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::LoginSecretNotFound
            | Reason::LoginPasswordInvalid
            | Reason::SecretNameConflict
            | Reason::SecretNotWritable
            | Reason::InventoryUnreliable
            | Reason::OperationRefused
    )
}

/// The service no longer knows the server.
fn missing(observed: &Observation, plan: &Plan, record: &PurchaseRecord) -> Preview {
    let spec = &observed.facts.spec;
    let id = record.id.as_deref().unwrap_or_default();
    let again = spec.on_external_deletion == OnExternalDeletion::Recreate
        && i64::from(record.recreated) < i64::from(spec.recreate_limit)
        && !observed.is_open();
    if again && spec.import.is_some() {
        // An Instance with `spec.import` buys nothing; the plan shows whether there is a server to import.
        return without_server(observed, plan);
    }
    if again {
        let why = format!(
            "server {id} is not at the service any more, and spec.onExternalDeletion is Recreate; {}",
            purchase(observed)
        );
        return Preview::of(PlannedChange::Operation(Verb::Create), why);
    }
    let written = plan.readiness().cloned();
    if let Some(told) = written.as_ref()
        && told.state == State::Reconciling
        && observed.is_open()
    {
        // The end of the open operation decides whether another server is bought.
        return Preview::unknown(Unknown {
            why: told.message.clone(),
            reason: Some(told.reason),
        });
    }
    let stands = written.filter(|readiness| readiness.state != State::Reconciling);
    Preview::held(stands.unwrap_or_else(|| {
        let message = format!(
            "the service does not know server {id} any more; nothing is bought in its place: {}",
            words::another(spec)
        );
        Readiness::stalled(Reason::ServerMissing, message)
    }))
}

fn unseen(observed: &Observation, id: &str) -> Unknown {
    let (why, reason) = match (&observed.account, &observed.detail) {
        (AccountFact::NotFound(name), _) => (
            format!(": there is no Account {name}"),
            Reason::AccountNotFound,
        ),
        (AccountFact::Unusable(problem), _) => (format!(": {}", problem.message), problem.reason),
        (_, Fact::Unknown(why)) => (format!(": {why}"), Reason::ServerReadFailed),
        _ => (String::new(), Reason::ServerReadFailed),
    };
    Unknown {
        why: format!("server {id} could not be looked at{why}"),
        reason: Some(reason),
    }
}

/// The cause of an operation: from what to what.
fn reason(
    observed: &Observation,
    verb: Verb,
    applied: &Applied,
    detail: &Map<String, Value>,
) -> String {
    let spec = diff::as_specified(observed);
    let none = || "none".to_owned();
    let state = || observation::text(detail, "ecsStatus").unwrap_or("in an unknown state");
    let token = |now: Option<String>, was: &Option<String>| {
        format!(
            "token {} → {}",
            was.clone().unwrap_or_else(none),
            now.unwrap_or_else(none)
        )
    };
    match verb {
        Verb::Reinstall => {
            let mut why = Vec::new();
            if spec.image != applied.image {
                why.push(format!("image {} → {}", applied.image, spec.image));
            }
            if spec.key != applied.key {
                let written = |key: &Option<String>| match key {
                    Some(key) => format!("key pair {key}"),
                    None => "password".to_owned(),
                };
                why.push(format!(
                    "login {} → {}",
                    written(&applied.key),
                    written(&spec.key)
                ));
            }
            if diff::is_new(spec.reinstall.as_ref(), applied.reinstall.as_ref()) {
                let written = token(spec.reinstall, &applied.reinstall);
                why.push(format!("spec.reinstall.{written}"));
            }
            why.join(", ")
        }
        Verb::ModifyPassword => match observed.facts.login_secret() {
            Some(secret) if observed.secret_version.is_none() => {
                format!("a password is made in Secret {}", secret.name)
            }
            Some(secret) => format!(
                "Secret {} changed since its password was set; if the password in it is the same, nothing is called",
                secret.name
            ),
            None => "another password".to_owned(),
        },
        Verb::Restart => format!("spec.restart.{}", token(spec.restart, &applied.restart)),
        Verb::Start | Verb::Stop => {
            let wanted = match observed.facts.spec.power_state {
                PowerState::Running => "Running",
                PowerState::Stopped => "Stopped",
                PowerState::Unmanaged => "Unmanaged",
            };
            format!("the server is {}, spec.powerState is {wanted}", state())
        }
        Verb::Create | Verb::Release => words::reason(verb).meaning().to_owned(),
    }
}
