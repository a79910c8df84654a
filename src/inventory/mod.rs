//! What the service says exists: paged listings per account, shared by all Instances.
//!
//! One [`Inventory`] per (endpoint, token). Its driver reads listing passes of a place when somebody needs them; all
//! else reads snapshots and makes no call. A pass is a whole listing, from page 1 to its end; anything less is an
//! error and changes nothing. What two passes prove, and what one does not, stands at [`View`].

mod breaker;
mod driver;
mod pass;
mod row;
mod state;
mod summary;
#[cfg(test)]
pub(crate) mod testing;
mod times;
mod tombstones;
mod view;
mod watched;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use breaker::BreakerOpen;
pub use pass::{Pass, PassError};
pub use row::{Row, addresses};
pub use view::{Absence, Sighting, View, Why};

use crate::api::Marker;
use crate::cloud::{Client, ImageId, Place, ServerId};
use crate::runtime::metrics::Listings;

/// Who has an interest: the UID of an Instance.
pub type Subject = Arc<str>;

/// What an Instance wants to know of the listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Where its server is or may be.
    pub places: Vec<Place>,
    /// The server on record.
    pub id: Option<ServerId>,
    /// The marker that its servers bear in their names.
    pub marker: Marker,
    /// How often to look.
    pub attention: Attention,
    /// Wants, as soon as possible, a pass of these places that begins after this instant, which may lie ahead.
    pub pass_after: Option<Instant>,
    /// How many such passes in a row: 1 for a look, 2 for a proof of absence (0 counts as 1). Each must be good
    /// evidence, and two must show the same servers, so that it may take more of them.
    pub passes_wanted: u8,
    /// The server on record is being released: its disappearance is no alarm.
    pub releasing: bool,
    /// The digest of endpoint and token that its record was made under: a listing that shows its server is of the same
    /// account.
    pub credential: Option<Arc<str>>,
}

impl Subscription {
    /// Whether something is in flight on its server: its task or the server itself is asked for.
    fn is_followed(&self) -> bool {
        self.attention != Attention::Quiet && self.id.is_some()
    }
}

/// How often a place is listed for an interest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attention {
    /// Nothing is expected to change: woken only by a change.
    #[default]
    Quiet,
    /// Something is expected that only a listing tells: woken by every pass, and passes come at the pace of operations.
    InFlight,
    /// An operation is running that is asked for by the identifiers of its task and its server: woken by every pass, and passes
    /// come at the pace of operations only where one costs no more calls than it saves all of these.
    Followed,
}

/// Times of the driver. Each has a default with its reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Between the beginnings of two passes while nothing is in flight: a surplus server is to be found in a minute.
    pub quiet: Duration,
    /// The same while something is in flight, as far as [`Attention`] says so: the listing leads the task queries, so that is how
    /// late they are.
    pub in_flight: Duration,
    /// The same where only finalised UIDs are watched for: such a server is rare, and an hour of it costs little.
    pub tombstone_pause: Duration,
    /// Between the end of a pass and a further one that was asked for: two proofs must not make a storm.
    pub min_gap: Duration,
    /// First pause after a failed pass, doubled up to 20 s, or up to 25 s where the token is refused.
    pub failure_pause: Duration,
    /// Share by which intervals vary, so that accounts drift apart.
    pub jitter: f64,
    /// How long a finalised UID is remembered: longer than any late execution of a create that can be imagined.
    pub tombstone: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            quiet: Duration::from_secs(60),
            in_flight: Duration::from_secs(5),
            tombstone_pause: Duration::from_secs(300),
            min_gap: Duration::from_millis(250),
            failure_pause: Duration::from_secs(1),
            jitter: 0.1,
            tombstone: Duration::from_secs(6 * 3600),
        }
    }
}

