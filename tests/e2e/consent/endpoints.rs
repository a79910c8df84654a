//! The endpoints for a token: those that its Secret names, and those that the operator's flag allows.

use super::service::Hostile;
use super::{
    WINDOW, account, apply_as, attacker, command_in, run_command_in, secret, until_reported,
};
use crate::support::{Setup, World, eventually, instance, stays};
use serde_json::json;

async fn assert_no_calls(hostile: &Hostile) {
    stays("no call arrives", WINDOW, async || match hostile.calls() {
        0 => Ok(()),
        _ => Err(hostile.bytes()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_secret_goes_to_its_endpoint_and_nowhere_else() {
    let world = Setup::default().bare().begin("bound").await;
    let hostile = Hostile::start().await;
    let user = attacker(&world).await;
    let endpoint = world.sim.url().to_owned();
    let bound = secret(
        "bound-token",
        "Opaque",
        &json!({"cloudserver.dev/use": "token"}),
        &json!({"cloudserver.dev/endpoint": format!("https://cloud.example/api\n{endpoint}/")}),
        &json!({"token": World::TOKEN}),
    );
    world.run(&["apply", "-f", "-"], &bound.to_string()).await;
    world.secret("login", "password", World::PASSWORD).await;
    let good = account("default", &endpoint, "bound-token", "token");
    apply_as(&world, &user, &good).await;
    world.apply(&instance("web")).await;
    world.ready("web").await;

    // The existing Account is changed to another endpoint, and new Accounts that resemble the right one are created.
    let evil = account("default", hostile.url(), "bound-token", "token");
    apply_as(&world, &user, &evil).await;
    let message = until_reported(&world, "default", "Reconciling", "SecretEndpointMismatch").await;
    assert!(message.contains(&endpoint), "{message}");
    for (number, url) in [
        format!("{}{}", hostile.url(), endpoint.trim_start_matches("http:/")),
        format!("{}/..;{endpoint}", hostile.url()),
        hostile.url().replace("127.0.0.1", "localhost"),
        hostile.url().replace("127.0.0.1", "0x7f.1"),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("alike-{number}");
        let alike = account(&name, url, "bound-token", "token");
        apply_as(&world, &user, &alike).await;
        let api = world.accounts();
        eventually(&format!("{url} is refused"), async || {
            let account = api.get(&name).await.map_err(|error| error.to_string())?;
            let conditions = account.status.unwrap_or_default().conditions;
            let refused = [
                "SecretEndpointMismatch",
                "EndpointNotAllowed",
                "EndpointInvalid",
            ];
            let is_refused = |reason: &str| refused.contains(&reason);
            match conditions.iter().any(|c| is_refused(&c.reason)) {
                true => Ok(()),
                false => Err(format!("{conditions:#?}")),
            }
        })
        .await;
    }
    assert_no_calls(&hostile).await;

    // A server that was bought before is released at its own service.
    world.delete("web").await;
    world.gone("web").await;
    assert_eq!(world.sim.live_servers(), []);
    assert_no_calls(&hostile).await;

    // The owner of the Secret can allow that endpoint.
    let words = command_in(&message);
    assert_eq!(words[..3], ["annotate", "secret", "bound-token"]);
    run_command_in(&world, &message).await;
    hostile.until_seen(World::TOKEN).await;
    world.finish().await;
}

/// With the Account's own authority, a proxy can read its traffic; with plain http it always can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_secret_goes_through_no_proxy_that_its_annotation_does_not_name() {
    let world = Setup::default().bare().begin("bound-proxy").await;
    let proxy = Hostile::start().await;
    let user = attacker(&world).await;
    let endpoint = world.sim.url().to_owned();
    let by_tls = endpoint.replace("http:", "https:");
    let bound = secret(
        "bound-token",
        "cloudserver.dev/token",
        &json!({}),
        &json!({"cloudserver.dev/endpoint": format!("{endpoint} {by_tls}")}),
        &json!({"token": World::TOKEN}),
    );
    world.run(&["apply", "-f", "-"], &bound.to_string()).await;
    world.secret("login", "password", World::PASSWORD).await;
    let authority = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let authority = authority.cert.pem();
    world.secret("own-authority", "ca.crt", &authority).await;
    let mut plain = account("default", &endpoint, "bound-token", "token");
    apply_as(&world, &user, &plain).await;
    world.apply(&instance("web")).await;
    world.ready("web").await;

    // An editor changes the existing Account, and creates one whose TLS ends at the editor's proxy.
    plain["spec"]["proxy"] = json!({"url": proxy.url()});
    let mut read_on = account("read-on", &by_tls, "bound-token", "token");
    read_on["spec"]["proxy"] = json!({"url": proxy.url()});
    read_on["spec"]["tls"] =
        json!({"caBundle": {"secretKeyRef": {"name": "own-authority", "key": "ca.crt"}}});
    let mut messages = Vec::new();
    for account in [&plain, &read_on] {
        apply_as(&world, &user, account).await;
        let name = account["metadata"]["name"].as_str().unwrap();
        let message = until_reported(&world, name, "Reconciling", "SecretEndpointMismatch").await;
        assert!(
            message.contains("spec.proxy.url is another endpoint"),
            "{message}"
        );
        messages.push(message);
    }
    assert_no_calls(&proxy).await;

    // A server that was bought before is released through its original route.
    world.delete("web").await;
    world.gone("web").await;
    assert_eq!(world.sim.live_servers(), []);
    assert_eq!(proxy.calls(), 0, "{}", proxy.bytes());

    // The owner of the Secret can allow that route.
    let words = command_in(&messages[0]);
    assert_eq!(words[..3], ["annotate", "secret", "bound-token"]);
    run_command_in(&world, &messages[0]).await;
    proxy.until_seen(World::TOKEN).await;
    let tunnel = format!("CONNECT {} ", by_tls.trim_start_matches("https://"));
    proxy.until_seen(&tunnel).await;
    world.finish().await;
}

/// The variable of `--allowed-endpoint`.
const ALLOWED: &str = "CSO_ALLOWED_ENDPOINTS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_the_operator_does_not_allow_is_refused_with_the_flag_that_allows_it() {
    let elsewhere = "https://cloud.example/api,*.cloud.example,http://127.0.0.1:1";
    let setup = Setup::default().environment(ALLOWED, elsewhere);
    let mut world = setup.begin("allowed").await;
    let message = until_reported(&world, "default", "Stalled", "EndpointNotAllowed").await;
    let flag = format!("'--allowed-endpoint={}'", world.sim.url());
    assert!(message.contains(&flag), "{message}");
    world.apply(&instance("web")).await;
    world.until_reason("web", "EndpointNotAllowed").await;
    stays("no call arrives", WINDOW, async || {
        match world.calls_since(0).len() {
            0 => Ok(()),
            _ => Err(world.ledger_text()),
        }
    })
    .await;
    let url = world.sim.url().to_owned();
    world.environment(ALLOWED, &url);
    world.restart().await;
    world.ready("web").await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_the_operator_does_not_allow_is_refused_with_the_flag_that_allows_it() {
    let setup = Setup::default().bare().without_operator();
    let mut world = setup.begin("allowed-proxy").await;
    let proxy = Hostile::start().await;
    let endpoint = world.sim.url().to_owned();
    world.environment(ALLOWED, &format!("{endpoint},https://cloud.example"));
    world.start().await;
    world.secret("cloud-token", "token", World::TOKEN).await;
    for (name, by, reason) in [
        ("here", proxy.url(), "AddressRefused"),
        ("named", "http://proxy.invalid:3128", "EndpointNotAllowed"),
        // An https endpoint that is allowed is not an allowed http proxy.
        ("alike", "http://cloud.example:443", "EndpointNotAllowed"),
    ] {
        let mut account = account(name, &endpoint, "cloud-token", "token");
        account["spec"]["proxy"] = json!({"url": by});
        world.kubectl_apply(&account).await.unwrap();
        let message = until_reported(&world, name, "Stalled", reason).await;
        let line = format!(
            "fix spec.proxy.url, or have the operator's administrator add '--allowed-endpoint={by}"
        );
        assert!(message.contains(&line), "{message}");
    }
    assert_no_calls(&proxy).await;
    assert!(world.calls_since(0).is_empty(), "{}", world.ledger_text());
    world.environment(ALLOWED, &format!("{endpoint},{}", proxy.url()));
    world.restart().await;
    proxy.until_seen(World::TOKEN).await;
    assert!(world.calls_since(0).is_empty(), "some went past the proxy");
    world.finish().await;
}

/// The copy is used after the Account was deleted, and then only the copy contains the endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_copy_of_a_token_goes_to_an_allowed_endpoint_only() {
    let setup = Setup::default().keeps_tokens().filter("info");
    let mut world = setup.begin("allowed-copy").await;
    world.apply(&instance("web")).await;
    world.ready("web").await;
    world.kill();
    for (kind, name) in [("secret", "cloud-token"), ("account", "default")] {
        world.run(&["delete", kind, name], "").await;
    }
    world.delete("web").await;
    let seq = world.sim.ledger().last_seq();
    world.environment(ALLOWED, "https://cloud.example/api");
    world.start().await;
    world.until_reason("web", "AccountNotFound").await;
    stays("no call arrives", WINDOW, async || {
        match world.calls_since(seq).len() {
            0 => Ok(()),
            _ => Err(world.ledger_text()),
        }
    })
    .await;
    assert!(world.logs().contains("the copy of a token cannot be used"));
    let url = world.sim.url().to_owned();
    world.environment(ALLOWED, &url);
    world.restart().await;
    world.gone("web").await;
    assert_eq!(world.sim.live_servers(), []);
    world.finish().await;
}

#[test]
fn a_list_of_endpoints_that_cannot_be_read_is_no_leave_for_all() {
    for (list, words) in [
        ("", "it is empty"),
        ("https://cloud.example,", "it is empty"),
        ("*", "star"),
        ("ftp://cloud.example", "scheme"),
    ] {
        let output = std::process::Command::new(crate::support::EXECUTABLE)
            .args(["run", "--listen", "127.0.0.1:0"])
            .env_clear()
            .env(ALLOWED, list)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{list:?}: {stderr}");
        assert!(
            stderr.contains("--allowed-endpoint") && stderr.contains(words),
            "{stderr}"
        );
    }
}
