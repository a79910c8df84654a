//! While a server is recorded: follow its create to the end, see whether it is as the spec says, release what is surplus.

use super::{
    FAILED_CREATE, LONG, Plan, ReleaseReason, SOON, Step, Tell, buy, frozen, is_our_account,
};
use crate::api::conditions::{Reason, Verdict};
use crate::api::{Binding, HistoryEntry, OperationStatus, PowerState, Verb};
use crate::cloud::{Detail, ServerId, TaskState};
use crate::instance::memory::Gone;
use crate::instance::observe::{Fact, Observation, SeatFacts, is_idle};
use crate::inventory::{Absence, Sighting};
use crate::runtime::events::News;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value};
use std::time::Duration;

/// A repeated release of a surplus server waits this long for the listing to drop it.
const SURPLUS_AGAIN: Duration = Duration::from_secs(60);

/// A server is recorded.
pub(super) fn plan(seen: &Observation, seat: &SeatFacts, binding: &Binding) -> Plan {
    let Some(id) = seen.facts.id() else {
        return Plan::rest(Tell::default(), SOON);
    };
    if !seen.facts.is_held() {
        // A record without the finalizer (a backup that was restored, a finalizer removed by hand): hold it again first.
        let tell = Tell::default().with_id(Some(id));
        let mut plan = Plan::act(
            Step::Record {
                binding: Box::new(binding.clone()),
            },
            tell,
        );
        plan.again = Duration::ZERO;
        return plan;
    }
    if let Some(reason) = seen.create_failed() {
        return clean_up(seen, seat, binding, &id, &reason);
    }
    if seen.facts.is_open() {
        return follow(seen, binding, &id);
    }
    if let Some(plan) = surplus(seen, seat, &id) {
        return plan;
    }
    watch(seen, seat, &id)
}

/// The create is running, or has just ended.
fn follow(seen: &Observation, binding: &Binding, id: &ServerId) -> Plan {
    let running = |note: String| {
        let mut tell = Tell::progress(Reason::Creating, note).with_id(Some(id.clone()));
        tell.operation = Some(operation(binding));
        Plan::rest(tell, SOON).in_flight()
    };
    let place = seen.wanted_place();
    match (&seen.task, &seen.detail) {
        // The task says yes and the detail shows the server at rest: bought.
        (Fact::Known(TaskState::Succeeded), Fact::Known(detail)) => done(seen, binding, id, detail),
        // No task is known, or the service forgot it: the server itself tells. At rest: its create has ended.
        (Fact::NotAsked | Fact::Absent, Fact::Known(detail)) if is_idle(detail.pending()) => {
            done(seen, binding, id, detail)
        }
        // The task says yes and the detail does not show it yet: wait until both agree.
        (Fact::Known(TaskState::Succeeded), Fact::Absent | Fact::NotAsked) => running(format!(
            "server {id} is created and the service does not show it yet"
        )),
        (Fact::Known(TaskState::Succeeded), Fact::Unknown(why)) => running(format!(
            "server {id} is created; its detail could not be read: {why}"
        )),
        (Fact::Known(TaskState::Unknown { word }), _) => running(format!(
            "the service is creating server {id} in {place} and calls that {word}"
        )),
        (Fact::Unknown(why), _) => running(format!(
            "the service is creating server {id} in {place}; the task could not be read: {why}"
        )),
        (
            Fact::Known(TaskState::Running | TaskState::Failed { .. })
            | Fact::NotAsked
            | Fact::Absent,
            _,
        ) => running(format!("the service is creating server {id} in {place}")),
    }
}

/// The create has ended well.
fn done(seen: &Observation, binding: &Binding, id: &ServerId, detail: &Detail) -> Plan {
    let mut tell = Tell::of(judge(seen, &detail.fields)).with_id(Some(id.clone()));
    tell.detail = Some(detail.fields.clone());
    tell.ended = Some(ended(seen, binding, true, None));
    tell.news.push(News::normal(
        "Created",
        format!("server {id} was created in {}", seen.wanted_place()),
    ));
    Plan::rest(tell, LONG)
}

