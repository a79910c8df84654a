//! The control port: the functions that the library offers to tests, over HTTP.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::faults::{Act, Rule};
use crate::ledger::Entry;
use crate::model::{AccountStatus, Console, DEFAULT_ACCOUNT, ServerInfo, World};
use crate::readings::Readings;
use crate::secret::Secret;
use crate::service::Service;

/// A page for people, which shows servers, tasks, ledger and faults as they change.
const PAGE: &str = include_str!("page.html");
/// The page may use its own script and style and the answers of this port, and nothing from any other origin.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'";
/// How many tasks are listed, newest first.
const TASKS: usize = 100;

type Shared = State<Arc<Service>>;

/// Serves the control port on a listener.
///
/// # Errors
/// The listener has no address.
pub(crate) fn serve(
    listener: TcpListener,
    service: Arc<Service>,
) -> std::io::Result<(SocketAddr, JoinHandle<()>)> {
    let address = listener.local_addr()?;
    let router = Router::new()
        .route("/", get(home))
        .route("/ledger", get(ledger))
        .route("/servers", get(servers))
        .route("/tasks", get(tasks))
        .route("/faults", get(faults).post(add_fault).delete(clear_faults))
        .route("/faults/{id}", delete(remove_fault))
        .route("/faults/{id}/release", post(release_fault))
        .route("/console", post(console))
        .route("/accounts", get(accounts).post(add_account))
        .route("/account-status", put(set_account_status))
        .route("/account-token", put(set_account_token))
        .route("/account-regions", put(set_account_regions))
        .route("/readings", get(readings).put(set_readings))
        .with_state(service);
    let server = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the control port stopped listening");
        }
    });
    Ok((address, server))
}

fn refuse(status: StatusCode, error: &dyn std::error::Error) -> Response {
    (status, Json(json!({ "error": error.to_string() }))).into_response()
}

/// Acts on the world, and answers once the change is on disk.
async fn act<E: std::error::Error>(
    service: &Service,
    act: impl FnOnce(&mut World) -> Result<Value, E>,
) -> Response {
    let (result, durable) = service.with_world(act);
    match result {
        Err(error) => refuse(StatusCode::UNPROCESSABLE_ENTITY, &error),
        Ok(_) if !durable.wait().await => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Ok(value) => Json(value).into_response(),
    }
}

async fn home() -> impl IntoResponse {
    ([(CONTENT_SECURITY_POLICY, POLICY)], Html(PAGE))
}

#[derive(Deserialize)]
struct LedgerQuery {
    path: Option<String>,
    account: Option<String>,
    #[serde(default)]
    since: u64,
    #[serde(default)]
    mutating: bool,
    #[serde(default)]
    effects: bool,
    limit: Option<usize>,
}

async fn ledger(State(service): Shared, Query(query): Query<LedgerQuery>) -> Json<Value> {
    let ledger = service.ledger();
    let is_selected = |entry: &&Entry| {
        entry.seq > query.since
            && query.path.as_ref().is_none_or(|path| *path == entry.path)
            && (query.account.is_none() || query.account == entry.account)
            && (!query.mutating || entry.method == "POST")
            && (!query.effects || !entry.effect.is_none())
    };
    let most = query.limit.unwrap_or(usize::MAX);
    // The newest entries, in order.
    let mut entries: Vec<&Entry> = ledger
        .entries()
        .rev()
        .filter(is_selected)
        .take(most)
        .collect();
    entries.reverse();
    Json(json!({ "entries": entries, "counts": ledger.counts(), "lastSeq": ledger.last_seq() }))
}

#[derive(Deserialize)]
struct ServersQuery {
    #[serde(default)]
    live: bool,
    limit: Option<usize>,
}

async fn servers(State(service): Shared, Query(query): Query<ServersQuery>) -> Json<Value> {
    let mut servers = service.read(World::servers);
    let all = servers.len();
    let is_live = |server: &ServerInfo| server.released_at.is_none();
    let live = servers.iter().filter(|server| is_live(server)).count();
    servers.retain(|server| is_live(server) || !query.live);
    let before = servers
        .len()
        .saturating_sub(query.limit.unwrap_or(usize::MAX));
    let counts = json!({ "live": live, "released": all - live });
    Json(json!({ "servers": servers[before..], "counts": counts }))
}

