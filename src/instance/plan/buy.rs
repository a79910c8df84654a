//! No server is recorded: buys one, and never a second.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Import, PurchaseRecord, Verb, counted, names};
use crate::cloud::{CreateRequest, FirewallId, ImageId, Login, PackageCode, ServerId};
use crate::instance::memory::kinds::{Attempt, CallState};
use crate::instance::observation::{Observation, SessionFacts, of_purchase};
use crate::instance::plan::attempt::{blank, creating};
use crate::instance::plan::evidence::breaker_open;
use crate::instance::plan::login::login;
use crate::instance::plan::step::{Plan, Step};
use crate::instance::plan::why::Why;
use crate::instance::plan::{
    adopt, cause, diff, evidence, import, policy, recreate, resolve, words,
};
use crate::instance::times;
use crate::inventory::{Absence, ZoneViews};
use crate::session::{Limit, QuotaState};
use tokio::time::Instant;

pub(super) fn begin(observed: &Observation, session: &SessionFacts) -> Plan {
    if let Some(plan) = first_what_is_ours(observed, session, None) {
        return plan;
    }
    if let Some(wanted) = &observed.facts.spec.import {
        return imported(observed, session, wanted);
    }
    let memory = &observed.memory;
    let status = &observed.facts.status;
    let untouched = status.id.is_none() && status.operation.is_none() && status.attempt == 0;
    let is_new = memory.origin.born_here && !memory.origin.ever_intended && untouched;
    if let Some(at) = memory
        .pace
        .not_before
        .filter(|at| is_new && *at > observed.now)
    {
        // The write of the intent failed a moment ago.
        return Plan::wait(at - observed.now);
    }
    if is_new {
        // This process saw the object appear and never made a call for it, so no process can have bought a server. No listing is
        // needed.
        return create(observed, session, &Origin::First);
    }
    // A server with our marker may exist. If an attempt may be open, its settling time must pass first. If nothing shows an
    // attempt, its traces may have been lost, so a server must have had the time to be listed.
    let since = memory.origin.recordless_since.unwrap_or(observed.now);
    let doubtful = memory.origin.ever_intended || !untouched;
    let settled = match doubtful {
        true => since.max(memory.newest_attempt().unwrap_or(since)) + session.settle,
        false => since + times::LISTED_WITHIN,
    };
    // The first listing may show the server, so it is requested without waiting for the settling time.
    let Some(listing) = &observed.listing else {
        return looking(observed, since, 1);
    };
    match listing.proven_absent(&observed.facts.marker, None, settled) {
        // A server once existed and is nowhere now. A missing server is not proven gone, so nothing is bought in its place.
        Absence::Proven if status.id.is_some() => missing(observed),
        Absence::Proven => create(observed, session, &Origin::First),
        Absence::NotYet(_) | Absence::Present(_) if doubtful => {
            let doubt = "the record of an earlier create is lost, so it may have been carried out";
            waiting_to_settle(observed, doubt, settled)
        }
        Absence::NotYet(_) | Absence::Present(_) => looking(observed, settled, 2),
    }
}

/// Imports a server, once the values to compare it with are resolved.
fn imported(observed: &Observation, session: &SessionFacts, wanted: &Import) -> Plan {
    if let Some(plan) = import::denied(observed, session, wanted, None) {
        return plan;
    }
    match resolve::purchase(observed) {
        Ok(_) => import::plan(observed, session, wanted),
        Err(plan) => *plan,
    }
}

/// An attempt is recorded, and its server is not.
pub(super) fn go_on(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
) -> Plan {
    let attempt = observed.memory.attempt(record);
    let since = attempt.map(|attempt| attempt.since);
    if let Some(plan) = first_what_is_ours(observed, session, since) {
        return plan;
    }
    if observed.facts.status.applied.is_some() {
        // Its server existed, and a user removed the identifier from the record.
        return settle(
            observed,
            session,
            record,
            since.unwrap_or(observed.now) + session.settle,
        );
    }
    if let Some(since) = observed.memory.in_doubt_since(record) {
        return settle(observed, session, record, since + session.settle);
    }
    // A server that only an older listing shows was not adopted; the next listing shows whether it exists.
    let is_shown = !adopt::bearing(observed).is_empty();
    match attempt {
        Some(Attempt {
            call_state: CallState::NotSent | CallState::Refused { .. },
            since,
            ..
        }) if is_shown => looking(observed, *since, 1),
        Some(Attempt {
            call_state: CallState::Refused { message, reason },
            since,
            ..
        }) if recreate::needs_proof_again(observed, record) => prove_again(
            observed,
            session,
            record,
            *since,
            (message.as_str(), *reason),
        ),
        Some(Attempt {
            call_state: CallState::Refused { message, reason },
            is_own: false,
            since,
            ..
        }) => refused_before(
            observed,
            session,
            record,
            *since,
            (message.as_str(), *reason),
        ),
        // Certainly nothing was bought under this attempt, since this process knows the outcome of each of its calls: it may make
        // the call again.
        Some(Attempt {
            call_state: CallState::NotSent,
            ..
        }) => again(observed, session, record, None),
        Some(Attempt {
            call_state: CallState::Refused { message, reason },
            ..
        }) => again(observed, session, record, Some((message.as_str(), *reason))),
        // A server that the service gave is recorded first; see above.
        Some(Attempt {
            call_state: CallState::Accepted { .. } | CallState::Unknown,
            since,
            ..
        }) => settle(observed, session, record, *since + session.settle),
        None => settle(observed, session, record, observed.now + session.settle),
    }
}

