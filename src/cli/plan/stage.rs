//! What a reconcile of the operator works with, set up by somebody who only looks: Accounts with their tokens, Secrets by their
//! versions, the Instances that are there, and a client that sends no writes.

use super::super::owners::Owners;
use super::super::service::{Cluster, ServiceError, read_account, read_credentials_of};
use super::super::{chain, remedy};
use super::dry_run::Taken;
use super::files::Manifest;
use super::offered;
use super::verdict::Finding;
use crate::api::conditions::Reason;
use crate::api::{Account, AccountSpec, Instance};
use crate::cloud::{AllowedEndpoints, Budget, Http};
use crate::instance::plan::preview::Unknown;
use crate::instance::{self, facts, predict};
use crate::inventory::Settings as ListingSettings;
use crate::runtime::events::Events;
use crate::runtime::guarded::Guarded;
use crate::runtime::kubernetes::{call, writes_within};
use crate::runtime::watch::ObjectKey;
use crate::runtime::{KubeError, Metrics, Rights, Shard, Term};
use crate::session::{
    MadeFrom, Problem, ReconcileGuard, SecretProblem, SecretVersions, Sessions, Standing,
};
use crate::wiring::enrol;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The stage; what it began ends with it.
pub(super) struct Stage {
    cluster: Cluster,
    context: instance::context::Context,
    /// The Instances that are there.
    owners: Option<Owners>,
    /// The services that the files are about.
    services: Vec<String>,
    /// Places in Accounts that Instances of the files would take: those that come later find them taken.
    reconciles: Vec<ReconcileGuard>,
    /// Accounts whose token the service did not take.
    refused: Arc<Mutex<BTreeSet<ObjectKey>>>,
    /// What could not be found out, and holds for all.
    pub(super) notes: Vec<String>,
    stop: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Who has which server, as far as that may be read; what is not known is noted.
async fn owners(cluster: &Cluster, notes: &mut Vec<String>) -> Result<Option<Owners>, String> {
    let owners = Owners::read(cluster).await;
    let owners = match owners {
        Ok(owners) => Some(owners),
        Err(error @ KubeError::Refused { .. }) => {
            notes.push(format!(
                "which servers other Instances have is not known: {}",
                cluster.told(&error)
            ));
            None
        }
        // Whoever does not answer is asked no more: each question would be waited for.
        Err(error) => return Err(cluster.told(&error)),
    };
    if let Some(only) = owners.as_ref().and_then(|owners| owners.only.as_ref()) {
        notes.push(format!(
            "only the Instances of namespace {only} may be listed: that an imported server belongs to another namespace \
             would not be seen"
        ));
    }
    Ok(owners)
}

impl Stage {
    /// Sets it up for the Instances of one cluster.
    pub(super) async fn set(
        cluster: &Cluster,
        named: Option<&String>,
        mut notes: Vec<String>,
    ) -> Result<Self, String> {
        let mut owners = owners(cluster, &mut notes).await?;
        if let (Some(named), Some(owners)) = (named, &mut owners) {
            owners.cluster = Some(named.clone());
        }
        let id = owners.as_ref().and_then(|owners| owners.cluster.clone());
        let id = id.or_else(|| named.cloned());
        if id.is_none() {
            notes.push(
                "namespace kube-system may not be read: an Instance that was restored from a backup is taken for a new one"
                    .to_owned(),
            );
        }
        let id = id.unwrap_or_default();
        let stop = CancellationToken::new();
        let http = Http::new(AllowedEndpoints::default()).map_err(|error| chain(&error))?;
        let http = http.with_budget(Budget::of_a_command());
        let metrics = Metrics::default();
        let settings = ListingSettings::default();
        let sessions = Sessions::new(
            (id.clone(), Shard::WHOLE),
            http,
            settings,
            metrics.clone(),
            |_, _| {},
            stop.clone(),
        );
        // A term that never begins: whatever a reconcile would write is not sent.
        let client = writes_within(cluster.client.clone(), Term::awaited());
        sessions.reservations().is_whole();
        sessions.trust_records();
        let refused = Arc::new(Mutex::new(BTreeSet::new()));
        let doubted = refused.clone();
        let context = instance::context::Context {
            events: Events::new(client.clone(), None),
            client,
            sessions,
            secrets: SecretVersions::default(),
            settings: instance::context::Settings { cluster: id },
            memories: Default::default(),
            metrics,
            term: Term::awaited(),
            rights: Rights::default(),
            highest_version: Arc::new(AtomicU64::new(0)),
            latest: Arc::new(|_| None),
            doubt_account: Arc::new(move |account| {
                let mut doubted = doubted.lock().unwrap_or_else(PoisonError::into_inner);
                doubted.insert(account.clone());
            }),
        };
        Ok(Self {
            cluster: cluster.clone(),
            context,
            owners,
            services: Vec::new(),
            reconciles: Vec::new(),
            refused,
            notes,
            stop,
        })
    }