async fn tasks(State(service): Shared) -> Json<Value> {
    let (tasks, now) = service.read(|world| (world.newest_tasks(TASKS), world.now()));
    Json(json!({ "tasks": tasks, "now": now }))
}

async fn faults(State(service): Shared) -> Json<Value> {
    Json(json!({ "faults": service.faults().report() }))
}

async fn add_fault(State(service): Shared, Json(rule): Json<Rule>) -> Json<Value> {
    let snapshot = (rule.act == Act::Stale).then(|| service.read(World::clone));
    Json(json!({ "id": service.faults().add_with(rule, snapshot) }))
}

async fn clear_faults(State(service): Shared) -> StatusCode {
    service.faults().clear();
    StatusCode::NO_CONTENT
}

async fn remove_fault(State(service): Shared, Path(id): Path<u64>) -> StatusCode {
    if service.faults().remove(id) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

async fn release_fault(State(service): Shared, Path(id): Path<u64>) -> StatusCode {
    let Some(hold) = service.faults().hold_of(id) else {
        return StatusCode::NOT_FOUND;
    };
    hold.release();
    StatusCode::NO_CONTENT
}

async fn console(State(service): Shared, Json(action): Json<Console>) -> Response {
    act(&service, |world| {
        world
            .console(action)
            .map(|effect| json!({ "effect": effect }))
    })
    .await
}

async fn accounts(State(service): Shared) -> Json<Value> {
    let accounts = service.read(|world| {
        let account = |account: &crate::model::Account| {
            json!({ "name": account.name, "status": account.status, "quota": account.quota })
        };
        world.accounts().iter().map(account).collect::<Vec<_>>()
    });
    Json(json!({ "accounts": accounts }))
}

#[derive(Deserialize)]
struct NewAccount {
    name: String,
    token: String,
}

async fn add_account(State(service): Shared, Json(new): Json<NewAccount>) -> Response {
    act(&service, |world| {
        world.add_account(&new.name, &new.token).map(|()| json!({}))
    })
    .await
}

fn default_account() -> String {
    DEFAULT_ACCOUNT.to_owned()
}

#[derive(Deserialize)]
struct NewStatus {
    #[serde(default = "default_account")]
    account: String,
    status: AccountStatus,
}

async fn set_account_status(State(service): Shared, Json(new): Json<NewStatus>) -> Response {
    let change = |world: &mut World| {
        world.change_account(&new.account, |account| account.status = new.status)
    };
    act(&service, |world| change(world).map(|()| json!({}))).await
}

#[derive(Deserialize)]
struct NewToken {
    #[serde(default = "default_account")]
    account: String,
    token: Secret,
}

async fn set_account_token(State(service): Shared, Json(new): Json<NewToken>) -> Response {
    let change =
        |world: &mut World| world.change_account(&new.account, |account| account.token = new.token);
    act(&service, |world| change(world).map(|()| json!({}))).await
}

#[derive(Deserialize)]
struct NewRegions {
    #[serde(default = "default_account")]
    account: String,
    regions: Option<BTreeSet<String>>,
}

async fn set_account_regions(State(service): Shared, Json(new): Json<NewRegions>) -> Response {
    let change = |world: &mut World| {
        world.change_account(&new.account, |account| account.regions = new.regions)
    };
    act(&service, |world| change(world).map(|()| json!({}))).await
}

async fn readings(State(service): Shared) -> Json<Readings> {
    Json(service.read(|world| world.readings().clone()))
}

async fn set_readings(State(service): Shared, Json(readings): Json<Readings>) -> Response {
    let set = |world: &mut World| {
        world.set_readings(readings);
        Ok::<_, std::convert::Infallible>(json!({}))
    };
    act(&service, set).await
}
