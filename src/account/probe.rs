//! Probes whether the service answers and accepts the token: one cheap authenticated call, unless another call has shown it
//! recently.

use super::context::Context;
use super::times::{
    PROBE_DEADLINE, PROBE_RECHECK, PROBE_UNANSWERED_AFTER, PROBES_APART, TOKEN_REFUSED_RETRY,
    UNREACHABLE_CERTAIN_AFTER, UNREACHABLE_RETRY_MAX, USABLE_SHOWN_WITHIN,
};
use super::usable::{Usable, name_it, token_place};
use crate::api::Account;
use crate::api::conditions::{READY, Reason};
use crate::cloud::{CallPriority, Error, Target, Trouble};
use crate::runtime::chance;
use crate::runtime::watch::ObjectKey;
use crate::session::{AccountSession, AccountState, Problem};
use jiff::Timestamp;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

enum Probed {
    Answered(Result<(), Error>),
    /// Neither the probe nor any other call was answered.
    Silent,
    /// The probe was not sent.
    NotMade,
}

/// Whether the account session can be used.
pub(super) async fn try_account_session(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    session: Arc<AccountSession>,
) -> Usable {
    let memory = context.memories.get(key);
    let now = Instant::now();
    let standing = context.sessions.state_of(key);
    let is_new = !matches!(&standing, AccountState::Usable(known) if Arc::ptr_eq(known, &session));
    let trouble = || session.shared.client.health().trouble();
    let probed_within = |time| {
        let probed = memory.probed.filter(|_| !is_new);
        probed.is_some_and(|(at, well)| well && now < at + time)
    };
    let is_shown = session.shared.inventory.listed_within(USABLE_SHOWN_WITHIN)
        || probed_within(USABLE_SHOWN_WITHIN);
    let is_asked = trouble().is_none() || probed_within(PROBES_APART);
    if !is_new && !memory.doubted && is_shown && is_asked {
        return Usable::Yes(session);
    }
    // One probe of a refused token per interval serves all Instances of the Account.
    if let AccountState::Unusable(known) = standing
        && known.reason == Reason::TokenRefused
        && memory.probed.is_some_and(|(at, well)| {
            !well && now < at + TOKEN_REFUSED_RETRY - Duration::from_secs(1)
        })
    {
        return Usable::No(known, Some(session));
    }
    let probed = probe(&session).await;
    if !matches!(probed, Probed::NotMade) {
        let is_well = matches!(probed, Probed::Answered(Ok(())));
        context.memories.update(key, |memory| {
            memory.probed = Some((now, is_well));
            memory.doubted = false;
        });
    }
    let problem = match probed {
        Probed::Answered(Ok(())) => return Usable::Yes(session),
        Probed::Answered(Err(error)) => match what_is_wrong(&error, account) {
            Some(problem) => problem,
            None => {
                let lasts =
                    trouble().map_or(UNREACHABLE_CERTAIN_AFTER, |trouble| trouble.since.elapsed());
                if !is_new && lasts < UNREACHABLE_CERTAIN_AFTER {
                    return Usable::Yes(session);
                }
                unreachable(context, account, key, trouble(), &error.to_string())
            }
        },
        Probed::Silent => {
            let failure = format!(
                "no call is answered within {} s",
                PROBE_UNANSWERED_AFTER.as_secs()
            );
            unreachable(context, account, key, trouble(), &failure)
        }
        Probed::NotMade => not_asked(),
    };
    let mut told = problem.clone();
    context
        .memories
        .update(key, |memory| told = memory.first_words(problem));
    Usable::No(told, Some(session))
}

async fn probe(session: &AccountSession) -> Probed {
    let client = &session.shared.client;
    let began = Instant::now();
    let mut probe = pin!(timeout(PROBE_DEADLINE, client.probe(CallPriority::Urgent)));
    loop {
        tokio::select! {
            biased;
            probed = probe.as_mut() => return probed.map_or(Probed::NotMade, Probed::Answered),
            () = sleep(PROBE_RECHECK) => {
                let is_over = |since: Instant| since.elapsed() >= PROBE_UNANSWERED_AFTER;
                let is_silent = |trouble: Trouble| is_over(trouble.since);
                if is_over(began) && client.health().trouble().is_some_and(is_silent) {
                    return Probed::Silent;
                }
            }
        }
    }
}

