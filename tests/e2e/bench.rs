//! What a fleet costs, measured on real parts: `make bench`. Each scenario prints lines that begin with `BENCH`, a JSON object
//! each. Nothing is asserted here but that the fleet came to be: the counts that must hold are asserted by the tests of cost.

mod creates;
mod edits;
mod heap;
mod life;
mod memory;
mod operations;
mod rest;
mod shards;
mod store;
mod takeover;

use serde_json::Value;

fn tell(figures: &Value) {
    println!("BENCH {figures}");
}
