//! The end of an operation, told in status.

use super::Open;
use crate::api::conditions::{Reason, Verdict};
use crate::api::{Applied, Binding, EndReason, Verb};
use crate::instance::observe::{Fact, Observation, is_idle};
use crate::instance::plan::{
    FAILED, NEXT, Needs, Plan, Request, Tell, judge, keep, secret, want, words,
};
use std::time::Duration;

/// What the service refused as wrong is asked for again after these times, the last one from then on, if nobody mends it
/// sooner: an image may be published again, a quota raised, and neither is told to anybody. Longer than the minute in which
/// a wish that cannot be granted must cost next to nothing.
const REFUSED: [Duration; 2] = [Duration::from_secs(75), Duration::from_secs(300)];
/// A server is not stopped once more for a reinstall that the service refused when it was: the service has shown that the
/// spec has to be mended, and each try costs an outage.
const STOPPED_IN_VAIN: Duration = Duration::from_secs(24 * 3600);

/// How an operation ended.
pub(super) enum End {
    /// It is done.
    Well,
    /// Nothing tells that it was done, and nothing destructive follows: it counts as done, but for the password that it was to
    /// bring, which is set anew.
    Assumed,
    /// The service failed to do it; it is tried again in its time.
    Failed(String),
    /// Its answer was lost, and the server does not show it; it is asked for again.
    Lost(String),
    /// The service does not want what was asked for.
    Refused(String),
    /// Nothing was done, and something else is asked for by now.
    Superseded(String),
}

impl Open<'_> {
    /// The end of the operation, told in status. What comes next is planned from the status that tells of it. A server that
    /// was stopped for a reinstall which did not come is started first.
    pub(super) fn conclude(&self, end: End) -> Plan {
        let (seen, binding, verb) = (self.seen, self.binding, self.verb());
        if matches!(end, End::Well)
            && let Some(plan) = secret::settle_first(seen, binding, self.id)
        {
            return plan;
        }
        let detail = match &seen.detail {
            Fact::Known(detail) => Some(detail),
            Fact::NotAsked | Fact::Absent | Fact::Unknown(_) => None,
        };
        if verb == Verb::Reinstall
            && !matches!(end, End::Well | End::Assumed)
            && let Some(plan) = self.start_first()
        {
            return plan;
        }
        let fields = detail.map_or(&seen.facts.status.detail, |detail| &detail.fields);
        let failures = failures(seen, verb);
        let in_its_time = FAILED[failures.min(FAILED.len() - 1)];
        let (mut tell, reason, words, pause) = match end {
            End::Well | End::Assumed => {
                let mut applied = want::recorded(seen, binding);
                if matches!(end, End::Assumed) {
                    applied.password_secret = None;
                }
                let mut tell = Tell::of(judge::judge(seen, binding, &applied, fields));
                tell.applied = Some(want::taken_over(seen, binding, &applied, fields));
                let mut news = words::done(binding, self.id);
                if seen.memory.cut_for == Some(binding.attempt) || binding.operation.power_cut {
                    news.note.push_str("; its power was cut");
                }
                tell.news.push(news);
                (tell, None, None, None)
            }
            End::Failed(words) => {
                let is_hopeless = failures + 1 >= FAILED.len();
                let tell = Tell::of(words::failed(verb, &words, is_hopeless));
                (
                    tell,
                    Some(EndReason::Failed),
                    Some(words),
                    Some(in_its_time),
                )
            }
            End::Lost(words) => {
                let tell = Tell::of(words::lost(verb, &words));
                (
                    tell,
                    Some(EndReason::AnswerLost),
                    Some(words),
                    Some(in_its_time),
                )
            }
            End::Refused(words) => {
                let tell = Tell::of(words::refused(&words, Reason::OperationRefused));
                let pause = if seen.memory.stopped_for == Some(binding.attempt) {
                    STOPPED_IN_VAIN
                } else {
                    refused_again(seen, verb)
                };
                (tell, Some(EndReason::Refused), Some(words), Some(pause))
            }
            End::Superseded(words) => {
                let applied = want::applied(seen, binding);
                let tell = Tell::of(judge::judge(seen, binding, &applied, fields));
                (tell, Some(EndReason::Superseded), Some(words), None)
            }
        };
        tell.ended = Some(keep::ended(seen, binding, reason, words));
        tell.detail = detail.map(|detail| detail.fields.clone());
        let mut plan = Plan::rest(tell.with_id(Some(self.id.clone())), NEXT);
        plan.pause = pause;
        plan
    }

    /// A reinstall that does not come about leaves no server off that was stopped for it.
    fn start_first(&self) -> Option<Plan> {
        let was_stopped = self.seen.memory.stopped_for == Some(self.binding.attempt);
        match &self.seen.detail {
            Fact::Known(detail) if !is_idle(detail.pending()) && was_stopped => {
                Some(self.stopping())
            }
            Fact::Known(detail)
                if self.is_to_be_started(detail)
                    && want::may_operate(self.seen, self.binding, &detail.fields) =>
            {
                Some(self.aside(Verb::Start, Request::Start(self.id.clone())))
            }
            Fact::NotAsked if was_stopped => {
                let (seen, mut plan) = (self.seen, self.stopping());
                if !seen.memory.unread || seen.has_not_looked_for(keep::UNREAD) {
                    plan.needs = Needs::Detail;
                }
                Some(plan)
            }
            // It may be at work on the start.
            Fact::Unknown(_) if was_stopped => Some(self.stopping().within(keep::UNREAD)),
            Fact::NotAsked | Fact::Known(_) | Fact::Absent | Fact::Unknown(_) => None,
        }
    }
}

