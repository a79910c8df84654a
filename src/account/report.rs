//! Writes an Account's status if it changed, and publishes Events. While spec and readiness stay the same, it writes at most
//! once in 30 s, also if another writer replaced the status.

use super::context::{AccountContext, LastReport};
use super::problem::Usability;
use super::{events, limits, times, zones};
use crate::api::condition_list::ListedTypes;
use crate::api::conditions::{AdditionalCondition, INSECURE_ENDPOINT, Readiness, Reason};
use crate::api::{Account, AccountStatus, Marker};
use crate::cloud::{ServerId, goes_in_the_clear};
use crate::runtime::kubernetes::patch_status;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{KubeError, chance};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Resource, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Replaces the status if it changed, except for the conditions of other controllers. Returns how long a status that differs must
/// wait before it is written.
pub(super) async fn report(
    context: &AccountContext,
    account: &Account,
    key: &ObjectKey,
    observed: &Usability,
    readiness: &Readiness,
) -> Result<Option<Duration>, KubeError> {
    let mut former = account.status.clone().unwrap_or_default();
    let listed_types = ListedTypes::take(&mut former.conditions);
    let wall_clock = chance::time_of_day();
    let mut next = next(
        context, account, &former, key, observed, readiness, wall_clock,
    );
    if next == former {
        return Ok(None);
    }
    let (now, generation) = (Instant::now(), next.observed_generation);
    let written = context.memories.get(key).written;
    if let Some(written) = written
        && (written.generation, &written.readiness) == (generation, readiness)
        && now < written.at + times::STATUS_REWRITE
    {
        return Ok(Some(written.at + times::STATUS_REWRITE - now));
    }
    next.last_observed_time = Some(Time(wall_clock));
    let mut patch = vec![json!({"op": "test", "path": "/metadata/uid", "value": account.uid()})];
    patch.extend(listed_types.replace_status(json!(next)));
    let operation = "write the Account's status";
    let written = patch_status::<Account>(&context.client, key, operation, patch).await;
    let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
    let writes = &context.metrics.kube_writes;
    writes.count(["account_status", result]);
    match written {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(None), // the Account is gone
        Err(error) => return Err(error),
    }
    for event in events::changes(&former, &next, readiness, wall_clock) {
        events::log(key, &event);
        let about = account.object_ref(&());
        context.events.publish(&about, &event).await;
    }
    context.memories.update(key, |memory| {
        memory.written = Some(LastReport {
            at: now,
            generation,
            readiness: readiness.clone(),
        });
    });
    Ok(None)
}

/// The next status. The former counts stay if there is no listing: without a session, or while no Instance requests one, as right
/// after a start.
fn next(
    context: &AccountContext,
    account: &Account,
    former: &AccountStatus,
    key: &ObjectKey,
    observed: &Usability,
    readiness: &Readiness,
    wall_clock: Timestamp,
) -> AccountStatus {
    let memory = context.memories.get(key);
    let warnings = context.rights.warning().into_iter();
    let warnings = warnings.chain(in_the_clear(account));
    let owners = context.sessions.owners();
    let used = owners.usage(key);
    let limits = limits::limits(
        &used,
        &account.spec,
        former.limits.as_ref(),
        memory.usable_since,
    );
    let mut next = AccountStatus {
        observed_generation: account.metadata.generation.unwrap_or_default(),
        conditions: conditions(account, former, readiness, warnings, wall_clock),
        unreachable_since: memory.unreachable_since().map(Time),
        limits: Some(limits),
        ..former.clone()
    };
    let session = match observed {
        Usability::Usable(session) => Some(session),
        Usability::Unusable(_, session) => session.as_ref(),
    };
    let owns = |id: &ServerId, marker: Option<&Marker>| owners.owns(id, marker);
    let listings = session.map(|session| session.shared.inventory.listings(owns));
    if let Some(listings) = listings.filter(|listings| !listings.is_empty()) {
        zones::write_listings(&mut next, &listings, account, memory.usable_since);
    }
    next
}

fn conditions(
    account: &Account,
    former: &AccountStatus,
    readiness: &Readiness,
    warnings: impl IntoIterator<Item = AdditionalCondition>,
    wall_clock: Timestamp,
) -> Vec<Condition> {
    let generation = account.metadata.generation.unwrap_or_default();
    let former = &former.conditions;
    let mut conditions = readiness.to_conditions(former, generation, wall_clock);
    let warnings = warnings.into_iter();
    conditions.extend(warnings.map(|it| it.to_condition(former, generation, wall_clock)));
    conditions
}

/// A warning for a plain http endpoint on another machine: anyone on the network path can read the traffic.
fn in_the_clear(account: &Account) -> Option<AdditionalCondition> {
    goes_in_the_clear(&account.spec.endpoint, account.spec.proxy.is_some()).then(|| AdditionalCondition {
        type_: INSECURE_ENDPOINT,
        is_true: true,
        reason: Reason::PlainHttp,
        message: "spec.endpoint is http: token and login passwords cross the network unencrypted: use https"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(endpoint: &str) -> Account {
        serde_json::from_value(json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account",
            "metadata": {"name": "default", "namespace": "team-a"},
            "spec": {"endpoint": endpoint, "tokenSecretRef": {"name": "t", "key": "t"}},
        }))
        .unwrap()
    }

    #[test]
    fn a_plain_http_endpoint_is_a_warning_that_leaves_ready_alone() {
        let readiness = Readiness::ready(Reason::Available, "well");
        let report = |endpoint: &str, former: &AccountStatus, wall_clock| {
            let account = account(endpoint);
            let warnings = in_the_clear(&account);
            AccountStatus {
                conditions: conditions(&account, former, &readiness, warnings, wall_clock),
                ..former.clone()
            }
        };
        let kinds = |status: &AccountStatus| -> Vec<String> {
            let conditions = status.conditions.iter();
            conditions
                .map(|c| format!("{}={}", c.type_, c.status))
                .collect()
        };
        let (first, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let none = AccountStatus::default();
        let clear = report("http://cloud.example", &none, first);
        assert_eq!(kinds(&clear), ["Ready=True", "InsecureEndpoint=True"]);
        // A later status is equal, so it is not written again.
        assert_eq!(report("http://cloud.example", &clear, later), clear);
        for well in [
            "https://cloud.example",
            "http://127.0.0.1:8090",
            "http://[::1]",
            "http://localhost",
        ] {
            assert_eq!(
                kinds(&report(well, &clear, later)),
                ["Ready=True"],
                "{well}"
            );
        }
    }
}
