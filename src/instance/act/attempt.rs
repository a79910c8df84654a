//! The one call of a reconcile, and the values that it needs.

use crate::cloud::{CallPriority, Permit};
use crate::instance::context::Context;
use crate::instance::facts::Facts;
use crate::instance::memory::Memory;
use crate::instance::observation::Observation;
use crate::instance::plan::step::NoRoom;
use crate::runtime::queue::ADMISSION;
use crate::runtime::watch::ObjectKey;
use crate::session::AccountSession;
use std::sync::Mutex;
use tokio::time::Instant;

/// One reconcile's call.
pub(super) struct Attempt<'a> {
    pub(super) context: &'a Context,
    pub(super) observed: &'a Observation,
    pub(super) facts: &'a Facts,
    pub(super) account: &'a ObjectKey,
    pub(super) memory: &'a Mutex<Memory>,
    pub(super) reconcile_ends: Instant,
}

pub(super) async fn room(
    session: &AccountSession,
    priority: CallPriority,
) -> Result<Permit, NoRoom> {
    let permit = session.shared.client.permit(priority);
    tokio::time::timeout(ADMISSION, permit)
        .await
        .map_err(|_| NoRoom::Late)
}
