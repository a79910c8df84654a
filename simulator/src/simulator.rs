//! The simulator as a library: tests build, start, inspect and stop it within a process.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::control;
use crate::faults::{Act, Faults, Hold, Rule};
use crate::http::Front;
use crate::ledger::Ledger;
use crate::model::{
    AccountExists, AccountStatus, Config, DEFAULT_ACCOUNT, NoSuchAccount, RestoreError, ServerInfo,
    Verb, World,
};
use crate::readings::Readings;
use crate::secret::Secret;
use crate::service::{Clock, Service};
use crate::store::{Store, StoreError};
use crate::time::Timestamp;
use crate::wire::{Endpoint, Paths};

/// The reason why a simulator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("cannot use the data file")]
    Store(#[source] StoreError),
    /// The content of the store does not fit the configuration.
    #[error("cannot continue from the data file")]
    Restore(#[source] RestoreError),
}

/// A condition did not come true in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the condition did not come true within {0:?}")]
pub struct TimedOut(pub Duration);

/// Configures a simulator before it starts.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    config: Config,
    token_chosen: bool,
    file: Option<PathBuf>,
    listen: SocketAddr,
    control: Option<SocketAddr>,
    clock: Clock,
    paths: Paths,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            config: Config::default(),
            token_chosen: false,
            file: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            control: None,
            clock: Clock::Wall,
            paths: Paths::default(),
        }
    }
}

impl Builder {
    /// Sets the seed of everything that appears random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        if !self.token_chosen {
            self.config.token = Config::token_of(seed);
        }
        self
    }

    /// Sets the duration of every operation. Default: 3 s.
    pub fn task_duration(mut self, duration: Duration) -> Self {
        self.config.durations = crate::model::Durations::all(duration);
        self
    }

    /// Sets the duration of one operation. Call it after [`Builder::task_duration`].
    pub fn verb_duration(mut self, verb: Verb, duration: Duration) -> Self {
        self.config.durations.set(verb, duration);
        self
    }

    /// Chooses how the service answers questions that the specification leaves open.
    pub fn readings(mut self, readings: Readings) -> Self {
        self.config.readings = readings;
        self
    }

    /// Stores the state in a file. Without a file the state is lost when the process ends.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Sets the address on which the service listens. Default: loopback and a free port.
    pub const fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Sets the address on which the control port listens. By default there is no control port. It requires no token.
    pub const fn control(mut self, address: SocketAddr) -> Self {
        self.control = Some(address);
        self
    }

    /// Sets the default account's token. By default it is the token in the file, or else derived from the seed.
    pub fn token(mut self, token: &str) -> Self {
        self.config.token = Secret::from(token);
        self.token_chosen = true;
        self
    }

    /// Sets the source of the current time.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Serves an endpoint at another path. Rules and ledger still use the specified path.
    pub fn path(mut self, endpoint: Endpoint, path: &str) -> Self {
        self.paths.serve_at(endpoint, path);
        self
    }

    /// Starts the simulator; it serves when this returns.
    ///
    /// # Errors
    /// An address is in use, or the file is not a store of this seed.
    pub async fn start(self) -> Result<Simulator, StartError> {
        let chosen = self.token_chosen.then(|| self.config.token.clone());
        let (world, ledger, store) = match &self.file {
            None => (World::new(self.config), Ledger::default(), None),
            Some(path) => {
                let (store, contents) = Store::open(path).map_err(StartError::Store)?;
                let world = World::restore(self.config, contents.records);
                (
                    world.map_err(StartError::Restore)?,
                    Ledger::restore(contents.entries),
                    Some(store),
                )
            }
        };
        let service = Arc::new(Service::new(world, ledger, store, self.clock));
        // Everything that a restart needs is on disk before the first call.
        let (token, durable) = service.with_world(|world| {
            if let Some(chosen) = chosen {
                // This cannot fail: the default account is never removed from the world.
                world
                    .change_account(DEFAULT_ACCOUNT, |account| account.token = chosen)
                    .ok();
            }
            world
                .accounts()
                .first()
                .map(|account| account.token.clone())
                .unwrap_or_default()
        });
        if !durable.wait().await {
            return Err(StartError::Store(StoreError::Stopped));
        }
        let listening = |address, source| StartError::Listen { address, source };
        let listener = bind(self.listen).await?;
        let front = Front::serve(listener, Arc::clone(&service), self.paths)
            .map_err(|source| listening(self.listen, source))?;
        let control = match self.control {
            None => None,
            Some(address) => {
                let listener = bind(address).await?;
                let control = control::serve(listener, Arc::clone(&service))
                    .map_err(|source| listening(address, source))?;
                Some(control)
            }
        };
        let ticker = tokio::spawn(tick(Arc::clone(&service)));
        Ok(Simulator {
            url: format!("http://{}", front.address()),
            control_url: control
                .as_ref()
                .map(|(address, _)| format!("http://{address}")),
            token,
            service,
            front,
            background: control
                .map(|(_, server)| server)
                .into_iter()
                .chain([ticker])
                .collect(),
        })
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| StartError::Listen { address, source })
}

