//! Who may read metrics, where that is asked: the apiserver says who the caller is and whether it lets him get `/metrics`.

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

/// Answers that are remembered. Scrapers are a handful; more are somebody's guesses.
const REMEMBERED: usize = 256;
/// Questions to the apiserver at the same time: whoever asks with many tokens waits for himself.
const QUESTIONS: usize = 4;

/// What the apiserver said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Allowed,
    /// The token is nobody's.
    Unknown,
    /// Its owner may not.
    Forbidden,
    /// The apiserver did not say.
    Untold,
}

/// Asks the apiserver, and remembers for a while. Cheap to clone.
#[derive(Clone)]
pub struct MetricsAuthorizer(Arc<Inner>);

struct Inner {
    client: Client,
    questions: Semaphore,
    /// By a digest of the token: tokens themselves are not kept.
    answers: Mutex<HashMap<[u8; 32], (Instant, Access)>>,
}

impl MetricsAuthorizer {
    /// Asks with this client, which has to be allowed to create TokenReviews and SubjectAccessReviews. Not the one whose writes
    /// end with the term: a standby has metrics too, and a review changes nothing.
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
        // Somebody else may have asked the same while this one waited.
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
