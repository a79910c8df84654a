//! Effects of a service on a whole fleet: it refuses, limits, is unavailable, shows a wrong state, or has another identity.
//! Faults of single calls are in `faults`.

mod away;
mod certificate;
mod egress;
mod identity;
mod limits;
mod pages;
mod priorities;
mod refused;
mod regions;
mod trust;
mod wires;

use cloud_simulator::faults::{Act, When};

/// A refusal before any effect.
fn refusal(status: u16, code: &str) -> Act {
    Act::Error {
        status,
        code: code.to_owned(),
        message: "this cannot be answered now".to_owned(),
        retry_after: None,
        when: When::BeforeEffect,
    }
}
