//! The control port works as the README describes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::{Ipv4Addr, SocketAddr};

use cloud_simulator::Simulator;
use common::{Caller, answer, create_body, quick, settle};
use serde_json::{Value, json};

async fn running() -> (Simulator, Caller, Caller) {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let sim = quick().control(free).start().await.unwrap();
    let service = Caller::of(&sim);
    let control = Caller::new(sim.control_url().unwrap(), "");
    (sim, service, control)
}

async fn put(control: &Caller, path: &str, body: &Value) -> u16 {
    let url = format!("{}{path}", control.url);
    control
        .http
        .put(url)
        .json(body)
        .send()
        .await
        .unwrap()
        .status()
        .as_u16()
}

async fn delete(control: &Caller, path: &str) -> u16 {
    control
        .http
        .delete(format!("{}{path}", control.url))
        .send()
        .await
        .unwrap()
        .status()
        .as_u16()
}

#[tokio::test]
async fn ledger_and_servers_are_shown() {
    let (sim, service, control) = running().await;
    let (server, _) = service.create("web-1").await;
    settle(&sim).await;
    let servers = control.get("/servers", &[("live", "true")]).await.body;
    assert_eq!(servers["servers"][0]["id"], json!(server));
    let ledger = control.get("/ledger", &[("effects", "true")]).await.body;
    let kinds: Vec<&Value> = ledger["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["effect"]["kind"])
        .collect();
    assert_eq!(kinds, ["created", "deployed"]);
    assert_eq!(ledger["counts"]["/instance/create"], 1);
    let tasks = control.get("/tasks", &[]).await.body;
    assert_eq!(tasks["tasks"][0]["server"], json!(server));
    assert_eq!(tasks["tasks"][0]["progress"], "Succeeded");
}

#[tokio::test]
async fn faults_are_set_held_released_and_cleared() {
    let (_sim, service, control) = running().await;
    let hold =
        json!({ "path": "/instance/create", "act": { "act": "hold", "at": "before-effect" } });
    let id = control.post("/faults", &hold).await.body["id"].clone();
    let caller = service.clone();
    let calling = tokio::spawn(async move { caller.create("web-1").await });
    let mut parked = json!(0);
    while parked == json!(0) {
        tokio::task::yield_now().await;
        parked = control.get("/faults", &[]).await.body["faults"][0]["parked"].clone();
    }
    let released = control
        .posting(&format!("/faults/{id}/release"), &json!({}))
        .send()
        .await
        .unwrap();
    assert_eq!(released.status(), 204);
    calling.await.unwrap();
    assert_eq!(delete(&control, &format!("/faults/{id}")).await, 204);
    assert_eq!(delete(&control, &format!("/faults/{id}")).await, 404);

    let lose = json!({ "path": "*", "act": { "act": "lose" } });
    control.post("/faults", &lose).await;
    assert!(answer(service.getting("/region/list", &[])).await.is_err());
    assert_eq!(delete(&control, "/faults").await, 204);
    assert_eq!(service.get("/region/list", &[]).await.status, 202);
    let nonsense = json!({ "path": "*", "act": { "act": "explode" } });
    let refused = control.posting("/faults", &nonsense).send().await.unwrap();
    assert_eq!(refused.status(), 422);
}

#[tokio::test]
async fn the_console_the_accounts_and_the_readings_are_reached() {
    let (sim, service, control) = running().await;
    let (server, _) = service.create("web-1").await;
    settle(&sim).await;
    let off = control
        .post(
            "/console",
            &json!({ "action": "power-off", "server": server }),
        )
        .await;
    assert_eq!(
        (off.status, &off.body["effect"]["kind"]),
        (200, &json!("stopped"))
    );
    assert_eq!(sim.live_servers()[0].status, "STOPPED");
    let unknown = control
        .post("/console", &json!({ "action": "power-off", "server": "x" }))
        .await;
    assert_eq!(unknown.status, 422);

    assert_eq!(
        put(&control, "/account-status", &json!({ "status": "frozen" })).await,
        200
    );
    assert_eq!(
        service
            .post("/instance/create", &create_body("web-2"))
            .await
            .status,
        403
    );
    let new = json!({ "name": "other", "token": "other-token" });
    assert_eq!(control.post("/accounts", &new).await.status, 200);
    assert_eq!(
        service
            .with_token("other-token")
            .get("/region/list", &[])
            .await
            .status,
        202
    );
    let accounts = control.get("/accounts", &[]).await.body.to_string();
    assert!(accounts.contains("other") && !accounts.contains("other-token"));
    assert_eq!(
        put(&control, "/account-token", &json!({ "token": "rotated" })).await,
        200
    );
    assert_eq!(service.get("/region/list", &[]).await.status, 401);

    let mut readings = control.get("/readings", &[]).await.body;
    readings["taskId"] = json!("nested");
    assert_eq!(put(&control, "/readings", &readings).await, 200);
    assert_eq!(control.get("/readings", &[]).await.body, readings);
}
