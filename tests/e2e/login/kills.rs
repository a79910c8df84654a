//! A rotation that is interrupted at any write: at each point the Secret contains the server's password, and in the end it
//! shows it as the one in effect.

use super::{in_force, read};
use crate::support::{World, eventually, outline};
use cloud_server_operator::api::Instance;

const LOGIN: &str = "web-login";

/// Waits until another password is in effect, at the service, in the Secret and in status.
pub(super) async fn rotated(world: &World, former: &str) -> Instance {
    eventually("another password is made", async || {
        match read(world, LOGIN).await["password"] != former {
            true => Ok(()),
            false => Err(outline(&world.get("web").await)),
        }
    })
    .await;
    in_force(world, "web", LOGIN).await
}
