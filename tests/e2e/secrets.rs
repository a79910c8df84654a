//! No secret appears anywhere (S7). The tests use canaries for the token, for former, current and refused passwords, and for
//! the token of another Account; then everything that the operator and the service show is searched for them, in every
//! encoding.

mod quoted;

use crate::support::{
    Setup, World, condition, eventually, get, has_done, insist, instance, is_ready, kubectl,
    new_password, other_image, stopped, token,
};
use cloud_server_operator::api::Verb;
use cloud_simulator::faults::{Act, Rule, When};
use data_encoding::{BASE64, BASE64URL, HEXLOWER};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;
use std::fmt::Write as _;

/// The operator's own namespace.
const OWN: &str = "cloud-server-system";

/// A password that the service refuses with a message.
const REJECTED: &str = "Rejected9pass~word";
/// A password that our own rules refuse.
const AGAINST_THE_RULES: &str = "against-the-rules-6d1f";
/// A token that the service refuses.
const REFUSED_TOKEN: &str = "refused-token-91b4c7";
/// The token of an Account in another namespace.
const FOREIGN_TOKEN: &str = "foreign-token-3e88a0";
/// A Secret that is not text, around a readable text.
const NO_TEXT: &[u8] = b"\xff\xfebinary-canary-77\xff";
const IN_NO_TEXT: &str = "binary-canary-77";

const CANARIES: [&str; 8] = [
    World::TOKEN,
    World::PASSWORD,
    World::NEW_PASSWORD,
    REJECTED,
    AGAINST_THE_RULES,
    REFUSED_TOKEN,
    FOREIGN_TOKEN,
    IN_NO_TEXT,
];

/// A secret in every encoding in which it is easily read.
pub(super) fn writings(secret: &str) -> Vec<String> {
    let mut all = vec![secret.to_owned(), HEXLOWER.encode(secret.as_bytes())];
    // Inside of a longer text, base64 has one of three forms. Characters that depend on the neighbours are removed.
    for before in 0..3 {
        let padded = [&vec![b'x'; before][..], secret.as_bytes()].concat();
        let whole = padded.len() - padded.len() % 3;
        for encoding in [BASE64, BASE64URL] {
            let text = encoding.encode(&padded[..whole]);
            all.push(text[if before == 0 { 0 } else { 4 }..].to_owned());
        }
    }
    let mut percent = String::new();
    for byte in secret.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => percent.push(char::from(byte)),
            false => write!(percent, "%{byte:02X}").unwrap(),
        }
    }
    all.push(percent);
    all.push(secret.chars().rev().collect());
    all
}

#[test]
fn a_secret_is_found_in_every_writing() {
    for secret in CANARIES {
        let forms = writings(secret);
        for neighbour in ["", "a", "ab", "abc"] {
            let around = format!("{neighbour}{secret}{neighbour}");
            for text in [
                BASE64.encode(around.as_bytes()),
                BASE64URL.encode(around.as_bytes()),
                HEXLOWER.encode(around.as_bytes()),
                around,
            ] {
                assert!(
                    forms.iter().any(|form| text.contains(form.as_str())),
                    "{text}"
                );
            }
        }
    }
}

fn quoting(status: u16, code: &str) -> Act {
    Act::Error {
        status,
        code: code.to_owned(),
        message: format!(
            "password '{REJECTED}' (was {}, {}) of token {} is refused",
            World::PASSWORD,
            World::NEW_PASSWORD,
            World::TOKEN
        ),
        retry_after: None,
        when: When::BeforeEffect,
    }
}

