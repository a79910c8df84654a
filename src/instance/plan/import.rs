//! An existing server is imported instead of buying one: find it, read it, check that it has no owner, then record it.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Cause, Import, Imports, Reference};
use crate::catalog::Candidates;
use crate::cloud::{Detail, ServerId};
use crate::instance::fact::Fact;
use crate::instance::observation::{Observation, SessionFacts, is_idle};
use crate::instance::plan::step::{Plan, Read, Step};
use crate::instance::plan::why::Why;
use crate::instance::plan::{adopt, attempt, words};
use crate::instance::{references, times};
use crate::inventory::{Row, ZoneViews};
use crate::runtime::events::EventNote;
use crate::runtime::watch::ObjectKey;
use crate::session::ConflictingOwner;
use crate::{catalog, inventory};
use std::cmp::Reverse;

/// The refusal if the Account does not allow imports. A server that this Instance already had, according to status, is no new
/// import: its record was lost, and a change of the Account must not take it away.
pub(super) fn denied(
    observed: &Observation,
    session: &SessionFacts,
    wanted: &Import,
    found: Option<&ServerId>,
) -> Option<Plan> {
    let is_own = match (observed.facts.status.id.as_deref(), found) {
        (None, _) => false,
        // The server has not been found yet.
        (Some(_), None) => true,
        (Some(had), Some(found)) => had == found.as_str(),
    };
    if session.imports == Imports::Allowed || is_own {
        return None;
    }
    let message = format!(
        "Account {} does not let its Instances import servers, so {} is not taken over, and nothing is bought instead: add \
         \"imports: Allowed\" to the spec of the Account, or delete this Instance",
        observed.account_key.name,
        wanted.words()
    );
    Some(*wrong(Reason::ImportDenied, message))
}

/// The steps to the record. Never buys.
pub(super) fn plan(observed: &Observation, session: &SessionFacts, wanted: &Import) -> Plan {
    let id = match find(observed, wanted) {
        Ok(id) => id,
        Err(plan) => return *plan,
    };
    if let Some(plan) = denied(observed, session, wanted, Some(&id)) {
        return plan;
    }
    let detail = match &observed.candidate {
        Fact::NotAsked => return Plan::needing(Read::Candidate(id)),
        Fact::Known(detail) => detail,
        Fact::Absent => {
            return looking(format!(
                "server {id} is listed, and the service does not know it when it is asked for it"
            ));
        }
        Fact::Unknown(why) => {
            return looking(format!(
                "the detail of server {id} could not be read: {why}"
            ));
        }
    };
    let name = match fits(observed, wanted, &id, detail) {
        Ok(name) => name,
        Err(plan) => return *plan,
    };
    match &observed.conflicting_owner {
        ConflictingOwner::NotKnownYet => {
            looking("reading which servers the Instances of the other namespaces have".to_owned())
        }
        ConflictingOwner::Instance(owner) => {
            let mut plan = conflict(owner, &id);
            // The server was on record here until the store went back. Do not report a server that is not on record: it would
            // block the Instance that owns it.
            plan.changes.forget_server = observed.facts.status.id.as_deref() == Some(id.as_str());
            plan
        }
        ConflictingOwner::None => {
            let plan = take_over(observed, session, &id, name);
            // The server was read in this reconcile.
            let words = words::importing(&id, &Fact::NotAsked);
            plan.because(Some(Why::progress(Reason::Importing, words)))
        }
    }
}

/// The one server that the spec names, in a current and complete listing.
fn find(observed: &Observation, wanted: &Import) -> Result<ServerId, Box<Plan>> {
    let since = observed.memory.origin.recordless_since;
    let since = since.unwrap_or(observed.memory.origin.first_seen);
    let here = observed.facts.place();
    let Some(listing) = observed.listing.as_ref().filter(|l| l.is_whole(since)) else {
        let trouble = observed.listing.as_ref().and_then(ZoneViews::trouble);
        let why = trouble.map(|trouble| format!(": {trouble}"));
        let message = format!(
            "reading the service's listing of {here} for the server that is to be imported{}",
            why.unwrap_or_default()
        );
        let why = Why::progress(Reason::Importing, message);
        return Err(Box::new(
            Plan::rest(why, times::PASS_RECHECK).wanting(since, 1),
        ));
    };
    let rows: Vec<&Row> = listing.rows().into_values().collect();
    // The row may lack fields; the detail shows them.
    let is_possible = |row: &&Row| !answers(row, wanted).contains(&Some(false));
    let possible: Vec<&Row> = rows.iter().copied().filter(is_possible).collect();
    let what = wanted.words();
    match possible.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(not_found(observed, wanted, rows)),
        several => {
            let several = candidates(several.iter().copied());
            let message = format!(
                "more than one {what} is in {here}, as far as the service's listing shows name and address: narrow spec.import, or \
                 name one of them in spec.import.id ({several})"
            );
            Err(wrong(Reason::ImportAmbiguous, message))
        }
    }
}

