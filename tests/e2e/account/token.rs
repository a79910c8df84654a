//! A token that the service refuses, and a token whose Secret gets another name.

use super::until_account;
use crate::support::{Setup, World, condition, delete, instance, names, outline, reason, stays};
use cloud_server_operator::api::Instance;
use jiff::Timestamp;
use serde_json::json;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_reports_a_refused_token_no_server_changes_and_all_continue_with_a_good_one() {
    let world = Setup::default().begin("outage").await;
    let (before, new) = (names("before", 2), names("new", 5));
    world.apply_all(&before, instance).await;
    world.all_ready(&before).await;
    world.sim.set_token("default", "rotated-canary-3d").unwrap();
    world.apply_all(&new, instance).await;
    let refused = |i: &Instance| reason(i) == "TokenRefused";
    world
        .until_all(&new, "report the refused token", refused)
        .await;
    until_account(&world, "the Account reports the refused token", |account| {
        let conditions = &account.status.as_ref()?.conditions;
        let ready = conditions.iter().find(|c| c.type_ == "Ready")?;
        (ready.reason == "TokenRefused" && ready.message.contains("cloud-token")).then_some(())
    })
    .await;
    let before_all = world.all().await;
    let since = Timestamp::now();
    // Longer than the pause between two attempts with the token (25 s).
    stays("what was seen", Duration::from_secs(30), async || {
        let now = world.all().await;
        let differs = before
            .iter()
            .find(|n| now[*n].status != before_all[*n].status);
        differs.map_or(Ok(()), |name| Err(outline(&now[name])))
    })
    .await;
    let mut writes = world.all_writes_since(since).await;
    writes.retain(|e| e.resource == "accounts");
    // Counts from before the refusal (in flight, waiting) are written once, within 30 s.
    assert!(writes.len() <= 1, "{writes:#?}");
    let mut took = fix(&world, "rotated-canary-3d", &new).await;
    world.all_ready(&new).await;
    // A stall can delay any single one. The best of three distinguishes the reaction to the Secret's event from the next
    // attempt with the token.
    for (token, beginning) in [("rotated-canary-4e", "more"), ("rotated-canary-5f", "last")] {
        if took < BY_EVENT {
            break;
        }
        world.sim.set_token("default", token).unwrap();
        let more = names(beginning, 5);
        world.apply_all(&more, instance).await;
        world
            .until_all(&more, "report the refused token", refused)
            .await;
        took = took.min(fix(&world, token, &more).await);
        world.all_ready(&more).await;
    }
    assert!(took < BY_EVENT, "{took:?}");
    assert!(!world.logs().contains("rotated-canary"));
    world.finish().await;
}

/// Sooner than the next attempt with a refused token (25 s).
const BY_EVENT: Duration = Duration::from_secs(15);

/// Writes a token that the service accepts. Returns how long it took until all of these were bought.
async fn fix(world: &World, token: &str, new: &[String]) -> Duration {
    let begun = Instant::now();
    world.secret("cloud-token", "token", token).await;
    let is_bought = |i: &Instance| i.status.as_ref().is_some_and(|s| s.id.is_some());
    world.until_all(new, "are bought", is_bought).await;
    begun.elapsed()
}

/// How late a watch delivers an edit: the operator reads the other watch several times before.
const LATE: Duration = Duration::from_secs(4);

/// GitOps tools create the new Secret, edit the Account and delete the former Secret, all within a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_secret_of_another_name_is_used_without_a_false_error_whichever_watch_is_late() {
    for late in ["accounts", "secrets"] {
        let world = Setup::default().wire().begin("renamed-token").await;
        world.apply(&instance("web")).await;
        let before = world.ready("web").await;
        world.account_is_ready("default").await;
        world.wire().delay_watches(late, LATE);
        world.secret("next-token", "token", World::TOKEN).await;
        let reference = json!({"tokenSecretRef": {"name": "next-token"}});
        world.change_account("default", reference).await;
        delete(&world.secrets(), "cloud-token").await;
        world.account_is_ready("default").await;
        let requests = world.wire().requests();
        let reported = requests
            .iter()
            .find(|one| one.body.contains("TokenNotFound"));
        assert!(reported.is_none(), "{late} are late: {reported:#?}");
        let after = world.get("web").await;
        assert_eq!(condition(&before, "Ready"), condition(&after, "Ready"));
        world.finish().await;
    }
}
