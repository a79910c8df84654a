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
//! A cluster has TLS, RBAC, service-account tokens, custom resources with CEL rules, priority and fairness, an audit log, and
//! the controllers that handle owner references and namespace deletion. It has no nodes: a Pod can be created, but stays
//! Pending.
//!
//! All processes of a cluster end with its owner, even if the owner is killed: see [`Cluster`].

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
