//! Faults: rules that select calls and the acts that happen to them, and the registry that gives each call its plan.
//!
//! A plan has a position for every act: before the effect, in its execution, after it, in the body, after the reply. The file
//! `acts` defines, once for each act, how it changes a plan.

mod acts;
mod bucket;
mod hold;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use acts::{Act, Listing, Spoil, When};
pub use hold::{ClientGone, Hold, HoldState, NotReached};

use bucket::Bucket;

use crate::mix;
use crate::model::{TaskScript, World};

/// Selects calls, and the act that happens to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The path: an exact path, or a prefix that ends in `*`.
    pub path: String,
    /// Only calls of this account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Only calls whose query or body contains this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containing: Option<String>,
    /// The first matching call that gets the act, counted from 1.
    #[serde(default = "one")]
    pub nth: u64,
    /// How many calls get the act. If absent: every further call, but a single one for a hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The share of those calls that get the act.
    #[serde(default = "always")]
    pub probability: f64,
    /// The act.
    pub act: Act,
}

const fn one() -> u64 {
    1
}

const fn always() -> f64 {
    1.0
}

impl Rule {
    /// A rule by which every call of a path gets the act.
    #[must_use]
    pub fn on(path: &str, act: Act) -> Self {
        Self {
            path: path.to_owned(),
            account: None,
            containing: None,
            nth: 1,
            times: None,
            probability: 1.0,
            act,
        }
    }

    /// Starts at the nth matching call, counted from 1.
    #[must_use]
    pub const fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self
    }

    /// Applies to this many calls.
    #[must_use]
    pub const fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Applies to this share of the calls.
    #[must_use]
    pub const fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Only calls of this account.
    #[must_use]
    pub fn account(mut self, account: &str) -> Self {
        self.account = Some(account.to_owned());
        self
    }

    /// Only calls whose query or body contains this text, for example the name or identifier of an instance.
    #[must_use]
    pub fn containing(mut self, text: &str) -> Self {
        self.containing = Some(text.to_owned());
        self
    }

    fn matches(&self, call: &Call<'_>) -> bool {
        let path = match self.path.strip_suffix('*') {
            Some(beginning) => call.path.starts_with(beginning),
            None => self.path == call.path,
        };
        path && self
            .account
            .as_deref()
            .is_none_or(|account| call.account == Some(account))
            && self
                .containing
                .as_deref()
                .is_none_or(|text| call.content.contains(text))
    }
}

/// The properties of a call that rules match.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The path.
    pub path: &'a str,
    /// The account, if the token belongs to one.
    pub account: Option<&'a str>,
    /// Query and body as text.
    pub content: &'a str,
}

/// An answer in place of the service's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The HTTP status.
    pub status: u16,
    /// The JSON body.
    pub body: serde_json::Value,
    /// The header `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
}

/// A step in the course of a call, before or after its effect.
#[derive(Clone, Debug)]
pub enum Step {
    /// Waits.
    Delay(Duration),
    /// Waits until a test releases the call.
    Hold(Arc<HoldState>),
    /// Answers this instead, at once.
    Answer(Override),
    /// Aborts the connection.
    Lose,
    /// Never answers; the connection stays open.
    Hang,
}

/// How often, and when, a call is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Once, now.
    #[default]
    Once,
    /// Twice, as if a middlebox had repeated the request.
    Twice,
    /// Once, this long after the connection was aborted.
    Late(Duration),
}

/// Everything that happens to one call.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The names of the acts, for the ledger.
    pub names: Vec<String>,
    /// Steps before the effect.
    pub before: Vec<Step>,
    /// How often, and when, the call is executed.
    pub execution: Execution,
    /// The course of the task that the call starts.
    pub script: TaskScript,
    /// For queries: the older state that the call is answered from.
    pub stale: Option<Arc<Mutex<World>>>,
    /// A fault in the rows of a listing.
    pub listing: Option<Listing>,
    /// Steps after the effect.
    pub after: Vec<Step>,
    /// A fault in the body.
    pub spoil: Option<Spoil>,
    /// The holds that are notified once the reply has been written.
    pub after_reply: Vec<Arc<HoldState>>,
}

#[derive(Debug)]
struct Armed {
    id: u64,
    rule: Rule,
    seen: u64,
    hits: u64,
    hold: Option<Arc<HoldState>>,
    snapshot: Option<Arc<Mutex<World>>>,
    bucket: Option<Bucket>,
}

/// A rule, and how it was applied so far.
#[derive(Clone, Debug, Serialize)]
pub struct RuleReport {
    /// Its number.
    pub id: u64,
    /// The rule.
    pub rule: Rule,
    /// How many calls matched the rule.
    pub seen: u64,
    /// How many calls got the act.
    pub hits: u64,
    /// How many calls the rule holds parked at the moment.
    pub parked: u64,
}

