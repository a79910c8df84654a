//! Tests that the operator lacks permissions that it must not have. The test tries to create Secrets as a dry run, which stores
//! nothing, and the apiserver must refuse each of them. A policy can be missing, and a role can grant more than intended;
//! without this test, only an abuse would reveal that. The test itself needs no permission.

use super::kubernetes::call;
use super::{KubeError, Metrics, times};
use crate::api::conditions::{AdditionalCondition, EXCESSIVE_PERMISSIONS, Reason};
use crate::api::names::{GROUP, MANAGED_BY, MANAGER, SECRET_ROLE};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The tested namespace of the cluster itself.
const SYSTEM: &str = "kube-system";
/// Tested if all namespaces are watched, since every cluster has it.
const ANY: &str = "default";

/// A Secret that the apiserver must not let the operator create.
struct ForbiddenSecret {
    /// The label in metrics.
    label: &'static str,
    /// The permission that the operator has if the apiserver accepts the Secret.
    permission: &'static str,
    type_: &'static str,
    metadata: fn() -> Value,
}

/// The label of the Secret that is only tried in a namespace of the cluster itself.
const SYSTEM_SECRET: &str = "system_secret";

static FORBIDDEN: [ForbiddenSecret; 3] = [
    // The token would outlive the operator's own.
    ForbiddenSecret {
        label: "service_account_token",
        permission: "create tokens of ServiceAccounts",
        type_: "kubernetes.io/service-account-token",
        metadata: || json!({"annotations": {"kubernetes.io/service-account.name": "default"}}),
    },
    ForbiddenSecret {
        label: "foreign_secret",
        permission: "create Secrets that belong to no Instance",
        type_: "Opaque",
        metadata: || json!({"labels": {MANAGED_BY: MANAGER}}),
    },
    // As if it belonged to an Instance there.
    ForbiddenSecret {
        label: SYSTEM_SECRET,
        permission: "create Secrets in the namespaces of the cluster itself",
        type_: "Opaque",
        metadata: || {
            json!({
                "labels": {MANAGED_BY: MANAGER, SECRET_ROLE: "login"},
                "ownerReferences": [{
                    "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Instance", "name": "none",
                    "uid": "00000000-0000-4000-8000-000000000000", "controller": true,
                }],
            })
        },
    },
];

