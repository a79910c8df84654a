//! Decides which Instance owns a Secret. The operator uses and changes a Secret only if the Instance owns it by its owner
//! reference. A Secret that was restored from a backup has lost that reference. The operator recognizes it by labels that only
//! the operator, or a user who may write the Secret, can set, and becomes its owner again.

use crate::api::names::{GROUP, MANAGED_BY, MANAGER, SECRET_MARKER, SECRET_ROLE};
use crate::api::{Marker, SecretKeyRef, SecretTemplate};
use crate::instance::facts::Facts;
use crate::session::Content;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde_json::{Map, Value, json};

/// A Secret that the operator writes for an Instance, as the spec names it.
#[derive(Clone, Debug)]
pub(in crate::instance) struct Managed<'a> {
    pub(in crate::instance) name: String,
    /// Value of the label [`SECRET_ROLE`].
    role: &'static str,
    /// Labels and annotations from the spec.
    pub(super) template: Option<&'a SecretTemplate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::instance) enum Ownership {
    /// The Instance controls it.
    Ours,
    /// It was made for this Instance, and its owner reference is missing or names a deleted Instance of the same name.
    Unowned,
    /// It was made for a former Instance of this name. Kubernetes is about to collect it.
    Former,
    /// It has no owner, and nothing shows for which Instance it was made. A user may hand it over.
    Free,
    /// Anything else.
    Foreign,
}

impl<'a> Managed<'a> {
    /// The Secret with a generated login, and how the spec refers to the password in it.
    pub(in crate::instance) fn login(facts: &'a Facts) -> Option<(Self, SecretKeyRef)> {
        let generate = facts.spec.login.generate.as_ref()?;
        let reference = facts.login_secret()?;
        let managed = Self {
            name: reference.name.clone(),
            role: "login",
            template: generate.template.as_ref(),
        };
        Some((managed, reference))
    }

    pub(in crate::instance) fn connection(facts: &'a Facts) -> Option<Self> {
        let reference = facts.spec.connection_secret.as_ref()?;
        Some(Self {
            name: reference.name.clone(),
            role: "connection",
            template: reference.template.as_ref(),
        })
    }

    pub(super) fn is_login(&self) -> bool {
        self.role == "login"
    }

    /// Owner of the Secret with this name.
    pub(in crate::instance) fn ownership(&self, content: &Content, facts: &Facts) -> Ownership {
        let label = |name: &str| content.labels.get(name).map(String::as_str);
        let controller = content.controller();
        let role = label(SECRET_ROLE);
        if controller.is_some_and(|owner| owner.uid == facts.uid)
            && role.is_none_or(|role| role == self.role)
        {
            return Ownership::Ours;
        }
        // Names are unique: an Instance with this name and another UID is gone.
        let is_former = |owner: &OwnerReference| {
            is_instance(owner) && owner.name == facts.key.name && owner.uid != facts.uid
        };
        let is_opaque = content.kind == "Opaque";
        let is_without_living_owner = content.owners.iter().all(is_former);
        let is_made_by_operator = label(MANAGED_BY) == Some(MANAGER) && role == Some(self.role);
        let of_owner = || controller.map(|owner| Marker::of_uid(&owner.uid).to_string());
        let marker = label(SECRET_MARKER).map(str::to_owned).or_else(of_owner);
        let is_marked = marker.is_some_and(|marker| markers(facts).any(|m| m.as_str() == marker));
        if is_opaque && is_without_living_owner && is_made_by_operator && is_marked {
            Ownership::Unowned
        } else if controller.is_some_and(is_former) {
            Ownership::Former
        } else if is_opaque && content.owners.is_empty() {
            Ownership::Free
        } else {
            Ownership::Foreign
        }
    }

    /// Why a Secret is neither used nor changed, and what to do about it; `remedy` names the field of the spec. No remedy deletes
    /// the Secret: it may hold the only copy of a password.
    pub(in crate::instance) fn not_ours(
        &self,
        ownership: Ownership,
        facts: &Facts,
        remedy: &str,
    ) -> String {
        let name = &self.name;
        match ownership {
            Ownership::Former => format!(
                "Secret {name} belongs to a former Instance of this name, so it is neither used nor changed: Kubernetes deletes it \
                 with that Instance"
            ),
            Ownership::Free => format!(
                "Secret {name} exists and does not belong to this Instance, so it is neither used nor changed: {remedy}, or, if it is \
                 the one of this Instance, hand it over: kubectl label secret -n {} {name} --overwrite {MANAGED_BY}={MANAGER} \
                 {SECRET_ROLE}={} {SECRET_MARKER}={}",
                facts.key.namespace, self.role, facts.marker
            ),
            Ownership::Ours | Ownership::Unowned | Ownership::Foreign => format!(
                "Secret {name} exists and does not belong to this Instance, so it is neither used nor changed: {remedy}"
            ),
        }
    }

    pub(super) fn labels(&self, facts: &Facts) -> Map<String, Value> {
        let ours = [
            (MANAGED_BY, MANAGER),
            (SECRET_ROLE, self.role),
            (SECRET_MARKER, facts.marker.as_str()),
        ];
        let ours = ours.map(|(name, value)| (name.to_owned(), Value::from(value)));
        let asked = self.template.iter().flat_map(|template| &template.labels);
        let asked = asked.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        asked.chain(ours).collect()
    }

    pub(super) fn annotations(&self) -> Map<String, Value> {
        let asked = self.template.iter().flat_map(|all| &all.annotations);
        asked
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect()
    }

    /// Whether a Secret has a marker, and the labels and annotations from the spec. An older version of the operator wrote no
    /// marker.
    pub(super) fn is_labelled(&self, content: &Content) -> bool {
        content.labels.contains_key(SECRET_MARKER)
            && self
                .template
                .is_none_or(|asked| asked.is_met(&content.labels, &content.annotations))
    }
}

/// The owner reference of a Secret of this Instance.
pub(super) fn owner(facts: &Facts) -> Value {
    json!([{
        "apiVersion": facts.reference.api_version, "kind": facts.reference.kind, "name": facts.key.name, "uid": facts.uid,
        "controller": true,
    }])
}

/// The markers under which Secrets of this Instance may have been made. One is its own, which a restored Instance keeps with its
/// record. The other is in the name of an imported server, which was bought for the Instance that the Secret was made for.
fn markers(facts: &Facts) -> impl Iterator<Item = Marker> {
    let imported = facts.imported().and_then(Marker::in_name);
    std::iter::once(facts.marker.clone()).chain(imported)
}

fn is_instance(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    group == Some(GROUP) && owner.kind == crate::api::Instance::kind(&())
}
