//! The context of a reconcile, read-only: Accounts with their tokens, versions of Secrets, the existing Instances, and a client that
//! sends no writes.

use super::super::owners::{Owners, named};
use super::super::service::{Cluster, unusable};
use super::super::{chain, remedy};
use super::dry_run::Applied;
use super::files::Manifest;
use super::offered;
use super::replay::{self, Replay};
use super::verdict::{Effect, Finding};
use cloud_server_operator::api::Account;
use cloud_server_operator::cloud::{AllowedEndpoints, Budget, Http};
use cloud_server_operator::instance::context::Context;
use cloud_server_operator::instance::facts;
use cloud_server_operator::runtime::events::Events;
use cloud_server_operator::runtime::kubernetes::{call, writes_within};
use cloud_server_operator::runtime::watch::ObjectKey;
use cloud_server_operator::runtime::{KubeError, Metrics, Rights, Shard, Term};
use cloud_server_operator::session::{AccountState, MadeFrom, Problem, SecretVersions, Sessions};
use k8s_openapi::api::core::v1::Secret;
use kube::core::DeserializeGuard;
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The context. Dropping it ends its tasks.
pub(super) struct Stage {
    cluster: Cluster,
    context: Context,
    /// The existing Instances. None if the user may not list them.
    owners: Option<Owners>,
    /// The endpoints of the Accounts whose credentials could be read. The Accounts come from the cluster or the files.
    endpoints: Vec<String>,
    /// Accounts whose token the service rejected.
    refused: Arc<Mutex<BTreeSet<ObjectKey>>>,
    /// Secrets that could not be read.
    unreadable: BTreeSet<ObjectKey>,
    /// Notes that do not belong to one Instance alone.
    pub(super) notes: Vec<String>,
    _stop: DropGuard,
}

/// The owners of servers, as far as the user may read them; notes the rest.
async fn owners(cluster: &Cluster, notes: &mut Vec<String>) -> Result<Option<Owners>, String> {
    match Owners::read(cluster).await {
        Ok(owners) => {
            if let Some(only) = &owners.only {
                notes.push(format!(
                    "only the Instances of namespace {only} may be listed: a server of an Instance in another namespace counts as \
                     unowned"
                ));
            }
            Ok(Some(owners))
        }
        Err(error @ KubeError::Refused { .. }) => {
            let why = cluster.explain(&error);
            notes.push(format!("the servers of other Instances are unknown: {why}"));
            Ok(None)
        }
        // An apiserver that does not answer gets no more requests: each would wait for its deadline.
        Err(error) => Err(cluster.explain(&error)),
    }
}

/// A context that writes nothing. It adds the Accounts whose token the service rejects to `refused`.
pub(super) fn context(
    client: Client,
    cluster: String,
    refused: Arc<Mutex<BTreeSet<ObjectKey>>>,
    stop: CancellationToken,
) -> Result<Context, String> {
    let http = Http::new(AllowedEndpoints::default()).map_err(|error| chain(&error))?;
    let http = http.with_budget(Budget::of_a_command());
    let metrics = Metrics::default();
    let identity = (cluster.clone(), Shard::WHOLE);
    let sessions = Sessions::new(identity, http, metrics.clone(), |_, _| {}, |_, _| {}, stop);
    sessions.owners().set_listed_all();
    sessions.trust_records();
    // A term that never begins: no write is sent.
    let client = writes_within(client, Term::awaited());
    Ok(Context {
        events: Events::new(client.clone(), None),
        client,
        sessions,
        secrets: SecretVersions::default(),
        cluster,
        memories: Default::default(),
        metrics,
        term: Term::awaited(),
        rights: Rights::default(),
        highest_version: Arc::new(AtomicU64::new(0)),
        latest: Arc::new(|_| None),
        doubt_account: Arc::new(move |account| {
            let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.insert(account.clone());
        }),
    })
}

impl Stage {
    /// The context for the Instances of one cluster.
    pub(super) async fn set(
        cluster: &Cluster,
        named: Option<&String>,
        mut notes: Vec<String>,
    ) -> Result<Self, String> {
        let owners = owners(cluster, &mut notes).await?;
        let of_cluster = owners.as_ref().and_then(|owners| owners.cluster.as_ref());
        let id = named.or(of_cluster).cloned().unwrap_or_default();
        if id.is_empty() {
            notes.push(
                "the UID of namespace kube-system is unknown, so a restored Instance counts as new: state it with --cluster-id"
                    .to_owned(),
            );
        }
        let stop = CancellationToken::new();
        let refused = Arc::new(Mutex::new(BTreeSet::new()));
        let context = context(cluster.client.clone(), id, refused.clone(), stop.clone())?;
        Ok(Self {
            cluster: cluster.clone(),
            context,
            owners,
            endpoints: Vec::new(),
            unreadable: BTreeSet::new(),
            refused,
            notes,
            _stop: stop.drop_guard(),
        })
    }

