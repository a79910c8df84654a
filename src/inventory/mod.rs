//! The servers that the service lists: paginated listings per account, shared by all Instances.
//!
//! Each session has one [`Inventory`]. Its driver reads a listing pass of a place when one is due; all other code reads
//! snapshots and makes no call. A pass is a complete listing, from page 1 to its end; anything less is an error and replaces no
//! listing. [`View`] explains what one pass proves, and what two prove.

mod breaker;
mod driver;
mod pass;
mod row;
mod state;
mod summary;
mod times;
mod tombstones;
mod view;
mod watched;
mod zone_views;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use pass::{Pass, PassError};
pub use row::{Row, addresses};
pub use summary::PlaceListing;
pub use view::{NoEvidence, Sighting, View};
pub use zone_views::ZoneViews;

use crate::api::Marker;
use crate::cloud::{Client, Place, ServerId};
use crate::runtime::metrics::Listings;

/// Identifies a subscriber: the UID of an Instance.
pub type InstanceUid = Arc<str>;

/// The listings that an Instance needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The places where its server is or may be. A server on record is in the last one.
    pub places: Vec<Place>,
    pub id: Option<ServerId>,
    /// The marker that its servers bear in their names.
    pub marker: Marker,
    pub wants: Wants,
    /// The Instance is being deleted, so the disappearance of its server is no reason for alarm.
    pub releasing: bool,
    /// The credential in its record. If a listing shows its server, the inventory's token belongs to the account that bought it.
    pub credential: Option<Arc<str>>,
}

impl Subscription {
    /// The server on record if it is in this place. A former place does not list it, which is no reason for alarm.
    fn server_in(&self, place: &Place) -> Option<&ServerId> {
        let is_here = self.places.last() == Some(place);
        self.id.as_ref().filter(|_| is_here)
    }

    /// Whether the server on record is about to change, so that the Instance may query task and server: for at most five minutes.
    fn expects_change(&self) -> bool {
        self.wants.attention != Attention::Quiet && self.id.is_some()
    }
}

/// The listing passes that the newest plan of an Instance requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// How often to list.
    pub attention: Attention,
    /// Requests a pass of these places that begins after this instant, which may be in the future: as soon as possible, but with
    /// `Followed` the next regular one in a place of several pages.
    pub pass_after: Option<Instant>,
    /// How many such passes in a row: 1 for an observation, 2 for a proof of absence (0 counts as 1). Each must be good evidence,
    /// and two must show the same servers, so it may take more than two.
    pub passes: u8,
}

/// How often a place is listed for a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attention {
    /// The Instance expects no change. A pass wakes it only if it shows a change or fulfils the Instance's request, or if the
    /// server is missing while the circuit breaker is open.
    #[default]
    Quiet,
    /// The Instance expects a change that only a listing shows. Every pass wakes it, and passes come at the short interval for
    /// operations.
    InFlight,
    /// An operation is in progress that is followed by queries for its task and its server. Every pass wakes the Instance. Passes
    /// come at the short interval only if one costs no more calls than it saves all such Instances, or while passes fail or the
    /// circuit breaker is open.
    Followed,
}

/// Time constants of the driver. Each default has its reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Interval between the starts of two passes while nothing is in flight: a surplus server is found within about a minute. It is
    /// longer if the passes would take too much of the request limit.
    pub quiet: Duration,
    /// Interval while something is in flight, as defined by [`Attention`]: a change that only a listing shows is seen about
    /// this late.
    pub in_flight: Duration,
    /// Interval if a place is listed only for tombstones: a late server is rare, and an hour of it costs little.
    pub tombstone_pause: Duration,
    /// Pause between the end of a pass and a further one that was requested, so that proofs of absence do not flood the service.
    pub min_gap: Duration,
    /// First pause after a failed pass. It doubles up to 20 s, or up to 25 s if the service refuses the token.
    pub failure_pause: Duration,
    /// Share by which intervals vary, so that the passes of different accounts do not stay in step.
    pub jitter: f64,
    /// How long a tombstone is kept: longer than a create can plausibly be delayed.
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

/// Why the listings of a place fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingFailure {
    /// When the first of the consecutive failures happened.
    pub since: Instant,
    /// The same as a wall-clock time, for status.
    pub began: Timestamp,
    /// The message of the first of the consecutive failures of this kind.
    pub message: String,
    /// The service refuses the token.
    is_refused: bool,
    kind: pass::Kind,
}

/// The listings of one session. Cheap to clone; all clones are one inventory.
#[derive(Clone)]
pub struct Inventory {
    shared: Arc<Inner>,
}

/// Shared by the handles and the driver. The lock is never held across a wait or a call.
struct Inner {
    state: Mutex<state::State>,
    changed: Notify,
    passes: watch::Sender<u64>,
}

