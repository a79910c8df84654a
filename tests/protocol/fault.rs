//! What can happen, and when: rules that wait for a request, and steps that users and the service's console take.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// What a request of the operator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// The compare-and-swap of finalizer and record.
    Intent,
    /// The receipt in the record.
    Receipt,
    /// A status.
    Status,
    /// The finalizer leaves.
    Finalizer,
    /// A Secret that the operator makes or changes.
    Secret,
    /// A read of an object.
    Read,
    /// Create instance.
    Create,
    /// Release instance.
    Release,
    /// Reinstall.
    Reinstall,
    /// Modify password.
    Password,
    /// Start, stop, restart.
    Power,
    /// The result of a task.
    Task,
    /// Details of an instance.
    Detail,
    /// A page of the instance list.
    Listing,
    /// Another query of the service.
    Query,
}

impl Kind {
    /// Every kind of request.
    pub const ALL: [Self; 15] = [
        Self::Intent,
        Self::Receipt,
        Self::Status,
        Self::Finalizer,
        Self::Secret,
        Self::Read,
        Self::Create,
        Self::Release,
        Self::Reinstall,
        Self::Password,
        Self::Power,
        Self::Task,
        Self::Detail,
        Self::Listing,
        Self::Query,
    ];

    /// Whether it goes to the service.
    pub fn is_cloud(self) -> bool {
        !matches!(
            self,
            Self::Intent
                | Self::Receipt
                | Self::Status
                | Self::Finalizer
                | Self::Secret
                | Self::Read
        )
    }

    /// Whether it changes something there.
    pub fn is_mutating_call(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Release | Self::Reinstall | Self::Password | Self::Power
        )
    }

    /// Whether it changes an object.
    pub fn is_write(self) -> bool {
        matches!(
            self,
            Self::Intent | Self::Receipt | Self::Status | Self::Finalizer | Self::Secret
        )
    }
}

/// What the operator needs and may be without for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dependency {
    /// The service: no connection opens.
    Service,
    /// The apiserver: the same.
    Apiserver,
}

impl Dependency {
    /// Whether a request goes there.
    pub fn serves(self, kind: Kind) -> bool {
        (self == Self::Service) == kind.is_cloud()
    }
}

/// Which request a rule waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum On {
    /// The n-th of all, from 1.
    Any(u32),
    /// The n-th of its kind, from 1.
    Nth(Kind, u32),
}

/// What happens at a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// The process dies before the request leaves.
    CrashBefore,
    /// The process dies when the request has had its effect.
    CrashAfter,
    /// The request is lost on its way: no effect, no answer.
    LoseRequest,
    /// It has its effect, and the answer is lost.
    LoseAnswer,
    /// No connection opens.
    NotSent,
    /// It is answered with this status and has no effect.
    Status(u16),
    /// It has its effect and is answered with this status.
    StatusAfter(u16),
    /// It is given up, and has its effect so many seconds later.
    Late(u32),
    /// It has its effect twice.
    Twice,
    /// The process is stopped for so many seconds before the request leaves.
    PauseBefore(u32),
    /// The process is stopped for so many seconds when the request has had its effect.
    PauseAfter(u32),
    /// The answer takes so many seconds.
    Slow(u32),
    /// The answer is cut off in the middle.
    Cut,
    /// A listing leaves one server out.
    Omit,
    /// A listing is empty.
    Empty,
    /// The service says once that there is no such thing.
    FalseNotFound,
    /// The task that it makes fails.
    TaskFails,
    /// The task that it makes is cancelled.
    TaskCancelled,
    /// Somebody else changes the object right before.
    Meddle,
    /// A step right before it has its effect.
    Before(Step),
    /// A step right after it had its effect.
    After(Step),
}

impl Act {
    /// Whether whoever asked gets no answer, none in time, or one that tells nothing.
    pub fn keeps_silent(&self) -> bool {
        !matches!(
            self,
            Self::Twice
                | Self::TaskFails
                | Self::TaskCancelled
                | Self::Meddle
                | Self::Before(_)
                | Self::After(_)
        )
    }
}

/// One thing that happens at one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Which request.
    pub on: On,
    /// What happens.
    pub act: Act,
}

