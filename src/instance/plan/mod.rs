//! Decides: a pure function of what was observed. At most one step, always a reason, no client, no clock of its own.
//!
//! One file for each stretch of an Instance's way: [`buy`] while no server is recorded, [`found`] where there is one all the
//! same, [`import`] where one is to be taken over instead, [`keep`] while one is recorded, [`surplus`] where there is a second one,
//! [`replace`] when it is gone for good, [`want`] when it is to become another than it is, [`refer`] where selectors are to be
//! looked up, [`pursue`] while such an operation is open, [`recover`] when its record was lost meanwhile, [`secret`] for what is
//! kept in Secrets, and [`leave`] while the object is being deleted. [`restraint`] takes out of every plan what the spec forbids.
//! [`outlook`](mod@outlook) tells all that would come of an object before it is applied.

mod buy;
mod cause;
mod erase;
mod found;
mod import;
mod judge;
mod keep;
mod leave;
mod outlook;
mod pursue;
mod recover;
mod refer;
mod replace;
mod restraint;
mod secret;
mod surplus;
mod want;
mod words;

use super::act::NoRoom;
use super::facts::Record;
use super::listing::Listing;
use super::memory::Wants;
use super::observe::{AccountFact, Observation, SeatFacts};
use super::references::Scope;
use crate::api::conditions::{Reason, State, Synced, Verdict};
use crate::api::{Applied, Binding, HistoryEntry, OperationStatus, Resolved};
use crate::cloud::{CreateRequest, PasswordRequest, ReinstallRequest, ServerId};
use crate::inventory::Attention;
use crate::runtime::events::News;
use crate::session::Rival;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

pub(super) use cause::told as why;
pub(super) use keep::{UNREAD, ended};
pub(super) use leave::protected;
pub use outlook::{Act, Deed, Outlook, Unknown, outlook};
pub(super) use pursue::refused_again;
pub use restraint::restrained_from;
pub(super) use words::{doing, operation, reason, refused};

/// Somebody at the console may well stop a server twice; after that something else is the matter.
const POWER_TIMES: usize = 3;
/// What moves by itself at the service is looked at again after this time when nothing else calls for it.
pub const LONG: Duration = Duration::from_secs(600);
/// How soon an object is looked at again whose next step only waits for the watch to bring what was just written.
const NEXT: Duration = Duration::from_millis(500);
/// How soon a wait for a listing pass is checked again, should its notice be missed.
const SOON: Duration = Duration::from_secs(5);
/// How soon whoever waits in line is looked at again, should the notice that it is its turn be missed.
pub(super) const IN_LINE: Duration = Duration::from_secs(30);
/// An operation whose task failed is tried again after these times; after the last one the Instance is Stalled and tried
/// again at that pace: a service that fails the same thing thrice in a row will hardly mend it within minutes.
const FAILED: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(600),
];

/// A server that was started or stopped so often lately does not stay as it is put: the next time waits.
pub(super) fn pause_of_power(times: usize) -> Option<Duration> {
    let over = times.checked_sub(POWER_TIMES)?;
    Some(FAILED[over.min(FAILED.len() - 1)])
}

/// One step and what to say about it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What to do now.
    pub step: Step,
    /// What to say.
    pub tell: Tell,
    /// When to look again, at the latest.
    pub again: Duration,
    /// What the listings should show by then.
    pub wants: Wants,
    /// What has to be read before there is a plan.
    pub needs: Needs,
    /// An operation ended badly in this turn: the same is not asked for again before this time is over.
    pub pause: Option<Duration>,
}

/// What a plan has to know and nobody has read yet: to be planned again with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    #[default]
    Nothing,
    /// The login.
    Login,
    /// A place among the Instances of the Account that may have a server.
    Room,
    /// The server as the service shows it now.
    Detail,
    /// The server that is to be taken over, as the service shows it now.
    Candidate(ServerId),
    /// Whether it may be taken over.
    Claim(ServerId),
    /// What selectors of the spec mean.
    References(Scope),
    /// Since when a generated password is in force.
    Rotation,
    /// The connection Secret.
    Connection,
}

