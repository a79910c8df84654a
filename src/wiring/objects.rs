//! The stores and queues of a process, as watch events and listings use them.

use crate::instance::facts::Facts;
use crate::runtime::queue::Priority;
use crate::runtime::watch::ObjectKey;

/// The stores and queues of a process.
pub trait Objects: Send + Sync + 'static {
    /// Requests a reconcile of an Instance. Without a priority the state of the object decides.
    fn wake_instance(&self, key: &ObjectKey, priority: Option<Priority>);
    /// Requests a reconcile of an Account. Without a priority the state of the object decides.
    fn wake_account(&self, key: &ObjectKey, priority: Option<Priority>);
    /// An Instance as the store holds it now. `cluster` is the identity by which a record shows that this cluster wrote it.
    fn facts(&self, key: &ObjectKey, cluster: &str) -> Option<Facts>;
    /// Whether the store holds an Instance of this name.
    fn has_instance(&self, key: &ObjectKey) -> bool;
    /// Whether the store holds an Account of this name.
    fn has_account(&self, key: &ObjectKey) -> bool;
}