/// A life with every operation, and with refusals that quote the refused value.
async fn live(world: &World) {
    let once = |path: &str, act: Act| world.sim.fault(Rule::on(path, act).times(1));
    world.apply(&instance("web")).await;
    world.ready("web").await;
    // The canaries in fields of a detail, and in every other answer.
    for text in [World::PASSWORD, World::TOKEN] {
        let text = text.to_owned();
        world
            .sim
            .fault(Rule::on("/*", Act::Quote { text }).times(6));
    }
    world.apply(&stopped("web")).await;
    has_done(world, "web", Verb::Stop).await;
    world.apply(&instance("web")).await;
    has_done(world, "web", Verb::Start).await;
    world.sim.faults().clear();
    // A password that the service refuses, with its own message, in a code, and in a 2xx.
    for (number, act) in [
        quoting(400, "InvalidPassword.Malformed"),
        quoting(422, &format!("InvalidPassword.{REJECTED}")),
        quoting(500, "InternalError.Password"),
        Act::Business {
            status: 202,
            code: "InvalidPassword.Weak".to_owned(),
            message: format!("{REJECTED} is weak, {} was not", World::PASSWORD),
            success_false: true,
            when: When::BeforeEffect,
        },
    ]
    .into_iter()
    .enumerate()
    {
        let rule = world
            .sim
            .fault(Rule::on("/instance/modifyInstancePassword", act).times(1));
        let secret = if number % 2 == 0 {
            REJECTED.to_owned()
        } else {
            format!("Re{REJECTED}").replace("ReRe", "Ree")
        };
        world.secret("login", "password", &secret).await;
        eventually("the refusal is met", async || {
            match world.sim.faults().hits(rule) {
                1 => Ok(()),
                _ => Err(world.ledger_text()),
            }
        })
        .await;
    }
    new_password(world).await;
    eventually("the last password is set", async || {
        let web = world.get("web").await;
        let id = web.status.as_ref().unwrap().id.clone().unwrap();
        let has = crate::support::password_of(world, &id);
        match has.as_deref() == Some(World::NEW_PASSWORD) && is_ready(&web) {
            true => Ok(()),
            false => Err(crate::support::outline(&web)),
        }
    })
    .await;
    for act in [Act::Garble, Act::Huge { bytes: 5_000_000 }, Act::Truncate] {
        once("/instance/detail", act);
    }
    once(
        "/instance/reinstallSystem",
        quoting(400, "InvalidPassword.Quoted"),
    );
    world.apply(&other_image("web")).await;
    world.until_reason("web", "OperationRefused").await;
    let mut again = other_image("web");
    again["spec"]["reinstall"] = json!({"token": "again"});
    world.apply(&again).await;
    has_done(world, "web", Verb::Reinstall).await;
    let mut restart = again.clone();
    restart["spec"]["restart"] = token("web", "one")["spec"]["restart"].clone();
    world.apply(&restart).await;
    has_done(world, "web", Verb::Restart).await;
}

/// Secrets with invalid content, and refusals of the token.
async fn refused(world: &mut World) {
    let mut bad = instance("rules");
    bad["spec"]["login"]["passwordSecretRef"]["name"] = json!("rules");
    world.secret("rules", "password", AGAINST_THE_RULES).await;
    world.apply(&bad).await;
    world.until_reason("rules", "LoginPasswordInvalid").await;
    let mut odd = instance("odd");
    odd["spec"]["login"]["passwordSecretRef"]["name"] = json!("odd");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "odd"},
        "data": {"password": BASE64.encode(NO_TEXT)},
    });
    world.kubectl_apply(&secret).await.unwrap();
    world.apply(&odd).await;
    world
        .until("odd", "is reported", |i| {
            condition(i, "Ready")
                .is_some_and(|c| c.reason.contains("Secret") || c.reason.contains("Login"))
        })
        .await;
    let rule = Rule::on("/instance/create", quoting(400, "InvalidPassword.Create"))
        .containing("\"quoted-");
    world.sim.fault(rule);
    world.apply(&instance("quoted")).await;
    let refused = world.until_reason("quoted", "CreateRefused").await;
    assert!(
        condition(&refused, "Ready")
            .unwrap()
            .message
            .contains("[redacted]"),
        "the quotation came through, without the secrets"
    );
    // Malformed answers with arbitrary content.
    for act in [Act::Garble, Act::Html, Act::WrongTypes] {
        world.sim.fault(Rule::on("/*", act).times(2));
    }
    // Refused tokens: a valid one that is quoted, and one that was never valid.
    let rule = world
        .sim
        .fault(Rule::on("/*", quoting(401, "Authenticated.Error")));
    world.restart().await;
    world.apply(&instance("late")).await;
    world.until_reason("late", "TokenRefused").await;
    assert!(world.sim.faults().hits(rule) > 0);
    world.sim.faults().clear();
    world
        .sim
        .set_token("default", "token-of-no-account")
        .unwrap();
    let seq = world.sim.ledger().last_seq();
    world.secret("cloud-token", "token", REFUSED_TOKEN).await;
    eventually("the other token is tried", async || {
        match world
            .calls_since(seq)
            .iter()
            .any(|call| call.status == Some(401))
        {
            true => Ok(()),
            false => Err("no call arrived".to_owned()),
        }
    })
    .await;
    world.sim.set_token("default", World::TOKEN).unwrap();
    world.secret("cloud-token", "token", World::TOKEN).await;
    world.ready("late").await;
    // Nothing was bought for this Instance, but the new process did not observe its creation, so it looks for a server first.
    world.until_reason("rules", "LoginPasswordInvalid").await;
}