impl Needs {
    /// Whether the service is asked for it, or is about to be: nobody takes another's place who may not call yet.
    pub fn is_for_a_call(&self) -> bool {
        match self {
            Self::Detail | Self::Candidate(_) | Self::References(_) | Self::Room => true,
            Self::Nothing | Self::Login | Self::Claim(_) | Self::Rotation | Self::Connection => {
                false
            }
        }
    }
}

/// What is written into a Secret of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretStep {
    /// A first password, where no Secret is.
    Generate,
    /// Another password beside the one in force, which is to be set next.
    Renew {
        /// The version of the Secret that stands.
        version: String,
    },
    /// The password of this version is in force.
    Settle {
        /// The version of the Secret that stands.
        version: String,
    },
    /// What a client needs to connect.
    Connect,
}

/// The one thing that a turn does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Nothing: a named wait, or all is well.
    Rest,
    /// Announce an attempt and make its one call; or, without an announcement, repeat the call of an attempt of this very
    /// process of which it is certain that nothing was done.
    Call {
        /// The record of the attempt.
        binding: Box<Binding>,
        /// Whether the record has to be written first. False: it stands, and is read again before the call.
        announce: bool,
        /// What to ask for.
        request: Box<Request>,
    },
    /// Stop or start the server within an attempt that needs it: harmless, repeatable, and not recorded.
    Aside {
        /// What to ask for.
        request: Box<Request>,
    },
    /// Write the record of a server that exists.
    Record {
        /// The record.
        binding: Box<Binding>,
    },
    /// Release a server.
    Release {
        /// Which one.
        id: ServerId,
        /// Why.
        why: ReleaseReason,
    },
    /// Write a Secret of ours.
    Secret(SecretStep),
    /// Take the finalizer away: the server is confirmed gone.
    Finish,
    /// Take the finalizer away and leave what there is at the service.
    LetGo {
        /// What is told about it.
        news: Option<News>,
    },
}

/// What is asked of the service.
#[derive(Clone, Debug)]
pub enum Request {
    /// Create instance.
    Create(CreateRequest),
    /// Reinstall operating system.
    Reinstall(ReinstallRequest),
    /// Modify password.
    ModifyPassword(PasswordRequest),
    /// Start.
    Start(ServerId),
    /// Stop.
    Stop {
        /// The server.
        id: ServerId,
        /// Without asking its operating system.
        force: bool,
    },
    /// Restart.
    Restart(ServerId),
}

/// Why a server is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Its Instance is being deleted.
    Deleted,
    /// Its create failed and left it behind.
    Failed,
    /// Another server is recorded for its Instance.
    Surplus,
}

/// What a turn says in status and Events.
#[derive(Clone, Debug, Default)]
pub struct Tell {
    /// The conditions. None: nothing was learnt, what stands is still the best that is known.
    pub verdict: Option<Verdict>,
    /// The verdict is a progress that need not be shown unless it lasts.
    pub progress: bool,
    /// The server.
    pub id: Option<ServerId>,
    /// The server is gone for good: its identifier and detail leave the status.
    pub forget_server: bool,
    /// The service's detail, when it was read.
    pub detail: Option<Map<String, Value>>,
    /// The operation in flight.
    pub operation: Option<OperationStatus>,
    /// What the service has taken, when that moved.
    pub applied: Option<Applied>,
    /// The token of spec.reconcile that was carried out.
    pub reconciled: Option<String>,
    /// Whether the server was confirmed lately, if that is known; filled in when it is told.
    pub synced: Option<Synced>,
    /// What the selectors of the spec mean; filled in when it is told.
    pub resolved: Option<Resolved>,
    /// The package of the server, as far as it is known; filled in when it is told.
    pub package: Option<String>,
    /// An operation that ended.
    pub ended: Option<HistoryEntry>,
    /// Events beside the one that every change of the Ready reason brings.
    pub news: Vec<News>,
}

/// Plans one turn. What the operator keeps in Secrets comes when nothing else is to be done.
pub fn plan(seen: &Observation) -> Plan {
    let plan = secret::connect(seen, secret::renew(seen, decide(seen)));
    restraint::restrained(seen, restraint::looking(seen, plan))
}