/// The labels of the accepted Secrets, each with a namespace.
type Excess = BTreeSet<(&'static str, String)>;

/// The test results; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Rights(Arc<Mutex<Excess>>);

impl Rights {
    /// A text that lists the excessive permissions; none if there are no known ones.
    pub fn excess_words(&self) -> Option<String> {
        let found = self.found();
        let is_found = |secret: &&ForbiddenSecret| found.iter().any(|(it, _)| *it == secret.label);
        let excess = FORBIDDEN.iter().filter(is_found);
        let permissions: Vec<&str> = excess.map(|secret| secret.permission).collect();
        (!permissions.is_empty()).then(|| {
            format!(
                "the operator's ServiceAccount may {}, and so may everyone who obtains its token: a cluster administrator has \
                 to apply deploy/shared, whose policy forbids it, or to remove the roles that allow it (if the operator runs with \
                 the credentials of a person, run it with that ServiceAccount first)",
                permissions.join(", ")
            )
        })
    }

    /// The condition for the excessive permissions.
    pub fn warning(&self) -> Option<AdditionalCondition> {
        self.excess_words().map(|message| AdditionalCondition {
            type_: EXCESSIVE_PERMISSIONS,
            is_true: true,
            reason: Reason::DryRunAccepted,
            message,
        })
    }

    fn found(&self) -> MutexGuard<'_, Excess> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parameters of the test.
pub struct Trial {
    /// A client with the operator's own token.
    pub client: Client,
    /// The tested namespaces: see [`namespaces`].
    pub namespaces: BTreeSet<String>,
    /// Stores the results.
    pub rights: Rights,
    /// Reports the results as metrics.
    pub metrics: Metrics,
}

impl Trial {
    /// Tests for the first time. The caller awaits this before the first reconcile, so that an excessive permission is known before
    /// it could be used; a silent apiserver delays the start only briefly. Returns whether the test completed.
    pub async fn begin(&self) -> bool {
        let tested = tokio::time::timeout(times::RIGHTS_FIRST_CHECK_MAX, self.once()).await;
        if tested.is_err() {
            tracing::warn!("the operator's own rights are not known yet: the apiserver is slow");
        }
        tested.is_ok()
    }

    /// Repeats the test until `stop`. The first repetition is immediate if the first test did not complete.
    pub async fn go_on(self, is_tested: bool, stop: CancellationToken) {
        if !is_tested {
            self.once().await;
        }
        loop {
            let pause = match self.rights.found().is_empty() {
                false => times::EXCESSIVE_PERMISSIONS_RECHECK,
                true => times::RIGHTS_RECHECK,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
            self.once().await;
        }
    }

    async fn once(&self) {
        let began = Instant::now();
        let mut found = self.test().await;
        // A policy that was just applied is not in force yet, so a new finding counts only if it persists.
        while !found.is_subset(&self.rights.found())
            && began.elapsed() < times::POLICY_IN_FORCE_AFTER
        {
            tokio::time::sleep(times::POLICY_RECHECK).await;
            found = self.test().await;
        }
        for ForbiddenSecret { label, .. } in &FORBIDDEN {
            let is_found = found.iter().any(|(it, _)| it == label);
            self.metrics.excessive_permissions.set([label], is_found);
        }
        let former = std::mem::replace(&mut *self.rights.found(), found.clone());
        if former != found {
            match self.rights.excess_words() {
                Some(words) => tracing::warn!(in_namespaces = ?found, "{words}"),
                None => tracing::info!("excessive permissions are gone"),
            }
        }
    }

    /// Tests each permission in each namespace, [`SYSTEM_SECRET`] in [`SYSTEM`] alone. Without an answer, the previous result
    /// counts.
    async fn test(&self) -> Excess {
        let mut found = Excess::new();
        for namespace in &self.namespaces {
            for secret in &FORBIDDEN {
                let label = secret.label;
                if label == SYSTEM_SECRET && namespace != SYSTEM {
                    continue;
                }
                let is_allowed = self.is_allowed(secret, namespace).await;
                let key = (label, namespace.clone());
                let is_allowed = is_allowed.unwrap_or_else(|error| {
                    tracing::debug!(label, namespace, %error, "a permission of the operator was not tested");
                    self.rights.found().contains(&key)
                });
                if is_allowed {
                    found.insert(key);
                }
            }
        }
        found
    }

    /// Whether the apiserver would create the Secret.
    async fn is_allowed(
        &self,
        forbidden: &ForbiddenSecret,
        namespace: &str,
    ) -> Result<bool, KubeError> {
        const OPERATION: &str = "test a permission";
        let mut metadata = (forbidden.metadata)();
        metadata["generateName"] = json!("cloudserver-must-be-refused-");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": forbidden.type_, "metadata": metadata});
        let secret: Secret =
            serde_json::from_value(secret).map_err(|_| KubeError::unwritable(OPERATION))?;
        let params = PostParams {
            dry_run: true,
            field_manager: Some(MANAGER.to_owned()),
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        judged(call(OPERATION, api.create(&params, &secret)).await)
    }
}

/// The namespaces for the test: the operator's own, if known, the watched ones, and one of the cluster itself.
pub fn namespaces(own: Option<String>, watched: &[Option<String>]) -> BTreeSet<String> {
    let watched = watched
        .iter()
        .map(|scope| scope.clone().unwrap_or_else(|| ANY.to_owned()));
    own.into_iter()
        .chain(watched)
        .chain([SYSTEM.to_owned()])
        .collect()
}

/// Interprets an answer. A refusal counts only if it is due to a missing permission or to a policy: a namespace that is full or
/// being deleted refuses every user, and a busy apiserver has not decided.
fn judged<T>(answer: Result<T, KubeError>) -> Result<bool, KubeError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.is_want_of_right() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use std::time::Duration;

    fn refused(code: u16, message: &str) -> Result<(), KubeError> {
        let status = kube::core::Status::failure(message, "").with_code(code);
        Err(KubeError::Refused {
            operation: "try",
            status: Box::new(status),
        })
    }

    #[test]
    fn only_a_refusal_by_rbac_or_admission_counts_as_safe() {
        let by_role = "secrets is forbidden: User \"a\" cannot create resource \"secrets\"";
        let by_policy = "secrets \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no";
        for (code, message, safe) in [
            (403, by_role, true),
            (403, by_policy, true),
            (
                422,
                "ValidatingAdmissionPolicy 'p' denied request: no",
                true,
            ),
            (400, "admission webhook \"w\" denied the request: no", true),
            (403, "secrets \"x\" is forbidden: exceeded quota: q", false),
            (
                403,
                "unable to create new content in namespace a because it is being terminated",
                false,
            ),
            (404, "namespaces \"a\" not found", false),
            (500, "internal", false),
        ] {
            let judged = judged(refused(code, message));
            assert_eq!(judged.ok(), safe.then_some(false), "{message}");
        }
        assert_eq!(judged(Ok(())).ok(), Some(true));
    }

    /// An apiserver that accepts everything for this time, and then refuses by a policy. It answers dry runs.
    fn apiserver(allows_for: Duration) -> Client {
        let until = Instant::now() + allows_for;
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let (code, body) = match Instant::now() < until {
                true => (
                    201,
                    json!({"kind": "Secret", "apiVersion": "v1", "metadata": {}}),
                ),
                false => {
                    let message = "ValidatingAdmissionPolicy 'p' denied request: no";
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                        "code": 403, "message": message,
                    });
                    (403, status)
                }
            };
            let response = Response::builder().status(code);
            response.body(Body::from(body.to_string().into_bytes()))
        });
        Client::new(service, "a")
    }

    fn trial(allows_for: Duration) -> Trial {
        Trial {
            client: apiserver(allows_for),
            namespaces: namespaces(None, &[Some("a".to_owned())]),
            rights: Rights::default(),
            metrics: Metrics::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_permission_that_a_new_policy_denies_a_moment_later_is_not_reported() {
        let new_policy = trial(Duration::from_secs(2));
        assert!(new_policy.begin().await);
        assert_eq!(new_policy.rights.excess_words(), None);

        let no_policy = trial(Duration::from_secs(3600));
        assert!(no_policy.begin().await);
        assert!(no_policy.rights.excess_words().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_finding_stays_until_the_permission_is_refused_in_every_namespace() {
        let trial = trial(Duration::ZERO);
        *trial.rights.found() = Excess::from([
            ("service_account_token", "a".to_owned()),
            ("service_account_token", "b".to_owned()),
        ]);
        let words = trial.rights.excess_words().unwrap();
        assert!(words.contains("tokens of ServiceAccounts") && words.contains("deploy/shared"));
        assert!(!words.contains("Instance"), "{words}");
        assert!(trial.rights.warning().is_some());
        trial.once().await;
        assert_eq!(trial.rights.excess_words(), None);
        assert!(trial.rights.warning().is_none());
    }
}