/// A listed server that no interest owns, by id or by marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unowned {
    /// Its id.
    pub id: ServerId,
    /// Its name, if the row has one.
    pub name: Option<String>,
    /// Where it is listed.
    pub place: Place,
    /// Its image, if the row has one.
    pub image: Option<ImageId>,
}

/// Figures of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceCounts {
    /// Servers in the newest pass.
    pub servers: usize,
    /// Those among them that no interest owns.
    pub unowned: usize,
    /// Interests that have something in flight there.
    pub in_flight: usize,
    /// Passes completed since the place is watched.
    pub passes: u64,
    /// Passes that failed since the place is watched.
    pub failures: u64,
}

/// Figures of an inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By place, for every place that is watched.
    pub places: BTreeMap<Place, PlaceCounts>,
}

impl Counts {
    /// Servers in the newest passes.
    pub fn servers(&self) -> usize {
        self.places.values().map(|place| place.servers).sum()
    }

    /// Those among them that no interest owns.
    pub fn unowned(&self) -> usize {
        self.places.values().map(|place| place.unowned).sum()
    }
}

/// Why a place is not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// When the first of the passes failed that failed in a row.
    pub since: Instant,
    /// The same, to show to people.
    pub began: Timestamp,
    /// What is wrong, in the words of the first failure of its kind.
    pub message: String,
    kind: pass::Kind,
}

#[cfg(test)]
impl Failing {
    /// One made by hand.
    pub(crate) fn of(since: Instant, began: Timestamp, message: &str) -> Self {
        Self {
            since,
            began,
            message: message.to_owned(),
            kind: ("", None, None),
        }
    }
}

/// What is known of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceSummary {
    /// Figures of the newest whole listing; none before the first one, which may never come.
    pub listed: Option<PlaceCounts>,
    /// When that listing ended, to show to people.
    pub listed_at: Option<Timestamp>,
    /// Set while its listings fail.
    pub failing: Option<Failing>,
}

/// What is listed in every watched place, and who owns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InventorySummary {
    /// By place: each for itself, since one that cannot be listed says nothing of another.
    pub places: BTreeMap<Place, PlaceSummary>,
    /// The first servers of nobody, by place and identifier.
    pub unowned: Vec<Unowned>,
}

/// The listings of one (endpoint, token). Cheap to clone; all clones are one inventory.
#[derive(Clone)]
pub struct Inventory {
    shared: Arc<Shared>,
}

/// What the handles and the driver have in common. The lock is never held across a wait or a call.
struct Shared {
    state: Mutex<state::State>,
    changed: Notify,
    passes: watch::Sender<u64>,
}

impl std::fmt::Debug for Inventory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inventory")
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, state::State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the driver running until its token ends. One that panics is started again: whoever waits for a listing would else wait
/// for ever, and nothing would show it.
async fn drive(
    shared: Arc<Shared>,
    client: Client,
    wake: impl Fn(Subject) + Send + Sync + 'static,
    cancel: CancellationToken,
) {
    let wake = Arc::new(wake);
    loop {
        let wake = wake.clone();
        let wake = move |subject| wake(subject);
        let driver = driver::run(shared.clone(), client.clone(), wake, cancel.clone());
        match tokio::spawn(driver).await {
            Err(error) if error.is_panic() => {
                tracing::error!("the reading of listings panicked; it begins again");
            }
            Ok(()) | Err(_) => return,
        }
        shared.lock().abandon();
        tokio::time::sleep(times::RESTART_AFTER_PANIC).await;
    }
}

