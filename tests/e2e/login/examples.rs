//! The examples of logins, without changes.

use super::{agrees, generated, read};
use crate::support::Setup;
use serde_json::json;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_the_examples_work_unchanged() {
    let world = Setup::default().begin("login-examples").await;
    for file in ["instance-generated.yaml", "instance-connection.yaml"] {
        let path = format!("{EXAMPLES}/{file}");
        world.run(&["apply", "-f", &path], "").await;
    }
    let generated_one = world.ready("web-2").await;
    agrees(&world, &generated_one, "web-2-login").await;
    let connected = world.ready("web-3").await;
    let held = agrees(&world, &connected, "web-3-login").await;
    crate::support::eventually("it can be connected to", async || {
        let found = world.secrets().get_opt("web-3-connection").await;
        let found = found.map_err(|error| error.to_string())?;
        found.map(drop).ok_or("there is no Secret".to_owned())
    })
    .await;
    let texts = read(&world, "web-3-connection").await;
    assert_eq!(texts["password"], held["password"]);
    // A minimal manifest means the same.
    assert_eq!(generated("web-3")["spec"]["login"], json!({"generate": {}}));
    world.finish().await;
}
