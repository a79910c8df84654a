//! Bad input, row by row: errors in an Instance, its Account, its Secrets or the service's answers. Each row is reported once,
//! with a reason and a message that names the object and the remedy (literally in `snapshots/`). While it lasts it costs next
//! to nothing, buys nothing and delays no other Instance, and it ends without further help when its cause is fixed.

mod bill;
mod play;
mod row;
mod undecodable;

use crate::support::{World, side_by_side};
use cloud_simulator::catalogue;
use cloud_simulator::faults::Act;
use cloud_simulator::model::AccountStatus;
use play::play;
use row::Step::{
    Account, Answers, Bytes, Endpoint, NoAccount, NoSecret, Plain, Restocked, Secret, SetStatus,
    Settle, SoldOut, Spec, Token,
};
use row::{Begins, Row, row};
use serde_json::json;

/// Concurrent worlds of one test, which spend most of the time waiting.
const AT_ONCE: usize = 16;
const OTHER_TOKEN: &str = "canary-token-after-rotation";
const IMAGE: &str = "/image/id";
const RECONCILING: &str = "Reconciling";
const STALLED: &str = "Stalled";

/// The Account and its token.
fn accounts() -> Vec<Row> {
    let token = || Secret("cloud-token", "token", World::TOKEN);
    let rows = [
        row(
            "account-missing",
            Begins::New,
            [NoAccount],
            (RECONCILING, "AccountNotFound"),
            [Account],
        ),
        row(
            "token-secret-missing",
            Begins::New,
            [NoSecret("cloud-token")],
            (RECONCILING, "TokenNotFound"),
            [token()],
        ),
        row(
            "token-key-missing",
            Begins::New,
            [Secret("cloud-token", "tokne", World::TOKEN)],
            (RECONCILING, "TokenNotFound"),
            [token()],
        ),
        row(
            "token-empty",
            Begins::New,
            [Secret("cloud-token", "token", " \n")],
            (RECONCILING, "TokenNotFound"),
            [token()],
        ),
        row(
            "token-that-no-header-can-carry",
            Begins::New,
            [Secret("cloud-token", "token", "first-line\nsecond-line")],
            (RECONCILING, "TokenInvalid"),
            [token()],
        ),
        row(
            "token-refused",
            Begins::New,
            [Token(OTHER_TOKEN)],
            (RECONCILING, "TokenRefused"),
            [Secret("cloud-token", "token", OTHER_TOKEN)],
        ),
        row(
            "token-refused-for-a-while",
            Begins::New,
            [Token(OTHER_TOKEN)],
            (RECONCILING, "TokenRefused"),
            [Token(World::TOKEN)],
        ),
        row(
            "account-not-normal",
            Begins::New,
            [SetStatus(AccountStatus::Arrears)],
            (RECONCILING, "AccountNotNormal"),
            [SetStatus(AccountStatus::Normal)],
        ),
    ];
    rows.map(Row::next_to_another_account).into()
}

/// The endpoint, and the server at that address.
fn endpoints() -> Vec<Row> {
    let rows = [
        // A reserved port without a listener.
        row(
            "endpoint-where-nothing-listens",
            Begins::New,
            [Endpoint("http://127.0.0.1:9")],
            (RECONCILING, "ServiceUnreachable"),
            [Account],
        ),
        // RFC 6761: never resolves.
        row(
            "endpoint-whose-name-does-not-resolve",
            Begins::New,
            [Endpoint("http://cloud.invalid/api")],
            (RECONCILING, "ServiceUnreachable"),
            [Account],
        ),
        // The apiserver accepts it as a URL, but ports end at 65535.
        row(
            "endpoint-that-is-no-url",
            Begins::New,
            [Endpoint("http://127.0.0.1:99999")],
            (RECONCILING, "EndpointInvalid"),
            [Account],
        ),
        row(
            "a-web-page-at-the-endpoint",
            Begins::New,
            [Answers("/*", Act::Html)],
            (RECONCILING, "ServiceUnreachable"),
            [Plain],
        ),
    ];
    rows.map(Row::next_to_another_account).into()
}

/// Answers that are not JSON.
fn answers() -> Vec<Row> {
    let rows = [
        // Refused with an unreadable page: the outcome is unknown. Settles after the window and within the patience of the
        // test.
        row(
            "a-web-page-in-answer-to-the-create",
            Begins::New,
            [Settle(150), SoldOut, Answers("/instance/create", Act::Html)],
            (RECONCILING, "CreateUnconfirmed"),
            [Plain, Restocked],
        ),
        row(
            "garbage-in-answer-to-the-listing",
            Begins::Found,
            [Answers("/instance/list", Act::Garble)],
            (RECONCILING, "CheckingForExistingServer"),
            [Plain],
        ),
        row(
            "a-web-page-in-answer-to-the-detail",
            Begins::New,
            [Answers("/instance/detail", Act::Html)],
            (RECONCILING, "Creating"),
            [Plain],
        )
        .with_a_server(),
    ];
    rows.map(Row::next_to_another_account).into()
}

