//! Names that kustomize changes: by a prefix, and by the hash of a generated Secret.

use super::{Flux, first, generated};
use crate::support::{Setup, condition, is_ready};
use cloud_server_operator::api::Account;
use jiff::Timestamp;

/// Since when the Account is Ready.
fn ready_since(account: &Account) -> Timestamp {
    let conditions = &account.status.as_ref().unwrap().conditions;
    let ready = conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    assert_eq!(ready.status, "True");
    ready.last_transition_time.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds a part of Flux: make gitops"]
async fn flux_applies_a_prefix_and_renames_a_token_without_a_false_error() {
    let world = Setup::default()
        .bare()
        .keeps_tokens()
        .begin("flux-renamed")
        .await;
    let mut flux = Flux::start(&world).await;
    flux.repository.without_token();
    flux.repository.generate_token("first");
    flux.begin(&world, false).await;
    flux.ends(&first(), "True").await;
    let before = world.account_is_ready("dev-default").await;
    let web = world.get("dev-web-1").await;
    assert!(is_ready(&web) && is_ready(&world.get("dev-db-1").await));
    let secrets = generated(&world, "dev-cloud-token-").await;
    assert_eq!(secrets, [before.spec.token_secret_ref.name.as_str()]);

    // One commit: a new Secret, an Account that names it, and the removal of the former Secret.
    flux.repository.generate_token("second");
    flux.applies().await;
    let after = world.account_is_ready("dev-default").await;
    assert_ne!(before.spec.token_secret_ref, after.spec.token_secret_ref);
    let secrets = generated(&world, "dev-cloud-token-").await;
    assert_eq!(secrets, [after.spec.token_secret_ref.name.as_str()]);
    assert_eq!(ready_since(&before), ready_since(&after));
    let now = world.get("dev-web-1").await;
    assert_eq!(condition(&web, "Ready"), condition(&now, "Ready"));
    assert_eq!(world.sim.live_servers().len(), 2, "{}", world.ledger_text());
    world.finish().await;
}
