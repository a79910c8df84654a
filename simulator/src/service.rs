//! The running service: world, ledger, store and clock, behind one lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::faults::{Call, Faults, Listing, Plan, Step};
use crate::ledger::{Entry, Ledger, Source};
use crate::model::{Refusal, Request, TaskScript, World};
use crate::secret::Secret;
use crate::store::{Batch, Durable, Store};
use crate::time::Timestamp;
use crate::wire::{self, Endpoint, RawReply, RawRequest, Unserved};

/// The source of the current time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The wall clock.
    #[default]
    Wall,
    /// A manual clock, which a test advances.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A manual clock, set to a moment.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self::Manual(Arc::new(AtomicU64::new(start.as_millis())))
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Wall => Timestamp::wall_clock(),
            Self::Manual(millis) => Timestamp::from_millis(millis.load(Ordering::SeqCst)),
        }
    }
}

#[derive(Debug)]
struct State {
    world: World,
    ledger: Ledger,
}

/// The place where the state is stored.
#[derive(Debug)]
enum Keeping {
    InMemory,
    /// `None` once the store is closed. From then on, nothing is acknowledged.
    InFile(Mutex<Option<Store>>),
}

/// The running service.
#[derive(Debug)]
pub struct Service {
    state: Mutex<State>,
    keeping: Keeping,
    clock: Clock,
    faults: Faults,
    version: watch::Sender<u64>,
}

/// The ledger truncates its copy of a body here. The service accepts no longer body.
const LONGEST_REQUEST: usize = 8 * 1024;

