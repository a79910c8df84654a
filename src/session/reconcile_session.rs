//! The account session as one reconcile uses it: with a slot for calls to the service, requested on first use.

use super::account_session::AccountSession;
use super::slots::Slot;
use crate::cloud::CallPriority;
use crate::inventory::InstanceUid;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An account session, used by one reconcile.
pub struct ReconcileSession {
    account_session: Arc<AccountSession>,
    subject: InstanceUid,
    slot: Mutex<SlotState>,
}

enum SlotState {
    NotRequested,
    /// The reconcile may call.
    Held {
        _slot: Slot,
    },
    /// No slot of this priority was free. The object is woken when one becomes free.
    Waiting(CallPriority),
}

impl ReconcileSession {
    /// The session of a reconcile that begins.
    pub fn new(account_session: Arc<AccountSession>, subject: InstanceUid) -> Self {
        Self {
            account_session,
            subject,
            slot: Mutex::new(SlotState::NotRequested),
        }
    }

    /// Whether this reconcile may call the service; requests a slot if necessary. Check it before remembering anything about the
    /// call: without a slot, the reconcile must behave as if the call were not due yet.
    pub fn may_call(&self, priority: CallPriority) -> bool {
        let mut state = self.slot();
        let must_ask = match *state {
            SlotState::NotRequested => true,
            SlotState::Waiting(former) => priority < former,
            SlotState::Held { .. } => false,
        };
        if must_ask {
            let slot = self.shared.slots.ask(&self.subject, priority);
            *state = slot.map_or(SlotState::Waiting(priority), |_slot| SlotState::Held {
                _slot,
            });
        }
        matches!(*state, SlotState::Held { .. })
    }

    /// Whether this reconcile needed to call the service and got no slot.
    pub fn waits_for_slot(&self) -> bool {
        matches!(*self.slot(), SlotState::Waiting(_))
    }

    fn slot(&self) -> MutexGuard<'_, SlotState> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for ReconcileSession {
    type Target = AccountSession;

    fn deref(&self) -> &AccountSession {
        &self.account_session
    }
}

impl Drop for ReconcileSession {
    fn drop(&mut self) {
        // The reconcile needed no call, so its object no longer waits for the slot that an earlier reconcile requested.
        if matches!(*self.slot(), SlotState::NotRequested) {
            self.shared.slots.leave(&self.subject);
        }
    }
}
