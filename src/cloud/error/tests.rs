use serde_json::{Map, Value, json};

use super::super::answer::{Answer, Reading, envelope};
use super::super::decode::NO_OBJECT;
use super::*;

/// Reads an answer as a create whose payload is `{"id": …}`.
fn create(status: u16, body: &str) -> Result<String, Error> {
    on(CloudCall::Create, status, body)
}

fn on(operation: CloudCall, status: u16, body: &str) -> Result<String, Error> {
    let codes = ["NotFound".to_owned(), "NotExist".to_owned()];
    let reading = Reading {
        missing_codes: &codes,
        secrets: &["Hunter2!"],
    };
    let fault = if (200..300).contains(&status) {
        match serde_json::from_str::<Map<String, Value>>(body) {
            Ok(body) => {
                let payload = body.get("id").and_then(Value::as_str).map(str::to_owned);
                match (Answer {
                    status,
                    retry_after: None,
                    body,
                    listed: false,
                })
                .result(payload, "it has no id", &reading)
                {
                    Ok(id) => return Ok(id),
                    Err(fault) => fault,
                }
            }
            Err(_) => Fault::Unfit {
                status,
                unfit: NO_OBJECT,
            },
        }
    } else {
        Fault::Answered {
            status,
            refusal: serde_json::from_str(body)
                .ok()
                .and_then(|body| envelope(&body, &reading)),
            retry_after: None,
        }
    };
    Err(Error {
        operation,
        path: "/instance/create".into(),
        fault,
    })
}

const REFUSAL: &str = r#"{"code":"InvalidRegionCode.NotNull","httpStatus":400,"message":"no"}"#;
const PAGE: &str = "<html>nginx</html>";
const ODD: &str = r#"{"error":"Not Found","message":"no such route","status":404}"#;

/// Status, body, may have happened, is retryable, category.
type Classified = (u16, &'static str, bool, bool, &'static str);

const CLIENT_ERRORS: &[Classified] = &[
    (400, REFUSAL, false, false, "refused"),
    (400, PAGE, true, false, "unexpected_status"),
    (400, ODD, true, false, "unexpected_status"),
    (
        401,
        r#"{"code":"Authenticated.Error","httpStatus":401,"message":"m"}"#,
        false,
        false,
        "unauthorized",
    ),
    (
        403,
        r#"{"code":"Forbidden","message":"m"}"#,
        false,
        false,
        "unauthorized",
    ),
    (403, PAGE, true, false, "unauthorized"),
    (
        404,
        r#"{"code":"X","message":"m"}"#,
        false,
        false,
        "not_found",
    ),
    (404, PAGE, true, false, "unexpected_status"),
    (408, REFUSAL, true, true, "refused"),
    (
        409,
        r#"{"code":"Busy","message":"m"}"#,
        false,
        true,
        "refused",
    ),
    (
        429,
        r#"{"code":"TooMany","message":"m"}"#,
        false,
        true,
        "rate_limited",
    ),
    (429, PAGE, true, true, "rate_limited"),
];

const REDIRECTS_AND_SERVER_ERRORS: &[Classified] = &[
    (302, REFUSAL, true, false, "refused"),
    (500, REFUSAL, true, true, "server_error"),
    (502, PAGE, true, true, "server_error"),
    (
        503,
        r#"{"code":"Busy","success":false}"#,
        true,
        true,
        "server_error",
    ),
];

