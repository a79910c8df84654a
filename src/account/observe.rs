//! Looks at the token Secret and, when there is reason to, at the service.

use super::{Context, REFUSED, token_secret};
use crate::api::conditions::Reason;
use crate::api::{Account, Marker};
use crate::cloud::{BuildError, Error, Lane, ServerId};
use crate::inventory::Census;
use crate::runtime::watch::ObjectKey;
use crate::session::{MadeFrom, Problem, Seat, SecretProblem, Standing, read_key};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A listing or a probe that succeeded within this time shows that the account can be used.
const FRESH: Duration = Duration::from_secs(150);

/// What was seen.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) usable: Usable,
    /// What is listed in each place and who owns it; none before the first listing.
    pub(super) census: Option<Census>,
}

/// Whether the account can be used.
#[derive(Debug)]
pub(super) enum Usable {
    Yes(Arc<Seat>),
    /// With the seat, if there is one: deletions may go on with it.
    No(Problem, Option<Arc<Seat>>),
}

pub(super) async fn observe(context: &Context, account: &Account, key: &ObjectKey) -> Observation {
    let usable = match seat(context, account, key).await {
        Ok(seat) => try_seat(context, account, key, seat).await,
        Err(problem) => Usable::No(problem, None),
    };
    let seat = match &usable {
        Usable::Yes(seat) => Some(seat),
        Usable::No(_, seat) => seat.as_ref(),
    };
    let census = seat.and_then(|seat| {
        let owned = context.sessions.roll().owned();
        let owns = |id: &ServerId, marker: Option<&Marker>| owned.has(id, marker);
        seat.session.inventory.census(owns)
    });
    Observation { usable, census }
}

/// The seat that stands, or a new one when Secret or Account moved.
async fn seat(context: &Context, account: &Account, key: &ObjectKey) -> Result<Arc<Seat>, Problem> {
    let reference = &account.spec.token_secret_ref;
    let secret = context.secrets.of(&token_secret(account));
    let secret = secret.ok_or_else(|| {
        let missing = SecretProblem::NoSecret(reference.name.clone());
        no_token(&missing, account)
    })?;
    let made_from = |secret| MadeFrom {
        secret,
        account: account.metadata.uid.clone().unwrap_or_default(),
    };
    let known = context
        .sessions
        .made_from(key, &account.spec, &made_from(secret));
    if let Some(seat) = known {
        return Ok(seat);
    }
    let (token, secret) = read_key(&context.client, &key.namespace, reference)
        .await
        .map_err(|error| no_token(&error, account))?;
    let seat = context
        .sessions
        .seat(key, &account.spec, &token, made_from(secret))
        .map_err(|error| not_usable(&error, account))?;
    context.memories.update(key, |memory| memory.probed = None);
    Ok(seat)
}

/// One cheap authorised call, when nothing else has shown lately that the service takes the token.
async fn try_seat(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    seat: Arc<Seat>,
) -> Usable {
    let memory = context.memories.get(key);
    let now = Instant::now();
    let is_new = !matches!(context.sessions.standing(key), Standing::Usable(known) if Arc::ptr_eq(&known, &seat));
    let listed = seat.session.inventory.listed_within(FRESH);
    let probed = !is_new
        && memory
            .probed
            .is_some_and(|(at, well)| well && now < at + FRESH);
    if !is_new && !memory.doubted && (listed || probed) {
        return Usable::Yes(seat);
    }
    // A refused token is tried once for everybody, however many ask.
    if let Standing::Unusable(known) = context.sessions.standing(key)
        && known.reason == Reason::TokenRefused
        && memory
            .probed
            .is_some_and(|(at, well)| !well && now < at + REFUSED - Duration::from_secs(1))
    {
        return Usable::No(known, Some(seat));
    }
    let answer = seat.session.client.probe(Lane::Urgent).await;
    context.memories.update(key, |memory| {
        memory.probed = Some((now, answer.is_ok()));
        memory.doubted = false;
    });
    match answer {
        Ok(()) => Usable::Yes(seat),
        Err(error) => Usable::No(what_is_wrong(&error, account), Some(seat)),
    }
}

/// The Secret gives no token.
fn no_token(problem: &SecretProblem, account: &Account) -> Problem {
    let key = &account.spec.token_secret_ref.key;
    let namespace = account.metadata.namespace.as_deref().unwrap_or_default();
    let (reason, message) = match problem {
        SecretProblem::NoSecret(_) => (
            Reason::TokenNotFound,
            format!("{problem} in namespace {namespace}: create it with the token under key {key}"),
        ),
        SecretProblem::NoKey { .. } | SecretProblem::Empty { .. } => (
            Reason::TokenNotFound,
            format!("{problem}: put the token there"),
        ),
        SecretProblem::NotText { .. } => (
            Reason::TokenInvalid,
            format!("{problem}: put the token there"),
        ),
        SecretProblem::Unread { .. } => (Reason::SecretUnread, problem.to_string()),
    };
    Problem { reason, message }
}

/// No client can be made from the Account as it is.
fn not_usable(error: &BuildError, account: &Account) -> Problem {
    let spec = &account.spec;
    let (reason, message) = match error {
        BuildError::Endpoint(_) => (
            Reason::EndpointInvalid,
            format!("{error}: mend spec.endpoint ({})", spec.endpoint),
        ),
        BuildError::Path { .. } => (Reason::EndpointInvalid, format!("{error}: mend spec.paths")),
        BuildError::Token => (
            Reason::TokenInvalid,
            format!("{error}: put a valid one into {}", token_place(account)),
        ),
        BuildError::Http(_) => (Reason::ServiceUnreachable, error.to_string()),
    };
    Problem { reason, message }
}

/// The service did not answer the probe as it answers a friend.
fn what_is_wrong(error: &Error, account: &Account) -> Problem {
    let (reason, message) = if error.is_unauthorized() {
        (
            Reason::TokenRefused,
            format!("{error}: put a valid token into {}", token_place(account)),
        )
    } else if error.is_account_not_normal() {
        (
            Reason::AccountNotNormal,
            format!("{error}: settle the account's status at the service"),
        )
    } else if error.is_rate_limited() {
        (Reason::RateLimited, error.to_string())
    } else {
        let endpoint = &account.spec.endpoint;
        (
            Reason::ServiceUnreachable,
            format!("{error}: check spec.endpoint ({endpoint}), the network and the service"),
        )
    };
    Problem { reason, message }
}

fn token_place(account: &Account) -> String {
    let reference = &account.spec.token_secret_ref;
    format!("Secret {} under key {}", reference.name, reference.key)
}
