//! Makes durable what must not be forgotten, before anything is called; and looks once more before anything is destroyed.
//!
//! An intent is one patch of the main resource with `uid` and `resourceVersion`: a stale cache, a second controller or a
//! re-created namesake makes it fail with 409. It writes finalizer and record together.

use super::Context;
use super::facts::Facts;
use super::memory::{Attempt, Memory, Post, open};
use super::observe::Observation;
use super::plan::{Plan, ReleaseReason, Request, Step};
use crate::api::names::{BINDING, FINALIZER};
use crate::api::{Binding, Instance, Verb};
use crate::cloud::{Lane, ServerId};
use crate::runtime::KubeError;
use crate::runtime::kubernetes::{call, patch_params};
use crate::session::Seat;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use rand::RngExt;
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

/// What may be done now, because what it needs is on record.
#[derive(Debug)]
pub enum Recorded {
    /// Nothing is to be done.
    Rest,
    /// The attempt is announced and acknowledged: one POST.
    Call {
        /// The record as it stands.
        binding: Box<Binding>,
        /// The record's text as it stands; the receipt is conditional on it.
        text: String,
        /// What to ask for.
        request: Box<Request>,
    },
    /// A fresh read confirmed that the attempt still stands: a call within it, which needs no record.
    Aside {
        /// What to ask for.
        request: Box<Request>,
    },
    /// The record is written; nothing else was planned.
    Written,
    /// A fresh read confirmed the reason for this release.
    Release {
        /// Which server.
        id: ServerId,
        /// Why.
        why: ReleaseReason,
    },
    /// The finalizer may go.
    Finish,
    /// The object is not what the plan was made from: look again.
    Stale,
    /// The apiserver did not do it.
    Failed(KubeError),
    /// A look at the service that had to come first did not succeed.
    Unconfirmed(String),
    /// The recorded server is somebody else's: the record was edited, or the service gave its identifier away again.
    NotOurs(String),
}

/// Writes or confirms what the step needs. Writes to Kubernetes only; reads the service once before a surplus release.
pub async fn record(
    context: &Context,
    seen: &Observation,
    plan: &Plan,
    memory: &Mutex<Memory>,
    seat: Option<&Seat>,
) -> Recorded {
    let facts = &seen.facts;
    match &plan.step {
        Step::Rest => Recorded::Rest,
        Step::Call {
            binding,
            announce: true,
            request,
        } => {
            let mut binding = binding.clone();
            binding.nonce = nonce();
            match intend(context, facts, &mut binding, memory, Post::NotSent).await {
                Ok(text) => Recorded::Call {
                    binding,
                    text,
                    request: request.clone(),
                },
                Err(other) => other,
            }
        }
        Step::Call {
            binding,
            announce: false,
            request,
        } => {
            // The very attempt must still stand, on an object that still wants it.
            match fresh(context, facts).await {
                Ok(now) if still_wants(&now, facts) => Recorded::Call {
                    binding: binding.clone(),
                    text: facts.annotation.clone().unwrap_or_default(),
                    request: request.clone(),
                },
                Ok(_) => Recorded::Stale,
                Err(other) => other,
            }
        }
        Step::Aside { request } => match fresh(context, facts).await {
            Ok(now) if still_wants(&now, facts) => Recorded::Aside {
                request: request.clone(),
            },
            Ok(_) => Recorded::Stale,
            Err(other) => other,
        },
        Step::Record { binding } => {
            let mut binding = binding.clone();
            if binding.nonce.is_empty() {
                binding.nonce = nonce();
            }
            match intend(context, facts, &mut binding, memory, Post::Unknown).await {
                Ok(_) => Recorded::Written,
                Err(other) => other,
            }
        }
        Step::Release { id, why } => confirm_release(context, seen, id, *why, seat).await,
        Step::Finish => Recorded::Finish,
    }
}

