//! Classifies why the apiserver refused a write. The status code alone does not show it, so this module also reads the text of the
//! refusal; no other module of the operator does.

use super::KubeError;
use crate::api::conditions::{Readiness, Reason};

/// The reason why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A ResourceQuota of the namespace is used up.
    Quota,
    /// The namespace is being deleted.
    NamespaceEnds,
    /// A required admission webhook does not answer.
    WebhookFails,
    /// An admission policy or webhook denied the write.
    Policy,
    /// No role grants the permission.
    Right,
    /// A rule of the apiserver itself, or a text that this version does not know.
    Other,
}

impl Obstacle {
    /// The readiness to report. Only some obstacles pass without a change of a permission, a policy or the spec.
    pub fn readiness(self, reason: Reason, message: String) -> Readiness {
        match self {
            Self::Quota | Self::NamespaceEnds | Self::WebhookFails => {
                Readiness::reconciling(reason, message)
            }
            Self::Policy | Self::Right | Self::Other => Readiness::stalled(reason, message),
        }
    }

    /// The remedy if a Secret cannot be written; `right` describes how to grant the permission to write it.
    pub fn remedy(self, right: &str) -> &str {
        match self {
            Self::Quota => {
                "raise the ResourceQuota that the apiserver names, or delete Secrets of the namespace that are not needed"
            }
            Self::NamespaceEnds => "the namespace is being deleted",
            Self::WebhookFails => "repair the admission webhook that the apiserver names",
            Self::Policy => {
                "change the policy that the apiserver names so that it admits this Secret (if the policy is one of this operator: \
                 change what it objects to, or apply deploy/shared of the operator's version)"
            }
            Self::Right => right,
            Self::Other => "correct what the apiserver names",
        }
    }
}

/// Texts of denials by a ValidatingAdmissionPolicy, a MutatingAdmissionPolicy or a webhook. A webhook chooses the status code.
const DENIED: [&str; 2] = ["denied request", "denied the request"];

impl KubeError {
    /// The cause of a refusal. None for any other error: no answer, a missing object, a conflict, an overloaded apiserver, or a
    /// credential that the apiserver does not accept (401), for which no permission is the remedy.
    pub fn obstacle(&self) -> Option<Obstacle> {
        let Self::Refused { status, .. } = self else {
            return None;
        };
        let has = |words: &str| status.message.contains(words);
        if self.is_denied() {
            Some(Obstacle::Policy)
        } else if status.code >= 500 && has("failed calling webhook") {
            Some(Obstacle::WebhookFails)
        } else if !matches!(status.code, 400 | 403 | 413 | 422) {
            None
        } else if has("quota:") || has("insufficient quota") {
            Some(Obstacle::Quota)
        } else if has("being terminated") {
            Some(Obstacle::NamespaceEnds)
        } else if has(" cannot ") && has(" resource \"") {
            Some(Obstacle::Right)
        } else {
            Some(Obstacle::Other)
        }
    }

    /// Whether the apiserver refuses this write because of a permission, a policy or a rule; a quota and a namespace in deletion
    /// count as rules.
    pub fn is_refusal(&self) -> bool {
        let obstacle = self.obstacle();
        obstacle.is_some_and(|obstacle| obstacle != Obstacle::WebhookFails)
    }

    /// Whether an admission policy or webhook denied the write. The status code does not show this: a webhook may use the code
    /// of a conflict, and a failed precondition of a JSON patch has the code of a policy.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if DENIED.iter().any(|words| status.message.contains(words)))
    }

    /// Whether the caller lacks the permission: no role grants it, or a policy withholds it. A namespace that is full or being
    /// deleted refuses every caller with the same code.
    pub fn is_want_of_right(&self) -> bool {
        let obstacle = self.obstacle();
        let may_be_a_right = matches!(obstacle, Some(Obstacle::Right | Obstacle::Other));
        obstacle == Some(Obstacle::Policy) || (may_be_a_right && self.category() == "forbidden")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> KubeError {
        KubeError::Refused {
            operation: "create a Secret",
            status: Box::new(kube::core::Status::failure(message, "").with_code(code)),
        }
    }

    #[test]
    fn the_message_of_a_refusal_names_the_component_that_refused() {
        let quota = "secrets \"a\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=5, limited: secrets=5";
        let policy = "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        let webhook = "admission webhook \"validate.kyverno.svc-fail\" denied the request: resource was blocked";
        let role = "secrets is forbidden: User \"system:serviceaccount:a:b\" cannot create resource \"secrets\" in API group \"\" \
                    in the namespace \"a\"";
        let fails = "Internal error occurred: failed calling webhook \"w.example\": failed to call webhook: connection refused";
        for (code, message, obstacle) in [
            (403, quota, Some(Obstacle::Quota)),
            (
                403,
                "secrets \"a\" is forbidden: status unknown for quota: q, resources: secrets",
                Some(Obstacle::Quota),
            ),
            (
                403,
                "unable to create new content in namespace a because it is being terminated",
                Some(Obstacle::NamespaceEnds),
            ),
            (403, policy, Some(Obstacle::Policy)),
            (422, policy, Some(Obstacle::Policy)),
            // A webhook chooses its code.
            (400, webhook, Some(Obstacle::Policy)),
            (409, webhook, Some(Obstacle::Policy)),
            (500, webhook, Some(Obstacle::Policy)),
            (
                403,
                "admission webhook \"hrq\" denied the request: exceeded quota: team",
                Some(Obstacle::Policy),
            ),
            (500, fails, Some(Obstacle::WebhookFails)),
            (403, role, Some(Obstacle::Right)),
            (401, "Unauthorized", None),
            (
                403,
                "secrets \"a\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>",
                Some(Obstacle::Other),
            ),
            (
                422,
                "Secret \"a\" is invalid: metadata.labels: Invalid value",
                Some(Obstacle::Other),
            ),
            (404, "secrets \"denied\" not found", None),
            (409, "the object has been modified", None),
            (500, "etcdserver: request timed out", None),
            (503, "not ready", None),
        ] {
            assert_eq!(
                refused(code, message).obstacle(),
                obstacle,
                "{code} {message}"
            );
        }
    }

    #[test]
    fn a_denial_with_the_code_of_a_conflict_is_no_conflict() {
        let webhook = "admission webhook \"w\" denied the request: no";
        assert!(!refused(409, webhook).is_conflict());
        assert!(!refused(404, webhook).is_not_found());
        assert!(refused(409, "the object has been modified").is_conflict());
        assert!(refused(404, "secrets \"a\" not found").is_not_found());
    }
}
