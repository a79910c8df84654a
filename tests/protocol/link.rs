//! The only connection from a process to everything else: each request passes here, is counted, and gets its fault.

use crate::apiserver::{
    ACCOUNTS, Edit, INSTANCES, Key, NAMESPACE, SECRETS, is_neighbours, name_in, place,
};
use crate::fault::{Act, Kind, Step};
use crate::oracle::{ProcessId, Rule, Verdict};
use crate::universe::{About, Absence, Fate, Reply, Shared, Universe};
use cloud_server_operator::cloud::{Carried, Carrier, CarrierError, Http};
use cloud_server_operator::runtime::{Shard, Term};
use cloud_simulator::model::TaskScript;
use cloud_simulator::secret::Secret;
use cloud_simulator::wire::RawRequest;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The connection of one process to everything else; cheap to clone.
#[derive(Clone)]
pub struct Link {
    universe: Shared,
    state: Arc<State>,
}

struct State {
    is_dead: AtomicBool,
    paused_until: Mutex<Option<Instant>>,
    dice: AtomicU64,
    process: ProcessId,
    term: Term,
    shard: Shard,
}

type Effect = Box<dyn FnMut(&mut Universe, Option<&Act>) -> Reply + Send>;

impl Link {
    /// The connection of a process that starts now, and may change something during this term.
    pub fn new(universe: &Shared, seed: u64, term: &Term, shard: Shard) -> Self {
        let state = State {
            is_dead: AtomicBool::default(),
            paused_until: Mutex::default(),
            dice: AtomicU64::new(seed | 1),
            process: ProcessId(seed),
            term: term.clone(),
            shard,
        };
        Self {
            universe: universe.clone(),
            state: Arc::new(state),
        }
    }

    /// Kills the process: none of its actions take effect any more.
    pub fn die(&self) {
        self.state.is_dead.store(true, Ordering::SeqCst);
        self.universe.changed.notify_waiters();
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.state.is_dead.load(Ordering::SeqCst)
    }

    /// Whether the process serves neighbours in addition to the judged team.
    pub fn has_neighbours(&self) -> bool {
        self.universe.lock().neighbours.are_there()
    }

    /// A reconcile of this object begins.
    pub fn begins_reconcile(&self, object: &str) {
        if is_neighbours(object) {
            return;
        }
        let process = self.state.process;
        self.universe
            .lock()
            .oracle
            .begins_reconcile(process, object);
    }

    /// Until when the process is stopped.
    pub fn paused_until(&self) -> Option<Instant> {
        let until = *self.paused();
        until.filter(|until| *until > Instant::now())
    }

    fn pause(&self, seconds: u32) {
        let until = Instant::now() + Duration::from_secs(u64::from(seconds));
        *self.paused() = Some(until);
        self.universe.with(|u| {
            // The process continues its work then.
            u.last_change = u.last_change.max(until);
        });
    }

