//! An observation, with the values that a situation guarantees.

use crate::api::PurchaseRecord;
use crate::cloud::ServerId;
use crate::instance::observation::{Observation, SessionFacts};
use std::ops::Deref;

/// An observation of an Instance with an account session.
#[derive(Clone, Copy)]
pub(super) struct InSession<'a> {
    pub observed: &'a Observation,
    pub session: &'a SessionFacts,
}

/// The same for an Instance with a server on record.
pub(super) struct OnRecord<'a> {
    pub in_session: InSession<'a>,
    pub record: &'a PurchaseRecord,
    pub id: ServerId,
}

impl Deref for InSession<'_> {
    type Target = Observation;

    fn deref(&self) -> &Observation {
        self.observed
    }
}

impl<'a> Deref for OnRecord<'a> {
    type Target = InSession<'a>;

    fn deref(&self) -> &InSession<'a> {
        &self.in_session
    }
}
