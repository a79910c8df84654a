//! The last check before a call that has no new intent: reads the object past every cache, and a server that is to be released.

use super::{Attempt, ServiceCall};
use crate::api::conditions::Reason;
use crate::api::names::BINDING;
use crate::cloud::{CallPriority, Detail, ServerId};
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::outcome::Outcome;
use crate::instance::plan::step::ReleaseReason;
use crate::instance::times;
use crate::runtime::queue::ADMISSION;
use crate::session::AccountSession;
use std::time::Duration;

impl Attempt<'_> {
    /// Checks that nothing on which the call depends has changed on the object since the plan, and that a server to release shows
    /// no foreign name. The release of a surplus server also needs a read, right now, that shows the recorded server alive.
    pub(super) async fn confirm(
        &self,
        call: &ServiceCall,
        session: &AccountSession,
    ) -> Result<(), Outcome> {
        let facts = &self.observed.facts;
        if let ServiceCall::Release(id, why) = call {
            self.confirm_name(id, *why, session).await?;
        }
        let now = Facts::of(&self.context.cluster, &self.fresh().await?);
        let is_same = match call {
            // Another writer of status must not keep a server from being released.
            ServiceCall::Release(..) => {
                facts.annotation == now.annotation
                    && facts.spec == now.spec
                    && facts.deleted_at == now.deleted_at
            }
            ServiceCall::Create(_) | ServiceCall::Operate(_) => facts.is_same_but_version(&now),
        };
        if !is_same {
            return Err(Outcome::Stale); // the plan was made from another state of the object
        }
        let ServiceCall::Release(id, ReleaseReason::Surplus) = call else {
            return Ok(());
        };
        let recorded = facts.id().ok_or(Outcome::Stale)?;
        let why = match self.detail(&recorded, ADMISSION, session).await {
            Fact::Known(_) => return Ok(()),
            Fact::Unknown(why) => why,
            Fact::Absent | Fact::NotRead => "the service knows no such server".to_owned(),
        };
        Err(Outcome::not_done(format!(
            "server {recorded} was not seen alive, so {id} stays: {why}"
        )))
    }

    /// Checks before a release that the server shows no foreign name, in a listing from a moment ago or in its detail, because the
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
        let read = match &observed.detail {
            _ if is_recent && listed.is_some() => Fact::NotRead,
            // A reconcile reads the detail of the recorded server, not that of a surplus one.
            Fact::Known(_) | Fact::Unknown(_) if why != ReleaseReason::Surplus => {
                observed.detail.clone()
            }
            _ => self.detail(id, times::READ_BEFORE_RELEASE, session).await,
        };
        let name = match read {
            Fact::NotRead => listed,
            Fact::Known(detail) => detail.name().map(ToOwned::to_owned).or(listed),
            Fact::Absent => None,
            // A detail that cannot be read must not block a release forever.
            Fact::Unknown(_) if listed.is_some() => listed,
            Fact::Unknown(trouble) => {
                return Err(Outcome::not_done(format!(
                    "server {id} was not seen, so it is not released yet: {trouble}"
                )));
            }
        };
        let Some(name) = name.filter(|name| !facts.is_own_name(id, name)) else {
            return Ok(());
        };
        let remedy = facts.imported().map_or_else(
            || format!("to end in -{}", facts.marker),
            |imported| format!("back to {imported}"),
        );
        let text = format!(
            "server {id} is called {name} at the service: that is not a name this Instance gives, so it is not released; to have \
             it released, rename it {remedy}; if the annotation {BINDING} names it by mistake, fix or remove the annotation"
        );
        // A user may have renamed a surplus server to keep it: the next pass shows that.
        Err(match why {
            ReleaseReason::Surplus => Outcome::not_done(text),
            _ => Outcome::stalled(Reason::RecordInvalid, text),
        })
    }

    /// Reads the detail of a server now.
    async fn detail(
        &self,
        id: &ServerId,
        deadline: Duration,
        session: &AccountSession,
    ) -> Fact<Detail> {
        let (account, priority) = (&self.observed.account_key, CallPriority::Urgent);
        let read = self
            .context
            .server(session, account, id, priority, deadline);
        read.await
    }
}
