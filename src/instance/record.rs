//! Makes durable what must not be forgotten, before anything is called; and looks once more before anything is destroyed.
//!
//! An intent is one patch of the main resource with `uid` and `resourceVersion`: a stale cache, a second controller or a
//! re-created namesake makes it fail with 409. It writes finalizer and record together.

use super::facts::Facts;
use super::memory::{Attempt, Memory, Post, open};
use super::observe::{Fact, Observation};
use super::plan::{Plan, ReleaseReason, Request, Step};
use super::{Context, vault};
use crate::api::names::{BINDING, FINALIZER};
use crate::api::{Binding, Instance, Verb};
use crate::cloud::{Detail, Lane, ServerId};
use crate::runtime::events::News;
use crate::runtime::kubernetes::{call, patch_params};
use crate::runtime::queue::ADMISSION;
use crate::runtime::{KubeError, chance};
use crate::session::Seat;
use kube::api::{ObjectMeta, Patch};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// Swaps that are tried in one turn: with another writer at 100 Hz and a read and a patch of a few milliseconds, more
/// than half of them succeed.
const SWAPS: u32 = 6;
/// A server that was listed as ours so lately is not looked at once more before its release: an identifier is not given
/// away again within seconds. Two listings at the pace of running operations.
const JUST_LISTED: Duration = Duration::from_secs(10);
/// Longest wait for that look, the wait for the request limit included, so that the turn has time left for the release.
const LOOK: Duration = Duration::from_secs(5);

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
    /// The finalizer may go, and what there is at the service stays.
    LetGo {
        /// What is told about it.
        news: Option<News>,
    },
    /// The object is not what the plan was made from: look again.
    Stale,
    /// The apiserver did not do it.
    Failed(KubeError),
    /// The operator has no right to write Secrets.
    SecretRefused(String),
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
        Step::Secret(step) => vault::write(context, seen, step, memory).await,
        Step::Release { id, why } => confirm_release(context, seen, id, *why, seat).await,
        Step::Finish => Recorded::Finish,
        Step::LetGo { news } => Recorded::LetGo { news: news.clone() },
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
    let seen_before = context.highest_version.load(Ordering::SeqCst);
    let roll = context.sessions.roll();
    roll.announce(&facts.uid, true);
    let swapped = match swap(context, facts, &finalizers, &text).await {
        Ok(swapped) => swapped,
        Err(other) => {
            let may_stand = matches!(&other, Recorded::Failed(error) if error.may_have_happened());
            // What made the plan stale may be an earlier record of ours, of which the watch has yet to tell.
            let keeps = may_stand || matches!(&other, Recorded::Stale);
            roll.announce(&facts.uid, keeps);
            if may_stand && post == Post::NotSent {
                // Should it turn out to stand, nothing was sent for it.
                remember(&mut open(memory), binding, post);
            }
            return Err(other);
        }
    };
    let Swapped {
        version, is_wanted, ..
    } = &swapped;
    // A record that stood already tells nothing: other objects may well have been written since.
    let is_new = swapped.is_written || post == Post::NotSent;
    let has_gone_back = is_new && went_back(context, version, seen_before);
    let mut memory = open(memory);
    // The state went back in time, as this turn found, or another one while this one was under way.
    if has_gone_back || !memory.is_of(context.memories.doubts()) {
        if post == Post::NotSent && binding.operation.verb != Verb::Create {
            // Whatever else is in doubt, nothing was sent for a record that is as new as this.
            remember(&mut memory, binding, post);
        }
        return Err(Recorded::Stale);
    }
    memory.wrote(Some(version), Instant::now());
    memory.ever_intended = true;
    memory.recordless_since = None;
    memory.recreated = memory.recreated.max(binding.recreated);
    if binding.id.as_deref() != facts.id().as_ref().map(ServerId::as_str) {
        memory.forget_looks();
    }
    if post == Post::NotSent && binding.operation.verb != Verb::Create {
        memory.announces(binding);
    }
    remember(&mut memory, binding, post);
    if !is_wanted {
        return Err(Recorded::Stale);
    }
    Ok(text)
}

