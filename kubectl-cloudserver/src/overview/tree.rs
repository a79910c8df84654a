//! The tree that `status` prints: namespaces, their Accounts, and the Instances of each.

use super::objects::{Objects, Unreadable};
use super::progress::Durations;
use super::readiness::{NOT_OBSERVED, condition, is_current, readiness};
use crate::output::joined;
use cloud_server_operator::api::conditions::READY;
use cloud_server_operator::api::{Account, Instance, LimitUse, counted};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};

const UNREADABLE: &str = "this version of the command cannot read it";

/// An Account, as far as it could be read.
#[derive(Default)]
enum Read<'a> {
    /// No Account has this name.
    #[default]
    Absent,
    Unreadable,
    Account(&'a Account),
}

/// The Instances of one Account.
#[derive(Default)]
struct Branch<'a> {
    account: Read<'a>,
    instances: Vec<&'a Instance>,
}

/// The output of `status`.
pub(super) fn tree(objects: &Objects, now: Timestamp) -> String {
    let durations = Durations::of(&objects.instances);
    let mut lines = Vec::new();
    for (namespace, accounts) in branches(objects) {
        lines.push(namespace);
        let count = accounts.len();
        for (at, (name, branch)) in accounts.into_iter().enumerate() {
            let (twig, below) = match at + 1 == count {
                true => ("└─", "   "),
                false => ("├─", "│  "),
            };
            lines.push(format!(
                "{twig} Account {name}: {}",
                of_account(&branch.account)
            ));
            lines.extend(
                of_instances(branch.instances, &durations, now)
                    .map(|line| format!("{below}{line}")),
            );
        }
    }
    // The Account of an unreadable Instance is unknown.
    let unreadable: BTreeSet<_> = objects.unreadable.iter().collect();
    let others = unreadable.into_iter().filter(|object| !is_account(object));
    lines.extend(others.map(|object| {
        format!(
            "{} {}/{}: {UNREADABLE}",
            object.kind, object.namespace, object.name
        )
    }));
    joined(&lines)
}

/// The Accounts of each namespace, with their Instances.
fn branches(objects: &Objects) -> BTreeMap<String, BTreeMap<String, Branch<'_>>> {
    let mut namespaces: BTreeMap<String, BTreeMap<String, Branch<'_>>> = BTreeMap::new();
    for account in &objects.accounts {
        let namespace = namespaces.entry(account.namespace().unwrap_or_default());
        let branch = namespace.or_default().entry(account.name_any());
        branch.or_default().account = Read::Account(account);
    }
    for account in objects
        .unreadable
        .iter()
        .filter(|object| is_account(object))
    {
        let namespace = namespaces.entry(account.namespace.clone());
        let branch = namespace.or_default().entry(account.name.clone());
        branch.or_default().account = Read::Unreadable;
    }
    for instance in &objects.instances {
        let namespace = namespaces.entry(instance.namespace().unwrap_or_default());
        let branch = namespace
            .or_default()
            .entry(instance.spec.account_ref.name.clone());
        branch.or_default().instances.push(instance);
    }
    namespaces
}

fn is_account(object: &Unreadable) -> bool {
    object.kind == Account::kind(&())
}

fn of_account(account: &Read<'_>) -> String {
    let account = match account {
        Read::Absent => return "does not exist".to_owned(),
        Read::Unreadable => return UNREADABLE.to_owned(),
        Read::Account(account) => account,
    };
    let Some(status) = &account.status else {
        return NOT_OBSERVED.to_owned();
    };
    let readiness = readiness(
        &account.metadata,
        status.observed_generation,
        &status.conditions,
    );
    let mut words = vec![readiness];
    let is_current = is_current(&account.metadata, status.observed_generation);
    words.extend(not_ready(&status.conditions, is_current));
    words.push(account.spec.endpoint.clone());
    if let Some(servers) = status.servers {
        let unowned = status.unowned_servers.unwrap_or(0);
        let servers = counted(usize::try_from(servers).unwrap_or(0), "server");
        words.push(match unowned {
            0 => servers,
            unowned => format!("{servers}, {unowned} of them unowned"),
        });
    }
    if let Some(limits) = &status.limits {
        words.extend(used("Instances", &limits.instances));
        let creates = limits.creates_per_minute.as_ref();
        words.extend(creates.and_then(|creates| used("creates in a minute", creates)));
        if limits.waiting > 0 {
            words.push(format!("{} waiting", limits.waiting));
        }
    }
    words.join(" · ")
}

/// Why the object is not Ready, if a current status reports that.
fn not_ready(conditions: &[Condition], is_current: bool) -> Option<String> {
    let ready = condition(conditions, READY);
    let ready = ready.filter(|ready| is_current && ready.status != "True");
    ready.map(|ready| ready.message.clone())
}

/// A limit, if there is one.
fn used(what: &str, limit: &LimitUse) -> Option<String> {
    let allowed = limit.allowed?;
    Some(format!("{} of {allowed} {what}", limit.used))
}

fn of_instances(
    mut instances: Vec<&Instance>,
    durations: &Durations,
    now: Timestamp,
) -> impl Iterator<Item = String> {
    instances.sort_by_key(|instance| instance.name_any());
    let width = instances
        .iter()
        .map(|instance| instance.name_any().len())
        .max()
        .unwrap_or(0);
    let count = instances.len();
    let lines = instances
        .into_iter()
        .enumerate()
        .map(move |(at, instance)| {
            let twig = if at + 1 == count { "└─" } else { "├─" };
            format!(
                "{twig} {:width$}  {}",
                instance.name_any(),
                of_instance(instance, durations, now)
            )
        });
    lines.collect::<Vec<_>>().into_iter()
}

fn of_instance(instance: &Instance, durations: &Durations, now: Timestamp) -> String {
    let Some(status) = &instance.status else {
        return NOT_OBSERVED.to_owned();
    };
    let is_current = is_current(&instance.metadata, status.observed_generation);
    let mut words = vec![readiness(
        &instance.metadata,
        status.observed_generation,
        &status.conditions,
    )];
    if is_current && instance.metadata.deletion_timestamp.is_some() {
        words.push("being deleted".to_owned());
    }
    if let Some(open) = status.operation.as_ref().filter(|told| told.is_open()) {
        words.push(format!("{} {}", open.verb, durations.progress(open, now)));
    } else {
        words.extend(not_ready(&status.conditions, is_current));
    }
    if let Some(id) = &status.id {
        let text = |field: &str| status.detail.get(field).and_then(|value| value.as_str());
        let shown = [
            Some(id.as_str()),
            text("ecsStatus"),
            text("publicIpAddress"),
        ];
        words.push(shown.into_iter().flatten().collect::<Vec<_>>().join(" "));
    }
    words.join(" · ")
}