    /// Brings in what the Instances need: their Accounts, of the cluster or of the files, and which Secrets there are.
    pub(super) async fn furnish(&mut self, all: &[&Taken], accounts: &[Manifest]) {
        let mut needed = BTreeSet::new();
        let mut secrets = BTreeSet::new();
        for taken in all {
            let object = &taken.object;
            let namespace = object.namespace().unwrap_or_default();
            needed.extend(facts::accounts(object).map(|name| (namespace.clone(), name)));
            secrets.extend(object.secrets().map(|name| (namespace.clone(), name)));
        }
        for (namespace, name) in needed {
            let key = ObjectKey::new(&namespace, &name);
            if let Err(problem) = self.session(&key, accounts).await {
                self.context.sessions.refuse(&key, problem);
            }
        }
        let reservations = self.context.sessions.reservations().clone();
        if let Some(owners) = &mut self.owners {
            let services: Vec<&str> = self.services.iter().map(String::as_str).collect();
            owners.keep(&services);
            owners
                .objects()
                .iter()
                .for_each(|object| enrol(&reservations, object));
        }
        for taken in all {
            enrol(&reservations, &Guarded(Ok(taken.object.clone())));
            let uid = taken.object.uid().unwrap_or_default();
            self.reconciles.push(reservations.reconcile(&uid));
        }
        for (namespace, name) in secrets {
            self.note_secret(&namespace, &name).await;
        }
    }

    /// What would come of an Instance.
    pub(super) async fn predict(&self, taken: &Taken) -> predict::Foresight {
        let mut foresight =
            Box::pin(predict::predict(&self.context, &taken.object, taken.is_new)).await;
        let preview = &mut foresight.preview;
        for unknown in preview.unknown.iter_mut().chain(&mut preview.unseen) {
            if let Some(remedy) = self.remedy(&foresight.account, unknown) {
                unknown.why = format!("{}: {remedy}", unknown.why);
            }
        }
        foresight
    }

    /// The effects once the service has been asked whether it knows what the spec names by identifier or code, and what could not
    /// be found out about that.
    pub(super) async fn refuse(
        &self,
        foresight: &predict::Foresight,
        instance: &Instance,
        effects: Vec<Finding>,
    ) -> (Vec<Finding>, Vec<String>) {
        let Standing::Usable(session) = self.context.sessions.standing(&foresight.account) else {
            return (effects, Vec::new());
        };
        let catalog = &session.shared.catalog;
        offered::refused(catalog, foresight, &instance.spec, effects).await
    }

    /// Which service it was that did not tell, and what to do about it. None where the words say it already: what is wrong with
    /// an Account or a Secret names its remedy.
    fn remedy(&self, account: &ObjectKey, unknown: &Unknown) -> Option<String> {
        let is_of_service = unknown
            .reason
            .is_some_and(|reason| reason != Reason::SecretUnread);
        let Standing::Usable(session) = self.context.sessions.standing(account) else {
            return None;
        };
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = format!(
            "the Secret of Account {}/{}",
            account.namespace, account.name
        );
        is_of_service.then(|| remedy(&session.shared.client, refused.contains(account), &tokens))
    }

