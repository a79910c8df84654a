use super::*;

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn login() -> ServerLogin {
    ServerLogin::Key {
        key: "key-1".into(),
        password: None,
    }
}

fn create(login: ServerLogin) -> CreateRequest {
    CreateRequest {
        package: "pkg".into(),
        place: Place::new("r", "z"),
        name: "web-1".to_owned(),
        image: "img-1".into(),
        firewall: Some("fw-1".into()),
        login,
    }
}

#[test]
fn a_create_has_the_fields_of_section_4_1() {
    let with_password = create(ServerLogin::Password("Hunter2!".into())).body();
    let expected = json!({"packageConfig": {
        "packageCode": "pkg", "regionCode": "r", "zoneCode": "z", "instanceName": "web-1",
        "imageResourceUUID": "img-1", "sshKeyUUID": null, "firewallUUID": "fw-1", "password": "Hunter2!",
    }});
    assert_eq!(with_password, expected);
    let config = create(login()).body()["packageConfig"].clone();
    assert_eq!(config["sshKeyUUID"], "key-1");
    assert!(!object(&config).contains_key("password"));
    let both = create(ServerLogin::Key {
        key: "key-1".into(),
        password: Some("Hunter2!".into()),
    })
    .body();
    assert_eq!(both["packageConfig"]["password"], "Hunter2!");
    let open = CreateRequest {
        firewall: None,
        ..create(login())
    };
    assert!(!object(&open.body()["packageConfig"]).contains_key("firewallUUID"));
}

#[test]
fn a_reinstall_has_another_field_name_for_the_key() {
    let request = ReinstallRequest {
        server: "ecs-1".into(),
        image: "img-1".into(),
        region: "r".to_owned(),
        login: login(),
    };
    let expected = json!({"ecsResourceUUID": "ecs-1", "imageResourceUUID": "img-1", "regionCode": "r", "sshKeyResourceUUID": "key-1"});
    assert_eq!(request.body(), expected);
}

#[test]
fn debug_shows_no_password() {
    let request = create(ServerLogin::Password("Hunter2!".into()));
    let change = PasswordRequest {
        server: "ecs-1".into(),
        region: "r".to_owned(),
        password: "Hunter2!".into(),
    };
    assert!(!format!("{request:?} {change:?}").contains("Hunter2"));
    assert_eq!(
        change.body(),
        json!({"ecsResourceUUID": "ecs-1", "regionCode": "r", "password": "Hunter2!"})
    );
}

#[test]
fn a_receipt_is_read_in_both_forms_and_only_if_complete() {
    let expected = Some(CreateAccepted {
        id: "ecs-1".into(),
        task: "t-1".into(),
    });
    let nested = json!({"asyncTaskInfo": {"asyncTaskUUID": "t-1", "ecsResourceUUID": "ecs-1"}, "httpStatus": 202});
    let flat = json!({"asyncTaskUUID": "t-1", "ecsResourceUUID": "ecs-1"});
    let mixed = json!({"asyncTaskInfo": {"asyncTaskUUID": "t-1", "ecsResourceUUID": null}, "ecsResourceUUID": "ecs-1"});
    for body in [nested, flat, mixed] {
        assert_eq!(receipt(&object(&body)), expected, "{body}");
    }
    for body in [
        json!({"asyncTaskUUID": "t-1"}),
        json!({"ecsResourceUUID": "ecs-1"}),
        json!({"asyncTaskUUID": "", "ecsResourceUUID": "ecs-1"}),
        json!({"asyncTaskInfo": []}),
        json!({"asyncTaskUUID": ["t-1"], "ecsResourceUUID": "ecs-1"}),
    ] {
        assert_eq!(receipt(&object(&body)), None, "{body}");
    }
}

