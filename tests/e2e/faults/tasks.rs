//! Tasks that do not simply succeed.

use super::*;
use crate::support::{has_done, server_id};

/// The script of a task, the Instance that gets it, and how often the operation is then called.
fn scripts() -> Vec<(&'static str, TaskScript, usize)> {
    let word = "PAUSED".to_owned();
    let reason = "the hypervisor was not in the mood".to_owned();
    vec![
        ("fails", TaskScript::Fail { reason }, 2),
        ("cancelled", TaskScript::Cancel, 2),
        ("retried", TaskScript::Retry, 1),
        ("never-ends", TaskScript::Never, 1),
        ("unknown-word", TaskScript::UnknownWord { word }, 1),
        ("backwards", TaskScript::Backwards, 1),
        ("lost-id", TaskScript::LostId, 1),
    ]
}

/// Each script on a verb of a separate Instance.
async fn each_script_on(verb: Verb) {
    let world = Setup::default().begin("scripts").await;
    let scripts = scripts();
    let names: Vec<&str> = scripts.iter().map(|(name, ..)| *name).collect();
    let arm = |text: &str, script: &TaskScript| {
        let act = Act::Task(script.clone());
        let rule = Rule::on(path_of(verb), act).containing(text);
        world.sim.fault(rule.times(1))
    };
    if verb == Verb::Create {
        for (name, script, _) in &scripts {
            arm(&format!("\"{name}-"), script);
        }
    } else {
        let ready = fleet(&world, &names, instance).await;
        for (instance, (_, script, _)) in ready.iter().zip(&scripts) {
            arm(&server_id(instance), script);
        }
    }
    for name in &names {
        world.apply(&changed(name, verb)).await;
    }
    failed(&world, "fails", "not in the mood").await;
    for name in names.iter().filter(|name| **name != "never-ends") {
        has_done(&world, name, verb).await;
    }
    // It has run for longer than all the others, and the call was not repeated.
    let runs = world.get("never-ends").await;
    let operation = runs.status.as_ref().unwrap().operation.as_ref();
    assert_eq!(
        operation.map(|op| op.verb),
        Some(verb),
        "{}",
        outline(&runs)
    );
    assert!(condition(&runs, "Stalled").is_none(), "{}", outline(&runs));
    let server = world.only_server(&runs).id;
    console(&world, Console::EndTask { server });
    has_done(&world, "never-ends", verb).await;
    quiet_all(&world).await;
    for (name, _, requested) in scripts {
        let now = world.get(name).await;
        assert!(is_ready(&now), "{}", outline(&now));
        assert_as_requested(&world, &now, World::PASSWORD);
        let (accepted, completed) = match verb {
            Verb::Create => {
                let all = world.sim.servers().into_iter();
                let mine = all.filter(|server| server.name.starts_with(&format!("{name}-")));
                (mine.count(), 1)
            }
            _ => counts(&world, verb, Some(&server_id(&now))),
        };
        println!("SCRIPT {verb:?} {name}: accepted {accepted}, completed {completed}");
        assert_eq!(
            (accepted, completed),
            (requested, 1),
            "{name}: {}",
            world.ledger_text()
        );
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_buys_one_server_under_every_result_of_its_task() {
    each_script_on(Verb::Create).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reinstall_is_done_once_under_every_result_of_its_task() {
    each_script_on(Verb::Reinstall).await;
}
