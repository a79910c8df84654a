//! Instances in the reservations, as the watch or a list shows them.

use crate::api::Instance;
use crate::inventory::Subject;
use crate::runtime::watch::ObjectKey;
use crate::session::Reservations;
use kube::Resource;
use kube::core::DeserializeGuard;

/// Enters an object in the reservations, as the operator does.
pub fn enrol(reservations: &Reservations, object: &DeserializeGuard<Instance>) {
    let meta = object.meta();
    let subject = meta.uid.as_deref().unwrap_or_default().into();
    enrol_as(reservations, (ObjectKey::of_meta(meta), subject), object);
}

/// The same, with key and UID as others hold them already.
pub fn enrol_as(
    reservations: &Reservations,
    named: (ObjectKey, Subject),
    object: &DeserializeGuard<Instance>,
) {
    let (account, id) = match &object.0 {
        Ok(instance) => (
            Some(instance.spec.account_ref.name.as_str()),
            instance
                .status
                .as_ref()
                .and_then(|status| status.id.as_deref()),
        ),
        Err(_) => (None, None),
    };
    reservations.note_as(named, object.meta(), account, id);
}
