//! The way of one Instance. A turn reads as the sentence of the design: observe, plan, record, act, report.

mod acknowledge;
pub mod act;
mod behind;
pub mod facts;
mod flow;
pub mod foresee;
mod journal;
pub mod listing;
mod login;
pub mod memory;
pub mod observe;
pub mod pace;
pub mod plan;
pub mod record;
pub mod references;
pub mod remains;
pub mod report;
mod vault;

pub use flow::{bound, flow};

use crate::api::conditions::{Reason, State};
use crate::api::{Instance, Verb};
use crate::inventory::{Attention, Subject};
use crate::runtime::events::Events;
use crate::runtime::queue::TURN;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Metrics, Rights, Term};
use crate::session::{Access, Seat, SecretVersions, Sessions};
use act::Outcome;
use facts::Facts;
use kube::Client;
use memory::{Memories, Memory, open};
use pace::Schedule;
use report::Unsaid;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Looks again at a server whose listing rows tell too little, at most this often.
pub const RESYNC: Duration = Duration::from_secs(600);
/// Looks again after something that the watch will show any moment.
const AFTER_STALE: Duration = Duration::from_millis(500);
/// How long the listing is read at the pace of running operations for one object.
const BUSY: Duration = Duration::from_secs(300);
/// What was refused as wrong is asked for again no sooner: each try costs two writes, and a mended spec or Secret brings a turn at
/// once.
const AFTER_REFUSAL: Duration = Duration::from_secs(30);
/// A write that the apiserver refuses is tried again this often, at the longest. Rights that come back and a policy that
/// goes are no event, and an apiserver that has just started refuses everybody until it has read its rules.
const AFTER_WRITE_REFUSED: Duration = Duration::from_secs(25);
/// How often an object is looked at whose operation has been running for longer than that.
const AFTER_LONG: Duration = Duration::from_secs(30);
/// A service that is busy with a server again and again is asked no sooner: each try is a look and a call, and with the look
/// after the first one three tries in a minute would be too many (design section 5, L3).
const AFTER_BUSY: Duration = Duration::from_secs(30);

/// What is the same for all Instances.
#[derive(Clone, Debug)]
pub struct Settings {
    /// UID of the namespace kube-system.
    pub cluster: String,
}

/// An object as the watch shows it by now; none where it is gone.
pub type Latest = Arc<dyn Fn(&ObjectKey) -> Option<Facts> + Send + Sync>;

/// What every turn works with; cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The apiserver.
    pub client: Client,
    /// The seats of all Accounts.
    pub sessions: Sessions,
    /// Which Secrets exist, in which version.
    pub secrets: SecretVersions,
    /// Settings.
    pub settings: Settings,
    /// What this process remembers.
    pub memories: Memories,
    /// Events.
    pub events: Events,
    /// Counters.
    pub metrics: Metrics,
    /// The term of this process.
    pub term: Term,
    /// What the operator may do although it must not.
    pub rights: Rights,
    /// The highest resourceVersion that this process has seen.
    pub highest_version: Arc<AtomicU64>,
    /// An object as the watch shows it by now.
    pub latest: Latest,
    /// Asks for a look at the Account, when the service refuses its token.
    pub doubt_account: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
}

/// One turn of one object; gives the time until the next.
pub async fn turn(context: &Context, instance: &Instance) -> Duration {
    let facts = Facts::of(&context.settings.cluster, instance);
    let Some(memory) = context.memories.get(&facts.uid) else {
        return plan::LONG; // gone
    };
    let beside = facts.clone();
    tokio::select! {
        again = Box::pin(reconcile(context, facts, &memory)) => again,
        never = acknowledge::while_waiting(context, &beside, &memory) => match never {},
    }
}

