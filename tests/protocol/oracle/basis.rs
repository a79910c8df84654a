//! Judges the basis of mutating calls: invariant S3.
//!
//! Each such call needs, in the same reconcile, authoritative information about the object from the apiserver: by a read past
//! every cache, or by a successful compare-and-swap. This information must show that the server is the recorded one, or has the
//! object's marker.

use super::effort::server_of;
use super::{
    Oracle, ProcessId, Property, Rule, Verdict, marker_of, open_operation, record, speaks,
};
use crate::apiserver::{INSTANCES, Key};
use crate::fault::Kind;
use cloud_server_operator::api::{Marker, Verb};
use cloud_simulator::model::{Request, World};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Authoritative information that processes got from the apiserver.
#[derive(Debug, Default)]
pub(super) struct Basis {
    /// The objects as processes saw them in the current reconciles, by name. A call uses up its basis.
    fresh: BTreeMap<(ProcessId, String), Value>,
    /// Markers of objects whose finalizer a process removed, or that it found gone: their servers are released without such a
    /// read.
    ownerless: BTreeSet<(ProcessId, Marker)>,
}

impl Oracle {
    /// A reconcile begins: information from an earlier one no longer counts.
    pub fn begins_reconcile(&mut self, process: ProcessId, object: &str) {
        self.basis.fresh.remove(&(process, object.to_owned()));
    }

    /// The apiserver itself shows a process an object, or that it does not exist.
    pub fn hears(&mut self, process: ProcessId, key: &Key, object: Option<&Value>) {
        if key.0 != INSTANCES {
            return;
        }
        let there = object.map(marker_of);
        let gone = self.names.iter().filter(|(_, name)| **name == key.1);
        let gone = gone.map(|(marker, _)| marker.clone());
        let gone = gone.filter(|marker| Some(marker) != there.as_ref());
        self.basis
            .ownerless
            .extend(gone.map(|gone| (process, gone)));
        if let Some(object) = object {
            let seen = (process, key.1.clone());
            self.basis.fresh.insert(seen, object.clone());
        }
    }

    /// A process is about to remove the finalizer.
    pub(super) fn removes_finalizer(
        &mut self,
        process: ProcessId,
        kind: Kind,
        object: Option<&Value>,
    ) {
        let Some(object) = object.filter(|_| kind == Kind::Finalizer) else {
            return;
        };
        let spec = &object["spec"];
        if !Property::Retained.is_in(spec) && !Property::Observed.is_in(spec) {
            self.basis.ownerless.insert((process, marker_of(object)));
        }
    }

    /// A process is about to make this call. Returns the object on which the call is based, as the process saw it.
    pub(super) fn judge_basis(
        &mut self,
        process: ProcessId,
        request: &Request,
        cloud: &World,
    ) -> Option<Value> {
        let verb = request.verb()?;
        let id = server_of(request).unwrap_or_default();
        let name = match request {
            Request::Create(body) => body.instance_name.clone(),
            _ => cloud.server(id).map(|server| server.name),
        };
        let marker = name.as_deref().and_then(Marker::in_name);
        let is_failed = self.failed_creates.contains(id);
        let mut fresh = self.basis.fresh.iter();
        let basis_found = fresh.find(|((who, _), object)| {
            *who == process && allows(object, request, id, marker.as_ref(), is_failed)
        });
        if let Some((key, _)) = basis_found {
            let key = key.clone();
            self.judge(Rule::Basis, Verdict::Right);
            return self.basis.fresh.remove(&key);
        }
        let is_ownerless = marker.is_some_and(|marker| {
            let ownerless = &self.basis.ownerless;
            ownerless.contains(&(process, marker))
        });
        let is_excused = is_ownerless && matches!(request, Request::Release(_));
        let why = format!(
            "S3: {verb} of {id} {name:?} was called without a read of its object in the same reconcile"
        );
        self.judge(Rule::Basis, Verdict::of(Some(why), is_excused));
        None
    }
}

/// Whether an object in this state justifies the call.
fn allows(
    object: &Value,
    request: &Request,
    id: &str,
    marker: Option<&Marker>,
    is_failed: bool,
) -> bool {
    let record = record(object).filter(|record| speaks(record, object));
    let goes = object["metadata"]["deletionTimestamp"].is_string();
    let bears = marker == Some(&marker_of(object));
    let Some(record) = record else {
        return goes && bears && matches!(request, Request::Release(_));
    };
    let is_recorded = record.id.as_deref() == Some(id);
    let runs = open_operation(object).map(|open| open.verb);
    match request {
        Request::Create(_) => !goes && bears && record.id.is_none(),
        Request::Release(_) => {
            let is_its = bears || (is_recorded && record.imported.is_some());
            is_its && (goes || !is_recorded || is_failed)
        }
        Request::Reinstall(_) => !goes && is_recorded && runs == Some(Verb::Reinstall),
        Request::Password(_) => !goes && is_recorded && runs == Some(Verb::ModifyPassword),
        _ => !goes && is_recorded && runs.is_some(),
    }
}
