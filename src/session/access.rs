//! What one reconcile of an Instance has of its Account: the account session, and once it asked for one, a slot for calls of the
//! service.

use super::account_session::AccountSession;
use super::line::Slot;
use crate::cloud::CallPriority;
use crate::inventory::Subject;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An account session for the time of one reconcile.
#[derive(Debug)]
pub struct Access {
    account_session: Arc<AccountSession>,
    subject: Subject,
    leave: Mutex<Leave>,
}

#[derive(Debug)]
enum Leave {
    /// Nothing was asked of the service yet.
    NotAsked,
    /// Calls may be made.
    Given { _slot: Slot },
    /// There was none of this priority: the object is woken when there is one.
    InLine(CallPriority),
}

impl Access {
    /// That of a reconcile which begins.
    pub fn new(account_session: Arc<AccountSession>, subject: Subject) -> Self {
        Self {
            account_session,
            subject,
            leave: Mutex::new(Leave::NotAsked),
        }
    }

    /// Whether the service may be called in this reconcile. To be asked before anything is remembered of the call: where it may
    /// not, it is as if it were not due yet.
    pub fn may_call(&self, priority: CallPriority) -> bool {
        let mut leave = self.leave();
        let is_new = match *leave {
            Leave::NotAsked => true,
            Leave::InLine(former) => priority < former,
            Leave::Given { .. } => false,
        };
        if is_new {
            let slot = self
                .account_session
                .shared
                .line
                .ask(&self.subject, priority);
            *leave = slot.map_or(Leave::InLine(priority), |slot| Leave::Given { _slot: slot });
        }
        matches!(*leave, Leave::Given { .. })
    }

    /// Whether something is to be asked of the service that this reconcile could not ask.
    pub fn is_in_line(&self) -> bool {
        matches!(*self.leave(), Leave::InLine(_))
    }

    fn leave(&self) -> MutexGuard<'_, Leave> {
        self.leave.lock().unwrap_or_else(PoisonError::into_inner)
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
        // What it stood in line for before, if it did, is not needed any more.
        if matches!(*self.leave(), Leave::NotAsked) {
            self.account_session.shared.line.leave(&self.subject);
        }
    }
}
