//! The tree that `status` prints: namespaces, their Accounts, and the Instances of each.

use super::Objects;
use super::progress::Durations;
use super::readiness::{NOT_OBSERVED, condition, is_current, readiness};
use crate::output::joined;
use cloud_server_operator::api::conditions::READY;
use cloud_server_operator::api::{Account, Instance, LimitUse, counted};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use std::collections::BTreeMap;

const UNREADABLE: &str = "this version of the command cannot read it";

/// An Account in words, and its Instances. The Account is None if it does not exist.
#[derive(Default)]
struct Branch<'a> {
    account: Option<String>,
    instances: Vec<&'a Instance>,
}

/// The Accounts of each namespace, by name.
type Branches<'a> = BTreeMap<String, BTreeMap<String, Branch<'a>>>;

/// The output of `status`.
pub(super) fn tree(objects: &Objects, now: Timestamp) -> String {
    let durations = Durations::of(&objects.instances);
    let mut branches = Branches::new();
    for account in &objects.accounts {
        let namespace = account.namespace().unwrap_or_default();
        branch(&mut branches, namespace, account.name_any()).account = Some(of_account(account));
    }
    for instance in &objects.instances {
        let namespace = instance.namespace().unwrap_or_default();
        let account = instance.spec.account_ref.name.clone();
        branch(&mut branches, namespace, account)
            .instances
            .push(instance);
    }
    let mut others = Vec::new();
    for [kind, namespace, name] in &objects.unreadable {
        match kind.as_str() {
            "Account" => {
                let branch = branch(&mut branches, namespace.clone(), name.clone());
                branch.account = Some(UNREADABLE.to_owned());
            }
            // The Account of an unreadable Instance is unknown.
            _ => others.push(format!("{kind} {namespace}/{name}: {UNREADABLE}")),
        }
    }
    let mut lines = Vec::new();
    for (namespace, accounts) in branches {
        lines.push(namespace);
        let count = accounts.len();
        for (number, (name, branch)) in (1..).zip(accounts) {
            let (twig, below) = match number == count {
                true => ("└─", "   "),
                false => ("├─", "│  "),
            };
            let account = branch.account.as_deref().unwrap_or("does not exist");
            lines.push(format!("{twig} Account {name}: {account}"));
            let instances = of_instances(branch.instances, &durations, now);
            lines.extend(instances.iter().map(|line| format!("{below}{line}")));
        }
    }
    others.sort_unstable();
    lines.extend(others);
    joined(&lines)
}

fn branch<'m, 'a>(
    all: &'m mut Branches<'a>,
    namespace: String,
    account: String,
) -> &'m mut Branch<'a> {
    let namespace = all.entry(namespace).or_default();
    namespace.entry(account).or_default()
}

fn of_account(account: &Account) -> String {
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

/// The use of a limit, if it is set.
fn used(what: &str, limit: &LimitUse) -> Option<String> {
    let allowed = limit.allowed?;
    Some(format!("{} of {allowed} {what}", limit.used))
}

fn of_instances(
    mut instances: Vec<&Instance>,
    durations: &Durations,
    now: Timestamp,
) -> Vec<String> {
    instances.sort_by_key(|instance| instance.name_any());
    let widths = instances.iter().map(|instance| instance.name_any().len());
    let (width, count) = (widths.max().unwrap_or(0), instances.len());
    let line = |(number, instance): (usize, &Instance)| {
        let twig = if number == count { "└─" } else { "├─" };
        let (name, words) = (instance.name_any(), of_instance(instance, durations, now));
        format!("{twig} {name:width$}  {words}")
    };
    (1..).zip(instances).map(line).collect()
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
    if let Some(open) = status.operation.as_ref().filter(|one| one.is_open()) {
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
