//! The rules by which a memory combines the record, the operation in status, and the newest call.

use crate::api::conditions::Reason;
use crate::api::{Operation, PurchaseRecord, Verb};
use crate::cloud::{Error, ServerId, TaskId};
use crate::instance::facts::Facts;
use crate::instance::memory::Memory;
use crate::instance::memory::call::{
    CallState, Gone, Intent, NewestCall, Release, ReleaseCall, number_of,
};
use crate::instance::memory::look::Look;
use crate::instance::times;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl Memory {
    /// The newest attempt, if it is the one in this record.
    pub fn attempt(&self, record: &PurchaseRecord) -> Option<&NewestCall> {
        let call = self.call.as_deref();
        call.filter(|call| call.is_of(record.attempt, &record.nonce))
    }

    /// The newest attempt, if it is the current call of this operation.
    pub fn call_of(&self, operation: &Operation) -> Option<&NewestCall> {
        let call = self.call.as_deref();
        call.filter(|call| call.is_of(number_of(operation), &operation.nonce))
    }

    /// The detail shows the server busy. If this process made the operation's current call within the settling time, that counts as
    /// evidence that the service accepted the call. A listing is none, since it may be older than it seems.
    pub fn busy_after_call(&mut self, operation: &Operation, settle: Duration, now: Instant) {
        let number = number_of(operation);
        let call = self.call.as_deref_mut();
        if let Some(call) = call.filter(|call| call.is_of(number, &operation.nonce)) {
            let is_called = call.is_own && call.tries > 0;
            call.was_busy_after_call |= is_called && now > call.since && now < call.since + settle;
        }
    }

    /// The operation in progress on the server, also if status got lost.
    pub fn followed(&self) -> Option<&Operation> {
        match &self.call.as_deref()?.intent {
            Intent::Operation(operation) => Some(operation),
            Intent::Unneeded | Intent::Purchase(_) => None,
        }
    }

    /// From now on the operation is not followed if status gets lost.
    pub fn stop_following(&mut self) {
        if let Some(call) = &mut self.call
            && matches!(call.intent, Intent::Operation(_))
        {
            call.intent = Intent::Unneeded;
        }
    }

    /// Applies the record that is on the object now.
    pub(super) fn apply_record(&mut self, record: &PurchaseRecord, now: Instant) {
        // The record shows a refusal that a former process received.
        let refused = record.refused.as_ref().map(|refusal| CallState::Refused {
            message: refusal.message.clone(),
            reason: Reason::of(&refusal.reason).unwrap_or(Reason::CreateRefused),
        });
        match (&mut self.call, refused) {
            (Some(call), refused) if call.is_of(record.attempt, &record.nonce) => {
                if let (false, Some(refused)) = (call.is_own, refused) {
                    call.state = refused;
                }
            }
            // A later operation on its server, or a later purchase: the record is older.
            (Some(call), _)
                if call.number > record.attempt
                    && (call.verb != Verb::Create || !call.state.is_harmless()) => {}
            (call, refused) => {
                let state = refused.unwrap_or(CallState::Unknown);
                *call = Some(Box::new(NewestCall::of_purchase(record, state, now)));
            }
        }
    }

    /// Adopts the operation that status shows. If status shows none, and no attempt number as high as that of the operation that
    /// this process follows, then status was lost and the process continues to follow the operation.
    pub fn apply_operation(&mut self, facts: &Facts, now: Instant) {
        let record = facts.purchase();
        if record.is_some_and(|record| facts.status.shows_create_is_done(record))
            && let Some(call) = &mut self.call
        {
            // From now on other operations may have followed it, even if a later status no longer shows that end.
            call.is_newest = false;
        }
        let (Some(shown), Some(record)) = (facts.operation(), record) else {
            let record = record.map_or(0, |record| record.attempt);
            let newest = facts.status.attempt.max(i64::from(record));
            if (self.followed()).is_some_and(|followed| followed.attempt <= newest) {
                self.stop_following();
            }
            return;
        };
        // Status shows the refusal that this process received.
        let number = number_of(shown);
        let refused = self.call.as_mut().filter(|call| {
            let is_sent =
                call.is_own && call.state != CallState::NotSent || call.state.is_accepted();
            shown.is_refused() && is_sent && call.number == number && call.verb == shown.call()
        });
        if let Some(call) = refused {
            call.nonce.clone_from(&shown.nonce);
        }
        // A call that another process made, since this view is not older than the writes of this process (`behind.rs`).
        if self.call_of(shown).is_none() {
            let former = self.call.take().filter(|former| former.number == number);
            let harmless = former.as_ref().filter(|former| former.state.is_harmless());
            let unsent = harmless.and_then(|former| former.unsent.as_ref());
            let state = match shown.is_refused() || unsent == Some(&shown.nonce) {
                true => CallState::NotSent,
                false => CallState::Unknown,
            };
            let mut call = NewestCall::of_operation(shown, record, state, now);
            call.unsent = former.and_then(|former| former.without_effect());
            self.call = Some(Box::new(call));
        }
        let Some(call) = &mut self.call else {
            return;
        };
        call.intent = Intent::Operation(Box::new(shown.clone()));
        if let (true, false, Some(id)) = (shown.accepted, call.state.is_accepted(), facts.id()) {
            let task = shown.task_id.as_deref().map(TaskId::from);
            call.state = CallState::Accepted { id, task };
        }
    }

    /// This process wrote an intent or a record, or may have written it. A later call on the recorded server stays the newest.
    pub fn announced(&mut self, mut call: NewestCall) {
        let is_kept = |known: &NewestCall| {
            known.number > call.number || known.is_of(call.number, &call.nonce)
        };
        // Another try of a reinstall that was refused.
        let is_refused = |known: &&NewestCall| {
            let is_same = known.number == call.number && known.verb == call.verb;
            is_same && call.verb == Verb::Reinstall && !known.state.is_accepted()
        };
        let known = self.call.as_deref().filter(is_refused);
        call.tries = known.map_or(0, |known| known.tries);
        if !self.call.as_deref().is_some_and(is_kept) {
            let former = self.call.take().filter(|it| it.number == call.number);
            call.unsent = former.and_then(|former| former.without_effect());
            self.call = Some(Box::new(call));
        }
    }

    /// The call is sent: earlier observations of the server no longer apply, and until an answer arrives the outcome is unknown.
    pub fn call_begins(&mut self) {
        self.call_is(CallState::Unknown);
        self.observations.look = Look::default();
        self.observations.poll = None;
    }

    /// The outcome of the call, as far as it is known now.
    pub fn call_is(&mut self, state: CallState) {
        if let Some(call) = &mut self.call {
            let is_made = state == CallState::Unknown && call.state != CallState::Unknown;
            call.tries += u32::from(is_made);
            call.state = state;
            call.was_busy_after_call = false;
            call.since = Instant::now();
        }
    }

    /// No answer arrived that shows the outcome of the call.
    pub fn call_in_doubt(&mut self, error: &Error) {
        self.call_is(CallState::Unknown);
        if let Some(call) = &mut self.call {
            call.doubt = Some(error.to_string().into());
        }
    }

    /// When the newest operation on the recorded server ended; None while it is open.
    pub fn operated(&self) -> Option<Instant> {
        let call = self.call.as_deref()?;
        let is_over = call.verb != Verb::Create && matches!(call.intent, Intent::Unneeded);
        is_over.then_some(call.since)
    }

    /// When the service accepted an operation, if this process made its call.
    pub fn began(&self, operation: &Operation) -> Option<Instant> {
        let call = self.call_of(operation).filter(|call| call.tries > 0)?;
        call.state.is_accepted().then_some(call.since)
    }

    /// Whether certainly no server was bought under a record: this process knows the outcome of each of the record's calls.
    pub fn nothing_bought(&self, record: &PurchaseRecord) -> bool {
        let unbought = record.id.is_none() && record.lost == 0 && record.failed == 0;
        let call = self.attempt(record).filter(|_| unbought);
        call.is_some_and(|call| call.is_own && call.state.is_harmless())
    }

    /// The server that the service gave this process in its newest attempt and that is not known to be gone.
    pub fn accepted_server(&self) -> Option<(u32, &ServerId, Option<&TaskId>)> {
        let call = self.purchase_call()?;
        match &call.state {
            CallState::Accepted { id, task } if self.gone(id).is_none() => {
                Some((call.number, id, task.as_ref()))
            }
            _ => None,
        }
    }

    /// Since when the outcome of a purchase after the recorded one is unknown. There can be such a purchase if the record was
    /// replaced by an older one.
    pub fn in_doubt_since(&self, record: &PurchaseRecord) -> Option<Instant> {
        let call = self.purchase_call()?;
        let is_later = call.number > record.attempt && call.state == CallState::Unknown;
        is_later.then_some(call.since)
    }

    /// The Account of an attempt that may have bought a server, for use when no record names it any more.
    pub fn account_in_doubt(&self) -> Option<&Arc<str>> {
        let call = self.call.as_deref()?;
        (!call.state.is_harmless()).then_some(&call.account)
    }

    /// The latest instant from which a settling time counts.
    pub fn settling_since(&self) -> Option<Instant> {
        self.call.as_deref().map(|call| call.since)
    }

    fn purchase_call(&self) -> Option<&NewestCall> {
        let call = self.call.as_deref();
        call.filter(|call| call.verb == Verb::Create)
    }

    /// Why and since when a server is known to be gone.
    pub fn gone(&self, id: &ServerId) -> Option<(Gone, Instant)> {
        self.releases.get(id)?.gone()
    }

    /// The newest release call for a server that is not known to be gone.
    pub fn release_call(&self, id: &ServerId) -> Option<&ReleaseCall> {
        match self.releases.get(id)? {
            Release::Asked(call) => Some(call),
            Release::Gone(..) => None,
        }
    }

    /// A server is known to be gone.
    pub fn found_gone(&mut self, id: ServerId, how: Gone) {
        // Only the first finding is progress.
        if self.gone(&id).is_none() {
            self.pace.progressed();
        }
        let gone = Release::Gone(how, Instant::now());
        self.releases.insert(id, gone);
    }

    /// Forgets releases of servers other than the recorded one after a while.
    pub(super) fn forget_releases(&mut self, record: &PurchaseRecord, now: Instant) {
        self.releases.retain(|id, release| {
            let since = match release {
                Release::Asked(call) => call.at,
                Release::Gone(_, since) => *since,
            };
            record.id.as_deref() == Some(id.as_str()) || now < since + times::GONE_SERVER_REMEMBERED
        });
    }
}
