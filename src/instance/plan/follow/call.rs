//! The call of an open operation: repeated if it certainly had no effect, after the steps that must come first.

use super::open::{End, Open};
use crate::api::conditions::Reason;
use crate::api::{PowerState, Verb};
use crate::cloud::Detail;
use crate::instance::fact::Fact;
use crate::instance::login::LoginFact;
use crate::instance::memory::kinds::Auxiliary;
use crate::instance::observation::is_idle;
use crate::instance::plan::step::{Plan, Read, Request, Step};
use crate::instance::plan::why::Why;
use crate::instance::plan::{begin, login, policy, words};
use crate::instance::times;
use std::time::Duration;

/// A service that answers "busy" this often about an idle server will not accept the call.
const BUSY_TRIES: u32 = 4;

impl Open<'_> {
    /// The intent was written and no call was made.
    pub(super) fn not_sent(&self) -> Plan {
        if begin::is_still_asked(self.observed, self.operation) {
            self.again()
        } else {
            self.conclude(End::superseded("it was not sent"))
        }
    }

    /// The service refused the call, so it had no effect.
    pub(super) fn after_refusal(&self, message: &str, why: Reason) -> Plan {
        if let Fact::Known(detail) = &self.observed.detail
            && is_idle(detail.pending())
            && matches!(self.verb(), Verb::Start | Verb::Stop)
            && self.effect() == Some(true)
        {
            // The server already has this state, which is why the service refused.
            return self.conclude(End::Well);
        }
        if why == Reason::OperationRefused {
            return self.conclude(End::refused(message));
        }
        if !begin::is_still_asked(self.observed, self.operation) {
            // Some services show late that a server is being stopped. Until then the server is not idle.
            return if self.is_being_stopped() {
                self.stopping()
            } else {
                self.conclude(End::superseded(message))
            };
        }
        if why == Reason::Stopping {
            return match &self.observed.detail {
                Fact::Known(detail) if self.busy_with(detail).is_some() => self.stopping(),
                Fact::Known(detail) if detail.status() == Some("STOPPED") => self.again(),
                Fact::Known(detail) if begin::may_operate(self.observed, &detail.fields) => {
                    let force = self.was_asked(Verb::Stop) == Some(false);
                    let id = self.id.clone();
                    self.auxiliary(Verb::Stop, Request::Stop { id, force })
                }
                Fact::Known(_) => self.conclude(End::superseded(message)),
                Fact::NotAsked | Fact::Absent | Fact::Unknown(_) => self.stopping(),
            };
        }
        let tries = self.call().map_or(0, |attempt| attempt.tries);
        if why == Reason::ServiceBusy && tries >= BUSY_TRIES && self.is_idle() {
            // Nothing keeps the server busy, so the service refuses the call in the server's current state.
            return self.conclude(End::refused(message));
        }
        match self.observed.memory.pace.not_before {
            Some(at) if at > self.observed.now => self.later(message, why, at - self.observed.now),
            _ => self.again(),
        }
    }

    /// Whether the server was asked to stop recently and does not show as stopped.
    fn is_being_stopped(&self) -> bool {
        let is_stopped = matches!(&self.observed.detail, Fact::Known(detail) if is_idle(detail.pending()) && detail.status() == Some("STOPPED"));
        self.was_asked(Verb::Stop) == Some(true) && !is_stopped
    }

    /// The word that shows the service at work on the server: a pending operation, or a temporary state.
    fn busy_with<'a>(&self, detail: &'a Detail) -> Option<&'a str> {
        let pending = detail.pending().filter(|word| !is_idle(Some(word)));
        pending.or_else(|| self.observed.unknown_state(&detail.fields))
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(&self.observed.detail, Fact::Known(detail) if is_idle(detail.pending()))
    }

    /// Repeats the call after this time.
    pub(super) fn later(&self, message: &str, why: Reason, left: Duration) -> Plan {
        self.because(Why::refused(message, why), left)
    }

    /// Repeats the call of the recorded attempt, which certainly had no effect.
    pub(super) fn again(&self) -> Plan {
        let id = || Some(self.id.clone());
        if !self.is_told() {
            return self.running(words::running(self.verb(), self.id));
        }
        match &self.observed.detail {
            Fact::Known(detail) if begin::may_operate(self.observed, &detail.fields) => {}
            Fact::Known(detail) => {
                let Some(word) = self.busy_with(detail) else {
                    // The server no longer is as it was when the operation was announced.
                    return self.conclude(End::superseded("the server has changed since"));
                };
                let message = format!("the service is busy with server {} ({word})", self.id);
                return self.later(&message, Reason::ServiceBusy, times::SERVER_BUSY_RECHECK);
            }
            Fact::Absent | Fact::Unknown(_) => {
                return Plan::wait(times::UNREADABLE_RETRY).with_id(id());
            }
            Fact::NotAsked => return Plan::needing(Read::Detail).with_id(id()),
        }
        let credentials = match login::credentials(self.observed, self.verb()) {
            Ok(credentials) => credentials,
            // An unusable login must not delay other operations.
            Err(_) if matches!(self.observed.login, LoginFact::Problem(_)) => {
                return self.conclude(End::superseded("its login cannot be used"));
            }
            Err(plan) => return *plan,
        };
        let recorded = &self.operation.target.password_secret;
        let read = credentials.as_ref().map(|credentials| &credentials.secret);
        if read.is_some_and(|read| read != recorded) {
            return self.conclude(End::superseded("its Secret has changed since"));
        }
        let Some(request) = begin::request(self.observed, self.operation, self.id, credentials)
        else {
            return Plan::wait(times::PASS_RECHECK).with_id(id());
        };
        let why = Why::progress(
            words::reason(self.verb()),
            words::running(self.verb(), self.id),
        );
        let step = Step::Operate {
            operation: Box::new(self.operation.clone()),
            announce: false,
            request: Box::new(request),
        };
        Plan {
            step,
            ..self.because(why, times::PASS_RECHECK)
        }
    }

    /// Whether status shows the operation. If status was lost, it is written again before any call for the operation.
    pub(super) fn is_told(&self) -> bool {
        self.observed.facts.operation().is_some()
    }

    /// Stops or starts the server within the attempt; repeats the call after a pause until its effect shows.
    pub(super) fn auxiliary(&self, verb: Verb, request: Request) -> Plan {
        let mut plan = match verb {
            Verb::Stop => self.stopping(),
            _ => self.running(format!(
                "starting server {}, which was stopped for its reinstall",
                self.id
            )),
        };
        if self.was_asked(verb) != Some(true) && self.is_told() {
            plan.step = Step::Auxiliary {
                request: Box::new(request),
            };
        }
        plan
    }

    /// The server is being stopped, since the service requires that before a reinstall.
    pub(super) fn stopping(&self) -> Plan {
        let note = format!(
            "stopping server {} for its reinstall, since the service wants it stopped",
            self.id
        );
        let mut plan = match self.observed.memory.calls.auxiliary.as_deref() {
            Some(Auxiliary {
                trouble: Some(trouble),
                ..
            }) => self.running(format!("{note}: {trouble}")),
            _ => self.running(note),
        };
        plan.again = plan.again.min(Duration::from_secs(2));
        plan
    }

    /// Whether the server was asked to stop or start within the attempt: true if recently, false if long ago.
    pub(super) fn was_asked(&self, verb: Verb) -> Option<bool> {
        let auxiliary = self.observed.memory.calls.auxiliary.as_deref();
        let auxiliary = auxiliary.filter(|auxiliary| auxiliary.verb == verb)?;
        let again = if auxiliary.is_refused {
            times::REFUSED_AUXILIARY_RETRY
        } else {
            times::AUXILIARY_RETRY
        };
        Some(self.observed.now < auxiliary.at + again)
    }

    /// Whether a server that was stopped for a reinstall must be started, and has not been asked to without success. A start that
    /// fails becomes an operation of its own.
    pub(super) fn is_to_be_started(&self, detail: &Detail) -> bool {
        let wanted = match self.observed.facts.spec.power_state {
            PowerState::Running => true,
            PowerState::Stopped => false,
            PowerState::Unmanaged => self.operation.before.running,
        };
        let in_vain = self.was_asked(Verb::Start) == Some(false);
        // Under the policy `Observe` the server stays as it is.
        wanted
            && detail.status() == Some("STOPPED")
            && !in_vain
            && !policy::is_observed(self.observed)
    }
}
