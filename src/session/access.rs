//! The access of one reconcile to its Account: the account session, and a slot for calls to the service, requested on first use.

use super::account_session::AccountSession;
use super::line::Slot;
use crate::cloud::CallPriority;
use crate::inventory::Subject;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An account session, used by one reconcile.
#[derive(Debug)]
pub struct Access {
    account_session: Arc<AccountSession>,
    subject: Subject,
    slot: Mutex<Requested>,
}

#[derive(Debug)]
enum Requested {
    /// The reconcile has not requested a slot yet.
    Not,
    /// The reconcile holds a slot and may call.
    Held { _slot: Slot },
    /// No slot of this priority was free. The line wakes the object when one becomes free.
    InLine(CallPriority),
}

impl Access {
    /// The access of a reconcile that begins.
    pub fn new(account_session: Arc<AccountSession>, subject: Subject) -> Self {
        Self {
            account_session,
            subject,
            slot: Mutex::new(Requested::Not),
        }
    }

    /// Whether this reconcile may call the service. Check it before remembering anything about the call: if the answer is no, the
    /// reconcile must behave as if the call were not due yet.
    pub fn may_call(&self, priority: CallPriority) -> bool {
        let mut requested = self.requested();
        let is_new = match *requested {
            Requested::Not => true,
            Requested::InLine(former) => priority < former,
            Requested::Held { .. } => false,
        };
        if is_new {
            let slot = self
                .account_session
                .shared
                .line
                .ask(&self.subject, priority);
            *requested = slot.map_or(Requested::InLine(priority), |slot| Requested::Held {
                _slot: slot,
            });
        }
        matches!(*requested, Requested::Held { .. })
    }

    /// Whether this reconcile wanted to call the service and got no slot.
    pub fn is_in_line(&self) -> bool {
        matches!(*self.requested(), Requested::InLine(_))
    }

    fn requested(&self) -> MutexGuard<'_, Requested> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Access {
    type Target = AccountSession;

    fn deref(&self) -> &AccountSession {
        &self.account_session
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        // The reconcile needed no call, so it gives up the position in line that an earlier reconcile may have left.
        if matches!(*self.requested(), Requested::Not) {
            self.account_session.shared.line.leave(&self.subject);
        }
    }
}
