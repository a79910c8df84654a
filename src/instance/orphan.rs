//! Reports an Instance that disappeared before its server was confirmed gone: a user removed its finalizer, or the cluster's
//! state went back to before the object was created. No Instance owns the server from here on, so the operator reports it. It
//! does not release the server, because a user who removes a finalizer by hand may want to keep it.

use crate::api::{Account, Instance};
use crate::cloud::{CallPriority, ServerId};
use crate::instance::context::Context;
use crate::instance::memory::kinds::Orphan;
use crate::instance::memory::{Memory, open};
use crate::instance::times;
use crate::runtime::events::EventNote;
use crate::runtime::kubernetes::call;
use crate::runtime::watch::ObjectKey;
use kube::{Api, Resource};
use std::sync::{Arc, Mutex};
use tokio::time::sleep;

/// How often the apiserver is asked before giving up; it may be down.
const LOOKS: u32 = 20;

/// The watch shows that an Instance is gone. Drops its memory, and reports the server that it leaves behind.
pub fn gone(context: &Context, key: &ObjectKey, uid: &str) {
    let Some(memory) = context.memories.forget(uid) else {
        return;
    };
    if open(&memory).orphan().is_none() {
        return;
    }
    let (context, key, uid) = (context.clone(), key.clone(), uid.to_owned());
    tokio::spawn(async move {
        sleep(times::LAST_WRITE_UNDER_WAY).await;
        if is_gone(&context, &key, &uid).await {
            publish(&context, &key, &memory).await;
        }
    });
}

/// Whether the apiserver itself confirms it: a list without the object may be an old one.
async fn is_gone(context: &Context, key: &ObjectKey, uid: &str) -> bool {
    let api: Api<Instance> = Api::namespaced(context.client.clone(), &key.namespace);
    for _ in 0..LOOKS {
        match call("read the Instance", api.get_metadata(&key.name)).await {
            Ok(found) => return found.metadata.uid.as_deref() != Some(uid),
            Err(error) if error.is_not_found() => return true,
            Err(_) => sleep(times::ORPHAN_RECHECK).await,
        }
    }
    false
}

async fn is_gone_at_the_service(
    context: &Context,
    namespace: &str,
    account: &str,
    id: &ServerId,
) -> bool {
    let account = ObjectKey::new(namespace, account);
    let Some(session) = context.sessions.last_account_session(&account, false) else {
        return false;
    };
    let detail = session
        .shared
        .client
        .detail(CallPriority::Operation, id)
        .await;
    detail.is_err_and(|error| error.is_no_such_instance())
}

async fn publish(context: &Context, key: &ObjectKey, memory: &Arc<Mutex<Memory>>) {
    let Some(Orphan {
        id,
        account,
        is_leaving,
    }) = open(memory).orphan()
    else {
        return; // it was released meanwhile
    };
    let (namespace, name) = (&key.namespace, &key.name);
    if let Some(id) = &id
        && is_gone_at_the_service(context, namespace, &account, id).await
    {
        return; // the watch showed an old state of an Instance whose server was released long before
    }
    let server = id.as_ref().map_or_else(
        || "the server of a create whose answer is not known".to_owned(),
        |id| format!("server {id}"),
    );
    let what = if is_leaving {
        "its release was called and is not confirmed; look at the service's console whether it is gone"
    } else {
        "it lives on, is billed, and is nobody's; release it at the service's console"
    };
    let note = format!("Instance {name} went before {server} was confirmed gone: {what}");
    tracing::warn!(
        namespace,
        name,
        server = id.as_ref().map(ServerId::as_str),
        "left behind"
    );
    context.metrics.orphaned();
    let api: Api<Account> = Api::namespaced(context.client.clone(), namespace);
    // Without its Account there is no object for an Event.
    if let Ok(found) = call("read the Account", api.get(&account)).await {
        let about = found.object_ref(&());
        context
            .events
            .publish(&about, &EventNote::warning("ServerOrphaned", note))
            .await;
    }
}