/// Everything that can be read of the world without the permission to read Secrets.
pub(super) async fn pages(world: &mut World) -> Vec<(String, String)> {
    let mut pages = vec![("the log".to_owned(), world.logs())];
    assert!(
        pages[0].1.contains("\"level\":\"TRACE\""),
        "the test looks at a trace"
    );
    let address = world.operator().address().await;
    for page in ["metrics", "readyz", "livez"] {
        let text = get(&format!("http://{address}/{page}")).await.unwrap().2;
        assert!(!text.is_empty());
        pages.push((page.to_owned(), text));
    }
    let control = world.sim.control_url().unwrap().to_owned();
    for page in ["", "ledger", "servers", "accounts", "readings"] {
        let (status, _, text) = get(&format!("{control}/{page}")).await.unwrap();
        assert_eq!(status, 200, "{page}");
        pages.push((format!("the simulator's /{page}"), text));
    }
    for kind in [
        "instances",
        "accounts",
        "events",
        "events.events.k8s.io",
        "configmaps",
    ] {
        let (done, text) = world
            .kubectl(&["get", kind, "-o", "yaml", "--show-managed-fields"], "")
            .await;
        assert!(done, "{text}");
        pages.push((kind.to_owned(), text));
    }
    let leases = ["get", "leases", "-A", "-o", "yaml", "--show-managed-fields"];
    let (done, text) = world.kubectl(&leases, "").await;
    assert!(done, "{text}");
    pages.push(("leases".to_owned(), text));
    let audit = world.audit_text().await;
    assert!(
        audit.contains(&world.namespace),
        "the audit log has lines of this namespace"
    );
    pages.push(("the audit log".to_owned(), audit));
    let process = world.operator().id();
    for file in ["environ", "cmdline", "comm"] {
        let text = std::fs::read(format!("/proc/{process}/{file}")).unwrap();
        pages.push((
            format!("/proc/PID/{file}"),
            String::from_utf8_lossy(&text).into_owned(),
        ));
    }
    pages
}

/// Everything that can be read where copies of tokens are kept, without the permission to read Secrets: the copies without
/// their data, and other objects in the operator's own namespace or about the copies.
async fn kept(world: &World) -> Vec<(String, String)> {
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), OWN);
    let mine = format!("cloudserver.dev/namespace={}", world.namespace);
    let mine = ListParams::default().labels(&mine);
    let found = insist("copies are listed", async || secrets.list(&mine).await).await;
    let mut copies = found.unwrap().items;
    let [copy] = &mut copies[..] else {
        panic!("one Account is used: {} copies", copies.len());
    };
    let data = copy.data.take().unwrap();
    // The token that the service accepted; never the one that it refused, and no password.
    for (key, value) in &data {
        let text = String::from_utf8(value.0.clone()).unwrap();
        let held: Vec<_> = CANARIES.iter().filter(|c| text.contains(*c)).collect();
        match key.as_str() {
            "token" => assert_eq!(text, World::TOKEN),
            _ => assert!(held.is_empty(), "{held:?} under {key}"),
        }
    }
    let name = copy.name_any();
    let mut pages = vec![("the copy".to_owned(), serde_json::to_string(copy).unwrap())];
    for kind in ["events", "configmaps", "all"] {
        let read = [
            "get",
            kind,
            "-n",
            OWN,
            "-o",
            "yaml",
            "--show-managed-fields",
        ];
        let read = kubectl(&read, "").await;
        assert!(read.status.success());
        pages.push((
            format!("{kind} of {OWN}"),
            String::from_utf8(read.stdout).unwrap(),
        ));
    }
    let audit = std::fs::read_to_string(world.shared.cluster.audit_log_path()).unwrap();
    let audit: String = audit.lines().filter(|line| line.contains(&name)).collect();
    assert!(!audit.is_empty(), "the copy was written");
    pages.push(("the audit log of the copy".to_owned(), audit));
    pages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_leaks_anywhere() {
    play(Setup::default(), false).await;
}

/// With copies of tokens, as by default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_leaks_anywhere_while_copies_of_tokens_are_kept() {
    play(Setup::default().keeps_tokens(), true).await;
}

async fn play(setup: Setup, is_kept: bool) {
    let mut world = setup.filter(quoted::everything()).begin("secrets").await;
    // A Secret of another namespace, to which no user of this namespace has access.
    let neighbour = format!("{}-neighbour", world.namespace);
    let theirs = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": neighbour}},
        {
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "cloud-token", "namespace": neighbour},
            "stringData": {"token": FOREIGN_TOKEN},
        },
    ]});
    eventually("the neighbour is there", async || {
        let apply = ["apply", "--validate=false", "-f", "-"];
        let made = kubectl(&apply, &theirs.to_string()).await;
        match made.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&made.stderr).into_owned()),
        }
    })
    .await;
    live(&world).await;
    refused(&mut world).await;
    world.delete("web").await;
    world.gone("web").await;
    let mut pages = pages(&mut world).await;
    if is_kept {
        pages.extend(kept(&world).await);
    }
    let mut leaks = Vec::new();
    for (place, text) in &pages {
        for secret in CANARIES {
            for form in writings(secret) {
                if let Some(at) = text.find(&form) {
                    let from = text[..at].rfind('\n').map_or(0, |line| line + 1);
                    let line: String = text[from..].chars().take(400).collect();
                    leaks.push(format!("{form} ({secret}) in {place}: {line}"));
                }
            }
        }
    }
    println!(
        "SECRETS: {} pages, {} bytes",
        pages.len(),
        pages.iter().map(|(_, text)| text.len()).sum::<usize>()
    );
    assert!(
        leaks.is_empty(),
        "{} times: {:#?}",
        leaks.len(),
        &leaks[..leaks.len().min(5)]
    );
    world.finish().await;
}
