//! Faults and their moments: rules that wait for a request, and steps of users and of the service's console.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// The kind of a request of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// The compare-and-swap of finalizer and record.
    Intent,
    /// The receipt in the record.
    Receipt,
    /// A write of status.
    Status,
    /// The removal of the finalizer.
    Finalizer,
    /// A Secret that the operator creates or changes.
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

    /// Whether the request goes to the service.
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

    /// Whether it changes something at the service.
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

/// A dependency of the operator that may be unavailable for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dependency {
    /// The service: no connection opens.
    Service,
    /// The apiserver: no connection opens.
    Apiserver,
}

impl Dependency {
    /// Whether a request goes to this dependency.
    pub fn serves(self, kind: Kind) -> bool {
        (self == Self::Service) == kind.is_cloud()
    }
}

/// The request that a rule waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum On {
    /// The n-th of all requests, from 1.
    Any(u32),
    /// The n-th request of its kind, from 1.
    Nth(Kind, u32),
}

/// The event at a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// The process crashes before the request is sent.
    CrashBefore,
    /// The process crashes after the request has taken effect.
    CrashAfter,
    /// The request is lost: no effect, no answer.
    LoseRequest,
    /// The request takes effect, and the answer is lost.
    LoseAnswer,
    /// No connection opens.
    NotSent,
    /// The request is answered with this status and has no effect.
    Status(u16),
    /// The request takes effect and is answered with this status.
    StatusAfter(u16),
    /// The caller gives up, and the request takes effect this many seconds later.
    Late(u32),
    /// The request takes effect twice.
    Twice,
    /// The process is stopped for this many seconds before the request is sent.
    PauseBefore(u32),
    /// The process is stopped for this many seconds after the request has taken effect.
    PauseAfter(u32),
    /// The answer takes this many seconds.
    Slow(u32),
    /// The answer is truncated in the middle.
    Cut,
    /// A listing omits one server.
    Omit,
    /// A listing is empty.
    Empty,
    /// The service reports once that the thing does not exist.
    FalseNotFound,
    /// The task that the call starts fails.
    TaskFails,
    /// The task that the call starts is cancelled.
    TaskCancelled,
    /// Another writer changes the object right before.
    Meddle,
    /// A step happens right before the request takes effect.
    Before(Step),
    /// A step happens right after the request took effect.
    After(Step),
}

impl Act {
    /// Whether the caller gets no answer, no timely one, or one without information.
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

/// One event at one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The request.
    pub on: On,
    /// The event.
    pub act: Act,
}

/// An action of a user or another actor, not of the operator. Objects are `web-1`, `web-2` …
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Creates the object if the name is free.
    Apply(u8),
    /// Changes to the other image.
    EditImage(u8),
    /// Switches between running and stopped.
    EditPower(u8),
    /// Requests a restart.
    Restart(u8),
    /// Requests a reinstall.
    Reinstall(u8),
    /// Changes the password.
    RotatePassword,
    /// Changes the spec by this JSON merge patch.
    Spec(u8, Value),
    /// Requests a reinstall by a token that confirms the image of the spec.
    Acknowledge(u8),
    /// Changes the password in the Secret that the operator created.
    EditLogin(u8),
    /// Deletes that Secret.
    DropLogin(u8),
    /// Deletes the connection Secret.
    DropConnection(u8),
    /// The service offers another image with the name that the specs select.
    OfferImage,
    /// The service withdraws the first image.
    WithdrawImage,
    /// The region sells nothing.
    SellOut,
    /// The region sells again.
    Restock,
    /// From here on the tasks of all calls fail, or succeed again.
    TasksFail(bool),
    /// From here on every listing omits one server, or is complete again.
    Hides(bool),
    /// The token is limited to another region: that of the servers lists as empty, and the service knows none of them. Or the
    /// limit is taken away.
    LimitToken(bool),
    /// Sets the Account's limit of Instances with a server.
    Most(u8),
    /// The Account allows imports, or denies them.
    Imports(bool),
    /// Applies an object of another cluster under another name: its record belongs to the other cluster.
    Immigrate(u8),
    /// Creates the Account, in a run that begins without it.
    ApplyAccount,
    /// Changes a label.
    Label(u8),
    /// Deletes the object.
    Delete(u8),
    /// Status is lost.
    WipeStatus(u8),
    /// Another controller changes or adds its condition.
    OthersCondition(u8),
    /// Another controller writes a list of conditions that contains only its own.
    OthersList(u8),
    /// Removes all finalizers.
    ForceFinalizers(u8),
    /// `kubectl replace` from a manifest: finalizers and annotations are lost.
    Replace(u8),
    /// Replaces the parts that an operator writes by those that the last release wrote into the stored object of this name.
    Released(u8, String),
    /// Stores a backup of the object.
    Backup(u8),
    /// Restores the backup if the object is gone.
    RestoreBackup(u8),
    /// Applies the object with its current content under another name.
    Copy(u8),
    /// Stores a snapshot of etcd.
    SnapshotEtcd,
    /// Restores the snapshot.
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
    /// A process is killed and restarted.
    Kill(u8),
    /// A process gets the signal to end: it finishes its current work, releases the Lease, and is restarted.
    Terminate(u8),
    /// From here on the dependency does not answer.
    Away(Dependency),
    /// From here on the dependency answers everything with this status, and does nothing.
    Answers(Dependency, u16),
    /// The dependency works again.
    Back(Dependency),
}

impl Step {
    /// The object that must exist for the step to make sense.
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
            | Self::LimitToken(_)
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
    /// Whether the step is expected to change an object; if it changes none, it has found nothing to act on. Applying an
    /// existing object may change nothing.
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
            | Self::LimitToken(_)
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

/// A step of a schedule with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// Milliseconds from the beginning.
    pub at: u64,
    /// The step.
    pub step: Step,
}

impl Timed {
    /// The time from the beginning.
    pub fn after(&self) -> Duration {
        Duration::from_millis(self.at)
    }
}