#[derive(Debug, Default)]
struct Registry {
    next: u64,
    rules: Vec<Armed>,
}

/// The rules in force.
#[derive(Debug)]
pub struct Faults {
    seed: u64,
    registry: Mutex<Registry>,
}

impl Faults {
    /// A registry without rules. The seed decides the draws of rules with a probability.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            registry: Mutex::default(),
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule and returns its number. A rule for a stale listing needs [`Faults::add_with`].
    pub fn add(&self, rule: Rule) -> u64 {
        self.add_with(rule, None)
    }

    /// Adds a rule, with the state that stale answers are taken from.
    pub fn add_with(&self, rule: Rule, snapshot: Option<World>) -> u64 {
        self.arm(rule, snapshot).0
    }

    /// Adds a rule with a hold, and returns the handle of the hold.
    pub fn hold(&self, rule: Rule) -> Hold {
        let (id, state) = self.arm(rule, None);
        Hold::new(id, state)
    }

    fn arm(&self, mut rule: Rule, snapshot: Option<World>) -> (u64, Arc<HoldState>) {
        let hold = Arc::new(HoldState::new(match rule.act {
            Act::Hold { gone, .. } => gone,
            _ => ClientGone::Execute,
        }));
        let holds = matches!(rule.act, Act::Hold { .. });
        let bucket = match rule.act {
            Act::Limit {
                per_second, burst, ..
            } => Some(Bucket::full(per_second, burst)),
            _ => None,
        };
        if holds && rule.times.is_none() {
            rule.times = Some(1);
        }
        let mut registry = self.registry();
        registry.next += 1;
        let id = registry.next;
        registry.rules.push(Armed {
            id,
            rule,
            seen: 0,
            hits: 0,
            hold: holds.then(|| Arc::clone(&hold)),
            snapshot: snapshot.map(|world| Arc::new(Mutex::new(world))),
            bucket,
        });
        (id, hold)
    }

    /// Removes a rule; calls that it parked continue. Returns false if no rule has this number.
    pub fn remove(&self, id: u64) -> bool {
        let mut registry = self.registry();
        let Some(at) = registry.rules.iter().position(|armed| armed.id == id) else {
            return false;
        };
        if let Some(hold) = registry.rules.remove(at).hold {
            hold.release();
        }
        true
    }

    /// Removes every rule; parked calls continue.
    pub fn clear(&self) {
        for armed in self.registry().rules.drain(..) {
            if let Some(hold) = armed.hold {
                hold.release();
            }
        }
    }

    /// How many calls got the act of a rule.
    #[must_use]
    pub fn hits(&self, id: u64) -> u64 {
        self.registry()
            .rules
            .iter()
            .find(|armed| armed.id == id)
            .map_or(0, |armed| armed.hits)
    }

    /// The hold of a rule, for the control port.
    #[must_use]
    pub fn hold_of(&self, id: u64) -> Option<Arc<HoldState>> {
        self.registry()
            .rules
            .iter()
            .find(|armed| armed.id == id)?
            .hold
            .clone()
    }

    /// Every rule in force.
    #[must_use]
    pub fn report(&self) -> Vec<RuleReport> {
        let report = |armed: &Armed| RuleReport {
            id: armed.id,
            rule: armed.rule.clone(),
            seen: armed.seen,
            hits: armed.hits,
            parked: armed.hold.as_ref().map_or(0, |hold| hold.parked()),
        };
        self.registry().rules.iter().map(report).collect()
    }

    /// The plan of this call. Every rule that matches counts the call; a rule adds its act if its `nth`, `times` and
    /// `probability` allow it.
    pub fn plan(&self, call: &Call<'_>) -> Plan {
        let mut plan = Plan::default();
        for armed in &mut self.registry().rules {
            if !armed.rule.matches(call) {
                continue;
            }
            armed.seen += 1;
            let spent = armed.rule.times.is_some_and(|times| armed.hits >= times);
            let purpose = format!("fault {}", armed.id);
            let drawn = mix::chance(self.seed, &purpose, armed.seen, armed.rule.probability);
            if armed.seen < armed.rule.nth || spent || !drawn {
                continue;
            }
            if armed.bucket.as_mut().is_some_and(Bucket::takes_one) {
                continue;
            }
            armed.hits += 1;
            plan.names.push(armed.rule.act.name().to_owned());
            armed
                .rule
                .act
                .add_to(&mut plan, armed.hold.as_ref(), armed.snapshot.as_ref());
        }
        plan
    }
}
