//! Decides which Instance owns a Secret. The operator uses and changes a Secret of its own making only if the Instance owns it by
//! its owner reference. A Secret that was restored from a backup has lost that reference. The operator recognizes it by labels that
//! only the operator, or a user who may write the Secret, can set, and makes the Instance its owner again.

use crate::api::conditions::{Readiness, Reason};
use crate::api::names::{GROUP, MANAGED_BY, MANAGER, SECRET_MARKER, SECRET_ROLE};
use crate::api::{ConnectionSecretRef, Instance, Marker, SecretTemplate};
use crate::runtime::watch::ObjectKey;
use crate::session::Content;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The Instance that Secrets belong to.
#[derive(Clone, Debug)]
pub struct SecretOwner<'a> {
    pub key: &'a ObjectKey,
    pub uid: &'a str,
    /// The marker of its servers. A restored Instance keeps it with its record.
    pub marker: &'a Marker,
    /// The marker in the name of an imported server: that of the Instance for which the server was bought. Secrets with this marker
    /// were made for that Instance.
    pub imported: Option<Marker>,
    /// The text of its record.
    pub record: Option<&'a String>,
}

/// A Secret that the operator writes for an Instance, as the spec names it.
#[derive(Clone, Debug)]
pub(super) struct ManagedSecret<'a> {
    pub(super) owner: SecretOwner<'a>,
    pub(super) name: String,
    /// Value of the label [`SECRET_ROLE`].
    role: &'static str,
    /// How to get rid of a conflict with another owner's Secret.
    remedy: &'static str,
    /// Labels and annotations from the spec.
    pub(super) template: Option<&'a SecretTemplate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The Instance controls it, and its label names this role or none.
    Ours,
    /// It was made for this Instance, or for the one whose server this Instance imported. Its owner reference is missing or names a
    /// deleted Instance of the same name.
    Reclaimable,
    /// It was made for a former Instance of this name. Kubernetes is about to collect it.
    Former,
    /// It has no owner, and its labels do not show that it was made for this Instance. A user may hand it over.
    Free,
    /// Anything else.
    Foreign,
}

impl<'a> ManagedSecret<'a> {
    /// The Secret with a generated login.
    pub(super) fn login(
        owner: SecretOwner<'a>,
        name: String,
        template: Option<&'a SecretTemplate>,
    ) -> Self {
        Self {
            owner,
            name,
            role: "login",
            remedy: "name another one in spec.login.generate.secretName, or use this one by spec.login.passwordSecretRef",
            template,
        }
    }

    pub(super) fn connection(owner: SecretOwner<'a>, reference: &'a ConnectionSecretRef) -> Self {
        Self {
            owner,
            name: reference.name.clone(),
            role: "connection",
            remedy: "name another one in spec.connectionSecret.name",
            template: reference.template.as_ref(),
        }
    }

    /// Which owner the Secret with this name and content has.
    pub(super) fn ownership(&self, content: &Content) -> Ownership {
        let instance = &self.owner;
        let label = |name: &str| content.labels.get(name).map(String::as_str);
        let controller = content.controller();
        let role = label(SECRET_ROLE);
        if controller.is_some_and(|owner| owner.uid == instance.uid)
            && role.is_none_or(|role| role == self.role)
        {
            return Ownership::Ours;
        }
        // Names are unique: an Instance with this name and another UID is gone.
        let is_former = |owner: &OwnerReference| {
            is_instance(owner) && owner.name == instance.key.name && owner.uid != instance.uid
        };
        let is_opaque = content.type_ == "Opaque";
        let is_without_living_owner = content.owners.iter().all(is_former);
        let is_made_by_operator = label(MANAGED_BY) == Some(MANAGER) && role == Some(self.role);
        let of_owner = || controller.map(|owner| Marker::of_uid(&owner.uid).to_string());
        let marker = label(SECRET_MARKER).map(str::to_owned).or_else(of_owner);
        let own = [Some(instance.marker), instance.imported.as_ref()];
        let is_own = |marker: String| own.iter().flatten().any(|own| own.as_str() == marker);
        let is_marked = marker.is_some_and(is_own);
        if is_opaque && is_without_living_owner && is_made_by_operator && is_marked {
            Ownership::Reclaimable
        } else if controller.is_some_and(is_former) {
            Ownership::Former
        } else if is_opaque && content.owners.is_empty() {
            Ownership::Free
        } else {
            Ownership::Foreign
        }
    }

    /// Why a Secret is neither used nor changed, and what to do about it; None for one of this Instance. No remedy deletes the
    /// Secret: it may hold the only copy of a password.
    pub(super) fn conflict(&self, ownership: Ownership) -> Option<Readiness> {
        let (name, role, remedy) = (&self.name, self.role, self.remedy);
        let foreign = format!(
            "Secret {name} exists and is not the {role} Secret of this Instance, so it is neither used nor changed: {remedy}"
        );
        let message = match ownership {
            Ownership::Ours | Ownership::Reclaimable => return None,
            Ownership::Former => {
                let message = format!(
                    "Secret {name} belongs to a former Instance of this name, so it is neither used nor changed: Kubernetes deletes \
                     it soon; if a server still has its password, copy that first"
                );
                return Some(Readiness::reconciling(Reason::SecretNameConflict, message));
            }
            Ownership::Free => format!(
                "{foreign}, or, if it is the one of this Instance, hand it over: kubectl label secret -n {} {name} --overwrite \
                 {MANAGED_BY}={MANAGER} {SECRET_ROLE}={} {SECRET_MARKER}={}",
                self.owner.key.namespace, role, self.owner.marker
            ),
            Ownership::Foreign => foreign,
        };
        Some(Readiness::stalled(Reason::SecretNameConflict, message))
    }

    /// The labels for the Secret as it was read. It keeps its marker, which may be that of the Instance from which the server was
    /// imported: the policy in `deploy/shared` admits no other one.
    pub(super) fn labels(&self, read: Option<&Content>) -> BTreeMap<String, String> {
        let template = self.template;
        let mut labels = template.map_or_else(BTreeMap::new, |it| it.labels.clone());
        let known = read.and_then(|read| read.labels.get(SECRET_MARKER));
        let marker = known.map_or(self.owner.marker.as_str(), String::as_str);
        let ours = [
            (MANAGED_BY, MANAGER),
            (SECRET_ROLE, self.role),
            (SECRET_MARKER, marker),
        ];
        labels.extend(ours.map(|(name, value)| (name.to_owned(), value.to_owned())));
        labels
    }

    /// Whether a Secret has a marker, and the labels and annotations from the spec. An older version of the operator wrote no
    /// marker.
    pub(super) fn is_labelled(&self, content: &Content) -> bool {
        content.labels.contains_key(SECRET_MARKER)
            && self
                .template
                .is_none_or(|asked| asked.is_met(&content.labels, &content.annotations))
    }

    /// The owner reference of the Secret.
    pub(super) fn owner_reference(&self) -> Value {
        json!([{
            "apiVersion": Instance::api_version(&()), "kind": Instance::kind(&()), "name": self.owner.key.name,
            "uid": self.owner.uid, "controller": true,
        }])
    }
}

fn is_instance(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    group == Some(GROUP) && owner.kind == Instance::kind(&())
}
