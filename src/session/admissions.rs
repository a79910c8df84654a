//! The admissions of this process that the index of owners does not show yet, and the Instances that wait for one.

use crate::cloud::ServerId;
use crate::inventory::InstanceUid;
use crate::runtime::strings::shared;
use crate::runtime::watch::ObjectKey;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The period over which creates are counted.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// How many waiting Instances are woken when quota for one becomes free, since the first may wait for something else by now.
const WOKEN: usize = 4;

/// The limit that an Instance waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The number of Instances (`spec.maxInstances`).
    Instances,
    /// The rate of creates (`spec.createRate`).
    Creates,
}

/// The records that this process is about to write, the creates that it admitted, and the Instances that wait for admission.
#[derive(Default)]
pub(super) struct Admissions {
    /// The intents that this process writes and that no watch has shown yet.
    pub(super) pending: BTreeMap<InstanceUid, Pending>,
    /// The creates of the last minute, by Account.
    pub(super) creates: HashMap<ObjectKey, VecDeque<(Instant, InstanceUid)>>,
    /// The Instances that wait, each with its Account and the limit.
    pub(super) waiting: BTreeMap<InstanceUid, (ObjectKey, Limit)>,
}

pub(super) struct Pending {
    pub(super) account: ObjectKey,
    /// The existing server to record; None for a create.
    pub(super) server: Option<ServerId>,
}

impl Admissions {
    pub(super) fn begin(&mut self, uid: &str, account: &ObjectKey, server: Option<ServerId>) {
        let pending = Pending {
            account: account.clone(),
            server,
        };
        self.pending.insert(shared(uid), pending);
    }

    /// The Instance is gone. Returns the Account of its intent, if one is pending.
    pub(super) fn gone(&mut self, uid: &str) -> Option<ObjectKey> {
        self.waiting.remove(uid);
        self.pending.remove(uid).map(|pending| pending.account)
    }

    /// Some of the Instances that wait for `spec.maxInstances` of this Account.
    pub(super) fn next_waiting(&self, account: &ObjectKey) -> Vec<InstanceUid> {
        let waits = |(_, (of, limit)): &(&InstanceUid, &(ObjectKey, Limit))| {
            of == account && *limit == Limit::Instances
        };
        let waiting = self.waiting.iter().filter(waits).take(WOKEN);
        waiting.map(|(uid, _)| uid.clone()).collect()
    }

    /// How many creates of an Account count as begun in the last minute.
    pub(super) fn creates_of(&self, account: &ObjectKey) -> usize {
        let creates = self.creates.get(account).into_iter().flatten();
        creates.filter(|(at, _)| is_recent(*at)).count()
    }
}

/// Whether a create at that time still counts.
pub(super) fn is_recent(at: Instant) -> bool {
    at.elapsed() < MINUTE
}