/// The create's task failed: release what it left, see it gone, and try again in its time.
fn clean_up(
    seen: &Observation,
    seat: &SeatFacts,
    binding: &Binding,
    id: &ServerId,
    reason: &str,
) -> Plan {
    let failures = usize::try_from(binding.failed).unwrap_or(usize::MAX);
    let last = FAILED_CREATE.len() - 1;
    let words = if reason.is_empty() {
        "the service gave no reason"
    } else {
        reason
    };
    let message = format!("the service failed to create server {id}: {words}");
    let verdict = if failures >= last {
        Verdict::stalled(Reason::CreateFailed, message)
    } else {
        Verdict::reconciling(Reason::CreateFailed, message)
    };
    let mut tell = Tell::of(verdict).with_id(Some(id.clone()));
    if seen.facts.is_open() {
        // First the status tells; what follows can be seen from there.
        tell.ended = Some(ended(seen, binding, false, Some(words.to_owned())));
        let mut plan = Plan::rest(tell, Duration::ZERO).in_flight();
        plan.wants.pass_after = Some(seen.now);
        return plan;
    }
    if let Some(plan) = frozen(seen) {
        return plan;
    }
    let gone = seen.memory.gone.get(id).map(|(_, since)| *since);
    match (&seen.detail, gone) {
        // It is gone and two passes agree: the next attempt, when its time has come.
        (_, Some(since)) => {
            let pause = FAILED_CREATE[failures.min(last)];
            let proven = seen.listing.as_ref().is_some_and(|listing| {
                matches!(
                    listing.proven_absent(&seen.facts.marker, Some(id), since),
                    Absence::Proven
                )
            });
            let left = (since + pause).saturating_duration_since(seen.now);
            if proven && left.is_zero() && is_our_account(seen, seat) {
                buy::after_failure(seen, seat, binding)
            } else if proven {
                Plan::rest(tell, left.max(Duration::from_millis(100)))
            } else {
                Plan::rest(tell, SOON).wanting(since, 2)
            }
        }
        // A broken server was left behind: it is ours, recorded, and of no use.
        (Fact::Known(_), None) if !recently_released(seen, id) => Plan::act(
            Step::Release {
                id: id.clone(),
                why: ReleaseReason::Failed,
            },
            tell,
        ),
        (_, None) => Plan::rest(tell, SOON).in_flight(),
    }
}

/// Another server bears our marker: released with proof, one at a time (design section 4, rule 9).
fn surplus(seen: &Observation, seat: &SeatFacts, id: &ServerId) -> Option<Plan> {
    let listing = seen.listing.as_ref()?;
    let other = listing
        .bearing(&seen.facts.marker)
        .into_iter()
        .find(|other| {
            other != id && listing.shows_in_both(other) && !recently_released(seen, other)
        })?;
    // The recorded one must be listed beside it; its detail is read once more right before the release.
    let beside = matches!(listing.sighting(id), Sighting::Present(..));
    if !beside || listing.frozen().is_some() || !is_our_account(seen, seat) {
        return None;
    }
    let tell = Tell::default().with_id(Some(id.clone()));
    Some(Plan::act(
        Step::Release {
            id: other,
            why: ReleaseReason::Surplus,
        },
        tell,
    ))
}

fn recently_released(seen: &Observation, id: &ServerId) -> bool {
    seen.memory
        .releases
        .get(id)
        .is_some_and(|call| seen.now < call.at + SURPLUS_AGAIN)
}

/// The server is there, as far as is known: see whether it is as the spec says.
fn watch(seen: &Observation, seat: &SeatFacts, id: &ServerId) -> Plan {
    let status = &seen.facts.status;
    let sighting = seen.listing.as_ref().map(|listing| listing.sighting(id));
    let told = |verdict: Verdict| Tell::of(verdict).with_id(Some(id.clone()));
    match (&seen.detail, sighting) {
        // A fresh detail is the best there is.
        (Fact::Known(detail), _) => {
            let mut tell = told(judge(seen, &detail.fields));
            tell.detail = Some(detail.fields.clone());
            Plan::rest(tell, LONG)
        }
        // The listing shows what status shows: nothing to read.
        (_, Some(Sighting::Present(row, _)))
            if row.agrees_with(&status.detail) && !status.detail.is_empty() =>
        {
            Plan::rest(told(judge(seen, &status.detail)), LONG)
        }
        // The service does not know it and the listing does not show it.
        (Fact::Absent, Some(Sighting::Absent { .. })) => gone(seen, seat, id),
        (Fact::Absent, _) | (Fact::NotAsked, Some(Sighting::Absent { .. })) => {
            Plan::rest(Tell::default().with_id(Some(id.clone())), SOON).wanting(seen.now, 1)
        }
        // It is listed, changed, and its detail could not be read: what status says is out of date.
        (Fact::Unknown(why), Some(Sighting::Present(..))) if status.detail.is_empty() => {
            let message = format!("server {id} is recorded; its detail could not be read: {why}");
            Plan::rest(
                told(Verdict::reconciling(Reason::ServerUnobserved, message)),
                SOON,
            )
        }
        // Nothing was learnt: what stands is the best that is known.
        (Fact::Unknown(_) | Fact::NotAsked, _) => {
            Plan::rest(Tell::default().with_id(Some(id.clone())), LONG)
        }
    }
}

