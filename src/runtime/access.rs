//! Optional authorization for metrics: the apiserver identifies the caller and decides whether the caller may get `/metrics`.

use super::KubeError;
use super::kubernetes::call;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// At most this many reviews run at the same time, however many tokens a caller tries.
const REVIEWS: usize = 4;

/// The apiserver's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Review {
    Allowed,
    /// The token belongs to no user.
    UnknownToken,
    /// The token's owner lacks the permission.
    Forbidden,
}

/// Requests a decision from the apiserver for each scrape. Cheap to clone.
#[derive(Clone)]
pub struct MetricsAuthorizer {
    client: Client,
    reviews: Arc<Semaphore>,
}

impl MetricsAuthorizer {
    /// Uses this client, which must be allowed to create TokenReviews and SubjectAccessReviews. It must not be the client that
    /// refuses writes outside the term: a standby serves metrics too, and a review changes nothing.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            reviews: Arc::new(Semaphore::new(REVIEWS)),
        }
    }

    /// Whether the owner of this token may get this path.
    ///
    /// # Errors
    /// The apiserver does not answer, or refuses the review. The error does not contain the token.
    pub(super) async fn review(&self, token: &str, path: &str) -> Result<Review, KubeError> {
        let _permit = self.reviews.acquire().await;
        let reviewed = self.try_review(token, path).await;
        reviewed.map_err(|error| error.hiding([token]))
    }

    async fn try_review(&self, token: &str, path: &str) -> Result<Review, KubeError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let review = call("review a token", api.create(&params, &review)).await?;
        let status = review.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        let Some(user) = user else {
            return Ok(Review::UnknownToken);
        };
        let review = SubjectAccessReview {
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
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = call("review a permission", api.create(&params, &review)).await?;
        match review.status.is_some_and(|status| status.allowed) {
            true => Ok(Review::Allowed),
            false => Ok(Review::Forbidden),
        }
    }
}
