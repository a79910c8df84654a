//! Finds out whether another Instance has the better right to a server.

use super::credential::endpoint;
use super::owners::OwnershipClaim;
use super::{AccountSession, Sessions};
use crate::api::Marker;
use crate::cloud::ServerId;
use crate::runtime::watch::ObjectKey;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// This time after the beginning of its term, a process counts as having reconciled every usable Account and listed its servers.
pub(super) const LISTED_ALL_AFTER: Duration = Duration::from_secs(120);

/// Another Instance that has the better right to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictingOwner {
    /// Another Instance may have the server. This process does not know yet which servers all watched Instances have, or
    /// whether a claim counts.
    NotKnownYet,
    /// No other Instance has a better right to the server.
    None,
    Instance(ObjectKey),
}

impl Sessions {
    /// For a process that only reads: its index of owners leaves out Instances of other services as far as it knows them, and its
    /// decisions change nothing. From here on every claim counts, without a comparison of credentials: a command may not know the
    /// identity of the cluster with which the operator salts them.
    pub fn trust_records(&self) {
        self.inner.trusts_records.store(true, Ordering::Relaxed);
    }

    /// Whether another Instance has the server that the Instance with this UID would import. `marker` is the marker in the
    /// server's name.
    pub fn owner_before_import(
        &self,
        uid: &str,
        id: &ServerId,
        marker: Option<&Marker>,
        ours: &AccountSession,
    ) -> ConflictingOwner {
        let owners = &self.inner.owners;
        if !owners.has_listed_all() {
            return ConflictingOwner::NotKnownYet;
        }
        // Unlike an identifier, a marker is unique across all services, so no credential has to be compared.
        if let Some(owner) = marker.and_then(|marker| owners.bearer(marker, uid)) {
            return ConflictingOwner::Instance(owner);
        }
        self.conflicting(owners.claims(id, uid), id, ours, true)
    }

    /// The Instance with the better right to a server that the Instance with this UID imported. Two owners can come from two
    /// processes that acted at the same instant, or from edited records.
    pub fn conflicting_owner(
        &self,
        uid: &str,
        id: &ServerId,
        ours: &AccountSession,
    ) -> ConflictingOwner {
        let mut claims = self.inner.owners.claims(id, uid);
        claims.retain(|claim| claim.is_better);
        self.conflicting(claims, id, ours, false)
    }

    fn conflicting(
        &self,
        claims: Vec<OwnershipClaim>,
        id: &ServerId,
        ours: &AccountSession,
        is_import: bool,
    ) -> ConflictingOwner {
        let mut found = ConflictingOwner::None;
        for claim in claims {
            match self.is_valid(&claim, id, ours, is_import) {
                Some(true) => return ConflictingOwner::Instance(claim.claimant),
                Some(false) => {}
                None => found = ConflictingOwner::NotKnownYet,
            }
        }
        found
    }

    /// Whether a claim to a server counts against an Instance with this account session, since identifiers have a meaning at one
    /// service only, and a user can write any identifier into a record. It counts if the server was bought with the same token,
    /// if the claimant's Account uses that token now, or if that Account's own listing shows the server. None if that is not
    /// known yet. Only that shard's process could verify any other claim in another shard, so such a claim blocks an import, and
    /// takes no server away.
    pub(super) fn is_valid(
        &self,
        claim: &OwnershipClaim,
        id: &ServerId,
        ours: &AccountSession,
        is_import: bool,
    ) -> Option<bool> {
        let credential = claim.credential.as_deref();
        if self.inner.trusts_records.load(Ordering::Relaxed)
            || credential.is_some_and(|theirs| ours.is_named_by(theirs))
        {
            return Some(true);
        }
        if !self.inner.shard.owns(&claim.account.namespace) {
            return Some(is_import);
        }
        let theirs = self.last_account_session(&claim.account, false);
        if let Some(theirs) = theirs {
            let is_same = theirs.credential == ours.credential;
            if !is_same && endpoint(theirs.spec()) != endpoint(ours.spec()) {
                return Some(false);
            }
            if is_same || theirs.shared.inventory.shows(id) {
                return Some(true);
            }
        }
        (Instant::now() >= *self.began() + LISTED_ALL_AFTER).then_some(false)
    }
}
