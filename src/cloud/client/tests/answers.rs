//! Which answers are accepted, and as what.

use super::*;
use crate::cloud::TaskState;

#[tokio::test]
async fn a_detail_of_another_server_is_no_answer() {
    let server = Scripted::answering("200 OK", r#"{"instance":{"ecsResourceUUID":"ecs-2"}}"#).await;
    let error = client(&server.endpoint)
        .detail(CallPriority::Urgent, &id())
        .await
        .unwrap_err();
    assert_eq!(error.category(), "undecodable");
    assert!(!error.is_no_such_instance());
}

#[tokio::test]
async fn calls_on_a_server_accept_both_forms_of_answer_also_without_a_task() {
    let denied = r#"{"success":false,"code":"Ecs.NotExist","message":"m"}"#;
    for (body, task) in [
        (ACCEPTED, Some("t-1")),
        (
            r#"{"asyncTaskUUID":"t-2","httpStatus":202,"rowCount":0}"#,
            Some("t-2"),
        ),
        (r#"{"httpStatus":202,"rowCount":0}"#, None),
    ] {
        let server = Scripted::answering("200 OK", body).await;
        let client = client(&server.endpoint);
        let expected = task.map(TaskId::from);
        let permit = client.permit(CallPriority::Urgent).await;
        assert_eq!(client.release(permit, &id()).await.unwrap(), expected);
        let permit = client.permit(CallPriority::Urgent).await;
        assert_eq!(client.start(permit, &id()).await.unwrap(), expected);
        let permit = client.permit(CallPriority::Urgent).await;
        assert_eq!(client.restart(permit, &id()).await.unwrap(), expected);
        let permit = client.permit(CallPriority::Urgent).await;
        assert_eq!(client.stop(permit, &id(), true).await.unwrap(), expected);
        let [.., stop] = server
            .requests()
            .try_into()
            .unwrap_or([const { String::new() }; 4]);
        assert!(
            stop.ends_with(r#"{"ecsResourceUUID":"ecs-1","forceStop":true}"#),
            "{stop}"
        );
    }
    for (body, gone) in [(denied, true), ("{}", false), (r#"{"hello":1}"#, false)] {
        let server = Scripted::answering("200 OK", body).await;
        let client = client(&server.endpoint);
        let permit = client.permit(CallPriority::Urgent).await;
        let error = client.release(permit, &id()).await.unwrap_err();
        assert_eq!(error.is_no_such_instance(), gone, "{error}");
        assert_eq!(error.may_have_happened(), !gone, "{error}");
    }
}

#[tokio::test]
async fn a_list_of_packages_has_only_those_of_its_zone() {
    let body = r#"{"packages": [
        {"packageCode": "p-1", "regionCode": "r", "zoneCode": "other"},
        {"packageCode": "p-1", "regionCode": "r", "zoneCode": "z", "cpu": 2},
        {"packageCode": "p-2", "regionCode": "far", "zoneCode": "z"}
    ]}"#;
    let server = Scripted::answering("200 OK", body).await;
    let client = client(&server.endpoint);
    let packages = List::Packages {
        region: "r".to_owned(),
        zone: Some("z".to_owned()),
    };
    let here = client.offers(CallPriority::Urgent, &packages, 1);
    let here = here.await.unwrap();
    assert_eq!(here.rows.len(), 1);
    assert_eq!((here.rows[0].cpu, here.unreadable), (Some(2), 0));
}

#[tokio::test]
async fn a_failed_task_is_a_result_and_a_contradictory_answer_is_none() {
    let failed = r#"{"asyncTaskInfo":{"processResult":"FAIL","remark":"sold out"},"httpStatus":500,"success":false}"#;
    let server = Scripted::answering("202 Accepted", failed).await;
    let report = client(&server.endpoint)
        .task(CallPriority::Operation, &"t-1".into())
        .await
        .unwrap();
    let reason = Some("sold out".to_owned());
    assert_eq!(report, TaskState::Failed { reason });
    let odd = r#"{"asyncTaskInfo":{"processResult":"SUCCESS"},"success":false}"#;
    let server = Scripted::answering("202 Accepted", odd).await;
    let error = client(&server.endpoint)
        .task(CallPriority::Operation, &"t-1".into())
        .await
        .unwrap_err();
    assert_eq!(error.category(), "undecodable");
}
