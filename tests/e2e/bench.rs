//! The costs of a fleet, measured with real components: `make bench`. Each scenario prints lines that begin with `BENCH`,
//! followed by a JSON object. The benchmarks only assert that the fleet was bought; the tests of cost assert the required
//! counts.

mod creates;
mod edits;
mod heap;
mod idle;
mod life;
mod memory;
mod operations;
mod shards;
mod store;
mod takeover;

use serde_json::Value;

fn print_figures(figures: &Value) {
    println!("BENCH {figures}");
}
