//! Writes an Account's status: when something changed, counts and what was said before at most once in 30 s, never only to
//! say when it was looked at.

use super::Context;
use super::observe::Observation;
use crate::api::conditions::{INSECURE_ENDPOINT, Reason, Verdict, Warning};
use crate::api::names::DEFAULT_ACCOUNT;
use crate::api::{Account, AccountStatus, Imports, PlaceInventory, UnownedServer, printable};
use crate::cloud::goes_in_the_clear;
use crate::inventory::{Census, PlaceCounts};
use crate::runtime::kubernetes::{call, json_patch, patch_params};
use crate::runtime::watch::ObjectKey;
use crate::runtime::{KubeError, chance};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Counts move with every create of anybody: this often is enough to show them. And so often is said again what somebody
/// else took back: two who see it differently must not write for ever.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// As many places and servers stand in status as the schema allows: it is no database.
const PLACES: usize = 100;
pub(super) const UNOWNED: usize = 20;

/// No identifier of the service comes near this; a longer one would make status large.
const LONGEST_ID: usize = 253;

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
    let wall = chance::time_of_day();
    let warnings = context.rights.warning().into_iter();
    let warnings: Vec<Warning> = warnings.chain(in_the_clear(account)).collect();
    let next = status(account, &former, seen, verdict, &warnings, wall);
    let written = context.memories.get(key).written;
    // An older CustomResourceDefinition drops the field: told once in the life of a process, it would be written for ever.
    let is_told = match &written {
        Some(_) => without_imports(&next) == without_imports(&former),
        None => next == former,
    };
    if is_told {
        return Ok(None);
    }
    let only_counts = next.conditions == former.conditions
        && next.observed_generation == former.observed_generation;
    let now = Instant::now();
    let generation = next.observed_generation;
    if let Some((at, of, said)) = written {
        let is_repeated = of == generation && said == *verdict;
        if (only_counts || is_repeated) && now < at + AGAIN_AFTER {
            return Ok(Some(at + AGAIN_AFTER - now));
        }
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
            context.memories.update(key, |memory| {
                memory.written = Some((now, generation, verdict.clone()));
            });
            Ok(None)
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn without_imports(status: &AccountStatus) -> AccountStatus {
    let mut status = status.clone();
    for server in &mut status.unowned {
        server.import = None;
    }
    status
}

/// Whoever is on the way reads what is sent to an http endpoint that is not on this machine.
fn in_the_clear(account: &Account) -> Option<Warning> {
    goes_in_the_clear(&account.spec.endpoint, account.spec.proxy.is_some()).then(|| Warning {
        type_: INSECURE_ENDPOINT,
        reason: Reason::PlainHttp,
        message: "spec.endpoint is http: token and login passwords go over the network in the clear: use https"
            .to_owned(),
    })
}

/// The status that follows. Pure.
fn status(
    account: &Account,
    former: &AccountStatus,
    seen: &Observation,
    verdict: &Verdict,
    warnings: &[Warning],
    wall: Timestamp,
) -> AccountStatus {
    let generation = account.metadata.generation.unwrap_or_default();
    let warnings = warnings
        .iter()
        .map(|warning| warning.to_condition(&former.conditions, generation, wall));
    let mut conditions = verdict.to_conditions(&former.conditions, generation, wall);
    conditions.extend(warnings);
    let counted = match &seen.census {
        Some(census) => counted(census, account),
        // Nothing was listed since the process began: what stands is the best that is known.
        None => former.clone(),
    };
    AccountStatus {
        observed_generation: generation,
        last_observed_time: former.last_observed_time.clone(),
        conditions,
        ..counted
    }
}

/// What status tells of the listings.
fn counted(census: &Census, account: &Account) -> AccountStatus {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let total = |of: fn(&PlaceCounts) -> usize| count(census.places.values().map(of).sum());
    let inventory = census.places.iter().take(PLACES).map(|(place, counts)| {
        let PlaceCounts {
            servers,
            unowned,
            in_flight,
            passes: _,
            failures: _,
        } = *counts;
        PlaceInventory {
            region: place.region.clone(),
            zone: place.zone.clone(),
            servers: count(servers),
            owned: count(servers.saturating_sub(unowned)),
            unowned: count(unowned),
            in_flight: count(in_flight),
        }
    });
    let unowned = census.unowned.iter().map(|server| UnownedServer {
        id: server.id.to_string(),
        name: server
            .name
            .as_deref()
            .map(|name| printable(name).into_owned()),
        region: server.place.region.clone(),
        zone: server.place.zone.clone(),
        image: server.image.as_ref().map(ToString::to_string),
        import: import(account, server.id.as_str()),
    });
    AccountStatus {
        servers: Some(total(|counts| counts.servers)),
        unowned_servers: Some(total(|counts| counts.unowned)),
        inventory: inventory.collect(),
        unowned: unowned.collect(),
        ..AccountStatus::default()
    }
}

/// The command that makes a manifest of a server: what it says follows from the server and the Account alone, so that a status with it
/// is as quiet as one without. Where nothing may be imported there is none. The service chooses the identifiers, and somebody pastes this into a shell: one that is no plain word
/// gets none.
fn import(account: &Account, id: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_word = id.starts_with(|c: char| c.is_ascii_alphanumeric()) && id.chars().all(is_plain);
    let (namespace, name) = (account.namespace().unwrap_or_default(), account.name_any());
    let chosen = match name == DEFAULT_ACCOUNT {
        true => String::new(),
        false => format!(" --account {name}"),
    };
    let is_allowed = account.spec.imports == Imports::Allowed;
    (is_allowed && is_word && id.len() <= LONGEST_ID)
        .then(|| format!("kubectl cloudserver import {id} -n {namespace}{chosen}"))
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
        let verdict = Verdict::ready(Reason::Available, "well");
        let seen = Observation {
            usable: crate::account::observe::Usable::No(
                crate::session::Problem {
                    reason: Reason::Available,
                    message: String::new(),
                },
                None,
            ),
            census: None,
        };
        let told = |endpoint: &str, former: &AccountStatus, wall| {
            let mut account = account("default");
            account.spec.endpoint = endpoint.to_owned();
            status(
                &account,
                former,
                &seen,
                &verdict,
                in_the_clear(&account).as_slice(),
                wall,
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
        // Told once, not again and again.
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

    #[test]
    fn a_server_of_nobody_comes_with_the_command_that_imports_it() {
        let told = import(&account("default"), "ecs-1_a.B");
        assert_eq!(
            told.as_deref(),
            Some("kubectl cloudserver import ecs-1_a.B -n team-a")
        );
        let told = import(&account("other"), "ecs-1");
        assert_eq!(
            told.as_deref(),
            Some("kubectl cloudserver import ecs-1 -n team-a --account other")
        );
    }

    #[test]
    fn where_nothing_may_be_imported_no_command_says_how() {
        assert_eq!(import(&importing("default", "Denied"), "ecs-1"), None);
    }

    #[test]
    fn an_identifier_that_a_shell_would_read_otherwise_makes_no_command() {
        let long = "e".repeat(LONGEST_ID + 1);
        for id in [
            "",
            "a b",
            "a;b",
            "$(a)",
            "--all",
            "a\nb",
            "ä",
            long.as_str(),
        ] {
            assert_eq!(import(&account("default"), id), None, "{id}");
        }
    }
}
