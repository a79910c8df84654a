use super::account_session::limits;
use super::conflicts::LISTED_ALL_AFTER;
use super::owners::OwnershipClaim;
use super::*;
use crate::api::conditions::Reason;
use crate::cloud::{AllowedEndpoints, CallPriority, Tls};
use futures::FutureExt;
use secrecy::SecretString;
use serde_json::{Value, json};

impl From<SecretString> for ServiceCredentials {
    /// A token without TLS settings.
    fn from(token: SecretString) -> Self {
        Self {
            token,
            tls: Tls::default(),
        }
    }
}

const HERE: &str = "https://cloud.example/api";

fn key(namespace: &str) -> ObjectKey {
    ObjectKey::new(namespace, "default")
}

fn sessions() -> Sessions {
    sessions_of(Shard::WHOLE)
}

fn sessions_of(shard: Shard) -> Sessions {
    Sessions::new(
        ("cluster".to_owned(), shard),
        Http::new(AllowedEndpoints::default()).unwrap(),
        Metrics::default(),
        |_, _| {},
        |_, _| {},
        CancellationToken::new(),
    )
}

fn spec(endpoint: &str, more: Value) -> AccountSpec {
    let mut spec = json!({
        "endpoint": endpoint,
        "tokenSecretRef": {"name": "cloud-token", "key": "token"},
    });
    let Value::Object(more) = more else {
        return serde_json::from_value(spec).unwrap();
    };
    spec.as_object_mut().unwrap().extend(more);
    serde_json::from_value(spec).unwrap()
}

/// An Account that can be used.
fn installed(
    sessions: &Sessions,
    namespace: &str,
    spec: &AccountSpec,
    token: &str,
) -> Arc<AccountSession> {
    let made_from = MadeFrom {
        secret: "u/7".to_owned(),
        tls: String::new(),
        account: "a".to_owned(),
    };
    sessions.announce(&key(namespace));
    let token = SecretString::from(token).into();
    let account_session = sessions.account_session(&key(namespace), spec, &token, made_from);
    let account_session = account_session.unwrap();
    sessions.install(&key(namespace), account_session.clone());
    account_session
}

#[test]
fn a_limit_per_minute_or_hour_holds_with_the_burst() {
    for (requests, most, seconds) in [
        (json!({"perHour": 200}), 200.0, 3600.0),
        (json!({"perHour": 3600, "perMinute": 60}), 60.0, 60.0),
        (json!({"perHour": 200, "burst": 1000}), 200.0, 3600.0),
        (json!({"perMinute": 2}), 2.0, 60.0),
        (json!({"perHour": 3_600_000}), 310.0, 60.0),
    ] {
        let limits = limits(&spec(HERE, json!({ "requests": requests })));
        let passed = f64::from(limits.burst) + limits.per_second * seconds;
        assert!((passed - most).abs() < 0.001, "{requests}: {passed}");
        assert!(limits.burst >= 1 && f64::from(limits.burst) <= most / 2.0);
    }
}

#[tokio::test]
async fn accounts_with_one_token_share_its_limit_even_with_other_error_codes() {
    let sessions = sessions();
    let one_at_a_time = json!({"requests": {"perSecond": 100, "burst": 100, "concurrent": 1}});
    let mut with_codes = one_at_a_time.clone();
    with_codes["missingCodes"] = json!(["Gone"]);
    let plain = installed(&sessions, "a", &spec(HERE, one_at_a_time.clone()), "t");
    let with_codes = installed(&sessions, "b", &spec(HERE, with_codes), "t");
    let other = installed(&sessions, "c", &spec(HERE, one_at_a_time), "u");
    assert_ne!(plain.shared.number, with_codes.shared.number);
    let permit = plain.shared.client.permit(CallPriority::Urgent).await;
    assert!(
        with_codes
            .shared
            .client
            .permit(CallPriority::Urgent)
            .now_or_never()
            .is_none()
    );
    drop(other.shared.client.permit(CallPriority::Urgent).await);
    drop(permit);
    drop(with_codes.shared.client.permit(CallPriority::Urgent).await);
}