/// How long the service is left alone after it refused this operation just now.
pub(in crate::instance) fn refused_again(seen: &Observation, verb: Verb) -> Duration {
    let before = since_success(seen, verb).filter(|reason| *reason == Some(EndReason::Refused));
    REFUSED[before.count().min(REFUSED.len() - 1)]
}

/// How long the same wish still waits after it ended badly, as this process remembers it or as the history tells: another process
/// may have said so.
pub(in crate::instance::plan) fn pause(
    seen: &Observation,
    binding: &Binding,
    verb: Verb,
    applied: &Applied,
) -> Option<Duration> {
    let wish = want::target(verb, applied, want::as_specified(seen));
    let is_same =
        |generation: i64, target: &Applied| generation == seen.facts.generation && *target == wish;
    let known = seen.memory.pauses.get(&verb);
    let known = known
        .filter(|pause| is_same(pause.generation, &pause.target))
        .map(|pause| pause.until.saturating_duration_since(seen.now));
    let operation = &binding.operation;
    let told = (operation.verb == verb && is_same(operation.generation, &operation.target))
        .then(|| told_pause(seen, binding))
        .flatten();
    known.max(told).filter(|left| !left.is_zero())
}

/// Why a wish waits: how it ended the last time.
pub(in crate::instance::plan) fn waiting(seen: &Observation, verb: Verb) -> Verdict {
    let mut history = seen.facts.status.history.iter();
    let last = history.find(|entry| entry.verb == verb);
    let words = last
        .and_then(|entry| entry.message.as_deref())
        .unwrap_or_default();
    match last.and_then(|entry| entry.reason) {
        Some(EndReason::Refused) => words::refused(words, Reason::OperationRefused),
        Some(EndReason::AnswerLost) => words::lost(verb, words),
        Some(EndReason::Failed | EndReason::Superseded) => {
            words::failed(verb, words, failures(seen, verb) >= FAILED.len())
        }
        None => words::restless(verb),
    }
}

/// What is left of the time for which the recorded operation waits that ended badly, as the history tells.
fn told_pause(seen: &Observation, binding: &Binding) -> Option<Duration> {
    let verb = binding.operation.verb;
    let mut history = seen.facts.status.history.iter();
    let entry = history.find(|entry| entry.attempt == i64::from(binding.attempt))?;
    let reason = entry.reason.filter(|_| !entry.succeeded)?;
    let times = since_success(seen, verb).filter(|other| *other == Some(EndReason::Refused));
    let whole = match reason {
        EndReason::Failed | EndReason::AnswerLost => {
            FAILED[failures(seen, verb).clamp(1, FAILED.len()) - 1]
        }
        EndReason::Refused => REFUSED[times.count().clamp(1, REFUSED.len()) - 1],
        EndReason::Superseded => return None,
    };
    let age = seen.wall.as_second() - entry.finished_at.0.as_second();
    // Of a clock that is behind, the whole time.
    let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
    Some(whole.saturating_sub(age))
}

/// How often the service failed to do this since it last did it.
fn failures(seen: &Observation, verb: Verb) -> usize {
    let counts = [None, Some(EndReason::Failed), Some(EndReason::AnswerLost)];
    since_success(seen, verb)
        .filter(|reason| counts.contains(reason))
        .count()
}

/// How this operation ended each time since it last ended well, as the history tells.
fn since_success(seen: &Observation, verb: Verb) -> impl Iterator<Item = Option<EndReason>> {
    let of_verb = seen
        .facts
        .status
        .history
        .iter()
        .filter(move |entry| entry.verb == verb);
    of_verb
        .take_while(|entry| !entry.succeeded)
        .map(|entry| entry.reason)
}
