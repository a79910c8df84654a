//! Identifies a request by its kind and by its number within that kind.

use axum::http::Method;
use cloud_simulator::wire::Endpoint;
use serde_json::Value;
use std::fmt;

/// The subject of a request that counts. Leases, Events, the Account, and reads of the apiserver do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Kubernetes: the record of an intended call, before the call: for a purchase, finalizer and record in one patch; for an
    /// operation, the status, conditional on the version of the Instance that was read.
    Intent,
    /// Kubernetes: the record of the service's answer: for a purchase the record, for an operation the status.
    Receipt,
    /// Kubernetes: any other write of an Instance's status.
    Status,
    /// Kubernetes: the removal of the finalizer.
    Finalizer,
    /// Kubernetes: a Secret of the operator's own.
    Secret,
    /// The service: a call of this endpoint.
    Call(Endpoint),
}

impl Kind {
    /// The kind of a request to the apiserver.
    pub(super) fn of_apiserver(method: &Method, path: &str, body: &[u8]) -> Option<Self> {
        if matches!(*method, Method::POST | Method::PATCH) && path.contains("/secrets") {
            return Some(Self::Secret);
        }
        if *method != Method::PATCH || !path.contains("/instances/") {
            return None;
        }
        let body = String::from_utf8_lossy(body);
        if path.ends_with("/status") {
            let patch: Value = serde_json::from_str(&body).unwrap_or_default();
            let parts = patch.as_array().map_or(&[][..], Vec::as_slice);
            let has = |op: &str, path: &str| {
                parts
                    .iter()
                    .any(|part| part["op"] == op && part["path"] == path)
            };
            return Some(if has("test", "/metadata/resourceVersion") {
                Self::Intent
            } else if has("replace", "/status/operation") {
                Self::Receipt
            } else {
                Self::Status
            });
        }
        Some(if !body.trim_start().starts_with('[') {
            Self::Intent
        } else if body.contains("\"replace\",\"path\":\"/metadata/finalizers") {
            Self::Finalizer
        } else {
            Self::Receipt
        })
    }

    /// The kind of a request to the service. Only the calls of an operation count.
    pub(super) fn of_service(path: &str) -> Option<Self> {
        let endpoint = Endpoint::at(path)?;
        let reads = [
            Endpoint::Detail,
            Endpoint::TaskResult,
            Endpoint::InstanceList,
        ];
        (endpoint.verb().is_some() || reads.contains(&endpoint)).then_some(Self::Call(endpoint))
    }

    /// Whether it changes something.
    pub fn is_mutation(self) -> bool {
        match self {
            Self::Intent | Self::Receipt | Self::Status | Self::Finalizer | Self::Secret => true,
            Self::Call(endpoint) => endpoint.verb().is_some(),
        }
    }

    /// Whether it goes to the apiserver.
    pub fn is_kubernetes(self) -> bool {
        !matches!(self, Self::Call(_))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Intent => "intent",
            Self::Receipt => "receipt",
            Self::Status => "status",
            Self::Finalizer => "finalizer",
            Self::Secret => "secret",
            Self::Call(Endpoint::ModifyPassword) => "password",
            Self::Call(Endpoint::Reinstall) => "reinstall",
            Self::Call(Endpoint::TaskResult) => "task",
            Self::Call(endpoint) => {
                let path = endpoint.path();
                path.rsplit('/').next().unwrap_or(path)
            }
        })
    }
}

/// One request: the n-th of its kind, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    pub kind: Kind,
    pub nth: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.kind, self.nth)
    }
}