async fn reconcile(context: &Context, facts: Facts, memory: &Mutex<Memory>) -> Duration {
    let turn_ends = Instant::now() + TURN;
    let uid = facts.uid.clone();
    if let Some(wait) = behind::wait(context, &facts, memory).await {
        return wait; // the watch has not brought our own last write yet, or brings what is old
    }

    let mut place = context.sessions.roll().turn(&uid); // what it takes of its Account's limits is given back if it comes to nothing
    let (mut seen, seat) = observe::observe(context, facts, memory).await; // reads
    let mut plan = plan::plan(&seen); // pure
    while observe::learn(context, &mut seen, &plan.needs, seat.as_ref(), memory).await {
        plan = plan::plan(&seen); // with what it asked for
    }
    if let Some(again) = report::confirmed_again(&seen) {
        plan.again = plan.again.min(again);
    }
    acknowledge::first(&seen, &mut plan, memory);
    attend_again(context, &seen, &mut plan, seat.as_deref(), memory);
    if let (true, Some(seat)) = (plan.begins(), &seat) {
        context.sessions.copy(&seen.account_key, seat).await; // before there is anything that needs it
    }
    let permit = match act::admit(&plan, seat.as_ref()).await {
        Ok(permit) => permit,
        Err(no_room) => {
            plan = plan::in_line(&seen, &plan, no_room); // the request limit is busy with others
            None
        }
    };
    let recorded = record::record(context, &seen, &plan, memory, seat.as_deref()).await; // writes to Kubernetes
    place.buys(plan.buys());
    let outcome = act::act(
        context,
        &seen,
        recorded,
        permit,
        seat.as_deref(),
        memory,
        turn_ends,
    )
    .await; // calls the service
    place.buys(plan.buys() && matches!(outcome, Outcome::Accepted { .. } | Outcome::Unknown(_)));
    let said = report::report(context, &seen, &plan, &outcome, memory).await; // writes status

    if matches!(outcome, Outcome::Finished) || context.memories.get(&uid).is_none() {
        // The object went while the turn ran: nothing looks out for it any more.
        context.sessions.leave(&Subject::from(uid.as_str()));
    }
    let again = next(
        seat.as_deref(),
        &plan,
        &outcome,
        memory,
        &seen,
        said.is_ok(),
    );
    let again = in_line(again, &outcome, seat.as_ref());
    let is_withheld = matches!((&said, &outcome), (Ok(Some(_)), Outcome::Rested));
    let unsaid = said.is_err()
        || is_withheld
        || matches!(outcome, Outcome::Stale)
        || plan.tell.detail.is_none();
    if unsaid
        && matches!(seen.detail, observe::Fact::Known(_))
        && !seen.facts.deleting
        && !seen.facts.is_open()
        && seen.create_failed().is_none()
    {
        // What was read and is not in status is read again; of what a failed create left behind nothing stands there.
        open(memory).forget_looks();
    }
    journal::reconciled(&seen.facts, &plan, &outcome, again);
    match said {
        Ok(held) => held.map_or(again, |held| again.min(held)),
        Err(Unsaid::TooSoon(rest)) => rest,
        Err(Unsaid::Failed(error)) => {
            let mut memory = open(memory);
            warn(&mut memory, &seen, &error.to_string(), "status not written");
            let wait = memory.backoff.fail();
            let wait = wait.min(not_written_again(error.is_refusal()));
            // What was overtaken is put right by the event that shows it.
            let is_overtaken = error.is_overtaken();
            memory.unsaid_until = (!is_overtaken).then(|| Instant::now() + wait);
            if seen.facts.deleting && !is_overtaken {
                // A release needs no write before it: where status cannot be written, a deletion goes on all the same.
                memory.acknowledged = Some(seen.facts.generation);
            }
            wait
        }
    }
}

/// What is overdue while it waits in line is asked for when it may be, of which there is notice.
fn in_line(again: Duration, outcome: &Outcome, seat: Option<&Access>) -> Duration {
    match outcome {
        Outcome::Rested if seat.is_some_and(Access::is_in_line) => again.max(plan::IN_LINE),
        _ => again,
    }
}