const ENVELOPES_AT_ODDS_WITH_THE_STATUS: &[Classified] = &[
    (200, REFUSAL, false, false, "refused"),
    (202, r#"{"success":false}"#, false, false, "refused"),
    (
        202,
        r#"{"success":"false","message":"m"}"#,
        false,
        false,
        "refused",
    ),
    (
        202,
        r#"{"success":false,"code":"Instance.NotFound"}"#,
        false,
        false,
        "not_found",
    ),
    (
        200,
        r#"{"code":"Authenticated.Error","httpStatus":401,"message":"m"}"#,
        false,
        false,
        "unauthorized",
    ),
    (
        200,
        r#"{"code":"System.Error","httpStatus":500,"message":"m"}"#,
        true,
        true,
        "server_error",
    ),
    (
        400,
        r#"{"code":"System.Error","httpStatus":500,"message":"m"}"#,
        true,
        false,
        "refused",
    ),
    (
        202,
        r#"{"code":"Too.Many","httpStatus":429,"message":"m"}"#,
        false,
        true,
        "rate_limited",
    ),
];

const NEITHER_RESULT_NOR_REFUSAL: &[Classified] = &[
    (
        202,
        r#"{"httpStatus":202,"rowCount":0}"#,
        true,
        true,
        "undecodable",
    ),
    (
        202,
        r#"{"code":"OK","message":"accepted"}"#,
        true,
        true,
        "undecodable",
    ),
    (202, r#"{"code":"Something"}"#, true, true, "undecodable"),
    (202, r#"{"message":"hello"}"#, true, true, "undecodable"),
    (
        202,
        r#"{"success":true,"code":"X","message":"m"}"#,
        true,
        true,
        "undecodable",
    ),
    (
        202,
        r#"{"success":false,"id":"ecs-1"}"#,
        true,
        true,
        "undecodable",
    ),
    (
        202,
        r#"{"httpStatus":500,"id":"ecs-1"}"#,
        true,
        true,
        "undecodable",
    ),
    (202, r#"{"id":"ecs-"#, true, true, "undecodable"),
    (202, "[]", true, true, "undecodable"),
    (200, "", true, true, "undecodable"),
    (204, "", true, true, "undecodable"),
    (200, PAGE, true, true, "undecodable"),
];

#[test]
fn every_answer_is_classified_on_both_axes() {
    let rows = [
        CLIENT_ERRORS,
        REDIRECTS_AND_SERVER_ERRORS,
        ENVELOPES_AT_ODDS_WITH_THE_STATUS,
        NEITHER_RESULT_NOR_REFUSAL,
    ]
    .concat();
    for (status, body, happened, retry, category) in rows {
        let error = create(status, body).expect_err(body);
        assert_eq!(
            error.may_have_happened(),
            happened,
            "may have happened: {status} {body}"
        );
        assert_eq!(error.is_retryable(), retry, "retryable: {status} {body}");
        assert_eq!(error.category(), category, "category: {status} {body}");
    }
}

#[test]
fn a_result_with_a_code_counts_as_a_result() {
    for body in [
        r#"{"id":"ecs-1"}"#,
        r#"{"id":"ecs-1","success":true}"#,
        r#"{"id":"ecs-1","code":"0","message":"ok"}"#,
        r#"{"id":"ecs-1","code":"Anything","message":"ok"}"#,
    ] {
        assert_eq!(create(202, body).unwrap(), "ecs-1");
    }
}

#[test]
fn only_an_authorized_answer_about_an_instance_means_no_such_instance() {
    let (plain, by_code) = (
        r#"{"code":"X","message":"m"}"#,
        r#"{"code":"instance.notexist","message":"m"}"#,
    );
    let gone = |operation, status, body: &str| {
        on(operation, status, body)
            .unwrap_err()
            .is_no_such_instance()
    };
    for operation in [
        CloudCall::Detail,
        CloudCall::Release,
        CloudCall::Start,
        CloudCall::Stop,
        CloudCall::Restart,
    ] {
        assert!(
            gone(operation, 404, plain)
                && gone(operation, 400, by_code)
                && gone(operation, 200, by_code)
        );
        assert!(gone(
            operation,
            202,
            r#"{"success":false,"code":"Ecs.NotFound"}"#
        ));
        for status in [401, 403, 429, 500, 502] {
            assert!(!gone(operation, status, by_code), "{status}");
        }
        assert!(
            !gone(operation, 400, plain)
                && !gone(operation, 404, "<html>")
                && !gone(operation, 404, "{}")
        );
        for code in ["Authenticated.NotFound", "Account.NotFound"] {
            let body = format!(r#"{{"code":"{code}","message":"m"}}"#);
            assert!(!gone(operation, 404, &body), "{code}");
        }
        let body = r#"{"code":"AccountNotExist","message":"m"}"#;
        assert!(!gone(operation, 403, body));
        assert!(!gone(
            operation,
            200,
            r#"{"code":"X.NotFound","httpStatus":503,"message":"m"}"#
        ));
    }
    for operation in [
        CloudCall::Create,
        CloudCall::Reinstall,
        CloudCall::ModifyPassword,
        CloudCall::Task,
        CloudCall::Instances,
    ] {
        assert!(!gone(operation, 404, by_code), "{operation}");
    }
    assert!(
        on(CloudCall::Task, 404, plain)
            .unwrap_err()
            .is_no_such_task()
    );
    assert!(
        !on(CloudCall::Detail, 404, plain)
            .unwrap_err()
            .is_no_such_task()
    );
}

#[test]
fn a_token_and_an_account_are_distinguished() {
    let unauthorised =
        create(200, r#"{"code":"authenticated.expired","message":"m"}"#).unwrap_err();
    assert!(unauthorised.is_unauthorized() && !unauthorised.is_account_not_normal());
    let overdue = create(400, r#"{"code":"Account.Overdue","message":"m"}"#).unwrap_err();
    assert!(overdue.is_account_not_normal() && !overdue.is_unauthorized());
    // Also with the status that otherwise concerns the token.
    let frozen = create(403, r#"{"code":"AccountStatus.Abnormal","message":"m"}"#).unwrap_err();
    assert!(frozen.is_account_not_normal() && !frozen.is_unauthorized());
    let full = create(403, r#"{"code":"QuotaExceeded.Instance","message":"m"}"#).unwrap_err();
    assert!(!full.is_account_not_normal() && !full.is_unauthorized());
    assert!(
        create(402, r#"{"code":"X","message":"m"}"#)
            .unwrap_err()
            .is_account_not_normal()
    );
}

#[test]
fn display_names_operation_and_path_and_repeats_no_secret() {
    let body =
        json!({"code": "Bad.Password", "message": format!("Hunter2!\nis bad {}", "x".repeat(400))})
            .to_string();
    let text = create(400, &body).unwrap_err().to_string();
    assert!(text.starts_with(
        "create (POST /instance/create) was refused with 400 Bad.Password: [redacted] is bad xxx"
    ));
    assert!(text.len() < 300, "{text}");
    // This password differs from the one that was sent, and is not in the message.
    let body = json!({"code": "Canary7pass!word", "message": "is bad"}).to_string();
    let text = create(400, &body).unwrap_err().to_string();
    assert_eq!(
        text,
        "create (POST /instance/create) was refused with 400 [hidden]: is bad"
    );
    assert_eq!(
        create(502, "<html>").unwrap_err().to_string(),
        "create (POST /instance/create) was answered with 502 and no readable reason"
    );
}

/// The text of the error of this operation.
fn message(operation: CloudCall, status: u16, body: &str) -> String {
    on(operation, status, body).unwrap_err().to_string()
}

#[test]
fn an_error_that_the_operator_retries_by_itself_is_marked_so() {
    let busy = r#"{"code":"Busy","message":"wait"}"#;
    assert_eq!(
        message(CloudCall::Create, 429, busy),
        "the service is rate limiting requests (429 Busy: wait, at POST /instance/create); the operator retries automatically"
    );
    assert_eq!(
        message(CloudCall::Stop, 409, busy),
        "stop (POST /instance/create) was refused with 409 Busy: wait; the operator retries automatically"
    );
    let not_sent = Error {
        operation: CloudCall::Create,
        path: "/instance/create".into(),
        fault: Fault::NotSent(TransportError::NoAnswerMemory),
    };
    let words = not_sent.to_string();
    assert!(
        words.ends_with("; the operator retries automatically"),
        "{words}"
    );
    // The operator does not repeat these: a command may have made a read, a refusal is final, and before a call with an unknown
    // outcome is repeated, the operator checks for its effect.
    let account = r#"{"code":"Account.Overdue","message":"m"}"#;
    for (operation, status, body) in [
        (CloudCall::Keys, 429, busy),
        (CloudCall::Create, 400, busy),
        (CloudCall::Create, 429, "<html>"),
        (CloudCall::Create, 409, account),
        (CloudCall::Create, 503, busy),
    ] {
        let words = message(operation, status, body);
        assert!(!words.contains("retries automatically"), "{words}");
    }
}

#[test]
fn an_error_about_an_unknown_path_refers_to_the_setting_of_paths() {
    let refused = r#"{"code":"X","message":"m"}"#;
    for (status, body, is_doubted) in [
        (501, "", true),
        (501, refused, true),
        (405, "<html>", true),
        (404, "<html>", true),
        (404, refused, false),
        (503, "", false),
        (400, refused, false),
    ] {
        let words = message(CloudCall::Create, status, body);
        assert_eq!(words.contains("spec.paths"), is_doubted, "{words}");
    }
    assert_eq!(
        message(CloudCall::Create, 501, ""),
        "create (POST /instance/create) was answered with 501 and no readable reason (if this lasts, the path may be wrong: \
         check spec.paths of the Account)"
    );
}

#[test]
fn a_call_is_named_in_plain_words() {
    let token = r#"{"code":"Authenticated.Error","message":"m"}"#;
    assert_eq!(
        message(CloudCall::Keys, 401, token),
        "the token was refused (401 Authenticated.Error: m, at GET /instance/create)"
    );
    assert_eq!(
        message(CloudCall::Keys, 502, ""),
        "the call for key pairs (GET /instance/create) was answered with 502 and no readable reason"
    );
    assert!(message(CloudCall::ModifyPassword, 502, "").starts_with("the password change (POST "));
}
