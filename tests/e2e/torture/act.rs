//! The faults at a boundary.

use super::case::Case;
use super::story::Story;
use super::verdict::{Finding, settle};
use crate::support::World;
use crate::support::recorder::{Place, Then, Trap};
use std::fmt;
use std::time::Duration;

/// Longer than the operator waits for the apiserver (15 s): the delayed request arrives after the operator has given up.
const LATE_KUBERNETES: Duration = Duration::from_secs(17);
/// Longer than the settling time of these tests (2 s) and than a listing at the pace of running operations (5 s).
const LATE_SERVICE: Duration = Duration::from_secs(7);
/// How long a process may live on if its Lease ran out while it stood still: it should end in less than a second on a machine
/// that is not busy with twenty other worlds.
const FENCED: Duration = Duration::from_secs(30);

/// A fault at a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// SIGKILL; another operator is started at once. A request that was not forwarded never will be.
    Kill,
    /// SIGKILL; the request that was already sent still takes effect.
    Sent,
    /// SIGKILL; the Instance is deleted before another operator is started.
    Deleted,
    /// The connection ends without the reply.
    Lost,
    /// The request, or its reply, comes late.
    Late,
    /// The connection is reset.
    Reset,
    /// SIGKILL of the leader; a standby that waited for its Lease takes over and completes the work.
    Succeeded,
    /// SIGSTOP; a standby takes over and completes the work; then SIGCONT, and the stopped request proceeds.
    TakeOver,
}

impl Act {
    /// All acts.
    pub const ALL: [Self; 8] = [
        Self::Kill,
        Self::Sent,
        Self::Deleted,
        Self::Lost,
        Self::Late,
        Self::Reset,
        Self::Succeeded,
        Self::TakeOver,
    ];
    /// The acts that end the process.
    pub const KILLS: [Self; 3] = [Self::Kill, Self::Sent, Self::Deleted];

    /// Whether a second operator waits for the Lease of the first.
    pub fn has_standby(self) -> bool {
        matches!(self, Self::Succeeded | Self::TakeOver)
    }

    /// The fate of the request.
    pub fn then(self) -> Then {
        match self {
            Self::Kill | Self::Deleted | Self::Lost | Self::Succeeded => Then::End,
            Self::Sent | Self::Late | Self::TakeOver => Then::GoOn,
            Self::Reset => Then::Reset,
        }
    }

    /// Carries out the act while the request waits in the trap. Returns a finding if only the act can detect it.
    pub async fn carry_out(
        self,
        world: &mut World,
        case: &Case,
        story: &Story,
        trap: &Trap,
    ) -> Option<Finding> {
        match self {
            Self::Kill | Self::Sent | Self::Deleted => {
                world.kill();
                world.recorder().cut_off().await;
                trap.release();
                if self == Self::Deleted {
                    story.delete(world).await;
                }
                world.start().await;
            }
            Self::Lost | Self::Reset => trap.release(),
            Self::Late => {
                // The sleep is the fault itself, not a wait for an event.
                tokio::time::sleep(if case.point.kind.is_kubernetes() {
                    LATE_KUBERNETES
                } else {
                    LATE_SERVICE
                })
                .await;
                trap.release();
            }
            Self::Succeeded => return succeed(world, story, trap).await,
            Self::TakeOver => return take_over(world, case, story, trap).await,
        }
        None
    }
}

async fn succeed(world: &mut World, story: &Story, trap: &Trap) -> Option<Finding> {
    let standby = world.standby().name();
    world.kill();
    world.recorder().cut_off().await;
    trap.release();
    world.until_holder(&standby).await;
    drop(world.promote());
    // The standby must finish alone: starting another operator from here on would hide a failure to do so.
    let settled = settle(world, story).await;
    let is_alone = world.operator().is_running() && world.operator().name() == standby;
    let other = (!is_alone).then(|| Finding::Broken("the standby ended as well".to_owned()));
    settled.or(other)
}

async fn take_over(world: &mut World, case: &Case, story: &Story, trap: &Trap) -> Option<Finding> {
    world.operator().pause();
    if case.place == Place::AfterReply {
        // The operator may have sent the next request before it stood still: that request is on the wire.
        trap.release();
    }
    let standby = world.standby().name();
    world.until_holder(&standby).await;
    let mut former = world.promote();
    // The standby completes all the work: the former operator alone is responsible for changes right after that.
    let alone = settle(world, story).await;
    let before = world.recorder().mutations();
    former.go_on();
    trap.release();
    if tokio::time::timeout(FENCED, former.ended()).await.is_err() {
        return Some(Finding::Broken("the former process lives on".to_owned()));
    }
    let made = world.recorder().mutations() - before;
    // After a reply the operator was not waiting for an answer: the pause may have come between its check of the clock and the
    // wire.
    let most = usize::from(case.place == Place::AfterReply);
    let made =
        (made > most).then(|| Finding::Broken(format!("{made} changes by the former process")));
    alone.or(made)
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill",
            Self::Sent => "sent",
            Self::Deleted => "deleted",
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Reset => "reset",
            Self::Succeeded => "succeeded",
            Self::TakeOver => "take-over",
        })
    }
}
