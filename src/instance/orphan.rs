//! Reports an Instance that disappeared before its server was confirmed gone: a user removed its finalizer, or the cluster's
//! state went back to before the object was created. No Instance owns the server from here on, so the operator reports it. It
//! does not release the server, because a user who removes a finalizer by hand may want to keep it.

use crate::api::{Account, Instance, Verb};
use crate::cloud::{CallPriority, ServerId};
use crate::instance::context::Context;
use crate::instance::memory::call::CallState;
use crate::instance::memory::{Memory, lock};
use crate::instance::times;
use crate::runtime::events::EventNote;
use crate::runtime::kubernetes::call;
use crate::runtime::watch::ObjectKey;
use crate::session::Owner;
use kube::{Api, Resource};
use std::sync::Mutex;
use tokio::time::sleep;

/// How often the apiserver is asked before giving up; it may be down.
const DELETION_CHECKS_MAX: u32 = 20;

/// A server that no Instance owns any more.
struct Orphan {
    /// None if the answer to its create is not known.
    id: Option<ServerId>,
    account: ObjectKey,
}

/// The watch shows that an Instance is gone; `owner` is its last known record. Drops its memory, and reports the server that it
/// leaves behind.
pub fn on_instance_deleted(context: &Context, uid: &str, owner: Option<Owner>) {
    let memory = context.memories.forget(uid);
    let Some((memory, owner)) = memory.zip(owner) else {
        return;
    };
    // The process of another term may have released the server.
    if !context.term.holds() || left_server(&owner, &memory).is_none() {
        return;
    }
    let (context, uid) = (context.clone(), uid.to_owned());
    tokio::spawn(async move {
        // A call of the last reconcile may still be answered.
        sleep(times::LAST_WRITE_UNDER_WAY).await;
        if is_gone(&context, &owner.key, &uid).await
            && let Some(orphan) = left_server(&owner, &memory)
        {
            publish(&context, &owner.key.name, &orphan).await;
        }
    });
}

/// The leftover of an Instance: the server on record, or the one that this process bought and could not record.
fn left_server(owner: &Owner, memory: &Mutex<Memory>) -> Option<Orphan> {
    if owner.is_detached {
        return None;
    }
    let memory = lock(memory);
    let newest = memory.call.as_deref();
    let newest = newest.filter(|call| call.verb == Verb::Create);
    let accepted = memory.accepted_server().map(|(_, id, _)| id);
    let recorded = owner.recorded.as_ref();
    let id = recorded.and_then(|recorded| recorded.id.as_ref());
    let id = id.or(accepted);
    let may_exist = match (id, newest) {
        (Some(id), _) => memory.gone(id).is_none(),
        (None, Some(newest)) => newest.state == CallState::Unknown,
        (None, None) => recorded.is_some_and(|recorded| !recorded.is_refused),
    };
    let account = recorded.map(|recorded| recorded.account.clone());
    let bought_with = || Some(ObjectKey::new(&owner.key.namespace, &newest?.account));
    Some(Orphan {
        id: id.cloned(),
        account: account.or_else(bought_with)?,
    })
    .filter(|_| may_exist)
}

/// Whether the apiserver itself confirms that the object is gone: a list without the object may be an old one.
async fn is_gone(context: &Context, key: &ObjectKey, uid: &str) -> bool {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &key.namespace);
    for _ in 0..DELETION_CHECKS_MAX {
        match call("read the Instance", api.get_metadata(&key.name)).await {
            Ok(found) => return found.metadata.uid.as_deref() != Some(uid),
            Err(error) if error.is_not_found() => return true,
            Err(_) => sleep(times::ORPHAN_RECHECK).await,
        }
    }
    false
}

async fn publish(context: &Context, name: &str, orphan: &Orphan) {
    let (sessions, account) = (&context.sessions, &orphan.account);
    let session = sessions.last_account_session(account, false);
    if let (Some(session), Some(id)) = (session, &orphan.id) {
        let client = &session.shared.client;
        let detail = client.detail(CallPriority::Operation, id).await;
        if detail.is_err_and(|error| error.is_no_such_instance()) {
            return; // the watch showed an old state of an Instance whose server was released long before
        }
    }
    let Orphan { id, account } = orphan;
    let server = id.as_ref().map_or_else(
        || "the server of a create whose answer is not known".to_owned(),
        |id| format!("server {id}"),
    );
    let note = format!(
        "Instance {name} was deleted before the operator confirmed that {server} is gone: no Instance owns that server; if the \
         service's console still shows it, it is billed until you release it there"
    );
    let (namespace, server) = (&account.namespace, id.as_ref().map(ServerId::as_str));
    tracing::warn!(namespace, name, server, "left behind");
    context.metrics.orphaned.inc();
    let api: Api<Account> = Api::namespaced(context.client.clone(), namespace);
    // Without its Account there is no object for an Event.
    if let Ok(found) = call("read the Account", api.get(&account.name)).await {
        let about = found.object_ref(&());
        let note = EventNote::warning("ServerOrphaned", note);
        context.events.publish(&about, &note).await;
    }
}
