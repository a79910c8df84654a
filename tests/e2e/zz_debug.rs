use crate::support::{Setup, instance};
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debug_writes() {
    let world = Setup::default().tasks(5_000).proxy().filter("info,cloud_server_operator=debug").begin("debug").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    for change in world.proxy().changes() {
        println!("{} {} {}", change.method, change.path, change.body.chars().take(1500).collect::<String>());
    }
}
