//! Checks whether the watch shows an older version of an object than this process already knows.
//!
//! A cache that lags behind our own write catches up within seconds. A longer lag has another cause. Either some component shows
//! an old state of the cluster (an apiserver that lags, or a cache in front of it), and nothing may be done or written on that
//! basis. Or the state itself went back in time (etcd was restored), and then it counts. A read from the apiserver, past every
//! cache, shows which.

use crate::api::Instance;
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, lock};
use crate::instance::times;
use crate::runtime::kubernetes::call;
use kube::Api;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// How long the reconcile must wait if the shown version is too old to act on.
pub async fn wait(context: &Context, facts: &Facts, memory: &Mutex<Memory>) -> Option<Duration> {
    // The known version is taken before the read: meanwhile the watch may show a newer one, which the answer may lack.
    let (known, since) = lock(memory).status_writes.newest_version?;
    let shown: u64 = facts.resource_version.parse().ok()?;
    match Instant::now() < since + times::CACHE_CATCHES_UP_WITHIN {
        _ if shown >= known => None,
        true => Some(times::AFTER_OWN_WRITE),
        false => Some(ask(context, facts, known).await),
    }
}

async fn ask(context: &Context, facts: &Facts, known: u64) -> Duration {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let answer = call("read the Instance", api.get_metadata(&facts.key.name)).await;
    let Ok(now) = answer else {
        return times::STALE_CACHE_RECHECK; // gone, or the read failed: the watch will show which
    };
    let version = now.metadata.resource_version.unwrap_or_default();
    let version = version.parse::<u64>().ok();
    let is_it = now.metadata.uid.as_deref() == Some(facts.uid.as_str());
    let Some(version) = version.filter(|version| is_it && *version < known) else {
        return times::STALE_CACHE_RECHECK;
    };
    context.went_back(version);
    times::AFTER_OWN_WRITE
}
