//! A value that holds a token or a password shows neither when it is printed with `Display` or `Debug`: a panic, an error or a line
//! at trace level may print every value of a reconcile (S7). The client and its errors have a test of their own.

use crate::cloud::{AllowedEndpoints, Http, PasswordRequest, ReinstallRequest, ServerLogin};
use crate::instance::fact::Fact;
use crate::runtime::watch::ObjectKey;
use crate::runtime::{Metrics, Shard};
use crate::session::{AccountState, Content, MadeFrom, Sessions};
use data_encoding::BASE64;
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;
use serde_json::json;
use std::fmt::Debug;
use tokio_util::sync::CancellationToken;

const CANARY: &str = "canary-5f0e8c2b";

/// As it stands, in base64, and as the bytes of a list, which is how a buffer prints.
fn assert_hidden(what: &str, value: &impl Debug) {
    let bytes = format!("{:?}", CANARY.as_bytes());
    let bytes = bytes.trim_matches(['[', ']']);
    for text in [format!("{value:?}"), format!("{value:#?}")] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let encoded = BASE64.encode(CANARY.as_bytes());
        for writing in [CANARY, encoded.trim_end_matches('='), bytes] {
            assert!(!flat.contains(writing), "{what}: {text}");
        }
    }
}

fn canary() -> SecretString {
    SecretString::from(CANARY)
}

#[test]
fn the_test_detects_a_secret() {
    for shown in [
        std::panic::catch_unwind(|| assert_hidden("text", &CANARY)),
        std::panic::catch_unwind(|| assert_hidden("bytes", &CANARY.as_bytes())),
        std::panic::catch_unwind(|| assert_hidden("base64", &BASE64.encode(CANARY.as_bytes()))),
    ] {
        assert!(shown.is_err());
    }
}

#[test]
fn debug_of_a_login_and_of_its_requests_shows_no_password() {
    let by_key = ServerLogin::Key {
        key: "key-1".into(),
        password: Some(canary()),
    };
    for login in [ServerLogin::Password(canary()), by_key] {
        assert_hidden("the login", &login);
        assert_hidden("what was observed", &Fact::Known(login.clone()));
        let reinstall = ReinstallRequest {
            server: "ecs-1".into(),
            image: "img-1".into(),
            region: "region".to_owned(),
            login,
        };
        assert_hidden("a reinstall", &reinstall);
    }
    let change = PasswordRequest {
        server: "ecs-1".into(),
        region: "region".to_owned(),
        password: canary(),
    };
    assert_hidden("a password change", &change);
}

#[test]
fn debug_of_a_secret_shows_none_of_its_values() {
    let mut secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "login", "uid": "u", "resourceVersion": "7"},
        "data": {"password": BASE64.encode(CANARY.as_bytes())},
    }))
    .unwrap();
    let mut content = Content::of(&mut secret);
    assert_hidden("what is left of the Secret", &secret);
    assert_hidden("its content", &content);
    let password = content.take("login", "password").unwrap();
    assert_hidden("its value", &password);
    let odd = BASE64.encode(&[CANARY.as_bytes(), b"\xff"].concat());
    secret.data = serde_json::from_value(json!({"password": odd})).unwrap();
    let problem = Content::of(&mut secret).take("login", "password");
    assert_hidden("why it cannot be used", &problem.unwrap_err());
}

#[tokio::test]
async fn debug_of_an_account_session_shows_no_token() {
    let sessions = Sessions::new(
        ("cluster".to_owned(), Shard::WHOLE),
        Http::new(AllowedEndpoints::default()).unwrap(),
        Metrics::default(),
        |_, _| {},
        |_, _| {},
        CancellationToken::new(),
    );
    let spec = json!({
        "endpoint": "https://cloud.example/api",
        "tokenSecretRef": {"name": "cloud-token", "key": "token"},
    });
    let account = ObjectKey::new("team-a", "default");
    let made_from = MadeFrom {
        secret: "u/7".to_owned(),
        tls: String::new(),
        account: "a".to_owned(),
    };
    let spec = serde_json::from_value(spec).unwrap();
    let session = sessions.account_session(&account, &spec, &canary().into(), made_from);
    let session = session.unwrap();
    assert_hidden("the session", &session);
    assert_hidden("the state", &AccountState::Usable(session));
}
