//! The Accounts and Instances that `status` and `describe` read.

use crate::lists;
use cloud_server_operator::api::{Account, Instance};
use kube::core::DeserializeGuard;

/// The objects of one or all namespaces.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) accounts: Vec<Account>,
    pub(super) instances: Vec<Instance>,
    /// Kind, namespace and name of the objects that this version cannot read.
    pub(super) unreadable: Vec<[String; 3]>,
}

impl Objects {
    pub(super) fn add_instances(&mut self, instances: Vec<DeserializeGuard<Instance>>) {
        let (instances, unreadable) = lists::readable(instances);
        self.instances = instances;
        self.unreadable.extend(unreadable);
    }
}