impl std::fmt::Debug for Inventory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inventory")
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, state::State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Restarts the driver when it panics, until `cancel` ends it. Otherwise every Instance that waits for a listing would wait
/// forever, without any sign of the cause.
async fn drive(
    shared: Arc<Inner>,
    client: Client,
    wake: impl Fn(InstanceUid) + Send + Sync + 'static,
    cancel: CancellationToken,
) {
    let wake = Arc::new(wake);
    loop {
        let (inner, wake) = (shared.clone(), wake.clone());
        let driver = driver::run(inner, client.clone(), wake, cancel.clone());
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
    /// Starts the driver, which runs until `cancel`. Without subscriptions and tombstones it makes no call.
    pub fn spawn(
        client: Client,
        settings: Settings,
        wake: impl Fn(InstanceUid) + Send + Sync + 'static,
        cancel: CancellationToken,
    ) -> Self {
        let shared = Arc::new(Inner {
            state: Mutex::new(state::State::new(settings)),
            changed: Notify::new(),
            passes: watch::Sender::new(0),
        });
        tokio::spawn(drive(shared.clone(), client, wake, cancel));
        Self { shared }
    }

    /// Adds a subscription, or replaces the subject's former one.
    ///
    /// Call it *before* [`Inventory::view`] in a reconcile: the subject is woken for every change of a later pass.
    pub fn subscribe(&self, subject: &InstanceUid, subscription: Subscription) {
        self.shared.lock().subscribe(subject, subscription);
        self.shared.changed.notify_one();
    }

    /// The passes that the subject's subscription requests.
    pub fn wants(&self, subject: &InstanceUid) -> Wants {
        self.shared.lock().wants(subject)
    }

    /// A subject that cannot reconcile for now needs no listings beyond the regular ones.
    pub fn expect_no_change(&self, subject: &InstanceUid) {
        self.shared.lock().expect_no_change(subject);
    }

    pub fn leave(&self, subject: &InstanceUid) {
        self.shared.lock().leave(subject);
        self.shared.changed.notify_one();
    }

    /// The current snapshot of a place.
    pub fn view(&self, place: &Place) -> View {
        self.shared.lock().view(place)
    }

    /// The service answered "no such instance" to an authenticated call for the server of the Instance with this UID, so the
    /// missing server does not count for the breaker.
    pub fn confirmed_gone(&self, uid: &str, id: &ServerId) {
        self.shared.lock().confirmed_gone(uid, id);
    }

    /// Remembers the marker of a finalized Instance: a server that shows up with it later has no owner.
    pub fn add_tombstone(&self, marker: Marker, places: Vec<Place>) {
        self.shared
            .lock()
            .add_tombstone(marker, places, Instant::now());
        self.shared.changed.notify_one();
    }

    /// Servers whose marker has a tombstone, shown by a pass that began after the tombstone was set. An Instance may own one all
    /// the same: a restored Instance keeps its old marker.
    pub fn late_servers(&self) -> Vec<(Marker, ServerId, Place)> {
        self.shared.lock().late_servers(Instant::now())
    }

    /// Whether any pass of this region ever showed a server, by id or marker, that was recorded under this credential. This is
    /// the evidence that the inventory's token belongs to the same account and may see the region, since a token can be limited
    /// to regions. Servers of other credentials are no evidence: two Accounts may share a token by mistake.
    pub fn has_shown(&self, credential: &str, region: &str) -> bool {
        self.shared.lock().has_shown(credential, region)
    }

    /// Whether the newest listing of any place shows this server.
    pub fn shows(&self, id: &ServerId) -> bool {
        self.shared.lock().shows(id)
    }

    /// Copies the tombstones from the inventory of a former session. The copies expire like new ones.
    pub fn inherit(&self, former: &Self) {
        if Arc::ptr_eq(&self.shared, &former.shared) {
            return;
        }
        let tombstones = former.shared.lock().tombstones();
        for (marker, places) in tombstones {
            self.add_tombstone(marker, places);
        }
    }

    /// Whether a pass of any place succeeded within this time: then the service answers and accepts the token.
    pub fn listed_within(&self, time: Duration) -> bool {
        self.shared.lock().listed_within(time, Instant::now())
    }

    /// The number of subscriptions that expect a change of a server on record, whose Instances may query task and server.
    pub fn followed(&self) -> usize {
        self.shared.lock().expecting_change
    }

    /// The newest listing of every watched place, by place. `owns` takes a lock of its own, so it is called without that of the
    /// listings.
    pub fn listings(&self, owns: impl Fn(&ServerId, Option<&Marker>) -> bool) -> Vec<PlaceListing> {
        let mut listings = self.shared.lock().listings();
        for listing in &mut listings {
            listing
                .unowned
                .retain(|row| !owns(&row.id, row.marker.as_ref()));
        }
        listings
    }

    /// Combined counts of these listings.
    pub fn counts(&self, owns: impl Fn(&ServerId, Option<&Marker>) -> bool) -> Listings {
        let listings = self.listings(owns).into_iter();
        let counts = listings.map(|listing| listing.counts(Instant::now()));
        counts.fold(Listings::default(), Listings::and)
    }

    /// A counter that increases with every completed pass.
    pub fn passes(&self) -> watch::Receiver<u64> {
        self.shared.passes.subscribe()
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
