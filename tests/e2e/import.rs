//! Existing servers are imported, never bought, and never taken from another owner.

use crate::support::{
    PATIENCE, Setup, World, console, create_calls, eventually, instance, is_ready, outline, quiet,
    ready_message, reason, stopped, with,
};
use cloud_server_operator::api::Instance;
use cloud_server_operator::api::names::BINDING;
use cloud_simulator::Simulator;
use cloud_simulator::model::{Answer, Console, Request, ServerInfo};
use serde_json::{Value, json};
use std::time::Duration;

fn importing(name: &str, import: Value) -> Value {
    with(name, |spec| spec["import"] = import)
}

/// Servers that were bought externally.
fn unowned_servers(world: &World, count: usize) -> Vec<ServerInfo> {
    world.add_unowned_servers(World::TOKEN, count);
    let mut servers = world.sim.live_servers();
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    servers
}

fn id_of(instance: &Instance) -> Option<&str> {
    instance.status.as_ref()?.id.as_deref()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_imported_by_id_or_name_kept_and_released_with_its_instance() {
    let mut world = Setup::default().imports().begin("import").await;
    let servers = unowned_servers(&world, 3);
    let bought = create_calls(&world.sim);
    let example = include_str!("../../examples/instance-import.yaml");
    let example = example.replace("ecs-legacyserver1", &servers[0].id);
    world.run(&["apply", "-f", "-"], &example).await;
    let web = "legacy-1";
    world
        .apply(&importing("db", json!({"name": "stranger-1"})))
        .await;
    for (name, server) in [(web, &servers[0]), ("db", &servers[1])] {
        let ready = world.ready(name).await;
        assert_eq!(
            id_of(&ready),
            Some(server.id.as_str()),
            "{}",
            outline(&ready)
        );
    }
    world.until_events("Imported", 2).await;
    assert_eq!(world.events("Created").await.len(), 0);

    // From here on they are managed like any other server, also by a process that did not observe the import and after their
    // status is lost.
    world.restart().await;
    world.wipe_status("db").await;
    world.ready("db").await;
    world
        .apply(&with("db", |spec| {
            spec["import"] = json!({"name": "stranger-1"});
            spec["powerState"] = json!("Stopped");
        }))
        .await;
    world.ready("db").await;
    let now = world.sim.live_servers();
    assert!(
        now.iter()
            .any(|s| s.id == servers[1].id && s.status == "STOPPED"),
        "{now:?}"
    );
    quiet(&world, "db").await;

    for name in [web, "db"] {
        world.delete(name).await;
        world.gone(name).await;
    }
    let left: Vec<_> = world.sim.live_servers().into_iter().map(|s| s.id).collect();
    assert_eq!(left, [servers[2].id.clone()], "{}", world.ledger_text());
    assert_eq!(create_calls(&world.sim), bought, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncertain_match_is_not_imported_and_nothing_is_bought_instead() {
    let world = Setup::default().imports().begin("import-not").await;
    let servers = unowned_servers(&world, 2);
    // Any action at the console cancels a create in progress.
    let is_made = |s: &ServerInfo| s.status == "STARTED";
    let made = world
        .sim
        .wait_until(|w| w.live_servers().iter().all(is_made), PATIENCE);
    made.await.unwrap();
    let rename = Console::Rename {
        server: servers[1].id.clone(),
        name: "stranger-0".to_owned(),
    };
    console(&world, rename);
    let bought = create_calls(&world.sim);
    let other = cloud_simulator::catalogue::example().other_image;
    let by_id = || importing("differs", json!({"id": servers[0].id}));
    let mut wrong = by_id();
    wrong["spec"]["image"]["id"] = json!(other);
    // It was bought with the smallest package, of 1 CPU.
    let (mut large, mut filtered) = (by_id(), by_id());
    large["spec"]["package"]["code"] = json!(cloud_simulator::catalogue::example().other_package);
    filtered["spec"]["package"] = json!({"cpu": 2});
    for (manifest, why, word) in [
        (
            importing("none", json!({"id": "ecs-unknown"})),
            "ImportNotFound",
            "ecs-unknown",
        ),
        (
            importing("twice", json!({"name": "stranger-0"})),
            "ImportAmbiguous",
            servers[1].id.as_str(),
        ),
        (wrong, "ImportDiffers", "spec.image.id"),
        (large, "ImportDiffers", "requests 2 CPU"),
        (filtered, "ImportDiffers", "at least 2 CPU"),
    ] {
        let name = manifest["metadata"]["name"].as_str().unwrap().to_owned();
        world.apply(&manifest).await;
        let refused = world
            .until(&name, word, |found| {
                found.status.is_some()
                    && reason(found) == why
                    && ready_message(found).contains(word)
            })
            .await;
        assert!(id_of(&refused).is_none(), "{}", outline(&refused));
    }
    assert_eq!(world.sim.ledger().count("/instance/reinstallSystem"), 0);
    // Once fixed, it continues.
    world
        .apply(&importing("twice", json!({"id": servers[1].id})))
        .await;
    world.ready("twice").await;
    world
        .apply(&importing("differs", json!({"id": servers[0].id})))
        .await;
    world.ready("differs").await;
    // Servers that were never imported are not released.
    world.delete("none").await;
    world.gone("none").await;
    assert_eq!(world.sim.live_servers().len(), 2);
    assert_eq!(create_calls(&world.sim), bought, "{}", world.ledger_text());
    world.finish().await;
}

/// The public address of a server, as the service's detail shows it.
fn address(world: &World, server: &ServerInfo) -> String {
    let request = Request::Detail {
        server: Some(server.id.clone()),
    };
    let shown = world
        .sim
        .world(|w| w.call(w.now(), Some(World::TOKEN), &request));
    match shown.outcome {
        Ok(Answer::Instance(view)) => view.public_ip_address,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_imports_the_only_server_that_matches_all_fields() {
    let world = Setup::default().imports().begin("import-filter").await;
    unowned_servers(&world, 3);
    let is_made = |s: &ServerInfo| s.status == "STARTED";
    let made = world
        .sim
        .wait_until(|w| w.live_servers().iter().all(is_made), PATIENCE);
    made.await.unwrap();
    let mut servers = world.sim.live_servers();
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    for server in &servers[..2] {
        let rename = Console::Rename {
            server: server.id.clone(),
            name: "shop-db".to_owned(),
        };
        console(&world, rename);
    }
    let bought = create_calls(&world.sim);
    // Two servers have that name: the address selects one.
    let example = include_str!("../../examples/instance-import-by-filter.yaml");
    let example = example.replace("203.0.113.7", &address(&world, &servers[1]));
    world.run(&["apply", "-f", "-"], &example).await;
    let third = address(&world, &servers[2]);
    world
        .apply(&importing("third", json!({"address": third})))
        .await;
    for (name, server) in [("legacy-2", &servers[1]), ("third", &servers[2])] {
        let ready = world.ready(name).await;
        assert_eq!(id_of(&ready), Some(server.id.as_str()));
    }
    // A partial match is not imported; the message lists the existing servers and their owners.
    let elsewhere = json!({"name": "shop-db", "address": third});
    world.apply(&importing("neither", elsewhere)).await;
    let refused = world.until_reason("neither", "ImportNotFound").await;
    let near = format!("{} (shop-db)", servers[0].id);
    assert!(
        ready_message(&refused).contains(&near),
        "{}",
        outline(&refused)
    );
    world
        .apply(&importing("several", json!({"name": "shop-db"})))
        .await;
    let refused = world.until_reason("several", "ImportAmbiguous").await;
    for server in &servers[..2] {
        assert!(
            ready_message(&refused).contains(&server.id),
            "{}",
            outline(&refused)
        );
    }
    world
        .apply(&importing("taken", json!({"address": third})))
        .await;
    let refused = world.until_reason("taken", "ImportConflict").await;
    assert!(
        ready_message(&refused).contains("/third"),
        "{}",
        outline(&refused)
    );
    assert_eq!(create_calls(&world.sim), bought, "{}", world.ledger_text());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_import_one_server_one_gets_it_although_the_operator_is_killed() {
    let mut world = Setup::default().imports().begin("import-two").await;
    let servers = unowned_servers(&world, 1);
    let bought = create_calls(&world.sim);
    let id = servers[0].id.clone();
    for name in ["a", "b"] {
        world.apply(&importing(name, json!({"id": id}))).await;
    }
    let has_it = async || {
        let all = world.all().await.into_values();
        all.filter(|i| i.metadata.annotations.is_some()).count()
    };
    eventually("one has it", async || match has_it().await {
        0 => Err("none".to_owned()),
        _ => Ok(()),
    })
    .await;
    world.restart().await;
    let (winner, loser) = eventually(
        "one owns it and the other one names the owner",
        async || {
            let (a, b) = (world.get("a").await, world.get("b").await);
            for (one, other) in [(&a, &b), (&b, &a)] {
                if is_ready(one) && reason(other) == "ImportConflict" {
                    return Ok((one.clone(), other.clone()));
                }
            }
            Err(format!("{}; {}", outline(&a), outline(&b)))
        },
    )
    .await;
    let name = |i: &Instance| i.metadata.name.clone().unwrap();
    let named = format!("{}/{}", world.namespace, name(&winner));
    assert!(
        ready_message(&loser).contains(&named),
        "{}",
        outline(&loser)
    );
    // A bought server has an owner, too.
    world.apply(&instance("own")).await;
    let own = world.ready("own").await;
    world
        .apply(&importing("thief", json!({"id": id_of(&own)})))
        .await;
    let thief = world.until_reason("thief", "ImportConflict").await;
    assert!(ready_message(&thief).contains("/own"));
    for name in ["thief", &name(&loser)] {
        world.delete(name).await;
        world.gone(name).await;
    }
    assert_eq!(world.sim.live_servers().len(), 2, "{}", world.ledger_text());
    assert_eq!(world.sim.ledger().count("/instance/release"), 0);
    world.delete(&name(&winner)).await;
    world.gone(&name(&winner)).await;
    assert_eq!(world.sim.live_servers().len(), 1);
    assert_eq!(create_calls(&world.sim), bought + 1);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_can_be_corrected_until_there_is_a_server() {
    let world = Setup::default().imports().begin("import-rules").await;
    let servers = unowned_servers(&world, 1);
    world
        .kubectl_apply(&importing("web", json!({"id": "ecs-mistyped"})))
        .await
        .unwrap();
    world.until_reason("web", "ImportNotFound").await;
    world
        .kubectl_apply(&importing("web", json!({"id": servers[0].id})))
        .await
        .unwrap();
    world.ready("web").await;
    for other in [importing("web", json!({"id": "ecs-2"})), instance("web")] {
        let why = world.kubectl_apply(&other).await.expect_err("accepted");
        assert!(why.contains("spec.import cannot be changed"), "{why}");
    }
    let mut stopped = stopped("web");
    stopped["spec"]["import"] = json!({"id": servers[0].id});
    world.kubectl_apply(&stopped).await.unwrap();
    world.apply(&instance("bought")).await;
    world.ready("bought").await;
    let late = importing("bought", json!({"id": servers[0].id}));
    let why = world.kubectl_apply(&late).await.expect_err("accepted");
    assert!(why.contains("spec.import cannot be changed"), "{why}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_at_another_service_does_not_own_a_server_of_the_same_identifier() {
    let world = Setup::default().imports().begin("import-twins").await;
    // Identifiers follow from the seed: the first servers of two services have the same identifier.
    let service = Simulator::builder().token(World::TOKEN);
    let service = service.task_duration(Duration::ZERO);
    let elsewhere = service.start().await.unwrap();
    world.account("elsewhere", elsewhere.url()).await;
    let far = with("far", |spec| {
        spec["accountRef"] = json!({"name": "elsewhere"});
    });
    world.apply(&far).await;
    let far = world.ready("far").await;
    let twin = unowned_servers(&world, 1).remove(0);
    assert_eq!(id_of(&far), Some(twin.id.as_str()));
    world
        .apply(&importing("near", json!({"id": twin.id})))
        .await;
    let near = world.ready("near").await;
    assert_eq!(id_of(&near), Some(twin.id.as_str()), "{}", outline(&near));
    for name in ["near", "far"] {
        world.delete(name).await;
        world.gone(name).await;
    }
    assert!(
        world.sim.live_servers().is_empty(),
        "{}",
        world.ledger_text()
    );
    assert!(elsewhere.live_servers().is_empty());
    world.finish().await;
}

/// Sets the Account's policy for imports, and waits until it is in effect: an Instance may be reconciled before it, and the
/// service is probed again before a changed Account is used.
async fn set_imports(world: &World, imports: &str) {
    let patch = json!({"spec": {"imports": imports}}).to_string();
    let patch = ["patch", "account", "default", "--type=merge", "-p", &patch];
    world.run(&patch, "").await;
    let accounts = world.accounts();
    eventually(&format!("imports: {imports} is in force"), async || {
        let account = accounts.get("default").await;
        let account = account.map_err(|error| error.to_string())?;
        let status = account.status.unwrap_or_default();
        if Some(status.observed_generation) == account.metadata.generation {
            Ok(())
        } else {
            Err(format!("{:#?}", status.conditions))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_need_the_consent_of_the_account_and_earlier_imports_stay() {
    let mut world = Setup::default().begin("import-denied").await;
    let servers = unowned_servers(&world, 2);
    let bought = create_calls(&world.sim);
    for (name, import) in [
        ("web", json!({"id": servers[0].id})),
        ("db", json!({"name": servers[1].name})),
    ] {
        world.apply(&importing(name, import)).await;
        let refused = world.until_reason(name, "ImportDenied").await;
        let words = ready_message(&refused);
        assert!(words.contains("imports: Allowed"), "{words}");
        assert!(words.contains("Account default"), "{words}");
        assert!(
            refused.metadata.annotations.is_none(),
            "{}",
            outline(&refused)
        );
    }
    let account = world.accounts().get("default").await.unwrap();
    let unowned = account.status.unwrap_or_default().unowned;
    assert!(
        unowned.iter().all(|server| server.import.is_none()),
        "{unowned:?}"
    );
    // A server that was never imported is not released.
    world.delete("db").await;
    world.gone("db").await;

    set_imports(&world, "Allowed").await;
    let ready = world.ready("web").await;
    assert_eq!(id_of(&ready), Some(servers[0].id.as_str()));
    // The Account denies imports again: an imported server stays managed, and is released with its Instance.
    set_imports(&world, "Denied").await;
    world
        .apply(&importing("late", json!({"id": servers[1].id})))
        .await;
    world.until_reason("late", "ImportDenied").await;
    world.restart().await;
    let mut off = stopped("web");
    off["spec"]["import"] = json!({"id": servers[0].id});
    world.apply(&off).await;
    world
        .until("web", "is stopped", |web| {
            is_ready(web) && web.status.as_ref().unwrap().detail["ecsStatus"] == "STOPPED"
        })
        .await;
    // Also if its record is lost, the server is not imported again.
    let manifest = world.get("web").await;
    let mut bare = json!({"apiVersion": "cloudserver.dev/v1alpha1", "kind": "Instance"});
    bare["metadata"] = json!({"name": "web"});
    bare["spec"] = serde_json::to_value(&manifest.spec).unwrap();
    world.run(&["replace", "-f", "-"], &bare.to_string()).await;
    world
        .until("web", "has its record again", |web| {
            is_ready(web)
                && web
                    .metadata
                    .annotations
                    .as_ref()
                    .is_some_and(|all| all.contains_key(BINDING))
        })
        .await;
    world.delete("web").await;
    world.gone("web").await;
    let left: Vec<_> = world.sim.live_servers().into_iter().map(|s| s.id).collect();
    assert_eq!(left, [servers[1].id.clone()], "{}", world.ledger_text());
    assert_eq!(create_calls(&world.sim), bought, "{}", world.ledger_text());
    world.finish().await;
}