    fn paused(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.state
            .paused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the process is stopped; forever if it is dead.
    async fn passable(&self) {
        loop {
            if self.is_dead() {
                std::future::pending::<()>().await;
            }
            match self.paused_until() {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    /// Waits between one and sixteen milliseconds, like a network.
    async fn travel(&self) {
        let mut dice = self.state.dice.load(Ordering::Relaxed);
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        self.state.dice.store(dice, Ordering::Relaxed);
        sleep(Duration::from_millis(1 + dice % 16)).await;
    }

    /// Sends one request and returns its answer, subject to its fault.
    async fn send(&self, kind: Kind, about: &About, effect: Effect) -> Result<Reply, CarrierError> {
        let answer = self.carry(kind, about, effect).await;
        if kind.is_cloud() && !about.is_neighbours() {
            let is_sent = !matches!(answer, Err(CarrierError::NotSent));
            let (process, reply) = (self.state.process, answer.as_ref().ok());
            let mut universe = self.universe.lock();
            universe.arrives(process, about, reply, is_sent);
        }
        answer
    }

    /// The shard on which its process acts.
    pub fn shard(&self) -> Shard {
        self.state.shard
    }

    /// Judges that the process reads and changes nothing that belongs to another process's shard.
    fn judge_shard(&self, kind: Kind, about: &About) {
        let About::Object(key) = about else { return };
        let (namespace, _) = place(&key.1);
        if !self.state.shard.owns(namespace) {
            let violation = format!(
                "{kind:?} of {key:?} by who acts on shard {}",
                self.state.shard
            );
            self.universe.lock().oracle.violations.push(violation);
        }
    }

    async fn carry(
        &self,
        kind: Kind,
        about: &About,
        mut effect: Effect,
    ) -> Result<Reply, CarrierError> {
        self.judge_term(kind);
        self.judge_shard(kind, about);
        self.passable().await;
        self.travel().await;
        self.passable().await;
        if about.is_neighbours() {
            let reply = self.universe.with(|u| effect(u, None));
            self.travel().await;
            self.passable().await;
            return Ok(reply);
        }
        let act = {
            let mut universe = self.universe.lock();
            universe.note_state();
            universe.departs(self.state.process, kind, about);
            match universe.absence(kind) {
                Some(Absence::Silent) => return Err(CarrierError::NotSent),
                Some(Absence::Answers(status)) => {
                    universe.oracle.was_answered(kind, status);
                    return Ok(refusal(kind, status));
                }
                None => universe.count(kind),
            }
        };
        match &act {
            Some(Act::CrashBefore) => self.die(),
            Some(Act::LoseRequest) => return Err(CarrierError::Broken),
            Some(Act::NotSent) => return Err(CarrierError::NotSent),
            Some(Act::Status(status)) => return Ok(unexpected_status(*status)),
            Some(Act::FalseNotFound) => return Ok(not_found()),
            Some(Act::PauseBefore(seconds)) => self.pause(*seconds),
            Some(Act::Before(step)) => self.universe.with(|u| u.step(step)),
            Some(Act::Meddle) => self.universe.with(|u| u.step(&Step::Label(1))),
            Some(Act::Late(seconds)) => {
                self.execute_later(*seconds, effect);
                return Err(CarrierError::Broken);
            }
            _ => {}
        }
        self.passable().await;
        let mut reply = self.universe.with(|u| effect(u, act.as_ref()));
        match &act {
            Some(Act::Twice) if kind.is_cloud() => drop(self.universe.with(|u| effect(u, None))),
            Some(Act::CrashAfter) => self.die(),
            Some(Act::LoseAnswer) => return Err(CarrierError::Broken),
            Some(Act::StatusAfter(status)) => reply = unexpected_status(*status),
            Some(Act::PauseAfter(seconds)) => self.pause(*seconds),
            Some(Act::Slow(seconds)) => sleep(Duration::from_secs(u64::from(*seconds))).await,
            Some(Act::Cut) => reply.body = Value::Null,
            Some(Act::Omit) => leave_out(&mut reply.body, 1),
            Some(Act::Empty) => leave_out(&mut reply.body, usize::MAX),
            Some(Act::After(step)) => self.universe.with(|u| u.step(step)),
            _ => {}
        }
        if kind == Kind::Listing && self.universe.lock().hides {
            leave_out(&mut reply.body, 1);
        }
        self.travel().await;
        self.passable().await;
        self.universe.lock().answers(kind);
        Ok(reply)
    }

    /// Judges that the process makes no mutating call after its term. A process that is stopped between its last check of the
    /// clock and the call is excused; one that did not check is not.
    fn judge_term(&self, kind: Kind) {
        if kind.is_mutating_call() && !self.is_dead() {
            let is_over = !self.state.term.holds();
            let why = is_over.then(|| format!("S1b: {kind:?} was called when the term was over"));
            let mut universe = self.universe.lock();
            universe.oracle.judge(Rule::Term, Verdict::of(why, false));
        }
    }

    /// Executes the request after this time, when the caller no longer waits for the answer.
    fn execute_later(&self, seconds: u32, mut effect: Effect) {
        let (universe, after) = (self.universe.clone(), u64::from(seconds));
        tokio::spawn(async move {
            sleep(Duration::from_secs(after)).await;
            universe.with(|u| effect(u, None));
        });
    }

    /// The service, without a network.
    pub fn http(&self) -> Http {
        let link = self.clone();
        let carrier: Carrier = Arc::new(move |request| {
            let link = link.clone();
            Box::pin(async move {
                if let Some((_, sent)) = &mut link.universe.lock().sent {
                    sent.push(request.url().to_string());
                }
                let raw = raw(&request);
                let host = request.url().host_str().unwrap_or_default();
                if link.universe.lock().neighbours.serve(host) {
                    return link.call_neighbour(host, &raw).await;
                }
                let kind = kind_of(&raw.path);
                let about = About::Call(raw.clone());
                let by = (link.state.process, kind);
                let effect = Box::new(move |u: &mut Universe, act: Option<&Act>| {
                    u.call(by, &raw, script_of(act))
                });
                let reply = link.send(kind, &about, effect).await?;
                let body = match &reply.body {
                    // A truncated answer.
                    Value::Null => b"{\"httpSt".to_vec(),
                    body => body.to_string().into_bytes(),
                };
                Ok(carried(reply.status, body))
            })
        });
        Http::carried(carrier)
    }

    /// A call to a neighbour's service, without faults except those of that service.
    async fn call_neighbour(&self, host: &str, raw: &RawRequest) -> Result<Carried, CarrierError> {
        self.passable().await;
        self.travel().await;
        self.passable().await;
        let fate = self
            .universe
            .lock()
            .call_neighbour(host, raw, self.state.shard);
        let (after, status, body) = match fate {
            Fate::NotSent => return Err(CarrierError::NotSent),
            Fate::Never => return std::future::pending().await,
            Fate::Answer(after, status, body) => (after, status, body),
        };
        sleep(after).await;
        self.travel().await;
        self.passable().await;
        Ok(carried(status, body))
    }

    /// The apiserver, without a network.
    pub fn client(&self) -> Client {
        let link = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let link = link.clone();
            async move {
                let reply = link.ask(request).await?;
                let body = match &reply.body {
                    Value::Null => b"{\"kind\":".to_vec(),
                    body => body.to_string().into_bytes(),
                };
                let response = http::Response::builder().status(reply.status);
                response
                    .body(Body::from(body))
                    .map_err(tower::BoxError::from)
            }
        });
        Client::new(service, crate::universe::namespace())
    }

    async fn ask(&self, request: http::Request<Body>) -> Result<Reply, tower::BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path = parts.uri.path().to_owned();
        if let Some((sent, _)) = &mut self.universe.lock().sent {
            sent.push(format!("{} {}", parts.method, parts.uri));
        }
        if parts.method == http::Method::POST && path.ends_with("/secrets") {
            let secret: Value = serde_json::from_slice(&body).unwrap_or_default();
            let made = secret.clone();
            let effect = move |u: &mut Universe, _: Option<&Act>| match u.make_secret(&made) {
                Ok(object) => ok(object),
                Err(refused) => failure(refused.0),
            };
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            let about = About::Object((SECRETS, name.to_owned()));
            let reply = self.send(Kind::Secret, &about, Box::new(effect)).await?;
            return Ok(as_asked(reply, &parts.headers));
        }
        let Some((key, is_status)) = target(&path) else {
            // Events are accepted and ignored.
            self.passable().await;
            return Ok(Reply {
                status: 201,
                body: serde_json::from_slice(&body).unwrap_or_default(),
            });
        };
        let is_json_patch = parts
            .headers
            .get("content-type")
            .is_some_and(|kind| kind == "application/json-patch+json");
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let kind = match (parts.method.as_str(), is_status, is_json_patch) {
            ("GET", ..) => Kind::Read,
            _ if key.0 == SECRETS => Kind::Secret,
            (_, true, _) if has(&body, "test", "/metadata/resourceVersion") => Kind::Intent,
            (_, true, _) if has(&body, "replace", "/status/operation") => Kind::Receipt,
            (_, true, _) => Kind::Status,
            (_, false, false) => Kind::Intent,
            (_, false, true) if body.to_string().contains("/metadata/finalizers") => {
                Kind::Finalizer
            }
            _ => Kind::Receipt,
        };
        let about = About::Object(key.clone());
        let has_version = body["metadata"]["resourceVersion"].is_string() || is_status;
        let effect: Effect = if kind == Kind::Read {
            Box::new(move |u, _| match u.kube.get(&key) {
                Some(object) => ok(object.clone()),
                None => failure(404),
            })
        } else {
            let edit = if is_json_patch {
                Edit::Json(body)
            } else {
                Edit::Merge(body)
            };
            let by = (self.state.process, kind);
            Box::new(move |u, _| match u.patch(by, &key, is_status, &edit) {
                Ok(object) => ok(object),
                Err(refused) => failure(refused.0),
            })
        };
        let reply = self.send(kind, &about, effect).await?;
        let is_word = kind == Kind::Read || (kind == Kind::Intent && has_version);
        self.hears(&about, &reply, is_status && kind.is_write(), is_word);
        Ok(as_asked(reply, &parts.headers))
    }

    /// Records authoritative information about an object from the apiserver: by a read past every cache, or by a successful
    /// compare-and-swap.
    fn hears(&self, about: &About, reply: &Reply, is_status: bool, is_word: bool) {
        let About::Object(key) = about else { return };
        if is_neighbours(&key.1) {
            return;
        }
        let mut universe = self.universe.lock();
        let oracle = &mut universe.oracle;
        match reply.status {
            200 if is_status => oracle.knows_stored(self.state.process, key, &reply.body),
            409 | 422 if is_status => oracle.was_overtaken(self.state.process, key),
            _ => {}
        }
        match reply.status {
            404 => oracle.hears(self.state.process, key, None),
            200 if is_word => oracle.hears(self.state.process, key, Some(&reply.body)),
            _ => {}
        }
    }
}

/// Whether a JSON patch has this operation at this path.
fn has(patch: &Value, op: &str, path: &str) -> bool {
    let mut all = patch.as_array().into_iter().flatten();
    all.any(|part| part["op"] == op && part["path"] == path)
}

/// The course of the task that a call starts.
fn script_of(act: Option<&Act>) -> TaskScript {
    match act {
        Some(Act::TaskFails) => TaskScript::Fail {
            reason: "out of disks".to_owned(),
        },
        Some(Act::TaskCancelled) => TaskScript::Cancel,
        _ => TaskScript::Succeed,
    }
}

/// Returns only the metadata, if the request asks for that.
fn as_asked(mut reply: Reply, headers: &http::HeaderMap) -> Reply {
    let wants_meta = headers
        .get("accept")
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("PartialObjectMetadata"));
    if wants_meta && reply.status < 300 && reply.body.is_object() {
        reply.body = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": reply.body["metadata"],
        });
    }
    if reply.status >= 400 && reply.body["kind"] != "Status" {
        reply = failure(reply.status);
    }
    reply
}

