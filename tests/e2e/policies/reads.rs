//! When the operator reads a server.

use super::{edit, example};
use crate::support::{Setup, World, mark, posts, quiet, written};
use serde_json::json;

fn details(world: &World) -> u64 {
    world.sim.ledger().count("/instance/detail")
}

async fn until_token(world: &World, token: &str) {
    world
        .until("fresh", &format!("{token} is carried out"), |instance| {
            let status = instance.status.as_ref().unwrap();
            status.last_reconcile_token.as_deref() == Some(token)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_token_causes_a_read_of_every_server_at_once() {
    let mut world = Setup::default().begin("looked-at").await;
    example(&world, "instance-looked-at").await;
    world.ready("fresh").await;
    until_token(&world, "2026-11-22 first look").await;
    let before = mark(&world, "fresh").await;
    let (seen, listed) = (details(&world), world.sim.ledger().count("/instance/list"));
    edit(&world, "fresh", json!({"reconcile": {"token": "second"}})).await;
    until_token(&world, "second").await;
    assert_eq!(details(&world), seen + 1, "one read of the server");
    assert!(world.sim.ledger().count("/instance/list") > listed);
    quiet(&world, "fresh").await;
    assert_eq!(details(&world), seen + 1, "and no other");
    assert_eq!(posts(&world, before.seq), Vec::<String>::new());
    let writes = written(&world, "fresh", &before).await;
    assert!(writes.len() <= 2, "{writes:?}");
    // Status contains the token that was carried out, so a restart does not repeat it.
    world.restart().await;
    quiet(&world, "fresh").await;
    assert_eq!(details(&world), seen + 1);
    world.finish().await;
}
