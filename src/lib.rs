//! Cloud servers as Kubernetes objects: exactly one server for each Instance, through every crash and without human help.
//!
//! Imports between the modules go one way: `api` ← `runtime` ← `cloud` ← `inventory` ← `catalog` ← `session` ←
//! `credentials` ← `instance`, `account` ← `wiring` ← `operator`. `program` imports `api`. A test checks this. The commands of
//! users are the crate `kubectl-cloudserver`, which uses this one.

pub mod account;
pub mod api;
pub mod catalog;
pub mod cloud;
pub mod credentials;
pub mod instance;
pub mod inventory;
pub mod operator;
pub mod program;
pub mod runtime;
pub mod session;
pub mod wiring;

/// The CustomResourceDefinitions as YAML documents, as they stand in `crds/`.
///
/// # Errors
/// The serializer refused them, which no input can bring about.
pub fn crds_yaml() -> Result<String, Box<dyn std::error::Error>> {
    let mut text = String::new();
    for crd in api::definitions()? {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&crd)?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