impl Service {
    /// A service from its parts.
    #[must_use]
    pub fn new(world: World, ledger: Ledger, store: Option<Store>, clock: Clock) -> Self {
        let faults = Faults::new(world.seed());
        let version = watch::Sender::new(0);
        let keeping = store.map_or(Keeping::InMemory, |store| {
            Keeping::InFile(Mutex::new(Some(store)))
        });
        Self {
            state: Mutex::new(State { world, ledger }),
            keeping,
            clock,
            faults,
            version,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules in force.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The source of the current time.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The version, which increases with every event.
    #[must_use]
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Lets time pass until now, and returns the time until the next event.
    pub fn tick(&self) -> Option<Duration> {
        let mut state = self.state();
        let now = self.clock.now();
        state.world.advance(now);
        let events = state.enter_events(Source::Clock);
        let next = state.world.next_due().map(|due| due.since(now));
        if !events.is_empty() {
            // No caller waits until these are stored: after a restart, the same tasks end again.
            drop(self.keep(&mut state, events, false));
            drop(state);
            self.announce();
        }
        next
    }

    /// Acts on the world under the lock. The change counts as an action at the console.
    pub fn with_world<R>(&self, act: impl FnOnce(&mut World) -> R) -> (R, Durable) {
        let mut state = self.state();
        state.world.advance(self.clock.now());
        let mut entries = state.enter_events(Source::Clock);
        let result = act(&mut state.world);
        entries.extend(state.enter_events(Source::Console));
        let durable = self.keep(&mut state, entries, true);
        drop(state);
        self.announce();
        (result, durable)
    }

    /// Reads the world.
    pub fn read<R>(&self, read: impl FnOnce(&World) -> R) -> R {
        self.tick();
        read(&self.state().world)
    }

    /// The ledger as it is now.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.tick();
        self.state().ledger.clone()
    }

    /// The plan of a call.
    #[must_use]
    pub fn plan(&self, raw: &RawRequest) -> Plan {
        let token = raw.token.as_ref().map(Secret::reveal);
        let account = self.state().world.account_of(token).map(str::to_owned);
        let query: String = raw
            .query
            .iter()
            .map(|(key, value)| format!("{key}={value}&"))
            .collect();
        let content = format!("{query}{}", String::from_utf8_lossy(&raw.body));
        self.faults.plan(&Call {
            path: &raw.path,
            account: account.as_deref(),
            content: &content,
        })
    }

    /// Executes a call, adds it to the ledger, and returns the reply once the change is on disk.
    pub async fn execute(&self, raw: &RawRequest, plan: &Plan) -> RawReply {
        let (reply, durable) = self.execute_now(raw, plan);
        if durable.wait().await {
            return reply;
        }
        let message = "the store failed; nothing can be acknowledged";
        wire::render_refusal(
            &crate::readings::Readings::default(),
            &Refusal::new(500, "InternalError.Store", message),
        )
    }

    fn execute_now(&self, raw: &RawRequest, plan: &Plan) -> (RawReply, Durable) {
        let mut state = self.state();
        let now = self.clock.now();
        state.world.advance(now);
        let mut entries = state.enter_events(Source::Clock);
        let token = raw.token.as_ref().map(Secret::reveal);
        let mut entry = Entry::event(Source::Call, state.world.now(), crate::model::Effect::None);
        entry.method.clone_from(&raw.method);
        entry.path.clone_from(&raw.path);
        entry.account = state.world.account_of(token).map(str::to_owned);
        entry.request = without_secrets(raw);
        entry.faults.clone_from(&plan.names);
        let reply = match wire::parse(raw) {
            Ok((endpoint, request)) => {
                let reply = match &plan.stale {
                    Some(stale) if request.verb().is_none() => {
                        let mut stale = stale.lock().unwrap_or_else(PoisonError::into_inner);
                        let then = stale.now();
                        call(&mut stale, then, token, endpoint, request, plan)
                    }
                    _ => call(&mut state.world, now, token, endpoint, request, plan),
                };
                entry.code = reply
                    .outcome
                    .as_ref()
                    .err()
                    .map(|refusal| refusal.code.clone());
                entry.effect = reply.effect;
                wire::render(endpoint, state.world.readings(), &reply.outcome)
            }
            Err(Unserved::Refused(refusal)) => {
                let refusal = state.world.check_token(token).err().unwrap_or(refusal);
                entry.code = Some(refusal.code.clone());
                wire::render_refusal(state.world.readings(), &refusal)
            }
            Err(Unserved::Unmodelled) => {
                tracing::error!(method = %raw.method, path = %raw.path, "this path is not modelled");
                match state.world.check_token(token) {
                    Err(refusal) => {
                        entry.code = Some(refusal.code.clone());
                        wire::render_refusal(state.world.readings(), &refusal)
                    }
                    Ok(()) => wire::unmodelled(&raw.method, &raw.path),
                }
            }
        };
        let reply = warp(reply, plan.listing.as_ref());
        entry.status = sent(reply.status, plan);
        let changed = !entry.effect.is_none();
        entries.push(state.ledger.enter(entry));
        entries.extend(state.enter_events(Source::Clock));
        let durable = self.keep(&mut state, entries, changed);
        drop(state);
        self.announce();
        (reply, durable)
    }

    /// Adds a call to the ledger that is not executed.
    pub fn enter_unexecuted(&self, raw: &RawRequest, plan: &Plan, status: Option<u16>) {
        let mut state = self.state();
        let token = raw.token.as_ref().map(Secret::reveal);
        let mut entry = Entry::event(Source::Call, self.clock.now(), crate::model::Effect::None);
        entry.method.clone_from(&raw.method);
        entry.path.clone_from(&raw.path);
        entry.account = state.world.account_of(token).map(str::to_owned);
        entry.request = without_secrets(raw);
        entry.status = status;
        entry.faults.clone_from(&plan.names);
        let entry = state.ledger.enter(entry);
        drop(self.keep(&mut state, vec![entry], false));
        drop(state);
        self.announce();
    }

    /// Passes the changes to the store.
    fn keep(&self, state: &mut State, entries: Vec<Arc<Entry>>, acknowledged: bool) -> Durable {
        let records = state.world.take_changes();
        let Keeping::InFile(store) = &self.keeping else {
            return Durable::already();
        };
        let batch = Batch { records, entries };
        match store
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
        {
            None => Durable::never(),
            Some(store) if acknowledged => store.put(batch),
            Some(store) => store.put_lazily(batch),
        }
    }

    /// Writes the remaining changes and closes the file. From then on, nothing is acknowledged.
    pub fn close(&self) {
        if let Keeping::InFile(store) = &self.keeping {
            drop(store.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        self.faults.clear();
    }

    fn announce(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

impl State {
    fn enter_events(&mut self, source: Source) -> Vec<Arc<Entry>> {
        let at = self.world.now();
        let events = self.world.take_events();
        events
            .into_iter()
            .map(|effect| self.ledger.enter(Entry::event(source, at, effect)))
            .collect()
    }
}

fn call(
    world: &mut World,
    now: Timestamp,
    token: Option<&str>,
    endpoint: Endpoint,
    mut request: Request,
    plan: &Plan,
) -> crate::model::Reply {
    let mut token = token.map(str::to_owned);
    if endpoint == Endpoint::InstanceList {
        match &plan.listing {
            Some(Listing::Foreign { account }) if world.account_of(token.as_deref()).is_some() => {
                let other = world.accounts().iter().find(|each| each.name == *account);
                token = other.map(|each| each.token.reveal().to_owned());
            }
            Some(listing) => {
                if let Request::Instances(query) = &mut request {
                    query.page = other_page(listing, query.page.take());
                }
            }
            None => {}
        }
    }
    let script: TaskScript = plan.script.clone();
    world.call_scripted(now, token.as_deref(), &request, script)
}

/// The page that is returned instead of the requested one.
fn other_page(listing: &Listing, requested: Option<String>) -> Option<String> {
    let number = requested
        .as_deref()
        .and_then(|text| text.parse::<usize>().ok());
    match (listing, number) {
        (Listing::FirstPageForEver, _) => None,
        (Listing::SkippedPage { page }, Some(number)) if number >= *page => {
            Some((number + 1).to_string())
        }
        (Listing::DoubledPage { page }, Some(number)) if number > *page => {
            Some((number - 1).to_string())
        }
        _ => requested,
    }
}

/// Applies the faults that can be made from the rows of a listing.
fn warp(mut reply: RawReply, listing: Option<&Listing>) -> RawReply {
    let Some(listing) = listing else { return reply };
    let Some(fields) = reply.body.as_object_mut() else {
        return reply;
    };
    let Some(rows) = fields.values_mut().find_map(Value::as_array_mut) else {
        return reply;
    };
    match listing {
        Listing::Empty => {
            rows.clear();
            fields.insert("rowCount".to_owned(), json!(0));
        }
        Listing::Shrunk { by } => rows.truncate(rows.len().saturating_sub(*by)),
        Listing::Repeated => {
            *rows = rows
                .iter()
                .flat_map(|row| [row.clone(), row.clone()])
                .collect();
        }
        Listing::WrongCount { count } => {
            fields.insert("rowCount".to_owned(), json!(count));
        }
        Listing::FirstPageForEver
        | Listing::SkippedPage { .. }
        | Listing::DoubledPage { .. }
        | Listing::Foreign { .. } => {}
    }
    reply
}

/// The status that the client gets after the steps of a plan; `None` if it gets no answer.
fn sent(status: u16, plan: &Plan) -> Option<u16> {
    for step in &plan.after {
        match step {
            Step::Answer(answer) => return Some(answer.status),
            Step::Lose | Step::Hang => return None,
            Step::Delay(_) | Step::Hold(_) => {}
        }
    }
    (!matches!(plan.execution, crate::faults::Execution::Late(_))).then_some(status)
}

/// The request for the ledger: query and body, a password only as `passwordGiven`.
fn without_secrets(raw: &RawRequest) -> Value {
    let mut request = serde_json::Map::new();
    for (key, value) in &raw.query {
        let value = if key.to_lowercase().contains("password") {
            "(secret)"
        } else {
            value.as_str()
        };
        request.insert(key.clone(), json!(value));
    }
    if raw.body.len() <= LONGEST_REQUEST
        && let Ok(mut body) = serde_json::from_slice::<Value>(&raw.body)
    {
        hide_passwords(&mut body);
        if let Value::Object(fields) = body {
            request.extend(fields);
        }
    }
    if request.is_empty() {
        Value::Null
    } else {
        Value::Object(request)
    }
}

fn hide_passwords(value: &mut Value) {
    if let Value::Object(fields) = value {
        if fields
            .remove("password")
            .is_some_and(|password| !password.is_null())
        {
            fields.insert("passwordGiven".to_owned(), json!(true));
        }
        fields.values_mut().for_each(hide_passwords);
    }
}