/// What is to be done with the server, whether the spec lets it be done or not.
fn decide(seen: &Observation) -> Plan {
    if seen.facts.deleting && !seen.facts.is_held() {
        // Others may hold the object; our part is done.
        return Plan::rest(Tell::default(), LONG);
    }
    if let Some(plan) = leave::without_the_service(seen) {
        return plan;
    }
    if let Some(binding) = seen
        .facts
        .binding()
        .filter(|_| !seen.facts.deleting && !seen.facts.is_held())
    {
        return hold_again(seen, binding);
    }
    let seat = match &seen.account {
        AccountFact::Seat(seat) => seat,
        // The Account wakes its Instances as soon as it has been looked at.
        AccountFact::Pending => return Plan::rest(not_looked_at(seen), LONG),
        AccountFact::NotFound(name) => {
            let is_there = seen.facts.id().or_else(|| seen.facts.told_id()).is_some();
            let may_be = |attempt: &Binding| {
                !seen.memory.nothing_bought(attempt) && !attempt.bought_nothing()
            };
            let remedy = match seen.facts.binding() {
                _ if is_there => {
                    "create it again: spec.accountRef cannot be changed once there is a server"
                }
                Some(attempt) if may_be(attempt) => {
                    "create it again: with it a server may have been bought, so spec.accountRef cannot be changed"
                }
                _ => "create it, or name another one in spec.accountRef",
            };
            let message = format!(
                "Account {name} does not exist in namespace {}: {remedy}",
                seen.facts.key.namespace
            );
            return without_account(seen, Reason::AccountNotFound, message);
        }
        AccountFact::Unusable(problem) => {
            let message = format!("Account {}: {}", seen.account_key.name, problem.message);
            return without_account(seen, problem.reason, message);
        }
    };
    if seen.rival == Rival::NotYet {
        // Somebody else may have its server: nothing is done to it until that is known.
        return Plan::rest(Tell::default(), SOON);
    }
    if let Some(plan) = recover::put_back(seen) {
        return plan;
    }
    if let Some(plan) = refer::first(seen) {
        return plan;
    }
    match (&seen.facts.record, seen.facts.deleting) {
        (Record::Invalid(why), _) => Plan::rest(
            Tell::of(Verdict::stalled(Reason::BindingInvalid, why.clone())),
            LONG,
        ),
        (_, true) => leave::plan(seen, seat),
        (Record::Speaks(binding), false) if binding.id.is_some() => keep::plan(seen, seat, binding),
        (Record::Speaks(binding), false) => buy::go_on(seen, seat, binding),
        (Record::None, false) => buy::begin(seen, seat),
    }
}

/// A record without the finalizer (a backup that was restored, a finalizer removed by hand): before anything else the
/// object is held again, or it could vanish and leave its server behind.
fn hold_again(seen: &Observation, binding: &Binding) -> Plan {
    let tell = Tell::default().with_id(seen.facts.told_id());
    Plan::act(
        Step::Record {
            binding: Box::new(binding.clone()),
        },
        tell,
    )
}

/// There is no Account to use. That says nothing about a server: one that was seen, and on which nothing is to be done,
/// stays as it was seen, and the Account itself tells what is wrong.
fn without_account(seen: &Observation, reason: Reason, message: String) -> Plan {
    let rests = !seen.facts.deleting && !seen.facts.is_open();
    let was_seen = rests && !seen.facts.status.detail.is_empty();
    let waits = keep::is_told(seen, Reason::WaitingForService);
    if was_seen && !waits && seen.facts.status.observed_generation == seen.facts.generation {
        return Plan::rest(Tell::default(), LONG);
    }
    Plan::rest(Tell::of(Verdict::reconciling(reason, message)), LONG)
}

/// Whether an answer of the service is known to come from the account that bought the server: the token is the one of the
/// purchase, or its listing has shown a server of ours.
fn is_our_account(seen: &Observation, seat: &SeatFacts) -> bool {
    seat.shown_ours
        || seen
            .facts
            .binding()
            .is_none_or(|binding| binding.credential == seat.credential)
}

/// Whether status has spoken of the spec as it stands.
fn is_told(seen: &Observation) -> bool {
    seen.facts.status.observed_generation == seen.facts.generation
}

