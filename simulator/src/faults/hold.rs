//! Holds: a call is parked at a position until a test releases it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use serde::{Deserialize, Serialize};

/// The treatment of a call whose client disconnects while the call is parked before its effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientGone {
    /// The call is executed at the release all the same: a late execution.
    #[default]
    Execute,
    /// The call is dropped.
    Drop,
}

/// The state that the parked calls share with the test.
#[derive(Debug)]
pub struct HoldState {
    gone: ClientGone,
    reached: watch::Sender<u64>,
    abandoned: watch::Sender<u64>,
    left: watch::Sender<u64>,
    released: watch::Sender<bool>,
}

/// The awaited event did not happen in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it did not happen at the hold within {0:?}")]
pub struct NotReached(pub Duration);

impl HoldState {
    pub(super) fn new(gone: ClientGone) -> Self {
        Self {
            gone,
            reached: watch::Sender::new(0),
            abandoned: watch::Sender::new(0),
            left: watch::Sender::new(0),
            released: watch::Sender::new(false),
        }
    }

    /// The treatment of a call whose client disconnects while the call is parked before its effect.
    #[must_use]
    pub const fn gone(&self) -> ClientGone {
        self.gone
    }

    /// Parks the caller until the release, and records if its client disconnects meanwhile.
    pub async fn park(&self, client: &CancellationToken) {
        let mut released = self.released.subscribe();
        self.reached.send_modify(|count| *count += 1);
        // Neither wait can fail: the senders live in `self`.
        let client_left = tokio::select! {
            biased;
            _ = released.wait_for(|released| *released) => false,
            () = client.cancelled() => true,
        };
        if client_left {
            self.abandoned.send_modify(|count| *count += 1);
            released.wait_for(|released| *released).await.ok();
        }
        self.left.send_modify(|count| *count += 1);
    }

    /// Records a call that passed, without parking it.
    pub fn pass(&self) {
        self.reached.send_modify(|count| *count += 1);
        self.left.send_modify(|count| *count += 1);
    }

    /// Lets parked and later calls continue.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    /// How many calls are parked now.
    #[must_use]
    pub fn parked(&self) -> u64 {
        self.reached.borrow().saturating_sub(*self.left.borrow())
    }
}

/// A test's handle to a hold. Dropping it leaves the hold as it is.
#[derive(Clone, Debug)]
pub struct Hold {
    id: u64,
    state: Arc<HoldState>,
}

impl Hold {
    pub(super) const fn new(id: u64, state: Arc<HoldState>) -> Self {
        Self { id, state }
    }

    /// The number of its rule.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Waits until the client of a call that is parked here has disconnected.
    ///
    /// # Errors
    /// It does not happen in time.
    pub async fn client_left(&self, deadline: Duration) -> Result<(), NotReached> {
        at_least(&self.state.abandoned, 1, deadline).await
    }

    /// Waits until a call is parked here or, for a hold after the reply, until a reply has been written.
    ///
    /// # Errors
    /// It does not happen in time.
    pub async fn reached(&self, deadline: Duration) -> Result<(), NotReached> {
        self.reached_by(1, deadline).await
    }

    /// Waits until this many calls have reached the hold in total.
    ///
    /// # Errors
    /// It does not happen in time.
    pub async fn reached_by(&self, calls: u64, deadline: Duration) -> Result<(), NotReached> {
        at_least(&self.state.reached, calls, deadline).await
    }

    /// Lets the parked and later calls continue.
    pub fn release(&self) {
        self.state.release();
    }
}

async fn at_least(
    counter: &watch::Sender<u64>,
    calls: u64,
    deadline: Duration,
) -> Result<(), NotReached> {
    let mut counter = counter.subscribe();
    let arrival = counter.wait_for(|count| *count >= calls);
    match tokio::time::timeout(deadline, arrival).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(NotReached(deadline)),
    }
}