/// What the plan wants of the listing, if that is new. An operation that has been running for long is not worth a listing
/// every few seconds.
fn attend_again(
    context: &Context,
    seen: &observe::Observation,
    plan: &mut plan::Plan,
    seat: Option<&Seat>,
    memory: &Mutex<Memory>,
) {
    let mut memory = open(memory);
    if plan.wants.attention == Attention::InFlight {
        let since = *memory.busy_since.get_or_insert(seen.now);
        if seen.now >= since + BUSY {
            plan.wants.attention = Attention::Quiet;
            plan.again = plan.again.max(AFTER_LONG);
        }
    } else if matches!(plan.step, plan::Step::Rest) && !seen.facts.deleting {
        memory.busy_since = None;
    }
    let is_new = plan.wants != memory.wants;
    memory.wants = plan.wants;
    if let (true, true, Some(seat)) = (is_new, memory.attended.is_some(), seat) {
        observe::attend(context, &seen.facts, &mut memory, seat);
    }
}

/// Nothing was called: what ended, and when to look again.
fn rested(
    seat: Option<&Seat>,
    plan: &plan::Plan,
    memory: &mut Memory,
    seen: &observe::Observation,
    is_said: bool,
) -> Duration {
    let now = Instant::now();
    let ended = plan.tell.ended.as_ref().filter(|_| is_said);
    if let (Some(ended), Some(binding)) = (ended, seen.facts.binding()) {
        let is_power = ended.succeeded && matches!(ended.verb, Verb::Start | Verb::Stop);
        let times = is_power.then(|| memory.power_ended(ended.verb, now));
        let applied = plan.tell.applied.as_ref();
        let brought_login = applied.is_some_and(|applied| applied.password_secret.is_some());
        memory.operation_ended(ended, brought_login, now);
        let pause = plan.pause.or(times.and_then(plan::pause_of_power));
        if let Some(pause) = pause {
            memory.pause(&binding.operation, now + pause);
        }
    }
    let verdict = plan.tell.verdict.as_ref();
    // As long as it cannot be said, something fails.
    if is_said && verdict.is_some_and(|verdict| verdict.state == State::Ready) {
        memory.backoff.reset();
        memory.trouble = None;
    }
    let poll = memory
        .poll
        .as_ref()
        .filter(|poll| poll.ended.is_none() && poll.odd.is_none())
        .zip(seen.following);
    let again = poll.map_or(plan.again, |(poll, verb)| {
        plan.again.min(schedule(seat, verb).due_in(poll, now))
    });
    let look = seen.look_again.filter(|_| seen.facts.is_open());
    look.map_or(again, |at| again.min(at.saturating_duration_since(now)))
}

/// When the task of such an operation is asked for.
fn schedule(seat: Option<&Seat>, verb: Verb) -> Schedule {
    seat.map_or_else(Schedule::default, |seat| Schedule::of(seat, verb))
}

