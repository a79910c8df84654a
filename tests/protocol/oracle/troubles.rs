//! Records external events in a run, and the promises that they make impossible.

use super::{Oracle, WATCHES_LATE};
use crate::fault::{Act, Dependency, Kind, Step};
use cloud_server_operator::api::Marker;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// The known troubles, which determine the promises that cannot be kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Troubles {
    /// When a standby last became active.
    pub(super) handed_over: Option<Instant>,
    /// Creates that were executed twice.
    pub(super) doubled: usize,
    /// The markers with which more than one server was created at once.
    pub(super) doubled_markers: BTreeSet<Marker>,
    /// How often another process took over from one that was stopped and may still make the call that it was about to make.
    pub(super) takeovers: usize,
    /// Processes that crashed.
    pub(super) crashes: usize,
    /// Processes that ended on request, and lost their memory.
    pub(super) ended: usize,
    /// Two processes are active at once from the start.
    pub(super) no_lease: bool,
    /// Calls whose answer was lost or late, by kind.
    pub(super) unknown: BTreeMap<Kind, usize>,
    /// How often a process was stopped: it may have sent its next request when no caller waited any more.
    pub(super) pauses: usize,
    /// Calls that are executed after the caller gave up.
    pub(super) late: usize,
    /// Whether one of them is later than the settling time.
    pub(super) too_late: bool,
    /// How often a listing was wrong, or the service reported falsely that a server does not exist.
    pub(super) lies: usize,
    /// How often the service itself reported falsely that a thing does not exist: listings alone prove nothing.
    pub(super) denials: usize,
    /// The token is limited to another region: the service hides every server, in listing and detail alike.
    pub(super) limited: bool,
    /// How often it reported that of a task.
    pub(super) tasks_denied: usize,
    /// The Instances whose finalizer was removed by force, and those whose finalizer and record were dropped by `kubectl
    /// replace`.
    pub(super) forced: BTreeSet<String>,
    pub(super) replaced: BTreeSet<String>,
    /// How often etcd was restored, and how often a record was dropped.
    pub(super) restores: usize,
    pub(super) drops: usize,
    /// When etcd was last restored.
    pub(super) restored: Option<Instant>,
    /// The apiserver was unavailable, so that a process may not have been able to write its knowledge.
    pub(super) unwritten: bool,
    /// An object was copied or restored.
    pub(super) copied: bool,
    /// Tasks that failed.
    pub(super) failed: usize,
    pub(super) wiped: bool,
    pub(super) deleted: bool,
    /// A reinstall may have been requested that keeps the image.
    pub(super) same_image: bool,
    /// Something is slow: a call may come long after the read on which it is based.
    pub(super) slow: bool,
}

/// Changes of the service's lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) is_sold_out: bool,
    pub(super) is_withdrawn: bool,
    /// There are two images with the name that specs select.
    pub(super) is_doubled: bool,
    /// When the lists were last changed.
    pub(super) changed: Option<Instant>,
}

impl Oracle {
    /// Two falsehoods agree that a server does not exist: the service's own answer, and a listing.
    pub(super) fn is_lied_to(&self) -> bool {
        self.troubles.lies > 1 && self.troubles.denials > 0
    }

    /// Two processes may have acted on an import independently of each other.
    pub(super) fn may_be_imported_twice(&self) -> bool {
        self.troubles.no_lease || self.troubles.takeovers > 0 || self.is_fresh()
    }

    /// A process that took over recently may not know of the latest writes.
    pub(super) fn is_fresh(&self) -> bool {
        let handed_over = self.troubles.handed_over;
        handed_over.is_some_and(|at| at.elapsed() < WATCHES_LATE)
    }

    /// Records the promises that a fault makes impossible.
    pub fn acts(&mut self, kind: Kind, act: &Act) {
        self.has_changes();
        let troubles = &mut self.troubles;
        match act {
            Act::CrashBefore | Act::CrashAfter => troubles.crashes += 1,
            Act::Twice if kind == Kind::Create => troubles.doubled += 1,
            Act::Omit | Act::Empty => troubles.lies += 1,
            Act::FalseNotFound => {
                troubles.lies += 1;
                troubles.denials += 1;
                troubles.tasks_denied += usize::from(kind == Kind::Task);
            }
            Act::TaskFails | Act::TaskCancelled => troubles.failed += 1,
            Act::PauseBefore(_) | Act::PauseAfter(_) => troubles.pauses += 1,
            Act::Late(seconds) => {
                troubles.late += 1;
                troubles.too_late |= *seconds >= self.settle;
            }
            _ => {}
        }
        troubles.slow |= matches!(
            act,
            Act::Late(_)
                | Act::PauseBefore(_)
                | Act::PauseAfter(_)
                | Act::Slow(_)
                | Act::Status(429)
        );
        let is_unknown = matches!(
            act,
            Act::CrashAfter
                | Act::CrashBefore
                | Act::LoseAnswer
                | Act::LoseRequest
                | Act::StatusAfter(_)
                | Act::Status(_)
                | Act::Late(_)
                | Act::Cut
                | Act::Twice
                | Act::PauseBefore(_)
                | Act::PauseAfter(_)
                | Act::Slow(_)
        );
        if is_unknown {
            *self.troubles.unknown.entry(kind).or_default() += 1;
        }
        if kind == Kind::Receipt && *act == Act::CrashBefore {
            // The content of the receipt is lost, and for a reinstall nothing else shows it.
            *self.troubles.unknown.entry(Kind::Reinstall).or_default() += 1;
        }
    }