/// The problem to report if the probe was not sent.
fn not_asked() -> Problem {
    let message = "the service was not asked for a while, since the request limit, or a pause that the service asked for, left no \
                   room: it goes on by itself";
    Problem {
        reason: Reason::RateLimited,
        message: message.to_owned(),
    }
}

/// The service does not answer. The time of the first failure is kept: later ones do not move it.
fn unreachable(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    trouble: Option<Trouble>,
    failure: &str,
) -> Problem {
    let memory = context.memories.get(key);
    // A process that has not written status yet continues the outage that its predecessor reported.
    let stood = told_since(account).filter(|_| memory.written.is_none());
    let began = trouble.map(|trouble| trouble.began);
    let known = memory.outage.or(stood).or(began);
    let since = known.unwrap_or_else(chance::time_of_day);
    context
        .memories
        .update(key, |memory| memory.outage = Some(since));
    let (endpoint, seconds) = (&account.spec.endpoint, UNREACHABLE_RETRY_MAX.as_secs());
    Problem {
        reason: Reason::ServiceUnreachable,
        message: format!(
            "the service does not answer as it should since {since}: {failure}. It is tried again every {seconds} s: check spec.endpoint \
             ({endpoint}), the network and the service"
        ),
    }
}

/// Since when the service has not answered, according to status.
fn told_since(account: &Account) -> Option<Timestamp> {
    let status = account.status.as_ref()?;
    let mut conditions = status.conditions.iter();
    let reason = Reason::ServiceUnreachable.as_str();
    conditions.find(|told| told.type_ == READY && told.reason == reason)?;
    status.unreachable_since.as_ref().map(|since| since.0)
}

/// The problem that the service's answer reports; None if the answer is not a proper one.
fn what_is_wrong(error: &Error, account: &Account) -> Option<Problem> {
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
    } else if error.refused_address().is_some() {
        // With a proxy, the proxy's name is the only one that this process resolves.
        let target = match account.spec.proxy {
            Some(_) => Target::Proxy,
            None => Target::Endpoint,
        };
        (
            Reason::AddressRefused,
            format!("{error}: {}", name_it(&account.spec, target)),
        )
    } else if error.is_rate_limited() {
        (
            Reason::RateLimited,
            format!(
                "{error}: requests wait as long as it asks for (where it names no time, for a second to a minute), and go on by \
                 themselves"
            ),
        )
    } else {
        return None;
    };
    Some(Problem { reason, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{AllowedEndpoints, Client, Http, Limits, Paths, RateLimiter};
    use axum::http::StatusCode;
    use axum::{Json, Router, routing::get};
    use serde_json::json;

    /// The problem that is reported if the service answers a probe like this.
    async fn told(status: StatusCode, code: &'static str) -> Option<(Reason, String)> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let answer = (status, Json(json!({"code": code, "message": "later"})));
        let router = Router::new().route("/sshkey/list", get(|| async { answer }));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let http = Http::new(AllowedEndpoints::default()).unwrap();
        let limiter = RateLimiter::new(Limits::default());
        let client =
            Client::new(http, &endpoint, "token".into(), Paths::default(), limiter).unwrap();
        let error = client.probe(CallPriority::Urgent).await.unwrap_err();
        let account = json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account", "metadata": {"name": "default"},
            "spec": {"endpoint": endpoint, "tokenSecretRef": {"name": "cloud-token", "key": "token"}},
        });
        let account = serde_json::from_value(account).unwrap();
        what_is_wrong(&error, &account).map(|problem| (problem.reason, problem.message))
    }

    #[tokio::test]
    async fn what_the_service_says_of_us_is_told_with_what_follows_and_the_remedy() {
        let (reason, message) = told(StatusCode::TOO_MANY_REQUESTS, "Busy").await.unwrap();
        assert_eq!(reason, Reason::RateLimited);
        assert_eq!(
            message,
            "the service asks for fewer requests (429 Busy: later, at GET /sshkey/list): requests wait as long as it asks for (where it \
             names no time, for a second to a minute), and go on by themselves"
        );
        let (reason, message) = told(StatusCode::UNAUTHORIZED, "Authenticated.Bad")
            .await
            .unwrap();
        assert_eq!(reason, Reason::TokenRefused);
        assert!(
            message.contains("put a valid token into Secret cloud-token under key token"),
            "{message}"
        );
        assert_eq!(
            told(StatusCode::SERVICE_UNAVAILABLE, "Maintenance").await,
            None
        );
    }
}