    /// Takes an account session at the service of an Account. One that is nowhere is not announced: the operator would not find
    /// it either.
    async fn session(&mut self, key: &ObjectKey, files: &[Manifest]) -> Result<(), Problem> {
        let (namespace, name) = (&key.namespace, &key.name);
        let account = match read_account(&self.cluster, namespace, name).await {
            Ok(account) => self.as_changed(account, key, files),
            Err(ServiceError::NoAccount { .. }) => match self.of_files(key, files) {
                Some(account) => account,
                None => return Ok(()),
            },
            Err(error) => {
                self.context.sessions.announce(key);
                return Err(problem(Reason::ServiceUnreachable, &error));
            }
        };
        self.context.sessions.announce(key);
        let credentials = read_credentials_of(&self.cluster, &account).await;
        let credentials = credentials.map_err(|error| problem(without_token(&error), &error))?;
        let mut spec = account.spec;
        self.services.push(spec.endpoint.clone());
        // How fast it is bought is no matter of whether.
        spec.create_rate = None;
        let from = MadeFrom {
            secret: String::new(),
            tls: String::new(),
            account: String::new(),
        };
        let sessions = &self.context.sessions;
        match sessions.account_session(key, &spec, &credentials, from) {
            Ok(session) => {
                sessions.install(key, session);
                Ok(())
            }
            Err(error) => Err(problem(Reason::EndpointInvalid, &error)),
        }
    }

    /// An Account that stands in the files and is not applied yet.
    fn of_files(&mut self, key: &ObjectKey, files: &[Manifest]) -> Option<Account> {
        let found = self.in_files(key, files)?;
        let mut account: Account = serde_json::from_value(found.value.clone()).ok()?;
        let (namespace, name) = (&key.namespace, &key.name);
        account.metadata.namespace = Some(namespace.clone());
        self.notes.push(format!(
            "Account {namespace}/{name} is not in the cluster yet: it is taken from {}",
            found.file
        ));
        Some(account)
    }

    /// The Account with what the files change of it: by that, what is applied with it is carried out. A file may hold a part.
    fn as_changed(&mut self, mut account: Account, key: &ObjectKey, files: &[Manifest]) -> Account {
        let Some(found) = self.in_files(key, files) else {
            return account;
        };
        let changed = serde_json::to_value(&account.spec).and_then(|mut spec| {
            json_patch::merge(&mut spec, &found.value["spec"]);
            serde_json::from_value::<AccountSpec>(spec)
        });
        let (namespace, name) = (&key.namespace, &key.name);
        match changed {
            Ok(spec) if spec == account.spec => {}
            Ok(spec) => {
                account.spec = spec;
                self.notes.push(format!(
                    "Account {namespace}/{name} is taken as {} changes it",
                    found.file
                ));
            }
            Err(error) => self.notes.push(format!(
                "Account {namespace}/{name} is taken as it is in the cluster: what {} makes of it cannot be read: {error}",
                found.place()
            )),
        }
        account
    }

    fn in_files<'a>(&self, key: &ObjectKey, files: &'a [Manifest]) -> Option<&'a Manifest> {
        let home = &self.cluster.namespace;
        let mut files = files.iter();
        files.find(|manifest| {
            let namespace = manifest.namespace().unwrap_or(home);
            manifest.name() == Some(&key.name) && *namespace == key.namespace
        })
    }

    async fn note_secret(&mut self, namespace: &str, name: &str) {
        let api: Api<Secret> = Api::namespaced(self.cluster.client.clone(), namespace);
        let key = ObjectKey::new(namespace, name);
        match call("read Secret", api.get_metadata(name)).await {
            Ok(secret) => {
                let uid = secret.uid().unwrap_or_default();
                let version = secret.resource_version().unwrap_or_default();
                self.context.secrets.wrote(key, &uid, &version);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => self.notes.push(format!(
                "Secret {namespace}/{name} could not be read, so a change of the password in it is not seen: {}",
                self.cluster.told(&error)
            )),
        }
    }
}

/// Whether the operator would miss the token too, or only we may not read it.
fn without_token(error: &ServiceError) -> Reason {
    match error {
        ServiceError::Token {
            problem: SecretProblem::Unread { .. },
            ..
        } => Reason::SecretUnread,
        ServiceError::Token {
            problem: SecretProblem::NotText { .. },
            ..
        } => Reason::TokenInvalid,
        ServiceError::Refused { refusal, .. } => refusal.reason(),
        ServiceError::Tls { problem, .. } => problem.reason,
        ServiceError::Unusable { .. } => Reason::EndpointInvalid,
        _ => Reason::TokenNotFound,
    }
}

fn problem(reason: Reason, error: &dyn std::error::Error) -> Problem {
    Problem {
        reason,
        message: chain(error),
    }
}
