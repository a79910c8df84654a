//! Decides which Instance gets the next reservation under the limits of an Account.

use super::entries::Taken;
use super::queue::{Queue, Stands};
use super::{MINUTE, Most, Reservation, State};
use crate::inventory::Subject;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// How long an Instance waits before it asks again if there is capacity, but only for Instances before it.
const RECHECK_BEHIND_OTHERS: Duration = Duration::from_secs(1);

impl State {
    /// See [`Reservations::take`].
    pub(super) fn take(
        &mut self,
        subject: &Subject,
        account: &ObjectKey,
        most: Most,
        now: Instant,
    ) -> Reservation {
        let stands = self.stands(subject);
        let entry = self.entries.get(subject);
        let has_place = entry.is_some_and(|entry| entry.is_in(account));
        let queue = self.waiting.entry(account.clone()).or_default();
        let ahead = if has_place { 0 } else { queue.ahead(&stands) };
        if let Some(instances) = most.instances {
            let before = if has_place {
                let others = self.entries.of_account(account);
                let others = others.filter(|(other, _)| *other != subject);
                let before =
                    others.filter(|(other, entry)| entry.id().is_some() || *other < subject);
                before.count()
            } else {
                self.entries.count(account)
            };
            let free = instances.saturating_sub(before);
            queue.know(free);
            if free <= ahead {
                return Reservation::Full(instances);
            }
            queue.know(free - usize::from(!has_place));
        }
        if let Some(per_minute) = most.creates {
            let creates = self.creates.entry(account.clone()).or_default();
            while creates.front().is_some_and(|(at, _)| now >= *at + MINUTE) {
                creates.pop_front();
            }
            if creates.len() + ahead >= per_minute {
                // The purchase that must leave the window before this Instance may buy.
                let room = (creates.len() + ahead).saturating_sub(per_minute);
                let at = creates.get(room).or(creates.back());
                let wait = at.map_or(RECHECK_BEHIND_OTHERS, |(at, _)| {
                    (*at + MINUTE).saturating_duration_since(now)
                });
                return Reservation::TooFast { per_minute, wait };
            }
            creates.push_back((now, subject.clone()));
            self.counted.insert(subject.clone(), now);
        }
        let taken = Taken {
            account: shared(&account.name),
            id: None,
            is_announced: false,
        };
        self.entries.take(subject, Some(Box::new(taken)));
        Reservation::Taken
    }

    /// Its position in a queue.
    pub(super) fn stands(&self, subject: &Subject) -> Stands {
        let entry = self.entries.get(subject);
        let created = entry.map_or(i64::MAX, |entry| entry.created);
        (created, subject.clone())
    }

    /// The reconcile is over. The Instance leaves the queue of every Account except the one in which it asked, so that it blocks
    /// no other Instance there.
    pub(super) fn give_up(&mut self, uid: &str, asked: Option<&ObjectKey>) -> BTreeSet<Subject> {
        let others = self.waiting.iter_mut();
        let others = others.filter(|(account, _)| Some(*account) != asked);
        let woken = others.flat_map(|(_, queue)| queue.leave(uid)).collect();
        self.waiting.retain(|_, queue| !queue.is_empty());
        woken
    }

    /// Reservations became free: the first in line ask again.
    pub(super) fn freed<'a>(
        &mut self,
        accounts: impl Iterator<Item = &'a ObjectKey>,
    ) -> BTreeSet<Subject> {
        let mut woken = BTreeSet::new();
        for account in accounts {
            let queue = self.waiting.get_mut(account);
            woken.extend(queue.map(Queue::freed).unwrap_or_default());
        }
        woken
    }
}
