//! The way of one Instance. A turn reads as the sentence of the design: observe, plan, record, act, report.

pub mod act;
pub mod facts;
pub mod listing;
mod login;
pub mod memory;
pub mod observe;
pub mod pace;
pub mod plan;
pub mod record;
pub mod report;

use crate::api::conditions::State;
use crate::api::{Instance, Verb};
use crate::runtime::events::Events;
use crate::runtime::queue::TURN;
use crate::runtime::{Metrics, Term};
use crate::session::Sessions;
use act::Outcome;
use facts::Facts;
use kube::Client;
use memory::{Memories, Memory, open};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Looks again at a server whose listing rows tell too little, at most this often.
pub const RESYNC: Duration = Duration::from_secs(600);
/// Looks again after an object was found changed under a turn: the watch brings the new version any moment.
const AFTER_STALE: Duration = Duration::from_millis(500);

/// What is the same for all Instances.
#[derive(Clone, Debug)]
pub struct Settings {
    /// UID of the namespace kube-system.
    pub cluster: String,
}

/// What every turn works with; cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The apiserver.
    pub client: Client,
    /// The seats of all Accounts.
    pub sessions: Sessions,
    /// Settings.
    pub settings: Settings,
    /// What this process remembers.
    pub memories: Memories,
    /// How long tasks take.
    pub pace: pace::Pace,
    /// Events.
    pub events: Events,
    /// Counters.
    pub metrics: Metrics,
    /// The term of this process.
    pub term: Term,
    /// The highest resourceVersion that this process has seen.
    pub highest_version: Arc<AtomicU64>,
    /// Asks for a look at the Account, when the service refuses its token.
    pub doubt_account: Arc<dyn Fn(&crate::runtime::watch::ObjectKey) + Send + Sync>,
}

/// One turn of one object; gives the time until the next.
pub async fn turn(context: &Context, instance: &Instance) -> Duration {
    let turn_ends = Instant::now() + TURN;
    let facts = Facts::of(&context.settings.cluster, instance);
    let memory = context.memories.saw(&facts.uid, &facts.key, false);

    let (seen, seat) = observe::observe(context, facts, &memory).await; // reads
    let plan = plan::plan(&seen); // pure
    attend_again(&seen, &plan, seat.as_deref(), &memory);
    let Ok(permit) = act::admit(&plan, seat.as_deref()).await else {
        return Duration::from_secs(1); // the request limit is busy with others
    };
    let recorded = record::record(context, &seen.facts, &plan, &memory, seat.as_deref()).await; // writes to Kubernetes
    let outcome = act::act(
        context,
        &seen.facts,
        recorded,
        permit,
        seat.as_deref(),
        &memory,
        turn_ends,
    )
    .await; // calls the service
    let said = report::report(context, &seen, &plan, &outcome, &memory).await; // writes status

    let held = match said {
        Ok(held) => held,
        Err(error) => {
            tracing::warn!(namespace = seen.facts.key.namespace, name = seen.facts.key.name, %error, "status not written");
            return open(&memory).backoff.fail();
        }
    };
    let again = next(context, &plan, &outcome, &memory, &seen);
    held.map_or(again, |held| again.min(held))
}

/// What the plan wants of the listing, if that is new.
fn attend_again(
    seen: &observe::Observation,
    plan: &plan::Plan,
    seat: Option<&crate::session::Seat>,
    memory: &Mutex<Memory>,
) {
    if plan.wants == seen.memory.wants {
        return;
    }
    open(memory).wants = plan.wants;
    if let Some(seat) = seat {
        let mut seen = seen.clone();
        seen.memory.wants = plan.wants;
        observe::attend(&seen, seat);
    }
}

/// When to look again, and what the outcome means for the pace of this object.
fn next(
    context: &Context,
    plan: &plan::Plan,
    outcome: &Outcome,
    memory: &Mutex<Memory>,
    seen: &observe::Observation,
) -> Duration {
    let mut memory = open(memory);
    let name = seen.facts.key.name.as_str();
    match outcome {
        Outcome::Rested => {
            if plan
                .tell
                .verdict
                .as_ref()
                .is_some_and(|verdict| verdict.state == State::Ready)
            {
                memory.backoff.reset();
            }
            let following = seen.facts.is_open() || seen.facts.deleting;
            let verb = if seen.facts.deleting {
                Verb::Release
            } else {
                Verb::Create
            };
            let poll = memory
                .poll
                .as_ref()
                .filter(|poll| following && poll.ended.is_none());
            poll.map_or(plan.again, |poll| {
                plan.again
                    .min(pace::due_in(poll, &context.pace, verb, Instant::now()))
            })
        }
        Outcome::Created { recorded, id, .. } => {
            memory.backoff.reset();
            memory.not_before = None;
            tracing::info!(name, server = %id, "the service is creating the server");
            if *recorded {
                context.pace.first_query(Verb::Create)
            } else {
                AFTER_STALE
            }
        }
        Outcome::Written => AFTER_STALE,
        Outcome::Released { trouble: None, .. } => context.pace.first_query(Verb::Release),
        Outcome::CreateRefused { after, .. } | Outcome::Released { after, .. } => {
            let wait = memory.backoff.fail().max(after.unwrap_or_default());
            memory.not_before = Some(Instant::now() + wait);
            wait
        }
        Outcome::CreateUnknown(why) => {
            tracing::warn!(name, why, "the outcome of a create is unknown");
            AFTER_STALE
        }
        Outcome::Finished => plan::LONG,
        Outcome::Stale => AFTER_STALE,
        Outcome::NotDone(why) => {
            tracing::warn!(name, why, "not done, trying again");
            memory.backoff.fail()
        }
    }
}