/// The claim of an Instance in the namespace of this Account.
fn claim(namespace: &str, credential: Option<&str>) -> OwnershipClaim {
    OwnershipClaim {
        claimant: ObjectKey::new(namespace, "web"),
        account: key(namespace),
        credential: credential.map(Into::into),
        is_better: true,
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_valid_if_the_account_of_the_claimant_has_the_server() {
    let sessions = sessions();
    let former_key = FormerKey::from_bytes(&[7; 32]);
    sessions.compare_former(former_key.clone());
    let here = spec(HERE, json!({}));
    let former = former_key.credential("cluster", &here, &SecretString::from("t"));
    let ours = installed(&sessions, "ours", &here, "t");
    installed(&sessions, "same-token", &here, "t");
    installed(&sessions, "other-token", &here, "u");
    let elsewhere = spec("https://other.example/api", json!({}));
    installed(&sessions, "elsewhere", &elsewhere, "t");
    let counts = |namespace: &str, credential: Option<&str>| {
        let claim = claim(namespace, credential);
        sessions.is_valid(&claim, &ServerId::from("ecs-1"), &ours, false)
    };
    assert_eq!(counts("same-token", None), Some(true));
    assert_eq!(counts("nowhere", ours.credential.as_deref()), Some(true));
    assert_eq!(counts("elsewhere", Some("0badcafe")), Some(false));
    assert_eq!(counts("nowhere", Some(&former)), Some(true));
    // A claimant whose Account may still list the server, until every Account had the time to.
    assert_eq!(counts("other-token", None), None);
    assert_eq!(counts("nowhere", None), None);
    tokio::time::advance(LISTED_ALL_AFTER).await;
    assert_eq!(counts("other-token", None), Some(false));
    assert_eq!(counts("nowhere", None), Some(false));
    assert_eq!(counts("same-token", None), Some(true));
    sessions.trust_records();
    assert_eq!(counts("elsewhere", None), Some(true));
}

/// Only the process of that shard can verify the claim, unless the server was bought with the same token.
#[tokio::test(start_paused = true)]
async fn a_claim_of_another_shard_blocks_an_import_and_takes_nothing_away() {
    let shard = Shard::all(2).find(|shard| shard.owns("ours")).unwrap();
    let mut names = (0..).map(|number| format!("team-{number}"));
    let other = names.find(|name| !shard.owns(name)).unwrap();
    let sessions = sessions_of(shard);
    let ours = installed(&sessions, "ours", &spec(HERE, json!({})), "t");
    let counts = |credential: Option<&str>, is_import: bool| {
        let claim = claim(&other, credential);
        sessions.is_valid(&claim, &ServerId::from("ecs-1"), &ours, is_import)
    };
    assert_eq!(counts(Some("0badcafe"), true), Some(true));
    assert_eq!(counts(Some("0badcafe"), false), Some(false));
    assert_eq!(counts(ours.credential.as_deref(), false), Some(true));
}

/// A marker is unique across all services, so it counts regardless of any credential.
#[tokio::test(start_paused = true)]
async fn an_import_is_blocked_by_a_valid_claim_or_a_marker_and_only_once_all_instances_are_listed()
{
    let sessions = sessions();
    let ours = installed(&sessions, "ns", &spec(HERE, json!({})), "t");
    let owners = sessions.owners();
    owners.listed(&owners::tests::instance("a", json!({"id": "ecs-1"})));
    let owner = |id: &str, marker: &str| {
        let marker = Marker::of_uid(marker);
        sessions.owner_before_import("b", &id.into(), Some(&marker), &ours)
    };
    assert_eq!(owner("ecs-1", "none"), ConflictingOwner::NotKnownYet);
    owners.set_listed_all();
    let a = ConflictingOwner::Instance(ObjectKey::new("ns", "a"));
    assert_eq!(owner("ecs-1", "none"), a, "its Account uses our token");
    assert_eq!(owner("ecs-2", "a"), a);
    assert_eq!(owner("ecs-2", "none"), ConflictingOwner::None);
}

#[tokio::test]
async fn another_spec_with_the_same_generation_makes_another_account_session() {
    let sessions = sessions();
    let (former, now) = (
        spec(HERE, json!({"maxInstances": 1})),
        spec(HERE, json!({"maxInstances": 2})),
    );
    let account_session = installed(&sessions, "a", &former, "t");
    let made_from = |spec| sessions.made_from(&key("a"), spec, &account_session.made_from);
    assert!(made_from(&former).is_some_and(|known| Arc::ptr_eq(&known, &account_session)));
    assert!(made_from(&now).is_none());
}

/// A probe is answered after its Account was deleted, and another one of the same name was created.
#[tokio::test]
async fn a_session_of_a_former_account_does_not_become_usable_for_a_new_one() {
    let sessions = sessions();
    let former = installed(&sessions, "a", &spec(HERE, json!({})), "t");
    let state = || sessions.state_of(&key("a"));
    assert!(matches!(state(), AccountState::Usable(_)));
    sessions.depart(&key("a"));
    sessions.announce(&key("a"));
    assert!(!sessions.install(&key("a"), former));
    assert!(matches!(state(), AccountState::Pending));
}

/// The probe ends after its Account was deleted and its session dropped.
#[tokio::test]
async fn an_account_that_is_gone_does_not_come_back_with_the_end_of_its_reconcile() {
    let sessions = sessions();
    let former = installed(&sessions, "a", &spec(HERE, json!({})), "t");
    sessions.depart(&key("a"));
    sessions.sweep(|_| false);
    let problem = Problem::new(Reason::ServiceUnreachable, "the service does not answer");
    sessions.mark_unusable(&key("a"), problem);
    sessions.install(&key("a"), former);
    assert!(matches!(
        sessions.state_of(&key("a")),
        AccountState::NotFound
    ));
}

#[tokio::test]
async fn a_deletion_does_not_use_a_refused_token_even_after_an_edit_of_the_account() {
    let sessions = sessions();
    let first = installed(&sessions, "a", &spec(HERE, json!({})), "t");
    let last = |is_refused| sessions.last_account_session(&key("a"), is_refused);
    assert!(last(false).is_some_and(|account_session| Arc::ptr_eq(&account_session, &first)));
    assert!(last(true).is_none());
    // The Account's limit was raised since: another account session with the same token.
    let account_session = |token: &str| {
        let made_from = MadeFrom {
            secret: "u/7".to_owned(),
            tls: String::new(),
            account: "a".to_owned(),
        };
        let raised = spec(HERE, json!({"maxInstances": 2}));
        sessions.account_session(
            &key("a"),
            &raised,
            &SecretString::from(token).into(),
            made_from,
        )
    };
    let raised = account_session("t").unwrap();
    assert!(last(true).is_none());
    // Another token, which the service refuses: it may still accept the former one.
    let other = account_session("u").unwrap();
    assert!(last(true).is_some_and(|account_session| Arc::ptr_eq(&account_session, &first)));
    drop((raised, other));
}