/// One compare-and-swap of finalizer and record. Acknowledged, or found to be ours by its nonce when the answer was lost.
async fn intend(
    context: &Context,
    facts: &Facts,
    binding: &mut Binding,
    memory: &Mutex<Memory>,
    post: Post,
) -> Result<String, Recorded> {
    binding.cluster.clone_from(&context.settings.cluster);
    let text = binding.to_text();
    let mut finalizers = facts.finalizers.clone();
    if !facts.is_held() {
        finalizers.push(FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {
        "uid": facts.uid,
        "resourceVersion": facts.resource_version,
        "finalizers": finalizers,
        "annotations": {BINDING: text},
    }});
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let params = patch_params();
    let patch = Patch::Merge(&patch);
    let seen_before = context.highest_version.load(Ordering::SeqCst);
    let written = call(
        "record the intent",
        api.patch_metadata(&facts.key.name, &params, &patch),
    )
    .await;
    context.metrics.kube_write(
        "intent",
        written.as_ref().map_or_else(KubeError::category, |_| "ok"),
    );
    let version = match written {
        Ok(object) => object.metadata.resource_version.unwrap_or_default(),
        Err(error) if error.is_conflict() || error.is_not_found() => return Err(Recorded::Stale),
        Err(error) if error.may_have_happened() => {
            let now = fresh(context, facts).await?;
            if now.annotations().get(BINDING) != Some(&text) {
                return Err(Recorded::Failed(error));
            }
            now.resource_version().unwrap_or_default()
        }
        Err(error) => return Err(Recorded::Failed(error)),
    };
    if went_back(context, &version, seen_before) {
        return Err(Recorded::Stale);
    }
    let mut memory = open(memory);
    memory.wrote(Some(&version), Instant::now());
    if !memory.is_of(context.memories.doubts()) {
        // Another turn found the state gone back in time while this one was under way.
        return Err(Recorded::Stale);
    }
    memory.ever_intended = true;
    memory.recordless_since = None;
    if binding.id.as_deref() != facts.id().as_ref().map(ServerId::as_str) {
        memory.forget_looks();
    }
    if post == Post::NotSent && binding.operation.verb != Verb::Create {
        memory.announced = Some(Box::new(binding.clone()));
    }
    let known = memory
        .attempts
        .get(&binding.attempt)
        .is_some_and(|attempt| attempt.nonce == binding.nonce);
    if !known {
        let attempt = Attempt {
            nonce: binding.nonce.clone(),
            account: binding.account.clone(),
            verb: binding.operation.verb,
            is_own: post == Post::NotSent,
            tries: 0,
            since: Instant::now(),
            post,
        };
        memory.attempts.insert(binding.attempt, attempt);
    }
    Ok(text)
}

/// Whether the resourceVersion of a write of ours is lower than one that was seen before the write began: etcd was
/// restored, and nothing that was believed to be new or unbought is certain any more. Versions are integers that only
/// grow, over all objects; what was seen while the write was under way may well be higher.
fn went_back(context: &Context, version: &str, seen_before: u64) -> bool {
    let Ok(version) = version.parse::<u64>() else {
        return false;
    };
    if version >= seen_before {
        context.highest_version.fetch_max(version, Ordering::SeqCst);
        return false;
    }
    tracing::warn!(
        version,
        seen_before,
        "the cluster's state went back in time: settling before anything is bought"
    );
    context.highest_version.store(version, Ordering::SeqCst);
    context.memories.doubt_all();
    true
}

/// A destructive call needs a fresh read of the object; a surplus release also the recorded server alive in this turn.
async fn confirm_release(
    context: &Context,
    seen: &Observation,
    id: &ServerId,
    why: ReleaseReason,
    seat: Option<&Seat>,
) -> Recorded {
    let facts = &seen.facts;
    let listed = seen.listing.as_ref().and_then(|listing| listing.row(id));
    let stranger =
        listed.filter(|(row, _)| row.name.is_some() && row.marker.as_ref() != Some(&facts.marker));
    if let Some((row, _)) = stranger {
        let name = row.name.as_deref().unwrap_or_default();
        return Recorded::NotOurs(format!(
            "the record names server {id}, which is called {name} at the service: that is not a name this Instance gives, so \
             the server is not released; rename it to end in -{}, or mend or remove the annotation {BINDING}",
            facts.marker
        ));
    }
    let now = match fresh(context, facts).await {
        Ok(now) => now,
        Err(other) => return other,
    };
    if !stands(&now, facts) || is_deleting(&now) != (why == ReleaseReason::Deleted) {
        return Recorded::Stale;
    }
    if why == ReleaseReason::Surplus {
        let (Some(recorded), Some(seat)) = (facts.id(), seat) else {
            return Recorded::Stale;
        };
        match seat.session.client.detail(Lane::Urgent, &recorded).await {
            Ok(_) => {}
            Err(error) => {
                return Recorded::Unconfirmed(format!(
                    "server {recorded} was not seen alive, so {id} stays: {error}"
                ));
            }
        }
    }
    Recorded::Release {
        id: id.clone(),
        why,
    }
}

/// The object as the apiserver has it now, past every cache.
async fn fresh(context: &Context, facts: &Facts) -> Result<Instance, Recorded> {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    match call("read the Instance", api.get(&facts.key.name)).await {
        Ok(object) if object.uid().as_deref() == Some(facts.uid.as_str()) => Ok(object),
        Ok(_) => Err(Recorded::Stale),
        Err(error) if error.is_not_found() => Err(Recorded::Stale),
        Err(error) => Err(Recorded::Failed(error)),
    }
}

/// The record is word for word the one that the plan was made from.
fn stands(now: &Instance, facts: &Facts) -> bool {
    now.annotations().get(BINDING) == facts.annotation.as_ref()
}

/// Record and spec are those that the plan was made from, and the object is to stay.
fn still_wants(now: &Instance, facts: &Facts) -> bool {
    stands(now, facts) && now.metadata.generation == Some(facts.generation) && !is_deleting(now)
}

fn is_deleting(now: &Instance) -> bool {
    now.metadata.deletion_timestamp.is_some()
}

/// A word that no other turn has written.
fn nonce() -> String {
    format!("{:016x}", rand::rng().random::<u64>())
}
