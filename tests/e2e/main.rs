//! The operator as users meet it: the real executable against a real kube-apiserver, with the rights of `deploy/`, and the
//! service played by the simulator, whose ledger is the truth that is asserted on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

mod cost;
mod crash;
mod crash_verbs;
mod drift;
mod faults;
mod inputs;
mod life;
mod lost;
mod needs;
mod process;
mod readings;
mod record;
mod rules;
mod safety;
mod support;
mod verbs;
