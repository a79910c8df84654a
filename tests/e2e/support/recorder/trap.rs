//! A boundary at which a request is stopped, and what becomes of it there.

use super::Point;
use std::fmt;
use std::time::Duration;
use tokio::sync::watch;

/// Where a request is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Before it is forwarded: it has had no effect.
    Before,
    /// After the answer has come from behind, and before the operator gets it.
    AfterEffect,
    /// After the operator was given the answer: no further request that counts gets through.
    AfterReply,
}

impl Place {
    /// All of them, in their order.
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

/// What becomes of a stopped request when it is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It goes on as if nothing had been; also when its client has given up meanwhile.
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

    /// Waits until the request stands here; false when it does not come in this time.
    pub async fn reached(&self, patience: Duration) -> bool {
        let mut reached = self.reached.subscribe();
        let wait = reached.wait_for(|is| *is);
        matches!(tokio::time::timeout(patience, wait).await, Ok(Ok(_)))
    }

    /// Lets go what is stopped here.
    pub fn let_go(&self) {
        self.open.send_replace(true);
    }

    pub(super) fn is_open(&self) -> bool {
        *self.open.borrow()
    }

    pub(super) fn reach(&self) {
        self.reached.send_replace(true);
    }

    /// Stands here until it is let go, and tells what then becomes of it.
    pub(super) async fn stand(&self) -> Then {
        let mut open = self.open.subscribe();
        // The sender lives as long as this.
        let _ = open.wait_for(|is| *is).await;
        self.then
    }
}