/// What somebody does who is not the operator. Objects are `web-1`, `web-2` …
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Creates the object if there is none of that name.
    Apply(u8),
    /// Takes the other image.
    EditImage(u8),
    /// Changes between running and stopped.
    EditPower(u8),
    /// Asks for a restart.
    Restart(u8),
    /// Asks for a reinstall.
    Reinstall(u8),
    /// Takes another password.
    RotatePassword,
    /// Changes the spec by this JSON merge patch.
    Spec(u8, Value),
    /// Asks for a reinstall by a token that acknowledges the image of the spec.
    Acknowledge(u8),
    /// Puts another password into the Secret that the operator made.
    EditLogin(u8),
    /// Deletes that Secret.
    DropLogin(u8),
    /// Deletes the connection Secret.
    DropConnection(u8),
    /// The service offers another image of the name that the specs want.
    OfferImage,
    /// It offers the first one no more.
    WithdrawImage,
    /// The region sells nothing.
    SellOut,
    /// It sells again.
    Restock,
    /// The tasks of every call fail from here on, or do so no more.
    TasksFail(bool),
    /// Every listing leaves one server out from here on, or does so no more.
    Hides(bool),
    /// The Account may have so many Instances with a server.
    Most(u8),
    /// The Account lets its Instances import servers, or does so no more.
    Imports(bool),
    /// Applies the object as it stands in another cluster, under another name: its record says that it is of there.
    Immigrate(u8),
    /// Creates the Account, in a run that begins without it.
    ApplyAccount,
    /// Changes a label.
    Label(u8),
    /// Deletes it.
    Delete(u8),
    /// Status is lost.
    WipeStatus(u8),
    /// Another controller changes its condition, or adds it.
    OthersCondition(u8),
    /// Another controller writes a list of conditions with its own alone.
    OthersList(u8),
    /// All finalizers are taken away.
    ForceFinalizers(u8),
    /// `kubectl replace` from a manifest: finalizers and annotations are lost.
    Replace(u8),
    /// What an operator writes into the object is as the last release wrote it into the kept object of this name.
    Released(u8, String),
    /// Keeps a backup of the object.
    Backup(u8),
    /// Puts the backup back if the object is gone.
    RestoreBackup(u8),
    /// Applies the object as it stands under another name.
    Copy(u8),
    /// Keeps a snapshot of etcd.
    SnapshotEtcd,
    /// Puts the snapshot back.
    RestoreEtcd,
    /// The console releases the recorded server.
    ConsoleRelease(u8),
    /// The console powers the server off.
    ConsoleOff(u8),
    /// The console powers the server on.
    ConsoleOn(u8),
    /// The service begins to migrate the server.
    ConsoleMigrate(u8),
    /// The console installs the other image.
    ConsoleRebuild(u8),
    /// A process is killed and started anew.
    Kill(u8),
    /// A process is told to end: it finishes what it is at, gives the Lease away, and is started anew.
    Terminate(u8),
    /// From here on nothing is there to answer.
    Away(Dependency),
    /// From here on it answers everything with this status, and does nothing.
    Answers(Dependency, u16),
    /// It is there again.
    Back(Dependency),
}

impl Step {
    /// The object that has to be there for the step to mean anything.
    pub fn object(&self) -> Option<u8> {
        match *self {
            Self::EditImage(n)
            | Self::EditPower(n)
            | Self::Restart(n)
            | Self::Reinstall(n)
            | Self::Spec(n, _)
            | Self::Acknowledge(n)
            | Self::Label(n)
            | Self::Delete(n)
            | Self::WipeStatus(n)
            | Self::OthersCondition(n)
            | Self::OthersList(n)
            | Self::ForceFinalizers(n)
            | Self::Replace(n)
            | Self::Released(n, _)
            | Self::Backup(n)
            | Self::Immigrate(n)
            | Self::Copy(n) => Some(n),
            Self::Apply(_)
            | Self::RotatePassword
            | Self::EditLogin(_)
            | Self::DropLogin(_)
            | Self::DropConnection(_)
            | Self::OfferImage
            | Self::WithdrawImage
            | Self::SellOut
            | Self::Restock
            | Self::TasksFail(_)
            | Self::Hides(_)
            | Self::Most(_)
            | Self::Imports(_)
            | Self::ApplyAccount
            | Self::RestoreBackup(_)
            | Self::SnapshotEtcd
            | Self::RestoreEtcd
            | Self::ConsoleRelease(_)
            | Self::ConsoleOff(_)
            | Self::ConsoleOn(_)
            | Self::ConsoleMigrate(_)
            | Self::ConsoleRebuild(_)
            | Self::Kill(_)
            | Self::Terminate(_)
            | Self::Away(_)
            | Self::Answers(..)
            | Self::Back(_) => None,
        }
    }
}

impl Step {
    /// Whether it is to change an object, and finds nothing to act on where it does not. Who applies what is there already may do
    /// so.
    pub fn changes_objects(&self) -> bool {
        match self {
            Self::EditImage(_)
            | Self::EditPower(_)
            | Self::Restart(_)
            | Self::Reinstall(_)
            | Self::RotatePassword
            | Self::Spec(..)
            | Self::Acknowledge(_)
            | Self::EditLogin(_)
            | Self::DropLogin(_)
            | Self::DropConnection(_)
            | Self::Most(_)
            | Self::Imports(_)
            | Self::Immigrate(_)
            | Self::ApplyAccount
            | Self::Label(_)
            | Self::Delete(_)
            | Self::WipeStatus(_)
            | Self::OthersCondition(_)
            | Self::OthersList(_)
            | Self::ForceFinalizers(_)
            | Self::Replace(_)
            | Self::Released(..)
            | Self::RestoreBackup(_)
            | Self::Copy(_)
            | Self::RestoreEtcd => true,
            Self::Apply(_)
            | Self::OfferImage
            | Self::WithdrawImage
            | Self::SellOut
            | Self::Restock
            | Self::TasksFail(_)
            | Self::Hides(_)
            | Self::Backup(_)
            | Self::SnapshotEtcd
            | Self::ConsoleRelease(_)
            | Self::ConsoleOff(_)
            | Self::ConsoleOn(_)
            | Self::ConsoleMigrate(_)
            | Self::ConsoleRebuild(_)
            | Self::Kill(_)
            | Self::Terminate(_)
            | Self::Away(_)
            | Self::Answers(..)
            | Self::Back(_) => false,
        }
    }
}

/// When the steps of a schedule are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// Milliseconds from the beginning.
    pub at: u64,
    /// What.
    pub step: Step,
}

impl Timed {
    /// The time from the beginning.
    pub fn after(&self) -> Duration {
        Duration::from_millis(self.at)
    }
}