/// No such server is listed: name those that belong to no Instance.
fn not_found(observed: &Observation, wanted: &Import, rows: Vec<&Row>) -> Box<Plan> {
    let free = rows.into_iter().filter(|row| row.marker.is_none());
    let near = near(free.collect(), wanted);
    let there = match near.is_empty() {
        true => "it lists none there without an Instance".to_owned(),
        false => format!("it lists {near}"),
    };
    let message = format!(
        "the service lists no {} in {} for Account {}; {there}: fix spec.import, spec.region or spec.zone; nothing is bought \
         while spec.import is set",
        wanted.words(),
        observed.facts.place(),
        observed.account_key.name
    );
    wrong(Reason::ImportNotFound, message)
}

/// The row's match with each field of `spec.import` that is set; None if the row lacks the field.
fn answers(row: &Row, wanted: &Import) -> Vec<Option<bool>> {
    let id = |id: &String| Some(row.id.as_str() == id);
    let name = |name: &String| row.name.as_deref().map(|its| its == name);
    // The schema admits texts like 999.1.1.1 that are no addresses; no server has them.
    let address = |text: &String| match text.parse() {
        Ok(address) => row.has_address(address),
        Err(_) => Some(false),
    };
    let ids = wanted.id.iter().map(id);
    let names = wanted.name.iter().map(name);
    ids.chain(names)
        .chain(wanted.address.iter().map(address))
        .collect()
}

/// The nearest servers: those that match some of the filter come first.
fn near(mut rows: Vec<&Row>, wanted: &Import) -> Candidates {
    let fitting = |row: &Row| {
        let answers = answers(row, wanted).into_iter();
        answers.filter(|answer| *answer == Some(true)).count()
    };
    rows.sort_by_key(|row| Reverse(fitting(row)));
    candidates(rows.into_iter())
}

fn candidates<'a>(rows: impl Iterator<Item = &'a Row>) -> Candidates {
    Candidates::of(rows.map(|row| (row.id.to_string(), row.name.clone().map(String::from))))
}

/// Checks that the server matches the spec, as far as its detail shows. Returns its name.
fn fits(
    observed: &Observation,
    wanted: &Import,
    id: &ServerId,
    detail: &Detail,
) -> Result<String, Box<Plan>> {
    let Some(name) = detail.name() else {
        let message = format!(
            "server {id} has no name, by which the operator would recognize it later: give it one at the service"
        );
        return Err(wrong(Reason::ImportDiffers, message));
    };
    let shows = |text: &String| {
        let address = text.parse().ok();
        address.is_some() && inventory::addresses(&detail.fields).contains(&address)
    };
    let is_it = wanted.name.as_deref().is_none_or(|wanted| wanted == name)
        && wanted.address.as_ref().is_none_or(shows);
    if !is_it || detail.id != *id {
        let others = observed.listing.iter().flat_map(|listing| listing.rows());
        let (this, others): (Vec<_>, Vec<_>) =
            others.map(|(_, row)| row).partition(|row| row.id == *id);
        let is_complete = this
            .iter()
            .any(|row| answers(row, wanted).iter().all(Option::is_some));
        return Err(match is_complete {
            true => Box::new(looking(format!(
                "server {id} is listed with another name or address than it has"
            ))),
            false => not_found(observed, wanted, others),
        });
    }
    if !is_idle(detail.pending()) {
        let word = detail.pending().unwrap_or_default();
        return Err(Box::new(looking(format!(
            "the service is busy with server {id} ({word})"
        ))));
    }
    if !matches!(detail.status(), Some("STARTED" | "STOPPED") | None) {
        let word = detail.status().unwrap_or_default();
        return Err(Box::new(looking(format!("server {id} is {word}"))));
    }
    fits_in_kind(observed, id, detail)?;
    fits_in_size(observed, id, detail).map(|()| name.to_owned())
}

/// Checks that the server is in the spec's place and has its image, as far as its detail shows.
fn fits_in_kind(observed: &Observation, id: &ServerId, detail: &Detail) -> Result<(), Box<Plan>> {
    let (place, image) = (
        observed.facts.place(),
        detail.image().map(|image| image.to_string()),
    );
    // The caller resolved the spec's selectors before: see `buy`.
    let wanted_image = references::id(observed, Reference::Image).unwrap_or_default();
    let compared = [
        ("spec.region", detail.region(), place.region.as_str()),
        ("spec.zone", detail.zone(), place.zone.as_str()),
        ("spec.image", image.as_deref(), wanted_image.as_str()),
    ];
    let differs = compared.into_iter().find_map(|(field, has, wanted)| {
        Some((field, has?, wanted)).filter(|_| has != Some(wanted))
    });
    let Some((field, has, wanted)) = differs else {
        return Ok(());
    };
    // Identifiers are reported for names in the spec, so name the field that takes an identifier.
    let set = match field {
        "spec.image" => "spec.image.id",
        field => field,
    };
    let message = format!(
        "server {id} has {has}, and {field} asks for {wanted}: set {set} to {has} to import it as it is"
    );
    Err(wrong(Reason::ImportDiffers, message))
}

