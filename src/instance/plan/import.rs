//! An existing server is imported instead of buying one: find it, read it, check that no other Instance owns it, then record it.

use crate::api::conditions::{Readiness, Reason};
use crate::api::{Cause, Import, Imports, Reference};
use crate::catalog::Candidates;
use crate::cloud::{Detail, ServerId};
use crate::instance::fact::Fact;
use crate::instance::observation::{Observation, is_idle};
use crate::instance::plan::observed::{InSession, OnRecord};
use crate::instance::plan::step::{NeededRead, OrPlan, Plan};
use crate::instance::plan::{adopt, attempt, resolve, words};
use crate::instance::{references, times};
use crate::inventory::{Row, ZoneViews};
use crate::runtime::events::EventNote;
use crate::runtime::watch::ObjectKey;
use crate::session::ConflictingOwner;
use crate::{catalog, inventory};

/// Plans the next step of an import. Never buys.
pub(super) fn plan(observed: &InSession<'_>, import: &Import) -> OrPlan<Plan> {
    is_allowed(observed, import, None)?;
    // First resolve the selectors: the server is compared with their values.
    resolve::purchase(observed)?;
    let id = find(observed, import)?;
    is_allowed(observed, import, Some(&id))?;
    let name = match &observed.candidate {
        Fact::NotRead => return Ok(Plan::needing(NeededRead::Candidate(id))),
        Fact::Known(detail) => fits(observed, import, &id, detail)?,
        Fact::Absent => {
            let message = "is listed, but the service reports that it does not exist when the operator reads it";
            return Err(looking(format!("server {id} {message}")));
        }
        Fact::Unknown(why) => {
            let message = format!("the detail of server {id} could not be read: {why}");
            return Err(looking(message));
        }
    };
    match &observed.conflicting_owner {
        ConflictingOwner::NotKnownYet => {
            let message = "reading which servers the Instances of the other namespaces have";
            Err(looking(message.to_owned()))
        }
        ConflictingOwner::Instance(owner) => {
            let mut plan = conflict(owner, &id);
            // The server was on record here until etcd was restored. Do not report a server that is not on record: that would
            // block the Instance that owns it.
            plan.changes.forget_server = observed.facts.status_names(&id);
            Err(plan)
        }
        ConflictingOwner::None => Ok(put_on_record(observed, &id, name)),
    }
}

/// Checks that the Account allows imports. A server that this Instance already had, according to status, is no new import: its
/// record was lost, and a change of the Account must not take it away. `found`: the server, once it is found.
fn is_allowed(observed: &InSession<'_>, import: &Import, found: Option<&ServerId>) -> OrPlan<()> {
    let had = observed.facts.status.id.as_deref();
    let is_own = had.is_some_and(|had| found.is_none_or(|found| had == found.as_str()));
    if observed.session.imports == Imports::Allowed || is_own {
        return Ok(());
    }
    let message = format!(
        "Account {} does not let its Instances import servers, so {} is not imported, and nothing is bought instead: add \
         \"imports: Allowed\" to the spec of the Account, or delete this Instance",
        observed.account_key.name,
        import.description()
    );
    Err(wrong(Reason::ImportDenied, message))
}

/// The one server that the spec names, in a current and complete listing.
fn find(observed: &Observation, import: &Import) -> OrPlan<ServerId> {
    let since = observed.memory.origin.since;
    let here = observed.facts.place();
    let Some(listing) = observed.listing.as_ref().filter(|l| l.is_whole(since)) else {
        let message = format!(
            "reading the service's listing of {here} for the server that is to be imported{}",
            words::unlisted(observed)
        );
        let why = Readiness::progress(Reason::Importing, message);
        let plan = Plan::rest(why, times::PASS_RECHECK).requesting_passes(since, 1);
        return Err(Box::new(plan));
    };
    // The row may lack fields; the detail shows them.
    let mut possible = listing.rows().into_values().collect::<Vec<_>>();
    possible.retain(|row| may_match(row, import));
    match possible.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(not_found(observed, import, None)),
        _ => {
            let message = format!(
                "more than one {} is in {here}, as far as the service's listing shows name and address: narrow spec.import, or \
                 name one of them in spec.import.id ({})",
                import.description(),
                candidates(possible.into_iter())
            );
            Err(wrong(Reason::ImportAmbiguous, message))
        }
    }
}

/// No such server is listed: name those without a marker. `other`: a server whose row may match, but not its detail.
fn not_found(observed: &Observation, import: &Import, other: Option<&ServerId>) -> Box<Plan> {
    let listed = observed.listing.iter().flat_map(ZoneViews::rows);
    let rows = listed.map(|(_, row)| row);
    let free = candidates(rows.filter(|row| row.marker.is_none() && Some(&row.id) != other));
    let there = match free.is_empty() {
        true => "it lists no other there without a marker in its name".to_owned(),
        false => format!("without a marker in the name, it lists {free}"),
    };
    let message = format!(
        "the service lists no {} in {} for Account {}; {there}: fix spec.import, spec.region or spec.zone; nothing is bought \
         while spec.import is set",
        import.description(),
        observed.facts.place(),
        observed.account_key.name
    );
    wrong(Reason::ImportNotFound, message)
}

/// Whether the row matches each field of `spec.import` that is set, as far as it shows that field.
fn may_match(row: &Row, import: &Import) -> bool {
    let is_id = |id: &String| row.id.as_str() == id;
    let may_be_named = |name: &String| row.name.as_deref().is_none_or(|its| its == name);
    // The schema admits texts like 999.1.1.1 that are no addresses; no server has them.
    let may_have = |text: &String| {
        let address = text.parse();
        address.is_ok_and(|address| row.has_address(address) != Some(false))
    };
    import.id.as_ref().is_none_or(is_id)
        && import.name.as_ref().is_none_or(may_be_named)
        && import.address.as_ref().is_none_or(may_have)
}

