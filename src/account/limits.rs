//! Status of the limits of an Account: use, limit, and the Instances that wait.

use super::zones::{all_had_a_reconcile, number};
use crate::api::conditions::Reason;
use crate::api::{AccountSpec, LimitUse, LimitsStatus, WaitingInstance};
use crate::session::{Limit, Usage};
use tokio::time::Instant;

/// As many names as the schema allows.
const NAMED: usize = 10;

/// The next `status.limits`.
pub(super) fn limits(
    usage: &Usage,
    spec: &AccountSpec,
    former: Option<&LimitsStatus>,
    usable_since: Option<Instant>,
) -> LimitsStatus {
    let mut next = LimitsStatus {
        instances: LimitUse {
            used: number(usage.instances),
            allowed: spec.max_instances.map(i64::from),
        },
        creates_per_minute: spec.create_rate.as_ref().map(|rate| LimitUse {
            used: number(usage.creates),
            allowed: Some(i64::from(rate.per_minute)),
        }),
        waiting: number(usage.waiting.len()),
        next: usage.waiting.iter().take(NAMED).map(waiting).collect(),
    };
    // After a restart, or while the Account is not usable, not every Instance has checked the limits yet: a higher former count
    // stays.
    let is_complete = all_had_a_reconcile(usable_since);
    if let Some(former) = former.filter(|former| !is_complete && former.waiting > next.waiting) {
        next.waiting = former.waiting;
        next.next.clone_from(&former.next);
    }
    next
}

fn waiting((name, limit): &(String, Limit)) -> WaitingInstance {
    let reason = match limit {
        Limit::Instances => Reason::AccountLimitReached,
        Limit::Creates => Reason::CreateRateReached,
    };
    WaitingInstance {
        name: name.clone(),
        reason: reason.as_str().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::times;
    use serde_json::json;

    fn spec() -> AccountSpec {
        serde_json::from_value(json!({
            "endpoint": "http://127.0.0.1", "tokenSecretRef": {"name": "t", "key": "t"},
            "maxInstances": 3, "createRate": {"perMinute": 2},
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn usage_limits_and_some_waiting_instances_are_reported() {
        let named = |n| (format!("web-{n}"), Limit::Instances);
        let usage = Usage {
            instances: 3,
            creates: 1,
            waiting: (0..12).map(named).collect(),
        };
        let now = Instant::now();
        let full = limits(&usage, &spec(), None, Some(now));
        assert_eq!((full.instances.used, full.instances.allowed), (3, Some(3)));
        let rate = full.creates_per_minute.as_ref().unwrap();
        assert_eq!((rate.used, rate.allowed), (1, Some(2)));
        assert_eq!((full.waiting, full.next.len()), (12, 10));
        assert_eq!(full.next[0].name, "web-0");
        assert_eq!(full.next[0].reason, "AccountLimitReached");
        // After a restart, or while the Account is not usable, the Instances have not checked the limits yet.
        let none = Usage {
            waiting: Vec::new(),
            ..usage
        };
        for since in [None, Some(now)] {
            assert_eq!(limits(&none, &spec(), Some(&full), since), full);
        }
        tokio::time::advance(times::ALL_HAD_A_RECONCILE_AFTER).await;
        assert_eq!(limits(&none, &spec(), Some(&full), Some(now)).waiting, 0);
        assert_eq!(limits(&none, &spec(), Some(&full), None).waiting, 12);
    }
}