/// When to look again, and what the outcome means for the pace of this object.
fn next(
    seat: Option<&Seat>,
    plan: &plan::Plan,
    outcome: &Outcome,
    memory: &Mutex<Memory>,
    seen: &observe::Observation,
    is_said: bool,
) -> Duration {
    let mut memory = open(memory);
    match outcome {
        Outcome::Rested => rested(seat, plan, &mut memory, seen, is_said),
        Outcome::Accepted {
            verb, recorded, id, ..
        } => {
            memory.backoff.reset();
            memory.not_before = None;
            // A server in the making is not expected in a listing yet.
            memory.wants.attention = Attention::InFlight;
            memory.trouble = None;
            if let plan::Step::Call { binding, .. } = &plan.step {
                journal::called(&seen.facts, *verb, id, binding);
            }
            if *recorded {
                schedule(seat, *verb).next(None)
            } else {
                AFTER_STALE
            }
        }
        Outcome::Aside {
            verb,
            power_cut,
            trouble,
            is_unknown,
            ..
        } => {
            match (trouble, seen.facts.told_id()) {
                (Some(why), _) => {
                    warn(&mut memory, seen, why, not_taken(*is_unknown));
                }
                (None, Some(id)) => journal::called_beside(&seen.facts, *verb, &id, *power_cut),
                (None, None) => {}
            }
            schedule(seat, Verb::Stop).next(None)
        }
        Outcome::Written => AFTER_STALE,
        Outcome::Released {
            id,
            why,
            trouble: None,
            ..
        } => {
            journal::releases(&seen.facts, id, *why);
            schedule(seat, Verb::Release).next(None)
        }
        Outcome::Released {
            id,
            trouble,
            is_unknown,
            ..
        } => {
            let why = trouble.as_deref().unwrap_or_default();
            warn(&mut memory, seen, why, not_taken(*is_unknown));
            let not_before = memory.releases.get(id).and_then(|call| call.not_before);
            not_before.map_or(AFTER_STALE, |at| {
                at.saturating_duration_since(Instant::now())
            })
        }
        Outcome::Refused { after, reason, .. } => {
            // Status has the service's words: they may say a password that is refused, and a log goes further.
            let why = reason.as_str();
            warn(&mut memory, seen, why, "the service refused the call");
            let wait = match (reason, &plan.step) {
                (Reason::CreateRefused, _) => memory.backoff.fail().max(AFTER_REFUSAL),
                // Each try is announced and closed, which are two writes.
                (reason, _) if plan.buys() && reason.is_lasting_refusal() => AFTER_REFUSAL,
                (
                    Reason::OperationRefused,
                    plan::Step::Call {
                        binding,
                        announce: true,
                        ..
                    },
                ) => {
                    let pause = plan::refused_again(seen, binding.operation.verb);
                    memory.pause(&binding.operation, Instant::now() + pause);
                    if is_said {
                        // Its end stands in status, together with the refusal.
                        memory.announced = None;
                    }
                    pause
                }
                // It only has to be stopped first, or to be looked at.
                (Reason::Stopping | Reason::OperationRefused, _) => AFTER_STALE,
                (Reason::ServiceBusy, _) => memory.backoff.fail().min(AFTER_BUSY),
                _ => memory.backoff.fail().min(pace::DEPENDENCY),
            };
            let wait = wait.max(after.unwrap_or_default());
            memory.not_before = Some(Instant::now() + wait);
            wait
        }
        Outcome::Unknown(why) => {
            warn(&mut memory, seen, why, "the outcome of a call is unknown");
            AFTER_STALE
        }
        Outcome::Finished => plan::LONG,
        Outcome::Stale => memory.backoff.fail().min(pace::DEPENDENCY),
        Outcome::NotDone(why, verdict) => {
            warn(&mut memory, seen, why, "not done, trying again");
            let wait = memory.backoff.fail();
            let wait = wait.min(not_written_again(verdict.is_some()));
            if plan.buys() {
                // An event that comes meanwhile brings the next try no nearer.
                memory.not_before = Some(Instant::now() + wait);
            }
            wait
        }
    }
}

/// What is told of a call that was not accepted.
fn not_taken(is_unknown: bool) -> &'static str {
    match is_unknown {
        true => "the outcome of a call is unknown",
        false => "the service did not take the call",
    }
}

/// The same trouble is told once, as long as no call gets through in between.
fn warn(memory: &mut Memory, seen: &observe::Observation, why: &str, what: &'static str) {
    if memory.is_new_trouble(why) {
        journal::not_done(&seen.facts, why, what);
    }
}

/// Longest wait after a write that was not done.
fn not_written_again(is_refused: bool) -> Duration {
    if is_refused {
        AFTER_WRITE_REFUSED
    } else {
        pace::DEPENDENCY
    }
}