/// The service refused the attempt, and a former process recorded that, so no answer was lost. One listing of each place shows
/// whether another server bears the marker.
fn refused_before(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
    since: Instant,
    (message, reason): (&str, Reason),
) -> Plan {
    let listing = observed.listing.as_ref();
    match listing.map(|listing| listing.absent_once(&observed.facts.marker, since)) {
        // If this process was refused as well, it keeps its own pause: two active processes must not alternate without a pause.
        Some(Absence::Proven) => paused(observed, record, (message, reason))
            .unwrap_or_else(|| create(observed, session, &Origin::Refused(record))),
        // The current spec was not refused.
        _ if record.generation != observed.facts.generation => looking(observed, since, 1),
        Some(Absence::NotYet(_) | Absence::Present(_)) | None => {
            Plan::rest(Why::refused(message, reason), times::PASS_RECHECK).wanting(since, 1)
        }
    }
}

/// The refusal voids the proof of absence, and passes that began after the refusal have to give it again. The call is repeated
/// after a pause, so only passes that began after the pause count: a limit that is lifted meanwhile shows in them.
fn prove_again(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
    since: Instant,
    refusal: (&str, Reason),
) -> Plan {
    let spec = &observed.facts.spec;
    let recreated = record.recreated.max(observed.memory.origin.recreated);
    let buys_none = policy::restriction(observed).is_some()
        || spec.import.is_some()
        || recreate::called_off(observed, recreated).is_some();
    if buys_none {
        return create(observed, session, &Origin::Refused(record));
    }
    if let Some(plan) = paused(observed, record, refusal) {
        return plan;
    }
    let since = observed
        .memory
        .pace
        .not_before
        .map_or(since, |at| at.max(since));
    let listing = observed.listing.as_ref();
    match listing.map(|listing| listing.proven_absent(&observed.facts.marker, None, since)) {
        Some(Absence::Proven) if evidence::is_our_account(observed, session) => {
            create(observed, session, &Origin::Refused(record))
        }
        // The listing may belong to another account, so it proves nothing.
        Some(Absence::Proven) => {
            let message = format!(
                "the service refused the last create, and the token was changed since: nothing shows that it belongs to the \
                 account of the servers that were bought before, so nothing is bought: put the former token back, or {}",
                words::another(spec)
            );
            let readiness = Readiness::stalled(Reason::ServerMissing, message);
            Plan::rest(readiness, times::IDLE_REQUEUE)
        }
        // The current spec was not refused.
        _ if record.generation != observed.facts.generation => looking(observed, since, 2),
        Some(Absence::NotYet(_) | Absence::Present(_)) | None => {
            let (message, reason) = refusal;
            Plan::rest(Why::refused(message, reason), times::PASS_RECHECK).wanting(since, 2)
        }
    }
}

/// The create failed and its leftover is gone: makes a new attempt after a pause.
pub(super) fn after_failure(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
) -> Plan {
    create(observed, session, &Origin::Failed(record))
}

/// The server was provably released externally, and the spec asks for another one.
pub(super) fn after_loss(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
) -> Plan {
    create(observed, session, &Origin::Released(record))
}

/// Checks before every purchase: a receipt that is pending, a server that a listing shows with our marker since the attempt was
/// first seen, an open circuit breaker.
fn first_what_is_ours(
    observed: &Observation,
    session: &SessionFacts,
    since: Option<Instant>,
) -> Option<Plan> {
    adopt::given(observed, session)
        .or_else(|| adopt::adopt(observed, session, since))
        .or_else(|| breaker_open(observed))
}