/// The attempt of a record that this process wrote, or may have written.
fn remember(memory: &mut Memory, binding: &Binding, post: Post) {
    let known = memory.attempts.get(&binding.attempt);
    if known.is_some_and(|attempt| attempt.nonce == binding.nonce) {
        return;
    }
    if post == Post::NotSent && binding.operation.verb == Verb::Create {
        memory.purchase = Some(Box::new(binding.clone()));
    }
    let attempt = Attempt {
        doubt: None,
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

/// A record that stands.
struct Swapped {
    /// The object's version with it.
    version: String,
    /// Whether the swap was acknowledged. False: the record was found standing.
    is_written: bool,
    /// Whether the object is still what the plan was made from. Between a swap whose answer was lost and the read that finds
    /// it, somebody may have deleted the object or changed its spec; and where etcd was restored, the version that was planned
    /// for may have come again, of another state of the object.
    is_wanted: bool,
}

/// The compare-and-swap itself.
///
/// Somebody who writes labels or a foreign annotation many times a second makes the version of a plan old before the
/// patch arrives. What stands now is read then, and if it is in everything that a plan looks at what the plan was made
/// from, it is swapped at its own version.
async fn swap(
    context: &Context,
    facts: &Facts,
    finalizers: &[String],
    text: &str,
) -> Result<Swapped, Recorded> {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &facts.key.namespace);
    let params = patch_params();
    let mut version = facts.resource_version.clone();
    for _ in 0..SWAPS {
        let patch = json!({"metadata": {
            "uid": facts.uid,
            "resourceVersion": version,
            "finalizers": finalizers,
            "annotations": {BINDING: text},
        }});
        let patch = Patch::Merge(&patch);
        let written = api.patch_metadata(&facts.key.name, &params, &patch);
        let written = call("record the intent", written).await;
        let result = written.as_ref().map_or_else(KubeError::category, |_| "ok");
        context.metrics.kube_write("intent", result);
        match written {
            Ok(object) => {
                return Ok(Swapped {
                    is_wanted: is_as_planned(&object.metadata, facts),
                    version: object.metadata.resource_version.unwrap_or_default(),
                    is_written: true,
                });
            }
            Err(error) if error.is_not_found() => return Err(Recorded::Stale),
            Err(error) if !error.is_conflict() && !error.may_have_happened() => {
                return Err(Recorded::Failed(error));
            }
            Err(error) => {
                let now = match fresh(context, facts).await {
                    Ok(now) => now,
                    // It is the swap of which nobody knows, not the look.
                    Err(Recorded::Failed(_)) if !error.is_conflict() => {
                        return Err(Recorded::Failed(error));
                    }
                    Err(other) => return Err(other),
                };
                let is_held = now.finalizers().iter().any(|held| held == FINALIZER);
                if is_held && now.annotations().get(BINDING).map(String::as_str) == Some(text) {
                    return Ok(Swapped {
                        version: now.resource_version().unwrap_or_default(),
                        is_written: false,
                        is_wanted: is_as_planned(&now.metadata, facts) && now.spec == *facts.spec,
                    });
                }
                if !error.is_conflict() {
                    return Err(Recorded::Failed(error));
                }
                if !facts.is_same_but_version(&Facts::of(&context.settings.cluster, &now)) {
                    return Err(Recorded::Stale);
                }
                version = now.resource_version().unwrap_or_default();
            }
        }
    }
    Err(Recorded::Stale)
}

/// Whether spec and deletion of the object are what the plan was made from.
fn is_as_planned(now: &ObjectMeta, facts: &Facts) -> bool {
    now.generation == Some(facts.generation) && now.deletion_timestamp.is_some() == facts.deleting
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

/// A destructive call needs a fresh read of the object, and a look at the server that is to go; a surplus release also the
/// recorded server alive in this turn.
async fn confirm_release(
    context: &Context,
    seen: &Observation,
    id: &ServerId,
    why: ReleaseReason,
    seat: Option<&Seat>,
) -> Recorded {
    let facts = &seen.facts;
    if let Err(not_ours) = look_at(seen, id, why, seat).await {
        return not_ours;
    }
    let now = match fresh(context, facts).await {
        Ok(now) => now,
        Err(other) => return other,
    };
    // The spec may have been changed to keep the server.
    let is_same = stands(&now, facts) && now.spec == *facts.spec;
    let is_deleting = now.metadata.deletion_timestamp.is_some();
    if !is_same || is_deleting != (why == ReleaseReason::Deleted) {
        return Recorded::Stale;
    }
    if why == ReleaseReason::Surplus {
        let (Some(recorded), Some(seat)) = (facts.id(), seat) else {
            return Recorded::Stale;
        };
        let detail = seat.session.client.detail(Lane::Urgent, &recorded);
        let why = match tokio::time::timeout(ADMISSION, detail).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it was not answered in good time".to_owned()),
        };
        if let Some(why) = why {
            return Recorded::Unconfirmed(format!(
                "server {recorded} was not seen alive, so {id} stays: {why}"
            ));
        }
    }
    Recorded::Release {
        id: id.clone(),
        why,
    }
}

/// A server that is to be released bears our marker, as a listing of just now or its detail shows: the service may have
/// given its identifier away again since. That it is not there at all is for the release to hear. A detail that this turn
/// has asked for already is not asked for again.
async fn look_at(
    seen: &Observation,
    id: &ServerId,
    why: ReleaseReason,
    seat: Option<&Seat>,
) -> Result<(), Recorded> {
    let facts = &seen.facts;
    let listed = seen.listing.as_ref().and_then(|listing| listing.row(id));
    let listed = listed.and_then(|(row, at)| Some((String::from(row.name.clone()?), at)));
    let is_new = |at: Instant| seen.now < at + JUST_LISTED;
    let name = match (listed, seat) {
        (Some((name, at)), _) if is_new(at) => Some(name),
        (listed, None) => listed.map(|(name, _)| name),
        (listed, Some(seat)) => {
            let listed = listed.map(|(name, _)| name);
            let (detail, is_unreached) = look_again(seen, id, why, seat).await;
            match detail {
                Fact::Known(detail) => detail.name().map(ToOwned::to_owned).or(listed),
                Fact::Absent => None,
                // The release would come no further than the look.
                Fact::Unknown(trouble) if is_unreached => {
                    return Err(unconfirmed(id, &trouble));
                }
                // A detail that cannot be read must not hold a release up for ever.
                Fact::Unknown(_) | Fact::NotAsked if listed.is_some() => listed,
                Fact::Unknown(trouble) => return Err(unconfirmed(id, &trouble)),
                Fact::NotAsked => None,
            }
        }
    };
    match name {
        Some(name) if !facts.is_own_name(id, &name) => {
            let remedy = facts.imported().map_or_else(
                || format!("to end in -{}", facts.marker),
                |imported| format!("back to {imported}"),
            );
            Err(Recorded::NotOurs(format!(
                "the record names server {id}, which is called {name} at the service: that is not a name this Instance gives, \
                 so the server is not released; rename it {remedy}, or mend or remove the annotation {BINDING}"
            )))
        }
        _ => Ok(()),
    }
}

fn unconfirmed(id: &ServerId, trouble: &str) -> Recorded {
    Recorded::Unconfirmed(format!(
        "server {id} was not seen, so it is not released yet: {trouble}"
    ))
}

/// The detail of a server that is to be released: what this turn was told of it, or what the service says now; and whether
/// the service could not even be asked.
async fn look_again(
    seen: &Observation,
    id: &ServerId,
    why: ReleaseReason,
    seat: &Seat,
) -> (Fact<Detail>, bool) {
    // The turn has looked at the server that is to go, unless that is a second one.
    let is_asked = !matches!(seen.detail, Fact::NotAsked | Fact::Absent);
    if is_asked && why != ReleaseReason::Surplus {
        return (seen.detail.clone(), seen.memory.unreached);
    }
    let detail = seat.session.client.detail(Lane::Urgent, id);
    let asked = tokio::time::timeout(LOOK, detail).await;
    let is_unreached = matches!(&asked, Ok(Err(error)) if error.was_not_sent());
    let fact = match asked {
        Ok(Ok(detail)) => Fact::Known(detail),
        Ok(Err(error)) if error.is_no_such_instance() => Fact::Absent,
        Ok(Err(error)) => Fact::Unknown(error.to_string()),
        Err(_) => Fact::Unknown("the request limit left no room for a query".to_owned()),
    };
    (fact, is_unreached)
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
    let is_same = stands(now, facts) && now.spec == *facts.spec;
    is_same && is_as_planned(&now.metadata, facts) && !facts.deleting
}

/// A word that no other turn has written.
fn nonce() -> String {
    format!("{:016x}", chance::word())
}
