//! The last look before a call that has no new intent: the object, past every cache, and a server that is to be released.

use super::{Attempt, ServiceCall};
use crate::api::conditions::Reason;
use crate::api::names::BINDING;
use crate::cloud::{CallPriority, Detail, Error, ServerId};
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::ReleaseReason;
use crate::instance::times;
use crate::runtime::queue::ADMISSION;
use crate::session::AccountSession;
use std::time::Duration;

impl Attempt<'_> {
    pub(super) async fn confirm(
        &self,
        start: &ServiceCall,
        session: &AccountSession,
    ) -> Result<(), Outcome> {
        if let ServiceCall::Release(id, why) = start {
            return self.confirm_release(id, *why, session).await;
        }
        self.confirm_object().await
    }

    /// Checks that the object is still the one that the plan was made from.
    async fn confirm_object(&self) -> Result<(), Outcome> {
        let now = Facts::of(&self.context.cluster, &self.fresh().await?);
        match self.observed.facts.is_same_but_version(&now) {
            true => Ok(()),
            false => Err(Outcome::Stale),
        }
    }

    /// The release of a surplus server also needs a read in this reconcile that shows the recorded server alive.
    async fn confirm_release(
        &self,
        id: &ServerId,
        why: ReleaseReason,
        session: &AccountSession,
    ) -> Result<(), Outcome> {
        let facts = &self.observed.facts;
        self.confirm_name(id, why, session).await?;
        // Another writer of status must not keep a server from being released.
        let now = Facts::of(&self.context.cluster, &self.fresh().await?);
        let is_same = facts.annotation == now.annotation && facts.spec == now.spec;
        if !is_same || facts.deleting != now.deleting {
            return Err(Outcome::Stale);
        }
        if why != ReleaseReason::Surplus {
            return Ok(());
        }
        let recorded = facts.id().ok_or(Outcome::Stale)?;
        let why = match look(session, &recorded, ADMISSION).await {
            Fact::Known(_) => return Ok(()),
            Fact::Unknown(why) => why,
            Fact::Absent | Fact::NotAsked => "the service knows no such server".to_owned(),
        };
        Err(Outcome::not_done(format!(
            "server {recorded} was not seen alive, so {id} stays: {why}"
        )))
    }

    /// Checks that a server bears a name of ours before its release, in a listing from a moment ago or in its detail, because the
    /// service may have reused its identifier. If the server does not exist at all, the release itself finds out.
    async fn confirm_name(
        &self,
        id: &ServerId,
        why: ReleaseReason,
        session: &AccountSession,
    ) -> Result<(), Outcome> {
        let (observed, facts) = (&*self.observed, &self.observed.facts);
        let listing = observed.listing.as_ref();
        let row = listing.and_then(|listing| listing.row(id));
        let is_new = |at| observed.now < at + times::LISTED_LATELY;
        let is_recent = row.as_ref().is_some_and(|(_, at)| is_new(*at));
        let listed = row.and_then(|(row, _)| Some(String::from(row.name.clone()?)));
        let name = match &listed {
            Some(_) if is_recent => listed,
            _ => match self.detail(id, why, session).await {
                Fact::Known(detail) => detail.name().map(ToOwned::to_owned).or(listed),
                Fact::Absent | Fact::NotAsked => None,
                // A detail that cannot be read must not block a release forever.
                Fact::Unknown(_) if listed.is_some() => listed,
                Fact::Unknown(trouble) => {
                    return Err(Outcome::not_done(format!(
                        "server {id} was not seen, so it is not released yet: {trouble}"
                    )));
                }
            },
        };
        let Some(name) = name.filter(|name| !facts.is_own_name(id, name)) else {
            return Ok(());
        };
        let remedy = facts.imported().map_or_else(
            || format!("to end in -{}", facts.marker),
            |imported| format!("back to {imported}"),
        );
        let why = format!(
            "the record names server {id}, which is called {name} at the service: that is not a name this Instance gives, \
             so the server is not released; rename it {remedy}, or fix or remove the annotation {BINDING}"
        );
        Err(Outcome::stalled(Reason::RecordInvalid, why))
    }

    /// The detail of a server that is to be released: as this reconcile read it, or a new read.
    async fn detail(
        &self,
        id: &ServerId,
        why: ReleaseReason,
        session: &AccountSession,
    ) -> Fact<Detail> {
        match &self.observed.detail {
            // The detail that the reconcile has read is not that of a surplus server.
            Fact::Known(_) | Fact::Unknown(_) if why != ReleaseReason::Surplus => {
                self.observed.detail.clone()
            }
            _ => look(session, id, times::LOOK_BEFORE_RELEASE).await,
        }
    }
}

/// Reads the detail of a server.
async fn look(session: &AccountSession, id: &ServerId, deadline: Duration) -> Fact<Detail> {
    let detail = session.shared.client.detail(CallPriority::Urgent, id);
    let answer = tokio::time::timeout(deadline, detail).await;
    Fact::of(answer, Error::is_no_such_instance).0
}
