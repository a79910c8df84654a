//! The observation from which a replay begins, and the plan for an observation.

use cloud_server_operator::api::conditions::Reason;
use cloud_server_operator::api::{Instance, ManagementPolicy};
use cloud_server_operator::instance::context::Context;
use cloud_server_operator::instance::fact::Fact;
use cloud_server_operator::instance::facts::Facts;
use cloud_server_operator::instance::memory::Memory;
use cloud_server_operator::instance::observation::Observation;
use cloud_server_operator::instance::observe;
use cloud_server_operator::instance::plan::plan;
use cloud_server_operator::instance::plan::step::{NeededRead, Plan};
use cloud_server_operator::instance::subscription::subscribe;
use cloud_server_operator::inventory::Sighting;
use cloud_server_operator::session::ReconcileSession;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for listings. A listing of 10,000 servers takes some 40 s at the default request limit.
const WAITS_FOR_LISTING: Duration = Duration::from_secs(90);

/// How often a new listing is looked for, in case its notification is missed.
const LISTING_RECHECK: Duration = Duration::from_secs(2);

/// The object without its pause and with the policy `Manage`: users want to know the steps that a pause or the policy `Observe`
/// holds back.
pub(super) fn unrestricted(instance: &Instance) -> Instance {
    let mut instance = instance.clone();
    instance.spec.pause = None;
    instance.spec.management_policy = ManagementPolicy::Manage;
    instance
}

/// Observes until no further listing is needed, at most for [`WAITS_FOR_LISTING`]. A server on record is read in any case, since
/// users expect current information.
pub(super) async fn observe(
    context: &Context,
    facts: Facts,
    memory: &Mutex<Memory>,
) -> (Observation, Option<ReconcileSession>) {
    let ends = Instant::now() + WAITS_FOR_LISTING;
    loop {
        let (mut observed, session) = observe::observe(context, facts.clone(), memory).await;
        if observed.facts.id().is_some() {
            let (read, session) = (Some(&NeededRead::Detail), session.as_ref());
            let _ = observe::read_for_plan(context, &mut observed, read, session, memory).await;
        }
        let plan = planned(context, &mut observed, session.as_ref(), memory).await;
        let listing = observed.listing.as_ref();
        // A listing that fails is not awaited, since it would probably fail again.
        let listing = listing.filter(|listing| listing.unread().is_none());
        let needs_listing = match (observed.facts.id(), &observed.detail) {
            (None, _) => {
                let reason = plan.reason();
                let is_searching = matches!(
                    reason,
                    Some(Reason::CheckingForExistingServer | Reason::Importing)
                );
                listing.is_some() && is_searching && plan.wants.pass_after.is_some()
            }
            (Some(id), Fact::Absent) => {
                let sighting = listing.map(|listing| listing.sighting(&id));
                matches!(sighting, Some(Sighting::Unknown(_)))
            }
            (Some(_), _) => false,
        };
        match &session {
            Some(session) if needs_listing && Instant::now() < ends => {
                let mut passes = session.shared.inventory.passes();
                subscribe(context, &observed.facts, Some(plan.wants), session);
                let _ = tokio::time::timeout(LISTING_RECHECK, passes.changed()).await;
            }
            _ => return (observed, session),
        }
    }
}

/// The plan, once the reads that it needs were made or failed.
pub(super) async fn planned(
    context: &Context,
    observed: &mut Observation,
    session: Option<&ReconcileSession>,
    memory: &Mutex<Memory>,
) -> Plan {
    let mut next = plan(observed);
    while observe::read_for_plan(context, observed, next.needs.as_ref(), session, memory).await {
        next = plan(observed);
    }
    next
}
