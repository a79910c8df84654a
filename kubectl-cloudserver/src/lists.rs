//! Lists of the apiserver, page by page.

use cloud_server_operator::runtime::KubeError;
use cloud_server_operator::runtime::kubernetes::call;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// The maximum of objects in one answer: all objects of a large cluster in one answer would exceed the deadline of a request.
const PAGE: u32 = 500;

/// All objects that match these parameters. `what` names the operation in an error.
pub(super) async fn all<K>(
    api: &Api<K>,
    what: &'static str,
    params: ListParams,
) -> Result<Vec<K>, KubeError>
where
    K: DeserializeOwned + Clone + Debug,
{
    let mut params = params.limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = call(what, api.list(&params)).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}
