//! The policies by which users restrict the operator, each feature with its manifest in `examples/`. The ledger shows the
//! calls.

mod deletion;
mod reads;
mod reinstall;

use crate::support::{Mark, World, ended};
use cloud_server_operator::api::{Instance, Verb};
use serde_json::{Value, json};

/// An image other than the one of the examples.
const OTHER_IMAGE: &str = "img-ubuntu2404aa";
/// The image of the examples.
const IMAGE: &str = "img-debian12aaaa";

fn path(file: &str) -> String {
    format!("{}/../../examples/{file}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// Applies an example without changes.
async fn example(world: &World, file: &str) {
    let path = path(file);
    let apply = ["apply", "--server-side", "--field-manager=user"];
    world.run(&[&apply[..], &["-f", &path]].concat(), "").await;
}

/// A user edits fields of the spec; null removes a field.
async fn edit(world: &World, name: &str, spec: Value) {
    let patch = json!({"spec": spec}).to_string();
    let arguments = ["patch", "instance", name, "--type=merge", "-p", &patch];
    world.run(&arguments, "").await;
}

/// Deletes without waiting.
async fn delete(world: &World, name: &str) {
    let arguments = ["delete", "instance", name, "--wait=false"];
    world.run(&arguments, "").await;
}

/// Waits until these operations have succeeded since then.
async fn have_ended(world: &World, name: &str, since: &Mark, verbs: &[Verb]) -> Instance {
    let instance = world
        .until(name, &format!("{verbs:?} ended"), |instance| {
            ended(instance, since).len() >= verbs.len()
        })
        .await;
    let newer = ended(&instance, since);
    let did: Vec<Verb> = newer.iter().map(|entry| entry.verb).collect();
    assert_eq!(did, verbs, "{}", world.ledger_text());
    assert!(newer.iter().all(|entry| entry.succeeded), "{newer:#?}");
    instance
}