fn ok(body: Value) -> Reply {
    Reply { status: 200, body }
}

/// A refusal in the apiserver's words.
fn failure(code: u16) -> Reply {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "", "message": format!("answered with {code}"),
    });
    Reply { status: code, body }
}

/// A refusal by an unavailable dependency, in its own format.
fn refusal(kind: Kind, status: u16) -> Reply {
    if !kind.is_cloud() {
        return failure(status);
    }
    let code = match status {
        401 => "Authenticated.Error",
        403 => "Forbidden.Error",
        _ => "InternalError.Unknown",
    };
    let body = json!({"code": code, "httpStatus": status, "message": "not now"});
    Reply { status, body }
}

/// An answer of a middlebox between the operator and the service.
fn unexpected_status(status: u16) -> Reply {
    let body =
        json!({"code": "InternalError.Unknown", "httpStatus": status, "message": "an error"});
    Reply { status, body }
}

fn not_found() -> Reply {
    let body = json!({"code": "InvalidInstance.NotFound", "httpStatus": 404, "message": "no such instance"});
    Reply { status: 404, body }
}

/// Omits this many of our servers from a listing, and counts as if they did not exist.
fn leave_out(body: &mut Value, mut count: usize) {
    let Some(rows) = body["instances"].as_array_mut() else {
        return;
    };
    let before = rows.len();
    rows.retain(|_| {
        let stays = count == 0;
        count = count.saturating_sub(1);
        stays
    });
    let left_out = before - rows.len();
    if let Some(total) = body["rowCount"].as_u64() {
        body["rowCount"] = json!(total.saturating_sub(left_out as u64));
    }
}

