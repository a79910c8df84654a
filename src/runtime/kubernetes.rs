//! Calls to the kube-apiserver, each under a deadline of its own, none repeated by a transport.

use crate::api::names::MANAGER;
use kube::api::Patch;
use kube::{Client, Config};
use std::time::Duration;
use thiserror::Error;

/// Deadline of one call (design section 9). An apiserver that needs longer is down for our purposes.
pub const DEADLINE: Duration = Duration::from_secs(15);

/// A watch with nothing to tell is ended by the server after this many seconds and noticed as half-open 5 s later: events
/// are late by at most half a minute when a connection dies without a word.
pub const WATCH_SECONDS: u32 = 25;

/// How the apiserver's audit log names us.
const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// A failed call.
#[derive(Debug, Error)]
pub enum KubeError {
    /// The apiserver answered with a Status.
    #[error("{operation}: the apiserver refused: {} ({})", .status.message, .status.code)]
    Refused {
        /// What was attempted.
        operation: &'static str,
        /// The apiserver's answer.
        status: Box<kube::core::Status>,
    },
    /// No answer within [`DEADLINE`].
    #[error("{operation}: no answer from the apiserver within {} s", DEADLINE.as_secs())]
    Timeout {
        /// What was attempted.
        operation: &'static str,
    },
    /// What was to be written has no JSON form.
    #[error("{operation}: it has no JSON form")]
    Unwritable {
        /// What was attempted.
        operation: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The answer never came, or was not one.
    #[error("{operation}: the apiserver could not be reached")]
    Transport {
        /// What was attempted.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
}

impl KubeError {
    /// The object is not there (any more).
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 404)
    }

    /// A resourceVersion or UID was not the current one.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 409)
    }

    /// The apiserver does not want this write: a permission, a policy or a rule stands in the way.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if matches!(status.code, 400 | 401 | 403 | 413 | 422))
    }

    /// An admission policy or webhook refused, which is told with the same code as a failed precondition of a JSON patch.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.message.contains("denied"))
    }

    /// A precondition of a JSON patch did not hold: another object (409), or a `test` that failed (422).
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 409 || status.code == 422)
    }

    /// The write may have been applied although no answer said so.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Refused { status, .. } => status.code >= 500,
            Self::Timeout { .. } | Self::Transport { .. } => true,
            Self::Unwritable { .. } => false,
        }
    }

    /// Label of metrics: bounded, without names.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Refused { status, .. } => match status.code {
                404 => "not_found",
                409 => "conflict",
                422 => "invalid",
                401 | 403 => "forbidden",
                429 => "throttled",
                500.. => "server",
                _ => "refused",
            },
            Self::Timeout { .. } => "timeout",
            Self::Transport { .. } => "transport",
            Self::Unwritable { .. } => "unwritable",
        }
    }
}

/// Waits for one call, at most [`DEADLINE`].
///
/// # Errors
/// See [`KubeError`].
pub async fn call<T>(
    operation: &'static str,
    future: impl Future<Output = kube::Result<T>>,
) -> Result<T, KubeError> {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) => Err(KubeError::Refused { operation, status }),
        Ok(Err(source)) => Err(KubeError::Transport {
            operation,
            source: Box::new(source),
        }),
        Err(_) => Err(KubeError::Timeout { operation }),
    }
}

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Neither kubeconfig nor in-cluster environment.
    #[error("no cluster to talk to: set KUBECONFIG, or run inside a cluster with a ServiceAccount")]
    Config {
        /// The cause.
        #[source]
        source: Box<kube::config::InferConfigError>,
    },
    /// The configuration does not make a client.
    #[error("the cluster's configuration is not usable")]
    Client {
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
}

/// The client: kubeconfig by the ecosystem's rules (KUBECONFIG, else ~/.kube/config, else in-cluster), and no retries,
/// since a repeated write is a decision of ours.
///
/// # Errors
/// No configuration, or one that cannot be used.
pub async fn client() -> Result<Client, ClientError> {
    let mut config = Config::infer()
        .await
        .map_err(|source| ClientError::Config {
            source: Box::new(source),
        })?;
    config.default_retry = false;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(USER_AGENT),
    ));
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(Duration::from_secs(u64::from(WATCH_SECONDS) + 10));
    config.reset_reader_on_write = true;
    let unusable = |source| ClientError::Client {
        source: Box::new(source),
    };
    let builder = kube::client::ClientBuilder::try_from(config).map_err(unusable)?;
    Ok(builder.build())
}

/// How writes name us.
pub fn patch_params() -> kube::api::PatchParams {
    kube::api::PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..Default::default()
    }
}

/// A JSON patch from its operations.
///
/// # Errors
/// They are no JSON patch, which is a defect of the caller.
pub fn json_patch(
    operation: &'static str,
    operations: serde_json::Value,
) -> Result<Patch<()>, KubeError> {
    let operations = serde_json::from_value(operations);
    operations
        .map(Patch::Json)
        .map_err(|source| KubeError::Unwritable { operation, source })
}

/// A JSON pointer to the value under these keys.
pub fn pointer(keys: &[&str]) -> String {
    keys.iter()
        .map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_escapes_its_keys() {
        assert_eq!(
            pointer(&["metadata", "annotations", "a.b/c~d"]),
            "/metadata/annotations/a.b~1c~0d"
        );
    }
}
