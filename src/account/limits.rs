//! Status of the limits of an Account: use, limit, and the Instances that wait.

use super::times;
use crate::api::conditions::Reason;
use crate::api::{AccountSpec, LimitUse, LimitsStatus, WaitingInstance};
use crate::session::{Limit, Usage};
use tokio::time::Instant;

/// As many names as the schema allows.
const NAMED: usize = 10;

/// The new `status.limits`.
pub(super) fn told(
    used: &Usage,
    spec: &AccountSpec,
    former: Option<&LimitsStatus>,
    usable_since: Option<Instant>,
) -> LimitsStatus {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let named = used.waiting.iter().take(NAMED);
    let next = LimitsStatus {
        instances: LimitUse {
            used: count(used.instances),
            allowed: spec.max_instances.map(i64::from),
        },
        creates_per_minute: spec.create_rate.as_ref().map(|rate| LimitUse {
            used: count(used.creates),
            allowed: Some(i64::from(rate.per_minute)),
        }),
        waiting: count(used.waiting.len()),
        next: named.map(waiting).collect(),
    };
    let have_asked =
        usable_since.is_some_and(|since| since.elapsed() >= times::WAITING_HAVE_ASKED_WITHIN);
    match former {
        Some(former) if !have_asked && former.waiting > next.waiting => LimitsStatus {
            waiting: former.waiting,
            next: former.next.clone(),
            ..next
        },
        Some(_) | None => next,
    }
}

fn waiting((name, limit): &(String, Limit)) -> WaitingInstance {
    WaitingInstance {
        name: name.clone(),
        reason: reason(*limit).as_str().to_owned(),
    }
}

fn reason(limit: Limit) -> Reason {
    match limit {
        Limit::Instances => Reason::AccountLimitReached,
        Limit::Creates => Reason::CreateRateReached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec() -> AccountSpec {
        serde_json::from_value(json!({
            "endpoint": "http://127.0.0.1", "tokenSecretRef": {"name": "t", "key": "t"},
            "maxInstances": 3, "createRate": {"perMinute": 2},
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn used_and_allowed_are_told_and_the_first_of_those_who_wait() {
        let named = |n| (format!("web-{n}"), Limit::Instances);
        let used = Usage {
            instances: 3,
            creates: 1,
            waiting: (0..12).map(named).collect(),
        };
        let now = Instant::now();
        let full = told(&used, &spec(), None, Some(now));
        assert_eq!((full.instances.used, full.instances.allowed), (3, Some(3)));
        let rate = full.creates_per_minute.as_ref().unwrap();
        assert_eq!((rate.used, rate.allowed), (1, Some(2)));
        assert_eq!((full.waiting, full.next.len()), (12, 10));
        assert_eq!(full.next[0].name, "web-0");
        assert_eq!(full.next[0].reason, "AccountLimitReached");
        // After a restart, or while the service does not answer, no Instance has checked the limits yet.
        let none = Usage {
            waiting: Vec::new(),
            ..used
        };
        for since in [None, Some(now)] {
            assert_eq!(told(&none, &spec(), Some(&full), since), full);
        }
        tokio::time::advance(times::WAITING_HAVE_ASKED_WITHIN).await;
        assert_eq!(told(&none, &spec(), Some(&full), Some(now)).waiting, 0);
        assert_eq!(told(&none, &spec(), Some(&full), None).waiting, 12);
    }
}
