//! What a reconcile would do with an object as it is to be, found out without doing any of it.
//!
//! It looks with the looks of a reconcile and decides with its plan; what a reconcile spreads over minutes (a look, a listing,
//! another look) is waited for here. Reads only: the client of the [`Context`] is to be one that sends no writes.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Instance, ManagementPolicy};
use crate::cloud::Place;
use crate::instance::context::Context;
use crate::instance::fact::Fact;
use crate::instance::facts::Facts;
use crate::instance::memory::{Memory, open};
use crate::instance::observation::Observation;
use crate::instance::plan::preview::Preview;
use crate::instance::plan::step::{Needs, Plan};
use crate::instance::plan::{policy, preview};
use crate::instance::{observe, plan, times};
use crate::runtime::watch::ObjectKey;
use crate::session::AccountSession;
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// What would come of an object, and what its spec keeps the operator from.
#[derive(Clone, Debug)]
pub struct Foresight {
    /// What would be done if nothing kept the operator from it.
    pub preview: Preview,
    /// Why none of that is done now: a pause, or a server that is only looked at.
    pub restrained: Option<Readiness>,
    /// The Account whose service was asked.
    pub account: ObjectKey,
    /// Where the server is to be, if that is known.
    pub place: Option<Place>,
}

/// Looks at what an object of this shape would call for. `is_new`: the cluster does not have it yet, so that nothing can
/// have been bought for it.
pub async fn predict(context: &Context, instance: &Instance, is_new: bool) -> Foresight {
    // What a pause holds back is worth knowing: first as if there were none.
    let mut freed = instance.clone();
    freed.spec.pause = None;
    freed.spec.management_policy = ManagementPolicy::Manage;
    let facts = Facts::of(&context.settings.cluster, &freed);
    let memory = context.memories.met(facts.uid.as_str(), &facts.key, is_new);
    // Nothing is bought here, so no purchase that was lost a moment ago is waited for.
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

/// What holds for a recorded server that does not show.
const OTHER_TOKEN: &str = "whether the Account still has the token that bought the server is known to the operator alone; if it has \
     another one, the operator takes the server for gone only after a listing that shows one of its own";

/// Whether the service shows the recorded server.
fn is_seen(observed: &Observation) -> bool {
    let listing = observed.listing.as_ref();
    let is_listed = |id| listing.is_some_and(|listing| listing.row(&id).is_some());
    matches!(observed.detail, Fact::Known(_)) || observed.facts.id().is_some_and(is_listed)
}

/// Observes and plans until nothing more is to be learnt.
async fn look(context: &Context, facts: Facts, memory: &Mutex<Memory>) -> (Observation, Plan) {
    let ends = Instant::now() + times::PREVIEW_WAITS_FOR_LISTING;
    loop {
        let (mut observed, session) = observe::observe(context, facts.clone(), memory).await;
        if observed.facts.id().is_some() {
            // Whatever the listing gives reason to: nobody wants to hear of yesterday.
            let _ = observe::learn(
                context,
                &mut observed,
                &Needs::Detail,
                session.as_ref(),
                memory,
            )
            .await;
        }
        let mut plan = plan::plan(&observed);
        while observe::learn(
            context,
            &mut observed,
            &plan.needs,
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

/// Whether a listing would tell more: before something is bought or taken over. A recorded server tells by itself.
fn waits_for_a_listing(observed: &Observation, plan: &Plan) -> bool {
    let reason = plan
        .update
        .readiness
        .as_ref()
        .map(|readiness| readiness.reason);
    let listing = observed.listing.as_ref();
    // A service that refuses will do so again.
    let is_hopeless = listing.is_some_and(|listing| listing.trouble().is_some());
    observed.facts.id().is_none()
        && !is_hopeless
        && matches!(reason, Some(Reason::LookingForServer | Reason::Importing))
        && plan.wants.pass_after.is_some()
}

/// A pass has ended, or it is time to look.
async fn listed(session: &AccountSession) {
    let mut passes = session.shared.inventory.passes();
    let _ = tokio::time::timeout(times::PREVIEW_RECHECK, passes.changed()).await;
}
