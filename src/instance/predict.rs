//! Predicts what a reconcile would do with an object before it is applied, without doing any of it.
//!
//! It observes and plans as a reconcile does. Waits that a reconcile spreads over minutes (a read, a listing, another read)
//! happen here at once. It only reads: the client in the [`Context`] must be one that sends no writes.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Instance, ManagementPolicy};
use crate::cloud::Place;
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::plan::preview::Preview;
use crate::instance::plan::step::{Plan, Read};
use crate::instance::plan::{policy, preview};
use crate::instance::{observe, plan, times};
use crate::runtime::watch::ObjectKey;
use crate::session::AccountSession;
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// The predicted effects of an object, and the restrictions in its spec.
#[derive(Clone, Debug)]
pub struct Foresight {
    /// The effects without the restrictions.
    pub preview: Preview,
    /// Why nothing is done now: a pause, or the policy `Observe`.
    pub restrained: Option<Readiness>,
    /// The Account whose service was queried.
    pub account: ObjectKey,
    /// The server's place, if known.
    pub place: Option<Place>,
}

/// Predicts the effects of an object. `is_new`: the cluster does not have it yet, so nothing can have been bought for it.
pub async fn predict(context: &Context, instance: &Instance, is_new: bool) -> Foresight {
    // Users want to know the effects that a pause delays, so predict without it first.
    let mut freed = instance.clone();
    freed.spec.pause = None;
    freed.spec.management_policy = ManagementPolicy::Manage;
    let facts = Facts::of(&context.settings.cluster, &freed);
    let memory = context.memories.met(facts.uid.as_str(), &facts.key, is_new);
    // Nothing is bought here, so there is no need to wait for a purchase that may have been lost a moment ago.
    open(&memory).origin.recordless_since = Instant::now().checked_sub(times::LISTED_WITHIN);
    let (mut observed, plan) = look(context, facts, &memory).await;
    let mut preview = preview::preview(&observed, &plan);
    if observed.facts.purchase().is_some() && !is_seen(&observed) {
        preview.notes.push(OTHER_TOKEN.to_owned());
    }
    observed.facts.spec = Arc::new(instance.spec.clone());
    Foresight {
        restrained: policy::restricted_from(&observed),
        account: observed.account_key,
        place: observed.facts.here,
        preview,
    }
}

/// A note about a recorded server that the service does not show.
const OTHER_TOKEN: &str = "whether the Account still has the token that bought the server is known to the operator alone; if it has \
     another one, the operator takes the server for gone only after a listing that shows one of its own";

/// Whether the service shows the recorded server.
fn is_seen(observed: &Observation) -> bool {
    let listing = observed.listing.as_ref();
    let is_listed = |id| listing.is_some_and(|listing| listing.row(&id).is_some());
    matches!(observed.detail, Fact::Known(_)) || observed.facts.id().is_some_and(is_listed)
}

/// Observes and plans until no further information is needed.
async fn look(context: &Context, facts: Facts, memory: &Mutex<Memory>) -> (Observation, Plan) {
    let ends = Instant::now() + times::PREVIEW_WAITS_FOR_LISTING;
    loop {
        let (mut observed, session) = observe::observe(context, facts.clone(), memory).await;
        if observed.facts.id().is_some() {
            // Always read the server, since users expect current information.
            let _ = observe::learn(
                context,
                &mut observed,
                Some(&Read::Detail),
                session.as_ref(),
                memory,
            )
            .await;
        }
        let mut plan = plan::plan(&observed);
        while observe::learn(
            context,
            &mut observed,
            plan.needs.as_ref(),
            session.as_ref(),
            memory,
        )
        .await
        {
            plan = plan::plan(&observed);
        }
        let waits = waits_for_a_listing(&observed, &plan) && Instant::now() < ends;
        let Some(session) = session.filter(|_| waits) else {
            return (observed, plan);
        };
        open(memory).pace.wants = plan.wants;
        listed(&session).await;
    }
}

/// Whether a listing would add information: before a purchase or an import. A recorded server is read itself.
fn waits_for_a_listing(observed: &Observation, plan: &Plan) -> bool {
    let listing = observed.listing.as_ref();
    // A listing that failed will fail again.
    let is_hopeless = listing.is_some_and(|listing| listing.trouble().is_some());
    observed.facts.id().is_none()
        && !is_hopeless
        && matches!(
            plan.reason(),
            Some(Reason::CheckingForExistingServer | Reason::Importing)
        )
        && plan.wants.pass_after.is_some()
}

/// Waits for the end of a listing pass, or until it is time to observe again.
async fn listed(session: &AccountSession) {
    let mut passes = session.shared.inventory.passes();
    let _ = tokio::time::timeout(times::PREVIEW_RECHECK, passes.changed()).await;
}