/// Ends tasks when they are due, even without calls.
async fn tick(service: Arc<Service>) {
    let mut versions = service.versions();
    loop {
        let next = service.tick();
        versions.mark_unchanged();
        let rest: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = match (next, service.clock())
        {
            (Some(rest), Clock::Wall) => Box::pin(tokio::time::sleep(rest)),
            _ => Box::pin(std::future::pending()),
        };
        tokio::select! {
            () = rest => {}
            changed = versions.changed() => if changed.is_err() { return },
        }
    }
}

/// A running simulator. Dropping it stops it.
#[derive(Debug)]
pub struct Simulator {
    url: String,
    control_url: Option<String>,
    token: Secret,
    service: Arc<Service>,
    front: Front,
    background: Vec<JoinHandle<()>>,
}

impl Simulator {
    /// Configures a simulator.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The base URL of the service, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of the control port.
    #[must_use]
    pub fn control_url(&self) -> Option<&str> {
        self.control_url.as_deref()
    }

    /// The token that the default account started with.
    #[must_use]
    pub fn token(&self) -> &str {
        self.token.reveal()
    }

    /// Opens another account, which has its own servers.
    ///
    /// # Errors
    /// An account with that name or token exists.
    pub fn add_account(&self, name: &str, token: &str) -> Result<(), AccountExists> {
        self.world(|world| world.add_account(name, token))
    }

    /// Changes the status of an account.
    ///
    /// # Errors
    /// There is no such account.
    pub fn set_account_status(
        &self,
        name: &str,
        status: AccountStatus,
    ) -> Result<(), NoSuchAccount> {
        self.world(|world| world.change_account(name, |account| account.status = status))
    }

    /// Limits the token of an account to these regions; `None` removes the limit.
    ///
    /// # Errors
    /// There is no such account.
    pub fn set_regions(&self, name: &str, regions: Option<&[&str]>) -> Result<(), NoSuchAccount> {
        let regions =
            regions.map(|regions| regions.iter().map(|each| (*each).to_owned()).collect());
        self.world(|world| world.change_account(name, |account| account.regions = regions))
    }

    /// Gives an account another token; the old one is refused from now on.
    ///
    /// # Errors
    /// There is no such account.
    pub fn set_token(&self, name: &str, token: &str) -> Result<(), NoSuchAccount> {
        self.world(|world| {
            world.change_account(name, |account| account.token = Secret::from(token))
        })
    }

    /// Changes the readings from now on.
    pub fn set_readings(&self, readings: Readings) {
        self.world(|world| world.set_readings(readings));
    }

    /// The ledger as it is now.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.service.ledger()
    }

    /// The true state of every server that was ever created.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerInfo> {
        self.service.read(World::servers)
    }

    /// The true state of the servers that exist.
    #[must_use]
    pub fn live_servers(&self) -> Vec<ServerInfo> {
        self.service.read(World::live_servers)
    }

    /// Acts on the world under the lock, at the current time. The change counts as an action at the console.
    pub fn world<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        self.service.with_world(act).0
    }

    /// The rules in force.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        self.service.faults()
    }

    /// Adds a rule. Unlike [`Faults::add`], this function has access to the current state, which stale answers are taken from.
    pub fn fault(&self, rule: Rule) -> u64 {
        let snapshot = (rule.act == Act::Stale).then(|| self.service.read(World::clone));
        self.faults().add_with(rule, snapshot)
    }

    /// Adds a rule with a hold.
    pub fn hold(&self, rule: Rule) -> Hold {
        self.faults().hold(rule)
    }

    /// Advances a manual clock; has no effect on a wall clock.
    pub fn advance(&self, time: Duration) {
        if let Clock::Manual(millis) = self.service.clock() {
            let moved = Timestamp::default().plus(time).as_millis();
            millis.fetch_add(moved, Ordering::SeqCst);
        }
        self.service.tick();
    }

    /// Waits until the world meets a condition.
    ///
    /// # Errors
    /// It is not met in time.
    pub async fn wait_until(
        &self,
        condition: impl Fn(&World) -> bool,
        deadline: Duration,
    ) -> Result<(), TimedOut> {
        self.wait(|service| service.read(&condition), deadline)
            .await
    }

    /// Waits until the ledger meets a condition.
    ///
    /// # Errors
    /// It is not met in time.
    pub async fn wait_ledger(
        &self,
        condition: impl Fn(&Ledger) -> bool,
        deadline: Duration,
    ) -> Result<(), TimedOut> {
        self.wait(|service| condition(&service.ledger()), deadline)
            .await
    }

    async fn wait(
        &self,
        holds: impl Fn(&Service) -> bool,
        deadline: Duration,
    ) -> Result<(), TimedOut> {
        let mut versions = self.service.versions();
        let come_true = async {
            loop {
                versions.mark_unchanged();
                if holds(&self.service) {
                    return;
                }
                // This cannot fail: the sender lives in the service.
                versions.changed().await.ok();
            }
        };
        match tokio::time::timeout(deadline, come_true).await {
            // After a stall of the machine, condition and deadline can be due at the same time; the last check decides.
            Err(_) if !holds(&self.service) => Err(TimedOut(deadline)),
            _ => Ok(()),
        }
    }

    /// Stops the simulator: aborts connections, lets parked calls continue without a client, and writes the store.
    pub async fn stop(mut self) {
        self.close();
        for task in std::mem::take(&mut self.background) {
            task.await.ok();
        }
    }

    fn close(&self) {
        self.front.close();
        for task in &self.background {
            task.abort();
        }
        self.service.close();
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.close();
    }
}
