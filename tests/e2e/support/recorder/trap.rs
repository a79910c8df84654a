//! A boundary at which a request is stopped, and the request's fate there.

use super::Point;
use std::fmt;
use std::time::Duration;
use tokio::sync::watch;

/// The place where a request is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Before it is forwarded: it has had no effect.
    Before,
    /// After the proxy has received the answer, and before the operator receives it.
    AfterEffect,
    /// After the operator has received the answer: no further request that counts gets through.
    AfterReply,
}

impl Place {
    /// All places in order.
    pub const ALL: [Self; 3] = [Self::Before, Self::AfterEffect, Self::AfterReply];
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::AfterEffect => "after-effect",
            Self::AfterReply => "after-reply",
        })
    }
}

/// The fate of a stopped request once it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It continues as if it had not been stopped, even if its client has given up meanwhile.
    GoOn,
    /// Its connection ends in order, without the answer.
    End,
    /// Its connection is reset.
    Reset,
}

/// A trap for one request. Cheap to clone.
#[derive(Clone)]
pub struct Trap {
    pub(super) point: Point,
    pub(super) place: Place,
    pub(super) then: Then,
    reached: watch::Sender<bool>,
    open: watch::Sender<bool>,
}

impl Trap {
    pub(super) fn new(point: Point, place: Place, then: Then) -> Self {
        Self {
            point,
            place,
            then,
            reached: watch::Sender::new(false),
            open: watch::Sender::new(false),
        }
    }

    /// Waits until the request is stopped here; false if it does not arrive within this time.
    pub async fn reached(&self, patience: Duration) -> bool {
        let mut reached = self.reached.subscribe();
        let wait = reached.wait_for(|is| *is);
        matches!(tokio::time::timeout(patience, wait).await, Ok(Ok(_)))
    }

    /// Releases the request that is stopped here.
    pub fn release(&self) {
        self.open.send_replace(true);
    }

    pub(super) fn is_open(&self) -> bool {
        *self.open.borrow()
    }

    pub(super) fn reach(&self) {
        self.reached.send_replace(true);
    }

    /// Waits until the trap is released, and returns the request's fate.
    pub(super) async fn stand(&self) -> Then {
        let mut open = self.open.subscribe();
        // The sender lives until the trap is dropped.
        let _ = open.wait_for(|is| *is).await;
        self.then
    }
}