impl Inventory {
    /// Starts the driver. It ends with the token; without interests it makes no call.
    pub fn spawn(
        client: Client,
        settings: Settings,
        wake: impl Fn(Subject) + Send + Sync + 'static,
        cancel: CancellationToken,
    ) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(state::State::new(settings)),
            changed: Notify::new(),
            passes: watch::Sender::new(0),
        });
        tokio::spawn(drive(shared.clone(), client, wake, cancel));
        Self { shared }
    }

    /// Takes an interest, in place of the subject's former one.
    ///
    /// To be called *before* [`Inventory::view`] in a reconcile: whatever a pass changes after it, the subject is woken for.
    pub fn subscribe(&self, subject: &Subject, subscription: Subscription) {
        self.shared.lock().subscribe(subject, subscription);
        self.shared.changed.notify_one();
    }

    /// A subject that cannot take a reconcile for now wants no listings beyond the quiet ones.
    pub fn calm(&self, subject: &Subject) {
        self.shared.lock().calm(subject);
    }

    /// Ends a subject's interest.
    pub fn leave(&self, subject: &Subject) {
        self.shared.lock().leave(subject);
        self.shared.changed.notify_one();
    }

    /// What is known of a place now.
    pub fn view(&self, place: &Place) -> View {
        self.shared.lock().view(place)
    }

    /// The service's own "no such instance", heard from an authorised call, so that the missing server is no alarm.
    pub fn confirmed_gone(&self, id: &ServerId) {
        self.shared.lock().confirmed_gone(id);
    }

    /// Remembers the marker of a finalised Instance: a server that turns up with it late belongs to nobody.
    pub fn add_tombstone(&self, marker: Marker, places: Vec<Place>) {
        self.shared
            .lock()
            .add_tombstone(marker, places, Instant::now());
        self.shared.changed.notify_one();
    }

    /// Servers whose marker has a tombstone, seen in a pass that began after it was set; not those whose marker a live
    /// interest bears.
    pub fn late_servers(&self) -> Vec<(Marker, ServerId, Place)> {
        self.shared.lock().late_servers(Instant::now())
    }

    /// Whether any pass of this region ever showed a server that was recorded under this credential, by its id or its marker:
    /// the evidence that the token of this inventory belongs to the same account and sees the region (a token can be limited
    /// to regions, field note 24). Servers of other credentials are no evidence: two Accounts may share a token by mistake.
    pub fn has_shown(&self, credential: &str, region: &str) -> bool {
        self.shared.lock().has_shown(credential, region)
    }

    /// Whether the newest listing of any place has this server in it.
    pub fn shows(&self, id: &ServerId) -> bool {
        self.shared.lock().shows(id)
    }

    /// Takes over the finalised UIDs of the inventory of a former token.
    pub fn inherit(&self, former: &Self) {
        if Arc::ptr_eq(&self.shared, &former.shared) {
            return;
        }
        let tombstones = former.shared.lock().tombstones();
        for (marker, places) in tombstones {
            self.add_tombstone(marker, places);
        }
    }

    /// Whether a pass of any place was completed within this time: the service answers and takes the token.
    pub fn listed_within(&self, time: Duration) -> bool {
        self.shared.lock().listed_within(time, Instant::now())
    }

    /// Interests in a server that something is in flight for: whose task or server is asked for.
    pub fn followed(&self) -> usize {
        self.shared.lock().followed
    }

    /// Figures of every watched place.
    pub fn counts(&self) -> Counts {
        summary::counts(self.listed())
    }

    /// Figures of every watched place, and so many of the servers that neither an interest owns nor `owns` claims, which knows of
    /// Instances that had no reconcile yet.
    pub fn summary(
        &self,
        most: usize,
        owns: impl Fn(&ServerId, Option<&Marker>) -> bool,
    ) -> InventorySummary {
        summary::summary(self.listed(), most, &owns)
    }

    /// Figures of all watched places together; `owns` as above.
    pub fn listings(&self, owns: impl Fn(&ServerId, Option<&Marker>) -> bool) -> Listings {
        summary::listings(self.listed(), Instant::now(), &owns)
    }

    fn listed(&self) -> Vec<summary::Listed> {
        self.shared.lock().listed()
    }

    /// A number that moves after every completed pass.
    pub fn passes(&self) -> watch::Receiver<u64> {
        self.shared.passes.subscribe()
    }
}

#[cfg(test)]
mod tests;
