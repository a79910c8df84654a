//! How all objects stand, counted when metrics are read: a change costs nothing, and what is shown is what status says.

use super::wiring::{Guarded, Parts};
use crate::api::conditions::{DRIFTED, READY, RECONCILING, Reason, STALLED};
use crate::api::{Account, Instance, Verb};
use crate::runtime::chance;
use crate::runtime::metrics::{Fleet, Open, Standing};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::collections::BTreeMap;

/// No status yet, or words that this version does not know: a label is never what stands in an object.
const UNKNOWN: &str = "Unknown";

/// Counts what the watches and the listings show now.
pub(super) fn survey(parts: &Parts) -> Fleet {
    let mut fleet = Fleet {
        operations: Verb::ALL
            .map(|verb| (verb.as_str(), Open::default()))
            .into(),
        listings: parts.instances.sessions.listings(),
        ..Fleet::default()
    };
    let now = chance::time_of_day();
    for stores in parts.stores.get().into_iter().flatten() {
        for instance in stores.instances.state() {
            count_instance(&mut fleet, &instance, now);
        }
        for account in stores.accounts.state() {
            count_account(&mut fleet, &account);
        }
    }
    fleet
}

fn count_instance(fleet: &mut Fleet, instance: &Guarded<Instance>, now: Timestamp) {
    let Ok(instance) = &instance.0 else {
        count(&mut fleet.instances, undecodable());
        return;
    };
    let status = instance.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    count(&mut fleet.instances, standing(conditions));
    fleet.drifted += u32::from(holds(conditions, DRIFTED));
    let operation = status.and_then(|status| status.operation.as_ref());
    if let Some(operation) = operation.filter(|operation| operation.is_open()) {
        let open = fleet.operations.entry(operation.verb.as_str()).or_default();
        // A clock that was set back makes none older than it is.
        let age = now.duration_since(operation.started_at.0).try_into();
        open.count += 1;
        open.oldest = open.oldest.max(age.unwrap_or_default());
    }
}

fn count_account(fleet: &mut Fleet, account: &Guarded<Account>) {
    let standing = match &account.0 {
        Ok(account) => {
            let status = account.status.as_ref();
            let conditions = status.map(|status| status.conditions.as_slice());
            standing(conditions.unwrap_or_default())
        }
        Err(_) => undecodable(),
    };
    count(&mut fleet.accounts, standing);
}

fn count(counts: &mut BTreeMap<Standing, u32>, standing: Standing) {
    *counts.entry(standing).or_default() += 1;
}

fn undecodable() -> Standing {
    Standing {
        state: "stalled",
        reason: Reason::Undecodable.as_str(),
    }
}

fn standing(conditions: &[Condition]) -> Standing {
    let ready = conditions.iter().find(|told| told.type_ == READY);
    let reason = ready.and_then(|told| Reason::of(&told.reason));
    let state = if holds(conditions, READY) {
        "ready"
    } else if holds(conditions, STALLED) {
        "stalled"
    } else if holds(conditions, RECONCILING) {
        "reconciling"
    } else {
        "unknown"
    };
    Standing {
        state,
        reason: reason.map_or(UNKNOWN, Reason::as_str),
    }
}

fn holds(conditions: &[Condition], type_: &str) -> bool {
    let mut of_type = conditions.iter().filter(|told| told.type_ == type_);
    of_type.any(|told| told.status == "True")
}

#[cfg(test)]
mod tests;
