//! The operator as users run it: the real executable against a real kube-apiserver, with the permissions of `deploy/`. The
//! simulator stands in for the service, and the assertions use its ledger.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a panic is how a test fails, and cargo shows what a test prints"
)]

mod account;
mod acknowledge;
mod audit;
mod bench;
mod beside;
mod catalog;
mod commands;
mod consent;
mod cost;
mod done;
mod drift;
mod examples;
mod expiry;
mod faults;
mod gitops;
mod host;
mod hostile;
mod image;
mod import;
mod inputs;
mod installs;
#[path = "../../tools/judges.rs"]
mod judges;
mod kubernetes;
mod lease;
mod life;
mod login;
mod lost;
mod metrics;
mod moving;
mod needs;
mod observability;
mod others_conditions;
mod policies;
mod process;
mod readings;
mod record;
mod references;
mod rules;
mod safety;
mod secrets;
mod service;
mod shards;
mod support;
mod synced;
mod tenants;
mod torture;
mod traces;
mod upgrade;
mod verbs;
