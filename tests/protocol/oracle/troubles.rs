//! What happened to a run that was not the operator's own doing, and what cannot be promised because of it.

use super::{Oracle, WATCHES_LATE};
use crate::fault::{Act, Dependency, Kind, Step};
use cloud_server_operator::api::Marker;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// What is known of one kind of trouble, from which follows what cannot be promised.
#[derive(Clone, Debug, Default)]
pub(super) struct Troubles {
    /// When a process that stood by took over last.
    pub(super) handed_over: Option<Instant>,
    /// Creates that were executed twice.
    pub(super) doubled: usize,
    /// Which servers more than one was made of at once.
    pub(super) doubled_markers: BTreeSet<Marker>,
    /// How often another process took over from one that stood still, and may yet do what it was about to do.
    pub(super) takeovers: usize,
    /// Processes that died.
    pub(super) crashes: usize,
    /// Processes that ended when they were told to, with what they remembered.
    pub(super) ended: usize,
    /// Two processes are active at once, from the start.
    pub(super) no_lease: bool,
    /// Calls whose answer was lost or late, by kind.
    pub(super) unknown: BTreeMap<Kind, usize>,
    /// How often a process stood still: whatever it was about to ask for, it may have asked for when nobody waited any more.
    pub(super) pauses: usize,
    /// Calls that are executed after they were given up.
    pub(super) late: usize,
    /// One of them later than the settling time.
    pub(super) too_late: bool,
    /// A listing lied, or the service said falsely that there is no such server.
    pub(super) lies: usize,
    /// How often the service itself said falsely that there is no such thing: listings alone prove nothing.
    pub(super) denials: usize,
    /// How often it said so of a task.
    pub(super) tasks_denied: usize,
    /// The Instances whose finalizer was taken away by force, and those whose finalizer and record were dropped by `kubectl
    /// replace`.
    pub(super) forced: BTreeSet<String>,
    pub(super) replaced: BTreeSet<String>,
    /// How often etcd went back, and how often a record was dropped.
    pub(super) restores: usize,
    pub(super) drops: usize,
    /// When etcd went back last.
    pub(super) restored: Option<Instant>,
    /// The apiserver was away: what a process knew, it may not have been able to write.
    pub(super) unwritten: bool,
    /// An object was copied or restored.
    pub(super) copied: bool,
    /// Tasks that failed.
    pub(super) failed: usize,
    pub(super) wiped: bool,
    pub(super) deleted: bool,
    /// A reinstall may have been asked for that leaves the image as it is.
    pub(super) same_image: bool,
    /// Something takes its time: a call may come long after what it was decided by.
    pub(super) slow: bool,
}

/// How the service's lists of what it offers were changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) is_sold_out: bool,
    pub(super) is_withdrawn: bool,
    /// There are two images of the name that specs want.
    pub(super) is_doubled: bool,
    /// When that was.
    pub(super) changed: Option<Instant>,
}

impl Oracle {
    /// Two lies agree that there is no such server: the service's own word, and a listing.
    pub(super) fn is_lied_to(&self) -> bool {
        self.troubles.lies > 1 && self.troubles.denials > 0
    }

    /// Two processes may have acted on an import without a word of each other.
    pub(super) fn may_be_imported_twice(&self) -> bool {
        self.troubles.no_lease || self.troubles.takeovers > 0 || self.is_fresh()
    }

    /// Whoever took over a moment ago may not know of what was written last.
    pub(super) fn is_fresh(&self) -> bool {
        let handed_over = self.troubles.handed_over;
        handed_over.is_some_and(|at| at.elapsed() < WATCHES_LATE)
    }

    /// What a fault makes impossible to promise.
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
            // What it was to tell nobody knows any more: of a reinstall nothing else does.
            *self.troubles.unknown.entry(Kind::Reinstall).or_default() += 1;
        }
    }

    /// A dependency that is not well answers this to a request.
    pub fn was_answered(&mut self, kind: Kind, status: u16) {
        if status >= 500 {
            // Whoever called cannot know that nothing came of it.
            *self.troubles.unknown.entry(kind).or_default() += 1;
        }
    }

    /// What a step asks for, or makes impossible to promise.
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
                let wishes = self.wishes.entry(format!("web-{n}")).or_default();
                wishes.erasures += 1;
            }
            Step::SellOut => self.lists.is_sold_out = true,
            Step::Restock => self.lists.is_sold_out = false,
            Step::OfferImage => self.lists.is_doubled = true,
            Step::WithdrawImage => self.lists.is_withdrawn = true,
            Step::Hides(true) => self.troubles.lies += 2,
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

    /// Whether a late call may be on its way for an Instance that kept this server when it was deleted, and which another one has
    /// taken over since (docs).
    pub(super) fn may_be_for_a_former_owner(&self, server: &str) -> bool {
        let t = &self.troubles;
        self.foreign.contains_key(server) && t.late > 0 && t.deleted
    }

    /// Whether finalizer or record of this Instance were taken away by force, or etcd went back.
    pub(super) fn is_tampered(&self, name: &str) -> bool {
        self.troubles.restores > 0 || self.is_forced(name) || self.troubles.replaced.contains(name)
    }

    /// Whether its finalizer was taken away by force.
    pub(super) fn is_forced(&self, name: &str) -> bool {
        self.troubles.forced.contains(name)
    }

    /// Whether those of any Instance were.
    pub(super) fn is_any_tampered(&self) -> bool {
        let t = &self.troubles;
        t.restores > 0 || !t.forced.is_empty() || !t.replaced.is_empty()
    }

    /// Whether that of any Instance may have been touched so.
    pub(super) fn is_anything_murky(&self) -> bool {
        let t = &self.troubles;
        self.is_any_tampered() || t.no_lease || t.takeovers > 0
    }

    /// The server of this Instance may have been touched by a call that nobody waits for any more.
    pub(super) fn is_murky(&self, name: &str) -> bool {
        let t = &self.troubles;
        self.is_tampered(name) || t.no_lease || t.takeovers > 0
    }
}
