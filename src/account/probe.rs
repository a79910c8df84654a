//! Probes whether the service answers and accepts the token: one cheap authenticated call, unless a listing or an earlier probe
//! has shown it recently.

use super::context::AccountContext;
use super::problem::{self, Usability};
use super::times::{
    EVIDENCE_MAX_AGE, PROBE_DEADLINE, PROBE_RECHECK, PROBE_TRUSTED_FOR, PROBE_UNANSWERED_AFTER,
    TOKEN_REFUSED_RETRY, UNREACHABLE_CERTAIN_AFTER, UNREACHABLE_RETRY_MAX,
};
use crate::api::Account;
use crate::api::conditions::Reason;
use crate::cloud::{CallPriority, Error, Trouble};
use crate::runtime::chance;
use crate::runtime::watch::ObjectKey;
use crate::session::{AccountSession, AccountState, Problem};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

enum Probed {
    /// The call ended, with an answer or with an error.
    Ended(Result<(), Error>),
    /// Neither the probe nor any other call was answered for `PROBE_UNANSWERED_AFTER`.
    Silent,
    /// The rate limiter held the probe back until its deadline.
    NotSent,
}

/// Whether the account session can be used.
pub(super) async fn probe_session(
    context: &AccountContext,
    account: &Account,
    key: &ObjectKey,
    session: Arc<AccountSession>,
) -> Usability {
    let memory = context.memories.get(key);
    let now = Instant::now();
    let state = context.sessions.state_of(key);
    let is_in_use = matches!(&state, AccountState::Usable(known) if Arc::ptr_eq(known, &session));
    let trouble = || session.shared.client.health().trouble();
    let probed_within = |time| {
        let probed = memory.probed.filter(|_| is_in_use);
        probed.is_some_and(|(at, succeeded)| succeeded && now < at + time)
    };
    let is_shown_usable =
        session.shared.inventory.listed_within(EVIDENCE_MAX_AGE) || probed_within(EVIDENCE_MAX_AGE);
    let is_trusted = trouble().is_none() || probed_within(PROBE_TRUSTED_FOR);
    if is_in_use && !memory.doubted && is_shown_usable && is_trusted {
        return Usability::Usable(session);
    }
    // One probe of a refused token per interval serves all Instances of the Account. The next regular reconcile comes exactly one
    // interval after the probe, so a second of tolerance lets it probe again.
    if let AccountState::Unusable(known) = state
        && known.reason == Reason::TokenRefused
        && memory.probed.is_some_and(|(at, succeeded)| {
            !succeeded && now < at + TOKEN_REFUSED_RETRY - Duration::from_secs(1)
        })
    {
        return Usability::Unusable(known, Some(session));
    }
    let probed = probe(&session).await;
    if !matches!(probed, Probed::NotSent) {
        let succeeded = matches!(probed, Probed::Ended(Ok(())));
        context.memories.update(key, |memory| {
            memory.probed = Some((now, succeeded));
            memory.doubted = false;
        });
    }
    // An outage that status reports keeps its start after a restart of the process.
    let reported = account.status.as_ref();
    let reported = reported.and_then(|status| status.unreachable_since.as_ref());
    let since = memory
        .unreachable_since()
        .or(reported.map(|since| since.0))
        .or(trouble().map(|trouble| trouble.began))
        .unwrap_or_else(chance::time_of_day);
    let unreachable = |failure: &str| {
        let (endpoint, seconds) = (&account.spec.endpoint, UNREACHABLE_RETRY_MAX.as_secs());
        let message = format!(
            "the service has given no usable answer since {since}: {failure}. The operator retries at least every \
             {seconds} s: check spec.endpoint ({endpoint}), the network and the service"
        );
        Problem::new(Reason::ServiceUnreachable, message)
    };
    let problem = match probed {
        Probed::Ended(Ok(())) => return Usability::Usable(session),
        Probed::Ended(Err(error)) => match problem::answered(&error, account) {
            Some(problem) => problem,
            None => {
                let lasted = trouble().map(|trouble| trouble.since.elapsed());
                if is_in_use && lasted.is_some_and(|lasted| lasted < UNREACHABLE_CERTAIN_AFTER) {
                    return Usability::Usable(session);
                }
                unreachable(&error.to_string())
            }
        },
        Probed::Silent => {
            let seconds = PROBE_UNANSWERED_AFTER.as_secs();
            unreachable(&format!("no call was answered within {seconds} s"))
        }
        Probed::NotSent => problem::not_sent(),
    };
    let memories = &context.memories;
    let problem = memories.update(key, |memory| memory.first_report(problem, since));
    Usability::Unusable(problem, Some(session))
}

async fn probe(session: &AccountSession) -> Probed {
    let client = &session.shared.client;
    let began = Instant::now();
    let mut probe = pin!(timeout(PROBE_DEADLINE, client.probe(CallPriority::Urgent)));
    loop {
        tokio::select! {
            biased;
            probed = probe.as_mut() => return probed.map_or(Probed::NotSent, Probed::Ended),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{AllowedEndpoints, Client, Http, Limits, Paths, RateLimiter};
    use axum::http::StatusCode;
    use axum::{Json, Router, routing::get};
    use serde_json::json;

    /// The problem that is reported if the service answers a probe like this.
    async fn reported(status: StatusCode, code: &'static str) -> Option<(Reason, String)> {
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
        problem::answered(&error, &account).map(|problem| (problem.reason, problem.message))
    }

    #[tokio::test]
    async fn the_answer_of_the_service_is_reported_with_the_remedy() {
        let (reason, message) = reported(StatusCode::TOO_MANY_REQUESTS, "Busy")
            .await
            .unwrap();
        assert_eq!(reason, Reason::RateLimited);
        assert_eq!(
            message,
            "the service is rate limiting requests (429 Busy: later, at GET /sshkey/list): requests wait for the time that it names, or for \
             a second to a minute if it names none, and then continue"
        );
        let (reason, message) = reported(StatusCode::UNAUTHORIZED, "Authenticated.Bad")
            .await
            .unwrap();
        assert_eq!(reason, Reason::TokenRefused);
        assert!(
            message.contains("put a valid token into Secret cloud-token under key token"),
            "{message}"
        );
        assert_eq!(
            reported(StatusCode::SERVICE_UNAVAILABLE, "Maintenance").await,
            None
        );
    }
}