    /// Reads the Accounts of the Instances, from the cluster or the files, and the versions of the Instances' Secrets. Builds the
    /// index of owners.
    pub(super) async fn read_accounts(&mut self, all: &[&Applied], accounts: &[Manifest]) {
        let (mut needed, mut secrets) = (BTreeSet::new(), BTreeSet::new());
        for Applied { object, .. } in all {
            let namespace = object.namespace().unwrap_or_default();
            let key = |name: String| ObjectKey::new(&namespace, &name);
            needed.extend(facts::accounts(object).map(key));
            secrets.extend(object.secrets().map(key));
        }
        for key in needed {
            if let Err(problem) = self.install(&key, accounts).await {
                self.context.sessions.mark_unusable(&key, problem);
            }
        }
        let index = self.context.sessions.owners();
        if let Some(owners) = &mut self.owners {
            let endpoints: Vec<&str> = self.endpoints.iter().map(String::as_str).collect();
            owners.keep(&endpoints);
            for object in owners.objects() {
                index.listed(object);
            }
        }
        for applied in all {
            index.listed(&DeserializeGuard(Ok(applied.object.clone())));
        }
        for key in secrets {
            self.note_secret(key).await;
        }
    }

    /// The effects of an Instance, and notes. A purchase or a reinstall that names identifiers or codes which the service does not
    /// list counts as refused.
    pub(super) async fn effects(&self, applied: &Applied) -> (Vec<Finding>, Vec<String>) {
        let Applied { object, is_new, .. } = applied;
        let replay = replay::replay(&self.context, object, *is_new, &self.unreadable);
        let mut replay: Replay = Box::pin(replay).await;
        let account = replay.observed.account_key.clone();
        let place = replay.observed.facts.here.clone();
        if let Some(why) = &mut replay.unread {
            self.add_remedy(&account, why);
        }
        let (mut effects, mut notes) = replay.findings(!applied.changes.is_empty());
        for finding in &mut effects {
            if finding.effect == Effect::Unknown {
                self.add_remedy(&account, &mut finding.why);
            }
        }
        if let AccountState::Usable(session) = self.context.sessions.state_of(&account) {
            let catalog = &session.shared.catalog;
            let doubts = offered::refuse(catalog, place.as_ref(), &object.spec, &mut effects).await;
            notes.extend(doubts);
        }
        (effects, notes)
    }

    /// Adds the remedy in case the service did not answer or rejected the token. A problem of an Account or Secret already names
    /// its remedy.
    fn add_remedy(&self, account: &ObjectKey, why: &mut String) {
        if let AccountState::Usable(session) = self.context.sessions.state_of(account) {
            let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            let secret = format!("the Secret of Account {}", named(account));
            let remedy = remedy(&session.shared.client, refused.contains(account), &secret);
            why.push_str(&format!("; if that stays, {remedy}"));
        }
    }

    /// Installs an account session for an Account. A missing Account is not announced: the operator would not find it either.
    async fn install(&mut self, key: &ObjectKey, files: &[Manifest]) -> Result<(), Problem> {
        let live = self.cluster.account(key).await;
        let account = live.map(|live| self.with_files(live, key, files));
        let sessions = &self.context.sessions;
        if !matches!(account, Ok(None)) {
            sessions.announce(key);
        }
        let Some(account) = account? else {
            return Ok(());
        };
        let credentials = self.cluster.credentials(&account).await?;
        let mut spec = account.spec;
        self.endpoints.push(spec.endpoint.clone());
        // The rate of purchases has no influence on the effects.
        spec.create_rate = None;
        let session = sessions.account_session(key, &spec, &credentials, MadeFrom::default());
        sessions.install(key, session.map_err(|error| unusable(key, &error))?);
        Ok(())
    }

    /// The Account with the changes from the files, since these are applied together with the Instances. A file may contain only
    /// some of the Account's fields.
    fn with_files(
        &mut self,
        live: Option<Account>,
        key: &ObjectKey,
        files: &[Manifest],
    ) -> Option<Account> {
        let mut files = files.iter();
        let is_it =
            |manifest: &&Manifest| manifest.key(&self.cluster.namespace).as_ref() == Some(key);
        let Some(found) = files.find(is_it) else {
            return live;
        };
        let mut value = serde_json::to_value(&live).unwrap_or_default();
        json_patch::merge(&mut value, &found.value);
        value["metadata"]["namespace"] = key.namespace.as_str().into();
        let file = &found.file;
        let account = format!("Account {}", named(key));
        match (serde_json::from_value::<Account>(value), live) {
            (Ok(changed), Some(live)) if changed.spec == live.spec => Some(live),
            (Ok(changed), _) => {
                self.notes.push(format!("{account} is used as in {file}"));
                Some(changed)
            }
            (Err(error), live) => {
                let place = found.place();
                self.notes.push(format!(
                    "{account} could not be read with the changes of {place}, so the Account in the cluster counts: {error}"
                ));
                live
            }
        }
    }

    async fn note_secret(&mut self, key: ObjectKey) {
        let api: Api<Secret> = Api::namespaced(self.cluster.client.clone(), &key.namespace);
        match call("read Secret", api.get_metadata(&key.name)).await {
            Ok(secret) => {
                let uid = secret.uid().unwrap_or_default();
                let version = secret.resource_version().unwrap_or_default();
                self.context.secrets.note_own_write(key, &uid, &version);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                self.notes.push(format!(
                    "Secret {} could not be read, so its password counts as unchanged: {}",
                    named(&key),
                    self.cluster.explain(&error)
                ));
                self.unreadable.insert(key);
            }
        }
    }
}