/// The object in a path of the apiserver, and whether the path concerns its status.
fn target(path: &str) -> Option<(Key, bool)> {
    let mut parts = path.rsplit('/');
    let last = parts.next()?;
    let is_status = last == "status";
    let name = if is_status { parts.next()? } else { last };
    let kind = match parts.next()? {
        INSTANCES => INSTANCES,
        ACCOUNTS => ACCOUNTS,
        SECRETS => SECRETS,
        _ => return None,
    };
    // …/namespaces/team-a/instances/web-1
    let namespace = parts.next().unwrap_or(NAMESPACE);
    Some(((kind, name_in(namespace, name)), is_status))
}

/// The kind of a call with this path.
pub fn kind_of(path: &str) -> Kind {
    match path.rsplit('/').next().unwrap_or_default() {
        "create" => Kind::Create,
        "release" => Kind::Release,
        "reinstallSystem" => Kind::Reinstall,
        "modifyInstancePassword" => Kind::Password,
        "start" | "stop" | "restart" => Kind::Power,
        "getResult" => Kind::Task,
        "detail" => Kind::Detail,
        "list" if path.contains("/instance/") => Kind::Listing,
        _ => Kind::Query,
    }
}

fn carried(status: u16, body: Vec<u8>) -> Carried {
    let mut answer = Carried::new(body.into());
    *answer.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    answer
}

fn raw(request: &reqwest::Request) -> RawRequest {
    let header = |name: &str| {
        let value = request.headers().get(name)?;
        value.to_str().ok().map(ToOwned::to_owned)
    };
    let url = request.url();
    RawRequest {
        method: request.method().to_string(),
        path: url.path().trim_start_matches("/api").to_owned(),
        query: url.query_pairs().into_owned().collect(),
        token: header("x-open-token").map(Secret::from),
        content_type: header("content-type"),
        body: request
            .body()
            .and_then(reqwest::Body::as_bytes)
            .unwrap_or_default()
            .to_vec(),
    }
}