/// The reason for an attempt, with the attempt before it.
enum Origin<'a> {
    /// No attempt came before.
    First,
    /// An attempt that bought nothing.
    Refused(&'a PurchaseRecord),
    /// An attempt without an answer, whose server does not exist.
    Lost(&'a PurchaseRecord),
    /// An attempt whose task failed.
    Failed(&'a PurchaseRecord),
    /// A server that was released externally.
    Released(&'a PurchaseRecord),
}

impl Origin<'_> {
    /// The record of the attempt before, and the new counts of lost answers, failures and replacements. The replacements are at
    /// least those that this process remembers, even if the cluster's state went back since.
    fn counts(&self, remembered: u32) -> (Option<&PurchaseRecord>, u32, u32, u32) {
        let (former, lost, failed, recreated) = match self {
            Self::First => return (None, 0, 0, remembered),
            Self::Refused(former) => (former, 0, Some(0), 0),
            Self::Lost(former) => (former, 1, Some(0), 0),
            Self::Failed(former) => (former, 0, Some(1), 0),
            // The replacement starts over, so failures before the lost server do not count.
            Self::Released(former) => (former, 0, None, 1),
        };
        (
            Some(former),
            former.lost.saturating_add(lost),
            failed.map_or(0, |more| former.failed.saturating_add(more)),
            former.recreated.max(remembered).saturating_add(recreated),
        )
    }
}

fn create(observed: &Observation, session: &SessionFacts, origin: &Origin<'_>) -> Plan {
    let (account, wanted) = (
        &observed.account_key.name,
        &observed.facts.spec.account_ref.name,
    );
    if account != wanted {
        return of_another_account(account, wanted);
    }
    if let Some(wanted) = &observed.facts.spec.import {
        return imported(observed, session, wanted);
    }
    let remembered = match origin {
        Origin::First => observed
            .memory
            .origin
            .recreated
            .max(recreate::told(observed)),
        _ => observed.memory.origin.recreated,
    };
    let (former, lost, failed, recreated) = origin.counts(remembered);
    // For a server that is proven gone, this was checked before.
    let withdrawn = || match origin {
        Origin::Released(_) => None,
        _ => recreate::withdrawn(observed, recreated),
    };
    if let Some(plan) = policy::instead_of_a_purchase(observed).or_else(withdrawn) {
        return plan;
    }
    if let (Origin::First, Some(plan)) = (origin, bought_elsewhere(observed)) {
        return plan;
    }
    let ready = resolve::purchase(observed).and_then(|()| login(observed));
    let login = match ready {
        Ok(ready) => ready,
        Err(plan) => return *plan,
    };
    if let Err(plan) = quota(observed) {
        return *plan;
    }
    let mut record = PurchaseRecord {
        lost,
        failed,
        recreated,
        ..blank(observed, session)
    };
    let is_released = matches!(origin, Origin::Released(_));
    record.cause = Some(cause::of_purchase(former, is_released));
    record.target = diff::as_read(observed, &login);
    record.waiting_password = login.is_waiting();
    if let Some(former) = former {
        goes_on_from(observed, former, &mut record);
    }
    let request = request(observed, &record, login.login);
    call(observed, record, true, request)
}

/// The record comes from another cluster and names a listed server that no Instance here has. Either the manifest is a copy that
/// needs its own server, or the fleet is being moved. Status reports this for a while before the purchase. The wait begins once
/// status has the report, and begins again after a restart.
fn bought_elsewhere(observed: &Observation) -> Option<Plan> {
    let record = observed.recorded_by_other_cluster.as_ref()?;
    let origin = &observed.memory.origin;
    let reported = origin.elsewhere_since.as_deref();
    let left = reported
        .map(|at| (*at + times::REPORTED_BEFORE_PURCHASE).saturating_duration_since(observed.now));
    if left.is_some_and(|left| left.is_zero()) {
        return None;
    }
    let since = origin.first_seen;
    let listing = observed.listing.as_ref();
    let Some(listing) = listing.filter(|listing| listing.is_whole(since)) else {
        return Some(looking(observed, since, 1));
    };
    let id = ServerId::from(record.id.as_deref()?);
    listing.row(&id)?;
    let message = format!(
        "the record on this Instance is from another cluster, and no Instance here has its server {id}: nothing is bought for {} \
         minutes after this report, and another server after that; to keep {id}, set spec.import.id to it, or stop the operator \
         of that cluster and run this one with --cluster-id {}; to buy at once, remove the annotation {}",
        times::REPORTED_BEFORE_PURCHASE.as_secs() / 60,
        record.cluster,
        names::BINDING
    );
    let readiness = Readiness::reconciling(Reason::RecordedByOtherCluster, message);
    Some(Plan::rest(readiness, left.unwrap_or(times::PASS_RECHECK)))
}

/// A server of an earlier attempt may still show up in the account of that attempt, and the spec now names another Account.
fn of_another_account(account: &str, wanted: &str) -> Plan {
    let message = format!(
        "an attempt was made with Account {account}, the spec names {wanted}: set spec.accountRef back; for a server of {wanted}, \
         add an Instance with another name"
    );
    let readiness = Readiness::drifted(Reason::SpecChangedAfterPurchase, message);
    Plan::rest(readiness, times::IDLE_REQUEUE)
}

/// The attempt follows another one, so the places where that may have left a server are searched, too.
fn goes_on_from(observed: &Observation, former: &PurchaseRecord, record: &mut PurchaseRecord) {
    // A restored object keeps the marker of the original one.
    record.uid.clone_from(&former.uid);
    // The newest place comes last. If every call was refused, no server can be in the former places, unless a limited token hides
    // it there.
    let was_refused = (observed.memory.nothing_bought(former) || former.bought_nothing())
        && !recreate::needs_proof_again(observed, former);
    let here = std::mem::take(&mut record.places);
    record.places = former
        .places
        .iter()
        .filter(|place| !was_refused && !here.contains(place))
        .cloned()
        .chain(here.clone())
        .collect();
}

/// The pause after a refusal; None if it is over, or if the spec has changed since.
fn paused(
    observed: &Observation,
    record: &PurchaseRecord,
    (message, reason): (&str, Reason),
) -> Option<Plan> {
    let changed = record.generation != observed.facts.generation;
    let not_before = observed.memory.pace.not_before;
    let at = not_before.filter(|at| *at > observed.now && !changed)?;
    Some(Plan::rest(Why::refused(message, reason), at - observed.now))
}

/// Repeats the call of a recorded attempt, with the current spec, since a user may have fixed it. If the spec has changed, this
/// is a new attempt.
fn again(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
    refusal: Option<(&str, Reason)>,
) -> Plan {
    if let Some(plan) = refusal.and_then(|refusal| paused(observed, record, refusal)) {
        return plan;
    }
    let changed = record.generation != observed.facts.generation;
    // The spec may no longer ask for a purchase; check that before resolving its values. A record that shows a refusal allows no
    // further call either.
    let is_closed = record.refused.is_some();
    let wants_none =
        policy::restriction(observed).is_some() || observed.facts.spec.import.is_some();
    if changed || is_closed || wants_none {
        return create(observed, session, &Origin::Refused(record));
    }
    let ready = resolve::purchase(observed).and_then(|()| login(observed));
    let login = match ready {
        Ok(ready) => ready,
        Err(plan) => return *plan,
    };
    // Send only what the intent recorded; a selector may have another meaning by now.
    if resolve::is_other(&blank(observed, session), record) {
        return create(observed, session, &Origin::Refused(record));
    }
    if let Err(plan) = quota(observed) {
        return *plan;
    }
    let mut record = record.clone();
    record.target = diff::as_read(observed, &login);
    record.waiting_password = login.is_waiting();
    let request = request(observed, &record, login.login);
    call(observed, record, false, request)
}

fn call(
    observed: &Observation,
    record: PurchaseRecord,
    announce: bool,
    request: CreateRequest,
) -> Plan {
    let step = Step::Buy {
        record: Box::new(record),
        announce,
        request: Box::new(request),
    };
    let why = Why::progress(Reason::Creating, creating(observed));
    Plan::act(step).because(Some(why))
}

/// The outcome of an attempt is unknown: look for its server, and buy again only after a proof of absence.
fn settle(
    observed: &Observation,
    session: &SessionFacts,
    record: &PurchaseRecord,
    settled: Instant,
) -> Plan {
    let absence = observed
        .listing
        .as_ref()
        .map(|listing| listing.proven_absent(&observed.facts.marker, None, settled));
    match absence {
        // The server existed long enough for operations on it. A missing server is not proven gone.
        Some(Absence::Proven) if observed.facts.status.applied.is_some() => missing(observed),
        Some(Absence::Proven) if evidence::is_our_account(observed, session) => {
            create(observed, session, &Origin::Lost(record))
        }
        // The listing may belong to another account, so it proves nothing.
        Some(Absence::Proven) => {
            let message = format!(
                "{}, and the token was changed since: nothing shows that it belongs to the same account, so nothing is bought; \
                 put the former token back until this is settled, or delete the Instance",
                words::doubt(observed.memory.attempt(record), Verb::Create)
            );
            let readiness = Readiness::reconciling(Reason::CreateUnconfirmed, message);
            Plan::rest(readiness, times::IDLE_REQUEUE)
        }
        Some(Absence::NotYet(_) | Absence::Present(_)) | None => waiting_to_settle(
            observed,
            &words::doubt(observed.memory.attempt(record), Verb::Create),
            settled,
        ),
    }
}

fn request(observed: &Observation, record: &PurchaseRecord, login: Login) -> CreateRequest {
    CreateRequest {
        package: PackageCode::from(record.package.as_str()),
        place: observed.facts.place(),
        name: names::server_name(&observed.facts.key.name, &observed.facts.marker),
        image: ImageId::from(record.target.image.as_str()),
        firewall: record.firewall.as_deref().map(FirewallId::from),
        login,
    }
}

/// Checks that the Account's limits allow one more server; otherwise returns the plan that waits. Called last, so that an
/// Instance that waits for something else takes no place.
fn quota(observed: &Observation) -> Result<(), Box<Plan>> {
    let account = &observed.account_key.name;
    let plan = match observed.quota {
        QuotaState::Free => return Ok(()),
        QuotaState::Reached(Limit::Instances, allowed, again) => {
            let message = format!(
                "Account {account} may have {} with a server (spec.maxInstances), and no fewer have one or are about to have \
                 one: delete one that is not needed, or raise the limit",
                counted(allowed, "Instance")
            );
            let readiness = Readiness::reconciling(Reason::AccountLimitReached, message);
            Plan::rest(readiness, again)
        }
        QuotaState::Reached(Limit::Creates, allowed, again) => {
            let message = format!(
                "Account {account} may buy {} a minute (spec.createRate.perMinute), and as many creates were sent: it goes on \
                 by itself",
                counted(allowed, "server")
            );
            Plan::rest(Why::progress(Reason::CreateRateReached, message), again)
        }
    };
    Err(Box::new(plan))
}

/// It is not known whether a server exists; this many listings that begin after `since` will show it.
fn looking(observed: &Observation, since: Instant, passes: u8) -> Plan {
    let trouble = observed.listing.as_ref().and_then(ZoneViews::trouble);
    let message = match trouble {
        None => "reading the service's listing before anything is bought".to_owned(),
        Some(trouble) => {
            format!(
                "reading the service's listing before anything is bought: {trouble}: check spec.endpoint and spec.paths of \
                 Account {}",
                observed.account_key.name
            )
        }
    };
    let why = Why::progress(Reason::CheckingForExistingServer, message);
    let rest = since.saturating_duration_since(observed.now);
    if rest.is_zero() {
        return Plan::rest(why, times::PASS_RECHECK).wanting(since, passes);
    }
    // Keep the status that this spec has until then: the wait is over before a user could act on the message.
    Plan::wait(rest).because(Some(why).filter(|_| !evidence::is_told(observed)))
}

fn waiting_to_settle(observed: &Observation, doubt: &str, settled: Instant) -> Plan {
    let name = names::server_name(&observed.facts.key.name, &observed.facts.marker);
    let until = words::until(observed, settled);
    let listings = match words::unlisted(observed) {
        _ if !until.is_empty() => {
            format!("{until} (settleSeconds), and nothing is bought before that")
        }
        None => "; nothing is bought before two listings in a row are without it".to_owned(),
        Some(unlisted) => {
            format!(
                "; nothing is bought before two listings in a row are without it, and {unlisted}"
            )
        }
    };
    let message = format!("{doubt}: looking for a server named {name}{listings}");
    let why = Readiness::reconciling(Reason::CreateUnconfirmed, message).into();
    let why = Some(why).filter(|_| !recreate::is_withdrawn(observed));
    Plan::until_proven(why, observed, settled)
        .with_operation(observed.facts.purchase().map(of_purchase))
}

fn missing(observed: &Observation) -> Plan {
    let id = observed.facts.status.id.as_deref().unwrap_or_default();
    let message = format!(
        "server {id} is not at the service any more and its record is lost; nothing is bought in its place: {}",
        words::another(&observed.facts.spec)
    );
    let readiness = Readiness::stalled(Reason::ServerMissing, message);
    Plan::rest(readiness, times::IDLE_REQUEUE)
}
