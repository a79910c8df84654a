//! Optional authorization for metrics: the apiserver identifies the caller and decides whether the caller may get `/metrics`.

use super::kubernetes::call;
use super::times;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Cached answers. A cluster has a handful of scrapers; more entries are guessed tokens.
const REMEMBERED: usize = 256;
/// Concurrent requests to the apiserver: a caller that tries many tokens delays only its own requests.
const QUESTIONS: usize = 4;

/// The apiserver's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Allowed,
    /// The token belongs to no user.
    Unknown,
    /// The token's owner lacks the permission.
    Forbidden,
    /// The apiserver did not answer.
    Untold,
}

/// Requests decisions from the apiserver and caches them for a while. Cheap to clone.
#[derive(Clone)]
pub struct MetricsAuthorizer(Arc<Inner>);

struct Inner {
    client: Client,
    questions: Semaphore,
    /// By a digest of the token, so that tokens are not kept.
    answers: Mutex<HashMap<[u8; 32], (Instant, Access)>>,
}

impl MetricsAuthorizer {
    /// Uses this client, which must be allowed to create TokenReviews and SubjectAccessReviews. It must not be the client whose
    /// writes end with the term: a standby serves metrics too, and a review changes nothing.
    pub fn new(client: Client) -> Self {
        Self(Arc::new(Inner {
            client,
            questions: Semaphore::new(QUESTIONS),
            answers: Mutex::default(),
        }))
    }

    /// Whether the owner of this token may get this path.
    pub(super) async fn ask(&self, token: &str, path: &str) -> Access {
        let digest = Sha256::digest(token).into();
        if let Some(known) = self.known(&digest) {
            return known;
        }
        let Ok(_place) = self.0.questions.acquire().await else {
            return Access::Untold;
        };
        // Another request may have stored the answer meanwhile.
        if let Some(known) = self.known(&digest) {
            return known;
        }
        let answer = self.review(token, path).await;
        let believed = match answer {
            Access::Allowed => times::ACCESS_BELIEVED,
            Access::Unknown | Access::Forbidden => times::ACCESS_REFUSAL_BELIEVED,
            Access::Untold => return answer,
        };
        let now = Instant::now();
        let mut answers = self.answers();
        answers.retain(|_, (until, _)| now < *until);
        if answers.len() >= REMEMBERED {
            answers.clear();
        }
        answers.insert(digest, (now + believed, answer));
        answer
    }

    fn known(&self, digest: &[u8; 32]) -> Option<Access> {
        let answers = self.answers();
        let (until, answer) = answers.get(digest)?;
        (Instant::now() < *until).then_some(*answer)
    }

    async fn review(&self, token: &str, path: &str) -> Access {
        match self.try_review(token, path).await {
            Ok(answer) => answer,
            Err(error) => {
                let error = error.hiding([token]);
                tracing::warn!(%error, "who asks for metrics could not be told; deploy/ has a piece with the rights for it");
                Access::Untold
            }
        }
    }

    async fn try_review(&self, token: &str, path: &str) -> Result<Access, super::KubeError> {
        let client = &self.0.client;
        let review = TokenReview {
            metadata: ObjectMeta::default(),
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            status: None,
        };
        let api: Api<TokenReview> = Api::all(client.clone());
        let params = PostParams::default();
        let review = call("ask who a token is of", api.create(&params, &review)).await?;
        let status = review.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        let Some(user) = user else {
            return Ok(Access::Unknown);
        };
        let review = SubjectAccessReview {
            metadata: ObjectMeta::default(),
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path.to_owned()),
                    verb: Some("get".to_owned()),
                }),
                resource_attributes: None,
            },
            status: None,
        };
        let api: Api<SubjectAccessReview> = Api::all(client.clone());
        let review = call("ask what somebody may do", api.create(&params, &review)).await?;
        match review.status.is_some_and(|status| status.allowed) {
            true => Ok(Access::Allowed),
            false => Ok(Access::Forbidden),
        }
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Instant, Access)>> {
        let answers = self.0.answers.lock();
        answers.unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for MetricsAuthorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MetricsAuthorizer")
    }
}
