//! The protocol in a closed loop: the operator's own reconciles, listings and memory against an apiserver and the service in
//! memory, in virtual time, with faults at any point.
//!
//! ```text
//! cargo test --locked --profile fast --test protocol               # named schedules, every single fault, and 10,000 random schedules
//! SEED=17 cargo test --locked --profile fast --test protocol replay -- --ignored --nocapture
//! make soak SOAK_MINUTES=30
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that panics is a test that fails, and cargo shows what a test prints"
)]

mod apiserver;
mod exhaust;
mod far;
mod fault;
mod gitops;
mod hostile;
#[path = "../../tools/judges.rs"]
mod judges;
mod link;
mod named;
mod oracle;
mod process;
mod random;
mod released;
mod run;
mod soak;
mod specs;
mod tally;
mod tenants;
mod universe;

// As in the operator itself; it is also twice as fast here.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