/// Errors in the spec and the login Secret of a new Instance.
fn creates() -> Vec<Row> {
    let example = catalogue::example();
    let by_key = |id: &str| Spec("/login", json!({"sshKey": {"id": id}}));
    let login = || Secret("login", "password", World::PASSWORD);
    vec![
        row(
            "image-unknown",
            Begins::New,
            [Spec(IMAGE, json!("img-unknown"))],
            (STALLED, "CreateRefused"),
            [Spec(IMAGE, json!(example.image))],
        ),
        row(
            "package-unknown",
            Begins::New,
            [Spec("/package/code", json!("c1m1-unknown"))],
            (STALLED, "CreateRefused"),
            [Spec("/package/code", json!(example.package))],
        ),
        row(
            "firewall-unknown",
            Begins::New,
            [Spec("/firewall/id", json!("fw-unknown"))],
            (STALLED, "CreateRefused"),
            [Spec("/firewall/id", json!(example.firewall))],
        ),
        row(
            "key-unknown",
            Begins::New,
            [by_key("key-unknown")],
            (STALLED, "CreateRefused"),
            [by_key(example.key)],
        ),
        row(
            "login-secret-missing",
            Begins::New,
            [NoSecret("login")],
            (RECONCILING, "LoginSecretNotFound"),
            [login()],
        ),
        row(
            "login-key-missing",
            Begins::New,
            [Secret("login", "pasword", World::PASSWORD)],
            (RECONCILING, "LoginSecretNotFound"),
            [login()],
        ),
        row(
            "login-password-empty",
            Begins::New,
            [Secret("login", "password", "")],
            (RECONCILING, "LoginSecretNotFound"),
            [login()],
        ),
        row(
            "login-password-against-the-rules",
            Begins::New,
            [Secret("login", "password", "withoutupper1!")],
            (STALLED, "LoginPasswordInvalid"),
            [login()],
        ),
        row(
            "login-password-that-is-no-text",
            Begins::New,
            [Bytes("login", "password", b"\xff\xfe\xfd")],
            (STALLED, "LoginPasswordInvalid"),
            [login()],
        ),
    ]
}

/// Errors in the spec and the login Secret of an Instance with a server.
fn changes() -> Vec<Row> {
    let example = catalogue::example();
    let by_key = |id: &str| Spec("/login", json!({"sshKey": {"id": id}}));
    let reinstall = || Spec(IMAGE, json!(example.other_image));
    let login = || Secret("login", "password", World::NEW_PASSWORD);
    vec![
        row(
            "reinstall-with-an-unknown-image",
            Begins::Server,
            [Spec(IMAGE, json!("img-unknown"))],
            (STALLED, "OperationRefused"),
            [reinstall()],
        ),
        row(
            "reinstall-with-an-unknown-key",
            Begins::Server,
            [by_key("key-unknown")],
            (STALLED, "OperationRefused"),
            [by_key(example.key)],
        ),
        row(
            "reinstall-without-its-secret",
            Begins::Server,
            [NoSecret("login"), reinstall()],
            (RECONCILING, "LoginSecretNotFound"),
            [login()],
        ),
        row(
            "reinstall-without-the-key-in-its-secret",
            Begins::Server,
            [Secret("login", "pasword", World::NEW_PASSWORD), reinstall()],
            (RECONCILING, "LoginSecretNotFound"),
            [login()],
        ),
        row(
            "reinstall-with-a-password-against-the-rules",
            Begins::Server,
            [Secret("login", "password", "NOLOWERCASE1!"), reinstall()],
            (STALLED, "LoginPasswordInvalid"),
            [login()],
        ),
        row(
            "another-password-against-the-rules",
            Begins::Server,
            [Secret("login", "password", "TwoSpecials1!!")],
            (STALLED, "LoginPasswordInvalid"),
            [login()],
        ),
        row(
            "another-password-under-another-key",
            Begins::Server,
            [Secret("login", "pasword", World::NEW_PASSWORD)],
            (RECONCILING, "LoginSecretNotFound"),
            [login()],
        ),
        row(
            "reinstall-without-its-account",
            Begins::Server,
            [NoAccount, reinstall()],
            (RECONCILING, "AccountNotFound"),
            [Account],
        )
        .next_to_another_account(),
        row(
            "reinstall-with-a-refused-token",
            Begins::Server,
            [Token(OTHER_TOKEN), reinstall()],
            (RECONCILING, "TokenRefused"),
            [Secret("cloud-token", "token", OTHER_TOKEN)],
        )
        .next_to_another_account(),
    ]
}

#[test]
fn every_message_belongs_to_a_row() {
    let rows = [accounts(), endpoints(), answers(), creates(), changes()];
    let rows = rows.iter().flatten().map(|row| row.name);
    let mut named: Vec<String> = rows
        .chain(["undecodable"])
        .map(|row| format!("{row}.snap"))
        .collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots");
    let mut kept: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".snap"))
        .collect();
    named.sort();
    kept.sort();
    assert_eq!(named, kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_account_or_token_is_reported_once_costs_little_and_can_be_fixed() {
    each(accounts()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_endpoint_is_reported_once_costs_little_and_can_be_fixed() {
    each(endpoints()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_no_json_is_reported_once_costs_little_and_can_be_fixed() {
    each(answers()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_spec_or_login_of_a_new_server_is_reported_once_costs_little_and_can_be_fixed() {
    each(creates()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_change_of_a_server_is_reported_once_costs_little_and_can_be_fixed() {
    each(changes()).await;
}

/// Plays every row, each in its own world.
async fn each(rows: Vec<Row>) {
    side_by_side(AT_ONCE, rows, async |row| play(&row).await).await;
}
