//! Looks at the token Secret and, when there is reason to, at the service.

use super::{Context, REFUSED, token_secret};
use crate::api::Account;
use crate::api::conditions::Reason;
use crate::cloud::{Error, Lane};
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
    let usable = match seat(context, account, key).await {
        Ok(seat) => try_seat(context, key, seat).await,
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

/// The seat that stands, or a new one when Secret or Account moved.
async fn seat(context: &Context, account: &Account, key: &ObjectKey) -> Result<Arc<Seat>, Problem> {
    let reference = &account.spec.token_secret_ref;
    let missing = || {
        let (name, token_key) = (&reference.name, &reference.key);
        let place = &key.namespace;
        Problem {
            reason: Reason::TokenNotFound,
            message: format!(
                "Secret {name} does not exist in namespace {place}: create it with the token under key {token_key}"
            ),
        }
    };
    let secret = context
        .secrets
        .of(&token_secret(account))
        .ok_or_else(missing)?;
    let made_from = |secret| MadeFrom {
        secret,
        account: account.metadata.uid.clone().unwrap_or_default(),
        generation: account.metadata.generation.unwrap_or_default(),
    };
    if let Some(seat) = context.sessions.made_from(key, &made_from(secret)) {
        return Ok(seat);
    }
    let (token, secret) = read_key(&context.client, &key.namespace, reference)
        .await
        .map_err(|error| match error {
            SecretProblem::NoSecret(_) => missing(),
            other => Problem {
                reason: Reason::TokenNotFound,
                message: other.to_string(),
            },
        })?;
    let seat = context
        .sessions
        .seat(key, &account.spec, &token, made_from(secret))
        .map_err(|error| Problem {
            reason: Reason::EndpointInvalid,
            message: format!("{error}: mend the Account's spec"),
        })?;
    context.memories.update(key, |memory| memory.probed = None);
    Ok(seat)
}

/// One cheap authorised call, when nothing else has shown lately that the service takes the token.
async fn try_seat(context: &Context, key: &ObjectKey, seat: Arc<Seat>) -> Usable {
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
        Err(error) => Usable::No(what_is_wrong(&error), Some(seat)),
    }
}

fn what_is_wrong(error: &Error) -> Problem {
    if error.is_unauthorized() {
        let message = format!("{error}: put a valid token into the Secret");
        Problem {
            reason: Reason::TokenRefused,
            message,
        }
    } else if error.is_rate_limited() {
        Problem {
            reason: Reason::RateLimited,
            message: error.to_string(),
        }
    } else {
        Problem {
            reason: Reason::ServiceUnreachable,
            message: format!("{error}: check spec.endpoint, the network and the service"),
        }
    }
}
