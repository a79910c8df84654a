//! Looks at the token Secret and, when there is reason to, at the service.

use super::{Context, Memory, REFUSED, problem, token_secret};
use crate::api::Account;
use crate::api::conditions::Reason;
use crate::cloud::{Error, Lane};
use crate::runtime::watch::ObjectKey;
use crate::session::{Problem, Seat, SecretProblem, Standing, read_key};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A listing or a probe that succeeded within this time shows that the account can be used.
const FRESH: Duration = Duration::from_secs(150);

/// What was seen.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) usable: Usable,
    /// Servers seen and servers owned by nobody; none before the first listing.
    pub(super) counts: Option<(usize, usize)>,
}

/// Whether the account can be used.
#[derive(Debug)]
pub(super) enum Usable {
    Yes(Arc<Seat>),
    /// With the seat, if there is one: deletions may go on with it.
    No(Problem, Option<Arc<Seat>>),
}

pub(super) async fn observe(context: &Context, account: &Account, key: &ObjectKey) -> Observation {
    let memory = context.memories.get(key);
    let usable = match seat(context, account, key, &memory).await {
        Ok(seat) => try_seat(context, key, &memory, seat).await,
        Err(problem) => Usable::No(problem, None),
    };
    let seat = match &usable {
        Usable::Yes(seat) => Some(seat),
        Usable::No(_, seat) => seat.as_ref(),
    };
    let counts = seat.and_then(|seat| {
        let counts = seat.session.inventory.counts();
        let listed =
            !counts.places.is_empty() && counts.places.values().all(|place| place.passes > 0);
        listed.then(|| (counts.servers(), counts.unowned()))
    });
    Observation { usable, counts }
}

/// The seat that stands, or a new one when Secret or spec moved.
async fn seat(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    memory: &Memory,
) -> Result<Arc<Seat>, Problem> {
    let reference = &account.spec.token_secret_ref;
    let missing = || {
        let (name, token_key) = (&reference.name, &reference.key);
        problem(
            Reason::TokenNotFound,
            format!(
                "Secret {name} does not exist in namespace {}: create it with the token under key {token_key}",
                key.namespace
            ),
        )
    };
    let version = context
        .secrets
        .of(&token_secret(account))
        .ok_or_else(missing)?;
    let generation = account.metadata.generation.unwrap_or_default();
    let current = match context.sessions.standing(key) {
        Standing::Usable(seat) => Some(seat),
        Standing::Pending | Standing::Unusable(_) | Standing::NotFound => {
            context.sessions.last_seat(key)
        }
    };
    let stands = memory.seated.as_ref() == Some(&(version, generation));
    if let Some(seat) = current.filter(|_| stands) {
        return Ok(seat);
    }
    let (token, credential) = read_key(&context.client, &key.namespace, reference)
        .await
        .map_err(|e| match e {
            SecretProblem::NoSecret(_) => missing(),
            other => problem(Reason::TokenNotFound, other.to_string()),
        })?;
    let seat = context
        .sessions
        .seat(&account.spec, &token, credential.clone())
        .map_err(|error| problem(Reason::EndpointInvalid, error.to_string()))?;
    context.memories.update(key, |memory| {
        memory.seated = Some((credential, generation));
        memory.probed = None;
    });
    Ok(seat)
}

/// One cheap authorised call, when nothing else has shown lately that the service takes the token.
async fn try_seat(context: &Context, key: &ObjectKey, memory: &Memory, seat: Arc<Seat>) -> Usable {
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
    if let (false, Standing::Unusable(known)) = (memory.doubted, context.sessions.standing(key))
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
        Err(error) => Usable::No(what_is_wrong(&error), Some(seat)),
    }
}

fn what_is_wrong(error: &Error) -> Problem {
    if error.is_unauthorized() {
        let message = format!("{error}: put a valid token into the Secret");
        problem(Reason::TokenRefused, message)
    } else if error.is_rate_limited() {
        problem(Reason::RateLimited, error.to_string())
    } else {
        problem(
            Reason::ServiceUnreachable,
            format!("{error}: check spec.endpoint, the network and the service"),
        )
    }
}
