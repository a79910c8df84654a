//! `import`: the manifest that imports a server.

use super::{exits, output_of, unowned_servers};
use crate::support::{Mark, Setup, console, create_calls, instance, mark, posts};
use cloud_simulator::catalogue;
use cloud_simulator::model::Console;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_printed_manifest_imports_the_server_and_changes_nothing() {
    let world = Setup::default()
        .imports()
        .own_ids()
        .begin("import-command")
        .await;
    world.apply(&instance("own")).await;
    let own = world.only_server(&world.ready("own").await);
    let servers = unowned_servers(&world, 2).await;
    let bought = create_calls(&world.sim);
    let firewall = ["--firewall", catalogue::example().firewall];

    let output = exits(&world, 1, &["import", &servers[0].id], "").await;
    for word in ["--firewall", "security group", "fw-"] {
        assert!(output.err.contains(word), "{word}: {}", output.err);
    }
    let output = exits(
        &world,
        0,
        &[&["import", &servers[0].id][..], &firewall].concat(),
        "",
    )
    .await;
    assert!(
        output.out.starts_with("# Takes over server"),
        "{}",
        output.out
    );

    // Before and after it is applied.
    let plan = exits(&world, 2, &["plan", "-f", "-"], &output.out).await;
    assert!(plan.out.contains("takes over a server"), "{}", plan.out);
    world.run(&["apply", "-f", "-"], &output.out).await;
    let taken = world.ready("stranger-0").await;
    assert_eq!(
        taken.status.unwrap().id.as_deref(),
        Some(servers[0].id.as_str())
    );
    let Mark { seq, .. } = mark(&world, "stranger-0").await;
    exits(&world, 0, &["plan", "-f", "-"], &output.out).await;
    assert_eq!(posts(&world, seq), Vec::<String>::new());

    // By name, as programs use it. Its package is the one with which it was bought.
    let flags = [
        "import",
        "stranger-1",
        "-o",
        "json",
        "--name",
        "db",
        "--ssh-key",
        catalogue::example().key,
    ];
    let output = output_of(&world, &[&flags[..], &firewall].concat(), "").await;
    let manifest: Value = output.json();
    assert_eq!(manifest["spec"]["import"]["id"], servers[1].id);
    assert_eq!(
        manifest["spec"]["package"]["code"],
        catalogue::example().package
    );
    assert_eq!(manifest["metadata"]["name"], "db");

    // A server with an owner, and a name that several servers have.
    for id in [&own.id, &servers[0].id] {
        let output = exits(&world, 1, &[&["import", id][..], &firewall].concat(), "").await;
        let named = format!("{}/", world.namespace);
        assert!(
            output.err.contains(&named) && output.err.contains("Retain"),
            "{}",
            output.err
        );
    }
    let server = servers[0].id.clone();
    let name = "stranger-1".to_owned();
    console(&world, Console::Rename { server, name });
    let output = exits(&world, 1, &["import", "stranger-1"], "").await;
    assert!(
        servers.iter().all(|server| output.err.contains(&server.id)),
        "{}",
        output.err
    );
    let output = output_of(&world, &["import", "no-such"], "").await;
    assert!(
        output.status == 1 && output.err.contains("--unowned"),
        "{}",
        output.err
    );
    assert_eq!(create_calls(&world.sim), bought);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn import_names_the_command_that_allows_imports_and_plan_reports_that_they_are_denied() {
    let setup = Setup::default().own_ids();
    let world = setup.begin("import-command-denied").await;
    let server = unowned_servers(&world, 1).await.remove(0);
    let flags = [
        "import",
        &server.id,
        "--firewall",
        catalogue::example().firewall,
    ];
    let output = exits(&world, 0, &flags, "").await;
    let patch = r#"--type=merge -p '{"spec":{"imports":"Allowed"}}'"#;
    let command = format!(
        "kubectl patch accounts.cloudserver.dev default -n {} {patch}",
        world.namespace
    );
    for text in [&output.out, &output.err] {
        assert!(text.contains(&command), "{text}");
    }
    let commented = output.out.lines().filter(|line| line.contains(&command));
    assert!(commented.clone().count() == 1 && commented.clone().all(|line| line.starts_with("# ")));
    let plan = output_of(&world, &["plan", "-f", "-"], &output.out).await;
    assert!(!plan.out.contains("takes over a server"), "{}", plan.out);
    assert!(
        plan.out.contains("imports: Allowed"),
        "{}{}",
        plan.out,
        plan.err
    );
    assert_ne!(plan.status, 0, "{}", plan.out);

    // The reported line works.
    let patch = r#"{"spec":{"imports":"Allowed"}}"#;
    let arguments = ["patch", "account", "default", "--type=merge", "-p", patch];
    world.run(&arguments, "").await;
    let output = output_of(&world, &flags, "").await;
    assert!(!output.out.contains("kubectl patch") && !output.err.contains("kubectl patch"));
    let plan = output_of(&world, &["plan", "-f", "-"], &output.out).await;
    assert!(plan.out.contains("takes over a server"), "{}", plan.out);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn import_prints_no_manifest_for_a_missing_server_or_a_wrong_value() {
    let setup = Setup::default().imports().own_ids();
    let world = setup.begin("import-command-checks").await;
    world.apply(&instance("own")).await;
    world.ready("own").await;
    let server = unowned_servers(&world, 1).await.remove(0);
    let example = catalogue::example();
    let mistyped = |id: &str| format!("{}x", &id[..id.len() - 1]);
    let right = ["--firewall", example.firewall];
    for (flag, value, words) in [
        (
            "--package",
            mistyped(example.package),
            &["no such package", example.package][..],
        ),
        (
            "--package",
            example.other_package.to_owned(),
            &["1 CPU and not 2 CPU", example.package],
        ),
        (
            "--firewall",
            mistyped(example.firewall),
            &["security group", example.firewall],
        ),
        (
            "--ssh-key",
            mistyped(example.key),
            &["key pair", example.key],
        ),
        ("--zone", example.other_zone.to_owned(), &[example.zone]),
        ("--region", mistyped(example.region), &[example.region]),
        ("--name", "No Name".to_owned(), &["no name"]),
        ("--name", "own".to_owned(), &["/own exists already"]),
        ("--password-secret", "No Name/key".to_owned(), &["no name"]),
    ] {
        let mut arguments = vec!["import", &server.id, flag, &value];
        if flag != "--firewall" {
            arguments.extend(right);
        }
        let output = output_of(&world, &arguments, "").await;
        assert_eq!(
            (output.status, output.out.as_str()),
            (1, ""),
            "{arguments:?}"
        );
        for word in [&[flag][..], words].concat() {
            assert!(output.err.contains(word), "{word}: {}", output.err);
        }
    }
    // Correct values are accepted.
    let flags = [
        ["--package", example.package],
        ["--ssh-key", example.key],
        ["--zone", example.zone],
        right,
    ];
    let output = exits(
        &world,
        0,
        &[&["import", &server.id][..], &flags.concat()].concat(),
        "",
    )
    .await;
    assert_eq!(output.err, "");
    world.finish().await;
}