    /// An unavailable dependency answers a request with this status.
    pub fn was_answered(&mut self, kind: Kind, status: u16) {
        if status >= 500 {
            // The caller cannot know that the call had no effect.
            *self.troubles.unknown.entry(kind).or_default() += 1;
        }
    }

    /// Records the requests of a step, or the promises that it makes impossible.
    pub fn steps(&mut self, step: &Step) {
        self.has_changes();
        if matches!(
            step,
            Step::SellOut | Step::Restock | Step::OfferImage | Step::WithdrawImage
        ) {
            self.lists.changed = Some(Instant::now());
        }
        match *step {
            Step::ConsoleRebuild(n) => {
                let requests = self.requests.entry(format!("web-{n}")).or_default();
                requests.erasures += 1;
            }
            Step::SellOut => self.lists.is_sold_out = true,
            Step::Restock => self.lists.is_sold_out = false,
            Step::OfferImage => self.lists.is_doubled = true,
            Step::WithdrawImage => self.lists.is_withdrawn = true,
            Step::Hides(true) => self.troubles.lies += 2,
            Step::LimitToken(limited) => self.troubles.limited = limited,
            Step::Imports(true) => self.denies_imports = false,
            Step::Most(most) => self.most = Some((usize::from(most), Some(Instant::now()))),
            Step::ForceFinalizers(n) => {
                self.troubles.forced.insert(format!("web-{n}"));
            }
            Step::Replace(n) => {
                self.troubles.replaced.insert(format!("web-{n}"));
                self.troubles.drops += 1;
            }
            Step::RestoreEtcd => {
                self.troubles.restores += 1;
                self.troubles.restored = Some(Instant::now());
            }
            Step::Away(Dependency::Apiserver) | Step::Answers(Dependency::Apiserver, _) => {
                self.troubles.unwritten = true;
            }
            Step::RestoreBackup(_) | Step::Copy(_) | Step::Immigrate(_) => {
                self.troubles.copied = true;
            }
            Step::WipeStatus(_) => self.troubles.wiped = true,
            Step::Delete(_) => self.troubles.deleted = true,
            Step::Kill(_) => self.troubles.crashes += 1,
            Step::Terminate(_) => self.troubles.ended += 1,
            _ => {}
        }
    }

    /// Whether a late call may be under way for an Instance that retained this server when it was deleted, and another Instance
    /// has imported the server since (docs).
    pub(super) fn may_be_for_a_former_owner(&self, server: &str) -> bool {
        let t = &self.troubles;
        self.foreign.contains_key(server) && t.late > 0 && t.deleted
    }

    /// Whether finalizer or record of this Instance were removed by force, or etcd was restored.
    pub(super) fn is_tampered(&self, name: &str) -> bool {
        self.troubles.restores > 0 || self.is_forced(name) || self.troubles.replaced.contains(name)
    }

    /// Whether its finalizer was taken away by force.
    pub(super) fn is_forced(&self, name: &str) -> bool {
        self.troubles.forced.contains(name)
    }

    /// Whether that holds for any Instance.
    pub(super) fn is_any_tampered(&self) -> bool {
        let t = &self.troubles;
        t.restores > 0 || !t.forced.is_empty() || !t.replaced.is_empty()
    }

    /// Whether any Instance may have been tampered with, or two processes may have acted at once.
    pub(super) fn is_any_outcome_uncertain(&self) -> bool {
        let t = &self.troubles;
        self.is_any_tampered() || t.no_lease || t.takeovers > 0
    }

    /// A call that no caller waits for any more may have changed this Instance's server.
    pub(super) fn is_outcome_uncertain(&self, name: &str) -> bool {
        let t = &self.troubles;
        self.is_tampered(name) || t.no_lease || t.takeovers > 0
    }
}