/// Detail and listing agree that the recorded server is not there. Missing is not gone: it is reported, never bought again.
fn gone(seen: &Observation, seat: &SeatFacts, id: &ServerId) -> Plan {
    let settling = seen
        .memory
        .newest_attempt()
        .is_some_and(|since| seen.now < since + seat.settle);
    let was_ready = !seen.facts.status.detail.is_empty();
    if (settling && !was_ready) || !is_our_account(seen, seat) {
        return Plan::rest(Tell::default().with_id(Some(id.clone())), SOON).in_flight();
    }
    let message = format!(
        "server {id} is not at the service any more; nothing is bought in its place: delete this Instance and apply it \
         again to get a new server"
    );
    Plan::rest(
        Tell::of(Verdict::stalled(Reason::ServerMissing, message)).with_id(Some(id.clone())),
        LONG,
    )
}

/// Compares the server with the spec.
fn judge(seen: &Observation, detail: &Map<String, Value>) -> Verdict {
    let spec = &seen.facts.spec;
    let text = |field: &str| {
        detail
            .get(field)
            .and_then(Value::as_str)
            .filter(|word| !word.is_empty())
    };
    let pending = text("ecsPendingStatus");
    let status = text("ecsStatus");
    match (spec.power_state, status, text("imageResourceUUID")) {
        _ if pending.is_some() && !is_idle(pending) => Verdict::reconciling(
            Reason::OperationPending,
            format!(
                "the service is busy with the server ({})",
                pending.unwrap_or_default()
            ),
        ),
        (_, _, Some(image)) if image != spec.image.id => Verdict::drifted(
            Reason::ImageDiffers,
            format!(
                "the server has image {image}, the spec wants {}; this version does not reinstall",
                spec.image.id
            ),
        ),
        (PowerState::Running, Some("STARTED"), _) => {
            Verdict::ready(Reason::Available, "the server is running as specified")
        }
        (PowerState::Stopped, Some("STOPPED"), _) => {
            Verdict::ready(Reason::Available, "the server is stopped as specified")
        }
        (PowerState::Unmanaged, _, _) => {
            Verdict::ready(Reason::Available, "the server is as specified")
        }
        (PowerState::Running | PowerState::Stopped, found, _) => Verdict::drifted(
            Reason::PowerStateDiffers,
            format!(
                "the server is {}, the spec wants it {}; this version does not start or stop servers",
                found.unwrap_or("in an unknown state"),
                if spec.power_state == PowerState::Running {
                    "running"
                } else {
                    "stopped"
                }
            ),
        ),
    }
}

fn operation(binding: &Binding) -> OperationStatus {
    OperationStatus {
        verb: binding.operation.verb,
        attempt: i64::from(binding.attempt),
        task_id: binding.task.clone(),
        started_at: Time(binding.operation.started_at),
    }
}

fn ended(
    seen: &Observation,
    binding: &Binding,
    succeeded: bool,
    message: Option<String>,
) -> HistoryEntry {
    HistoryEntry {
        verb: Verb::Create,
        attempt: i64::from(binding.attempt),
        succeeded,
        message,
        started_at: Time(binding.operation.started_at),
        finished_at: Time(seen.wall),
    }
}

/// A server is known to be gone only in these ways.
pub(super) fn is_gone(seen: &Observation, id: &ServerId) -> Option<Gone> {
    seen.memory.gone.get(id).map(|(how, _)| *how)
}
