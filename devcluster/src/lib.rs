//! A real etcd and kube-apiserver on loopback, without containers, for demos, tests and benchmarks.
//!
//! ```no_run
//! # async fn example() -> Result<(), devcluster::Error> {
//! let cluster = devcluster::Cluster::builder().start().await?;
//! let client = cluster.client().await?;
//! # drop(client);
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! What a cluster has: TLS, RBAC, service-account tokens, custom resources with CEL rules, priority and fairness, an
//! audit log, and the controllers that make owner references and namespace deletion behave. What it has not: nodes.
//! A Pod can be written and stays Pending.
//!
//! Everything a cluster started ends with its owner, also when the owner is killed: see [`Cluster`].

pub mod audit;
mod cluster;
mod component;
mod credentials;
mod error;
pub mod executables;
mod kubeconfig;
mod ports;
mod progress;
mod ready;
mod supervisor;

pub use cluster::{Builder, Cluster, freeze};
pub use component::Component;
pub use error::Error;
pub use executables::Executables;
