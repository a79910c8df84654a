//! Writes an Account's status when something changed. A change of counts, or a repeat of what was written before, is written at
//! most once in 30 s; a change of only the times of the zones' listings at most once in five minutes.

use super::context::{Context, Written};
use super::observe::Observation;
use super::usable::Usable;
use super::{limits, tell, times, zones};
use crate::api::condition_list::ListedTypes;
use crate::api::conditions::{INSECURE_ENDPOINT, Readiness, Reason, Warning};
use crate::api::{Account, AccountStatus};
use crate::cloud::goes_in_the_clear;
use crate::runtime::kubernetes::{call, json_patch, patch_params};
use crate::runtime::watch::ObjectKey;
use crate::runtime::{KubeError, chance};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Writes status if it changed. Returns the remaining wait if a change of counts has to wait.
pub(super) async fn report(
    context: &Context,
    account: &Account,
    key: &ObjectKey,
    observed: &Observation,
    readiness: &Readiness,
) -> Result<Option<Duration>, KubeError> {
    const WHAT: &str = "write the Account's status";
    let mut former = account.status.clone().unwrap_or_default();
    let listed_types = ListedTypes::take(&mut former.conditions);
    let wall_clock = chance::time_of_day();
    let memory = context.memories.get(key);
    let next = next(
        context, account, &former, key, observed, readiness, wall_clock,
    );
    let written = memory.written;
    // An older CustomResourceDefinition drops fields. Without this check, the operator would write the same status forever.
    let is_dropped = written.as_ref().is_some_and(|written| {
        as_older(&next) == as_older(&former)
            && zones::differ_in_times_alone(&written.status, &next)
            && !zones::is_out_of_date(&next, &written.status)
    });
    let is_same =
        zones::differ_in_times_alone(&next, &former) && !zones::is_out_of_date(&next, &former);
    if is_dropped || is_same {
        return Ok(None);
    }
    let only_counts = next.conditions == former.conditions
        && next.observed_generation == former.observed_generation;
    let now = Instant::now();
    let generation = next.observed_generation;
    if let Some(Written { at, status, said }) = written {
        let is_repeated = status.observed_generation == generation && said == *readiness;
        if (only_counts || is_repeated) && now < at + times::STATUS_REWRITE {
            return Ok(Some(at + times::STATUS_REWRITE - now));
        }
    }
    let next = AccountStatus {
        last_observed_time: Some(Time(wall_clock)),
        ..next
    };
    let mut patch = vec![json!({"op": "test", "path": "/metadata/uid", "value": account.uid()})];
    patch.extend(listed_types.replace_status(json!(next)));
    let patch = json_patch(WHAT, Value::Array(patch))?;
    let api: Api<Account> = Api::namespaced(context.client.clone(), &key.namespace);
    let params = patch_params();
    let written = call(WHAT, api.patch_status(&key.name, &params, &patch)).await;
    let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
    context.metrics.kube_write("account_status", result);
    match written {
        Ok(_) => {
            tell::tell(context, account, key, &former, &next, readiness, wall_clock).await;
            context.memories.update(key, |memory| {
                memory.written = Some(Written {
                    at: now,
                    status: Box::new(next),
                    said: readiness.clone(),
                });
            });
            Ok(None)
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The new status.
fn next(
    context: &Context,
    account: &Account,
    former: &AccountStatus,
    key: &ObjectKey,
    observed: &Observation,
    readiness: &Readiness,
    wall_clock: Timestamp,
) -> AccountStatus {
    let warnings = context.rights.warning().into_iter();
    let warnings: Vec<Warning> = warnings.chain(in_the_clear(account)).collect();
    let memory = context.memories.get(key);
    let mut next = status(account, former, readiness, &warnings, wall_clock);
    next.unreachable_since = memory.outage.map(Time);
    let usable_since = memory.usable_since;
    let usable_since = usable_since.filter(|_| matches!(observed.usable, Usable::Yes(_)));
    let used = context.sessions.quota().usage(key);
    let limits = limits::told(&used, &account.spec, former.limits.as_ref(), usable_since);
    next.limits = Some(limits);
    with_zones(next, account, former, observed, usable_since)
}

/// The status without the fields that an older version does not have.
fn as_older(status: &AccountStatus) -> AccountStatus {
    let mut status = without_times(status);
    (status.listed_zones, status.unreachable_since) = (None, None);
    status.limits = None;
    for server in &mut status.unowned {
        server.import = None;
    }
    for zone in &mut status.inventory {
        (zone.failing_since, zone.message) = (None, None);
        zone.last_listed_time = None;
    }
    status
}

fn without_times(status: &AccountStatus) -> AccountStatus {
    AccountStatus {
        last_observed_time: None,
        ..status.clone()
    }
}

/// Adds the counts from the listings.
fn with_zones(
    next: AccountStatus,
    account: &Account,
    former: &AccountStatus,
    observed: &Observation,
    usable_since: Option<Instant>,
) -> AccountStatus {
    let summary = observed.summary.as_ref();
    let Some(summary) = summary.filter(|summary| !summary.places.is_empty()) else {
        // No listing was requested since the process began, so the former counts are the best that is known.
        return next;
    };
    let counted = zones::counted(summary, former, account, usable_since);
    AccountStatus {
        observed_generation: next.observed_generation,
        last_observed_time: next.last_observed_time,
        unreachable_since: next.unreachable_since,
        limits: next.limits,
        conditions: next.conditions,
        ..counted
    }
}

/// A warning for a plain http endpoint on another machine: anyone on the network path can read the traffic.
fn in_the_clear(account: &Account) -> Option<Warning> {
    goes_in_the_clear(&account.spec.endpoint, account.spec.proxy.is_some()).then(|| Warning {
        type_: INSECURE_ENDPOINT,
        reason: Reason::PlainHttp,
        message: "spec.endpoint is http: token and login passwords go over the network in the clear: use https"
            .to_owned(),
    })
}

/// The new status, except for counts. Pure.
fn status(
    account: &Account,
    former: &AccountStatus,
    readiness: &Readiness,
    warnings: &[Warning],
    wall_clock: Timestamp,
) -> AccountStatus {
    let generation = account.metadata.generation.unwrap_or_default();
    let warnings = warnings
        .iter()
        .map(|warning| warning.to_condition(&former.conditions, generation, wall_clock));
    let mut conditions = readiness.to_conditions(&former.conditions, generation, wall_clock);
    conditions.extend(warnings);
    AccountStatus {
        observed_generation: generation,
        conditions,
        ..former.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str) -> Account {
        importing(name, "Allowed")
    }

    fn importing(name: &str, imports: &str) -> Account {
        serde_json::from_value(json!({
            "apiVersion": "cloudserver.dev/v1alpha1", "kind": "Account",
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"endpoint": "http://127.0.0.1", "tokenSecretRef": {"name": "t", "key": "t"}, "imports": imports},
        }))
        .unwrap()
    }

    #[test]
    fn an_endpoint_in_the_clear_is_a_warning_that_leaves_ready_alone() {
        let readiness = Readiness::ready(Reason::Available, "well");
        let told = |endpoint: &str, former: &AccountStatus, wall_clock| {
            let mut account = account("default");
            account.spec.endpoint = endpoint.to_owned();
            status(
                &account,
                former,
                &readiness,
                in_the_clear(&account).as_slice(),
                wall_clock,
            )
        };
        let kinds = |status: &AccountStatus| -> Vec<String> {
            let conditions = status.conditions.iter();
            conditions
                .map(|c| format!("{}={}", c.type_, c.status))
                .collect()
        };
        let (first, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let none = AccountStatus::default();
        let clear = told("http://cloud.example", &none, first);
        assert_eq!(kinds(&clear), ["Ready=True", "InsecureEndpoint=True"]);
        // Reported once, without repetition.
        assert_eq!(told("http://cloud.example", &clear, later), clear);
        for well in [
            "https://cloud.example",
            "http://127.0.0.1:8090",
            "http://[::1]",
            "http://localhost",
        ] {
            assert_eq!(kinds(&told(well, &clear, later)), ["Ready=True"], "{well}");
        }
    }
}