fn candidates<'a>(rows: impl Iterator<Item = &'a Row>) -> Candidates {
    Candidates::of(rows.map(|row| (row.id.to_string(), row.name.clone().map(String::from))))
}

/// Checks that the server matches `spec.import`, is idle, in a known power state, and as specified, as far as its detail shows.
/// Returns its name.
fn fits(observed: &Observation, import: &Import, id: &ServerId, detail: &Detail) -> OrPlan<String> {
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
    let is_it = import.name.as_deref().is_none_or(|sought| sought == name)
        && import.address.as_ref().is_none_or(shows);
    if !is_it || detail.id != *id {
        return Err(not_found(observed, import, Some(id)));
    }
    let busy = detail.pending().filter(|word| !is_idle(Some(word)));
    let unexpected = detail.status().filter(|_| detail.power().is_none());
    if let Some(word) = busy.or(unexpected) {
        let message =
            format!("server {id} is {word}: the import waits until it is idle, and on or off");
        return Err(looking(message));
    }
    is_as_specified(observed, id, detail)?;
    Ok(name.to_owned())
}

/// Checks that the server has place, image and package of the spec, as far as its detail shows. The service does not report the
/// package, so CPU and memory are compared.
fn is_as_specified(observed: &Observation, id: &ServerId, detail: &Detail) -> OrPlan<()> {
    let differs = |field: &str, has: &str, requested: &str| {
        let message = format!(
            "server {id} has {has}, and the spec requests {requested}: set {field} to what the server has, to import it as it is"
        );
        Err(wrong(Reason::ImportDiffers, message))
    };
    let place = observed.facts.place();
    let image = references::id(observed, Reference::Image).unwrap_or_default();
    let shown_image = detail.image().map(|image| image.to_string());
    // Identifiers are reported for names in the spec, so name the field that takes an identifier.
    let compared = [
        ("spec.region", detail.region(), place.region.as_str()),
        ("spec.zone", detail.zone(), place.zone.as_str()),
        ("spec.image.id", shown_image.as_deref(), image.as_str()),
    ];
    for (field, has, requested) in compared {
        if let Some(has) = has.filter(|has| *has != requested) {
            return differs(field, has, requested);
        }
    }
    let package = &observed.facts.spec.package;
    match (&package.code, &observed.found.on_sale) {
        (None, _) => catalog::smaller(package, detail).map_or(Ok(()), |unlike| {
            let requested = format!("at least {}", unlike.wanted);
            differs("spec.package", &unlike.has, &requested)
        }),
        (Some(code), Fact::Known(row)) => catalog::unlike(row, detail).map_or(Ok(()), |unlike| {
            let requested = format!("{} (package {code})", unlike.wanted);
            differs("spec.package.code", &unlike.has, &requested)
        }),
        (Some(code), Fact::Unknown(why)) => Err(looking(format!(
            "the packages could not be read, so server {id} cannot be compared with package {code}: {why}"
        ))),
        // A package that is no longer sold may be the one that an old server was bought with.
        (Some(_), Fact::Absent | Fact::NotRead) => Ok(()),
    }
}

/// Records the imported server. The values in the spec count as applied, so that an import erases nothing.
fn put_on_record(observed: &InSession<'_>, id: &ServerId, name: String) -> Plan {
    let note = format!(
        "imported server {id}, called {name}; the service does not report package, firewall or login, so the values in the spec \
         are assumed (CPU and memory were compared if the package is on sale)"
    );
    let former = observed.facts.purchase();
    let mut record = match former {
        Some(former) => attempt::following(observed, former),
        None => adopt::without_record(observed, id),
    };
    // Without a former record, no create request can have been doubled.
    record.lost = former.map_or(0, |former| former.lost);
    record.failed = 0;
    record.imported = Some(name);
    record.cause = Some(Cause::Import);
    adopt::forget_generated(observed, &mut record);
    let plan = adopt::put_on_record(observed, record, id, None);
    plan.with_event(EventNote::normal("Imported", note))
}

/// The plan if the server on record belongs to another Instance.
pub(super) fn recorded_elsewhere(observed: &OnRecord<'_>) -> Option<Plan> {
    match &observed.conflicting_owner {
        ConflictingOwner::Instance(owner) => Some(*conflict(owner, &observed.id)),
        ConflictingOwner::None | ConflictingOwner::NotKnownYet => None,
    }
}

/// The plan for a server that another Instance owns.
fn conflict(owner: &ObjectKey, id: &ServerId) -> Box<Plan> {
    let (namespace, name) = (&owner.namespace, &owner.name);
    let message = format!(
        "server {id} belongs to Instance {namespace}/{name}: delete this Instance, which changes nothing at that server and does \
         not release it; to import another one, apply it again with another spec.import"
    );
    wrong(Reason::ImportConflict, message)
}

fn wrong(reason: Reason, message: String) -> Box<Plan> {
    let again = if reason == Reason::ImportDiffers {
        times::IDLE_REQUEUE
    } else {
        times::IMPORT_RETRY
    };
    Box::new(Plan::rest(Readiness::stalled(reason, message), again))
}

fn looking(message: String) -> Box<Plan> {
    let why = Readiness::progress(Reason::Importing, message);
    Box::new(Plan::rest(why, times::UNREADABLE_RETRY))
}
