//! The record of an operation that runs was lost, or an older one was put in its place.

use super::{Plan, Step, Tell, judge, want};
use crate::api::{Before, Binding, OpenOperation, Verb};
use crate::cloud::ServerId;
use crate::instance::facts::Record;
use crate::instance::observe::Observation;

/// An operation was announced that is not known to have ended, and the record on the object is older, gone, or without the
/// server (`kubectl replace`, an old manifest applied again): it is written again, or the operation would be done twice.
pub(super) fn put_back(seen: &Observation) -> Option<Plan> {
    if seen.facts.deleting || matches!(seen.facts.record, Record::Invalid(_)) {
        return None;
    }
    let stands = seen.facts.binding();
    let remembered = seen.memory.announced.as_deref().map(|announced| {
        let mut binding = announced.clone();
        if let Some(task) = seen.memory.told_task(announced) {
            binding.task = Some(task.to_string());
        }
        binding
    });
    // A record that is gone altogether is rebuilt once the server is found.
    let told = || in_flight(seen, stands?.clone());
    // A spec that went back (etcd was restored) is older than the wish: nobody wishes it any more, also when edits have brought
    // the spec to that generation again. Followed to its end, it would count as applied, and the spec as a wish to undo it.
    let is_wished = |binding: &Binding| {
        let (operation, spec) = (&binding.operation, want::as_specified(seen));
        let target = &operation.target;
        let is_same = target.image == spec.image && target.key == spec.key;
        let erases = operation.verb == Verb::Reinstall && seen.memory.is_from_before_doubts();
        operation.generation <= seen.facts.generation && (is_same || !erases)
    };
    let binding = remembered
        .filter(|binding| !has_ended(seen, i64::from(binding.attempt)) && is_wished(binding))
        .or_else(told)?;
    let is_whole = stands.is_some_and(|stands| {
        stands.attempt > binding.attempt
            || (stands.attempt == binding.attempt && stands.id.is_some())
    });
    if is_whole {
        return None;
    }
    let tell = Tell::default().with_id(binding.id.as_deref().map(ServerId::from));
    let binding = Box::new(binding);
    Some(Plan::act(Step::Record { binding }, tell))
}

fn has_ended(seen: &Observation, attempt: i64) -> bool {
    let mut history = seen.facts.status.history.iter();
    history.any(|entry| entry.attempt >= attempt)
}

/// The record of the operation that status shows in flight, made from an older one: what it was asked for is what the spec
/// says, as far as such an operation brings it; the rest is as it was applied before, and a wish if the spec says otherwise.
pub(super) fn in_flight(seen: &Observation, older: Binding) -> Option<Binding> {
    let status = &seen.facts.status;
    let shown = status.operation.as_ref()?;
    let attempt = u32::try_from(shown.attempt).ok()?;
    let is_news = attempt > older.attempt || seen.facts.binding().is_none();
    if shown.verb == Verb::Create || has_ended(seen, shown.attempt) || !is_news {
        return None;
    }
    let specified = want::as_specified(seen);
    let applied = status.applied.as_ref();
    let mut target = match applied.filter(|applied| !applied.image.is_empty()) {
        Some(applied) => want::target(shown.verb, applied, specified),
        None => specified,
    };
    if shown.verb.bears_login() {
        // Nothing tells which password it brings: the Secret may be another one by now. The one that stands there is set after it.
        target.password_secret = None;
    } else if let Some(applied) = applied {
        target.password_secret.clone_from(&applied.password_secret);
    }
    let operation = OpenOperation {
        verb: shown.verb,
        started_at: shown.started_at.0,
        generation: seen.facts.generation,
        uid: seen.facts.uid.clone(),
        cause: None, // nothing tells it
        power_cut: false,
        target,
        waiting_password: false,
        before: Before {
            image: judge::text(&status.detail, "imageResourceUUID").map(ToOwned::to_owned),
            running: judge::text(&status.detail, "ecsStatus") == Some("STARTED"),
        },
    };
    Some(Binding {
        attempt,
        nonce: String::new(),
        refused: None,
        task: shown.task_id.clone(),
        operation,
        ..older
    })
}