/// Checks that the server has the size of the package in the spec: the service does not report the package.
fn fits_in_size(observed: &Observation, id: &ServerId, detail: &Detail) -> Result<(), Box<Plan>> {
    let wanted = &observed.facts.spec.package;
    let message = match (&wanted.code, &observed.found.on_sale) {
        (None, _) => catalog::smaller(wanted, detail).map(|unlike| {
            format!(
                "server {id} has {}, and spec.package asks for at least {}: set spec.package to what the server has",
                unlike.has(),
                unlike.wanted()
            )
        }),
        (Some(code), Fact::Known(row)) => catalog::unlike(row, detail).map(|unlike| {
            format!(
                "server {id} has {}, and package {code} has {}: set spec.package.code to the package that the server was \
                 bought as",
                unlike.has(),
                unlike.wanted()
            )
        }),
        (Some(code), Fact::Unknown(why)) => {
            return Err(Box::new(looking(format!(
                "the packages could not be read, so server {id} cannot be compared with package {code}: {why}"
            ))));
        }
        // A package that is no longer sold may be the one that an old server was bought with.
        (Some(_), Fact::Absent | Fact::NotAsked) => None,
    };
    match message {
        None => Ok(()),
        Some(message) => Err(wrong(Reason::ImportDiffers, message)),
    }
}

/// The Event's note: the properties that were compared, and those that were assumed.
fn note(observed: &Observation, id: &ServerId, name: &str) -> String {
    let package = match (&observed.facts.spec.package.code, &observed.found.on_sale) {
        (Some(code), Fact::Absent) => format!(
            "package {code} is not on sale in {}, so whether the server was bought with it was not checked",
            observed.facts.place()
        ),
        (_, Fact::Known(_) | Fact::Unknown(_) | Fact::NotAsked) | (None, Fact::Absent) => {
            "of its package only CPU and memory were compared, as far as the service reports them"
                .to_owned()
        }
    };
    format!(
        "imported server {id}, called {name}; {package}; the service does not report firewall or login, so the values in the spec are assumed"
    )
}

/// The record of the imported server. The values in the spec count as applied, so that an import erases nothing.
fn take_over(observed: &Observation, session: &SessionFacts, id: &ServerId, name: String) -> Plan {
    let note = note(observed, id, &name);
    let mut plan = adopt::record(observed, session, id, None);
    if let Step::Record { record } = &mut plan.step {
        record.imported = Some(name);
        let now = attempt::blank(observed, session);
        for place in &now.places {
            if !record.places.contains(place) {
                record.places.push(place.clone());
            }
        }
        adopt::is_in(observed, id, record);
        // No create request was sent for it, so none can have been doubled.
        record.lost = 0;
        if let Some(former) = observed.facts.purchase() {
            // A former attempt that bought nothing may have been made from another spec.
            record.lost = former.lost;
            record.attempt = now.attempt;
            record.nonce.clear();
            (record.started_at, record.generation) = (now.started_at, now.generation);
            (record.target, record.waiting_password) = (now.target, false);
            (record.package, record.firewall) = (now.package, now.firewall);
            (record.account, record.credential) = (now.account, now.credential);
            record.failed = 0;
        }
        record.cause = Some(Cause::Import);
        record.resolved = references::pins(observed);
        if observed.facts.spec.login.generate.is_some() {
            // The generated password has not been set.
            record.target.password_secret = None;
            record.waiting_password = true;
        }
    }
    plan.with_event(EventNote::normal("Imported", note))
}

/// Another Instance owns the server.
pub(super) fn conflict(owner: &ObjectKey, id: &ServerId) -> Plan {
    let (namespace, name) = (&owner.namespace, &owner.name);
    let message = format!(
        "server {id} belongs to Instance {namespace}/{name}: import another one, or delete this Instance; nothing is done to the \
         server for this one, and it is not released with it"
    );
    *wrong(Reason::ImportConflict, message)
}

fn wrong(reason: Reason, message: String) -> Box<Plan> {
    let again = if reason == Reason::ImportDiffers {
        times::IDLE_REQUEUE
    } else {
        times::IMPORT_RETRY
    };
    Box::new(Plan::rest(Readiness::stalled(reason, message), again))
}

fn looking(message: String) -> Plan {
    Plan::rest(
        Why::progress(Reason::Importing, message),
        times::UNREADABLE_RETRY,
    )
}