/// The Account's service may not answer for half a minute: whoever waits for a first word is told.
fn not_looked_at(seen: &Observation) -> Tell {
    if is_told(seen) {
        return Tell::default();
    }
    let message = format!(
        "Account {} has not been looked at yet: its service has not answered",
        seen.account_key.name
    );
    Tell::progress(Reason::AccountPending, message).with_id(seen.facts.told_id())
}

/// What was planned needs the service, which others of the Account call now: it waits in line, and is woken when it may. That
/// is told to whoever waits for a word about the spec.
pub(super) fn in_line(seen: &Observation, planned: &Plan, no_room: NoRoom) -> Plan {
    let tell = if is_told(seen) {
        Tell::default()
    } else {
        let message = format!(
            "Account {} makes as many requests as its spec.requests allows, or its service answers slowly: this Instance \
             waits in line, and goes on by itself",
            seen.account_key.name
        );
        Tell::progress(Reason::RequestLimitReached, message).with_id(seen.facts.told_id())
    };
    let again = match no_room {
        NoRoom::InLine => IN_LINE,
        NoRoom::Late => NEXT,
    };
    let mut plan = Plan::rest(tell, again);
    plan.wants = planned.wants;
    plan
}

/// Many known servers vanished at once: nothing is bought or released until that is explained.
fn frozen(seen: &Observation) -> Option<Plan> {
    seen.listing.as_ref().filter(|listing| listing.frozen())?;
    let message = "many known servers vanished from the service's listing at once; nothing is bought or released until they \
                   show again or are confirmed gone: check that the token belongs to the right account";
    let tell = Tell::of(Verdict::reconciling(Reason::ListingSuspect, message));
    Some(Plan::rest(tell, SOON).in_flight())
}

impl Tell {
    /// A verdict that is shown at once.
    fn of(verdict: Verdict) -> Self {
        Self {
            verdict: Some(verdict),
            ..Self::default()
        }
    }

    /// A progress that is shown when it lasts.
    fn progress(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            verdict: Some(Verdict::reconciling(reason, message)),
            progress: true,
            ..Self::default()
        }
    }

    fn with_id(mut self, id: Option<ServerId>) -> Self {
        self.id = id;
        self
    }
}

impl Plan {
    fn rest(tell: Tell, again: Duration) -> Self {
        Self {
            step: Step::Rest,
            tell,
            again,
            wants: Wants::default(),
            needs: Needs::Nothing,
            pause: None,
        }
    }

    fn act(step: Step, tell: Tell) -> Self {
        Self {
            step,
            ..Self::rest(tell, SOON)
        }
    }

    /// Whether it says that all is as the spec wants it.
    pub fn is_ready(&self) -> bool {
        let verdict = self.tell.verdict.as_ref();
        verdict.is_some_and(|verdict| verdict.state == State::Ready)
    }

    /// Whether it does nothing, and says that waiting does not help.
    fn waits_for_a_human(&self) -> bool {
        let verdict = self.tell.verdict.as_ref();
        matches!(self.step, Step::Rest)
            && self.needs == Needs::Nothing
            && verdict.is_some_and(|verdict| verdict.state == State::Stalled)
    }

    /// Whether its step may buy a server.
    pub fn buys(&self) -> bool {
        matches!(&self.step, Step::Call { request, .. } if matches!(**request, Request::Create(_)))
    }

    /// Whether there may be a server on record after its step that was not there before.
    pub fn begins(&self) -> bool {
        self.buys() || matches!(self.step, Step::Record { .. })
    }

    /// Looked at again within this time, whatever else the plan says.
    fn within(mut self, time: Duration) -> Self {
        self.again = self.again.min(time);
        self
    }

    /// The same while a server's detail can be read: listings do not make it readable.
    fn in_flight_while_readable(self, seen: &Observation) -> Self {
        if seen.memory.unread {
            self
        } else {
            self.in_flight()
        }
    }

    /// The listing is to be read at the pace of running operations.
    fn in_flight(mut self) -> Self {
        self.wants.attention = Attention::InFlight;
        self
    }

    /// Passes that begin after this instant are wanted as soon as possible.
    fn wanting(mut self, after: Instant, passes: u8) -> Self {
        self.wants = Wants {
            attention: Attention::InFlight,
            pass_after: Some(after),
            passes,
        };
        self
    }
}

#[cfg(test)]
mod tests;