#[test]
fn a_detail_keeps_no_secret() {
    let mut body = object(&json!({"instance": {
        "ecsResourceUUID": "ecs-1", "password": "Hunter2!", "console": {"vncPassword": "x", "port": 1},
        "links": [{"accessToken": "y", "url": "https://h/?k=t0ken"}], "remark": "t0ken",
    }}));
    let detail = Detail::read(&mut body)
        .unwrap()
        .without_secrets(&["t0ken", ""]);
    let expected = json!({
        "ecsResourceUUID": "ecs-1", "console": {"port": 1},
        "links": [{"url": "https://h/?k=[redacted]"}], "remark": "[redacted]",
    });
    assert_eq!(Value::Object(detail.fields), expected);
}

#[test]
fn a_detail_keeps_every_field_and_a_malformed_one_affects_no_other() {
    let mut body = object(&json!({"instance": {
        "ecsResourceUUID": "ecs-1", "ecsStatus": 7, "ecsPendingStatus": "NONE", "zoneCode": "", "new": {"a": 1},
    }}));
    let detail = Detail::read(&mut body).unwrap();
    assert_eq!(
        (detail.status(), detail.pending(), detail.zone()),
        (None, Some("NONE"), None)
    );
    assert_eq!(detail.pending(), Some("NONE"));
    assert_eq!(detail.fields["new"], json!({"a": 1}));
    for body in [
        json!({}),
        json!({"instance": null}),
        json!({"instance": {}}),
        json!({"instance": []}),
    ] {
        assert!(Detail::read(&mut object(&body)).is_none(), "{body}");
    }
}

#[test]
fn a_task_ends_only_with_a_final_result() {
    let unknown = |word: &str| TaskState::Unknown {
        word: word.to_owned(),
    };
    let failed = |reason: Option<&str>| TaskState::Failed {
        reason: reason.map(str::to_owned),
    };
    let read = |body: &Map<String, Value>| TaskState::read(body, &["t0p-secret"]);
    for (info, state) in [
        (
            json!({"taskStatus": "FINISHED", "processResult": "SUCCESS"}),
            TaskState::Succeeded,
        ),
        (
            json!({"taskStatus": "PROCESSING", "processResult": "SUCCESS"}),
            TaskState::Succeeded,
        ),
        (json!({"processResult": "success"}), TaskState::Succeeded),
        (
            json!({"taskStatus": "FINISHED", "processResult": "FAIL"}),
            failed(None),
        ),
        (
            json!({"processResult": "FAIL", "failMessage": "no\nstock", "message": "m"}),
            failed(Some("no stock")),
        ),
        (
            json!({"processResult": "CANCEL", "errorMessage": 7, "remark": "by hand"}),
            failed(Some("by hand")),
        ),
        (
            json!({"processResult": "FAIL", "errorMessage": " ", "remark": "Bearer t0p-secret"}),
            failed(Some("Bearer [redacted]")),
        ),
        (json!({"taskStatus": "PROCESSING"}), TaskState::Running),
        (
            json!({"taskStatus": "PROCESSING", "processResult": null}),
            TaskState::Running,
        ),
        (
            json!({"taskStatus": "PROCESSING", "processResult": ""}),
            TaskState::Running,
        ),
        (
            json!({"taskStatus": "FINISHED", "processResult": "RETRY"}),
            TaskState::Running,
        ),
        (json!({}), TaskState::Running),
        (
            json!({"taskStatus": "FINISHED", "processResult": ""}),
            unknown("FINISHED"),
        ),
        (
            json!({"taskStatus": "FINISHED", "processResult": "PARTLY"}),
            unknown("PARTLY"),
        ),
        (json!({"taskStatus": "QUEUED"}), unknown("QUEUED")),
        (json!({"taskStatus": "t0p-secret"}), unknown("[redacted]")),
    ] {
        let body = object(&json!({"asyncTaskInfo": info, "httpStatus": 202}));
        assert_eq!(read(&body).unwrap(), state, "{info}");
        assert_eq!(
            state.is_final(),
            matches!(state, TaskState::Succeeded | TaskState::Failed { .. })
        );
        if info != json!({}) {
            assert_eq!(read(&object(&info)).unwrap(), state, "flat {info}");
        }
    }
    assert!(read(&object(&json!({"httpStatus": 202}))).is_none());
    assert!(read(&object(&json!({"asyncTaskInfo": null}))).is_none());
}
