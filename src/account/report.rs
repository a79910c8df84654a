//! Writes an Account's status: when something changed, counts at most once in 30 s, never only to say when it was looked at.

use super::Context;
use super::observe::Observation;
use crate::api::conditions::Verdict;
use crate::api::{Account, AccountStatus};
use crate::runtime::KubeError;
use crate::runtime::kubernetes::{call, json_patch, patch_params};
use crate::runtime::watch::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Counts move with every create of anybody: this often is enough to show them.
const COUNTS_AFTER: Duration = Duration::from_secs(30);

/// Writes what changed. Gives the rest of the wait when a change of counts has to wait.
pub(super) async fn report(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    seen: &Observation,
    verdict: &Verdict,
) -> Result<Option<Duration>, KubeError> {
    const WHAT: &str = "write the Account's status";
    let former = account.status.clone().unwrap_or_default();
    let wall = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let next = status(account, &former, seen, verdict, wall);
    if next == former {
        return Ok(None);
    }
    let only_counts = next.conditions == former.conditions
        && next.observed_generation == former.observed_generation;
    let now = Instant::now();
    let written = context.memories.get(key).written;
    if let Some(at) = written.filter(|at| only_counts && now < *at + COUNTS_AFTER) {
        return Ok(Some(at + COUNTS_AFTER - now));
    }
    let next = AccountStatus {
        last_observed_time: Some(Time(wall)),
        ..next
    };
    let patch = json_patch(
        WHAT,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": account.uid()},
            {"op": "add", "path": "/status", "value": next},
        ]),
    )?;
    let api: Api<Account> = Api::namespaced(context.client.clone(), &key.namespace);
    let params = patch_params();
    let written = call(WHAT, api.patch_status(&key.name, &params, &patch)).await;
    let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
    context.metrics.kube_write("account_status", result);
    match written {
        Ok(_) => {
            context
                .memories
                .update(key, |memory| memory.written = Some(now));
            Ok(None)
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The status that follows. Pure.
fn status(
    account: &Account,
    former: &AccountStatus,
    seen: &Observation,
    verdict: &Verdict,
    wall: Timestamp,
) -> AccountStatus {
    let generation = account.metadata.generation.unwrap_or_default();
    let count = |n: usize| i64::try_from(n).ok();
    AccountStatus {
        observed_generation: generation,
        servers: seen
            .counts
            .map_or(former.servers, |(servers, _)| count(servers)),
        unowned_servers: seen
            .counts
            .map_or(former.unowned_servers, |(_, unowned)| count(unowned)),
        last_observed_time: former.last_observed_time.clone(),
        conditions: verdict.to_conditions(&former.conditions, generation, wall),
    }
}
