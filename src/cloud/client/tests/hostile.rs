//! Services that answer with any data, of any size, at any pace, without end: the call ends, and the error names the exceeded
//! limit.

use super::*;
use futures::FutureExt;
use serde_json::Map;
use tokio::task::JoinHandle;

const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// A chunk with this text.
fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// A service whose answer begins with one text and then repeats the other without end.
async fn endless(begins: &str, goes_on: &str) -> Client {
    let head = format!("{HEAD}{}", String::from_utf8(chunk(begins)).unwrap());
    let server = Scripted::new(Act::Pour(head, chunk(goes_on))).await;
    client(&server.endpoint)
}

async fn detail(client: &Client) -> Error {
    client
        .detail(CallPriority::Urgent, &id())
        .await
        .unwrap_err()
}

async fn page(client: &Client) -> Error {
    let read = |_: &Map<String, Value>| Ok(Some(()));
    let place = Place::new("r", "z");
    let page = client
        .instances_page(CallPriority::Resync, &place, 1, read)
        .await;
    page.unwrap_err()
}

fn expect_error(error: &Error, category: &str, words: &str) {
    let text = error.to_string();
    assert!(text.contains(words), "{text}");
    assert_eq!(error.category(), category, "{text}");
    assert!(error.is_retryable() && error.may_have_happened(), "{text}");
}

#[tokio::test]
async fn an_endless_body_is_cut_off_at_its_limit_which_the_message_names() {
    let long = "x".repeat(5_000);
    let row = r#"{"ecsResourceUUID":"ecs-1"},"#;
    // The begin of the body, its repeated part, and the expected error of a page and of a detail.
    for (begins, goes_on, of_page, of_detail) in [
        ("{", " \r\n\t ", "larger than 512 KiB", "larger than 16 KiB"),
        (
            r#"{"instances":["#,
            row,
            "more than 500 rows",
            "takes more than 64 KiB of memory",
        ),
        (
            r#"{"instances":[{"ecsResourceUUID":""#,
            &long,
            "a row of its list is larger than 16 KiB",
            "its body is larger than 16 KiB",
        ),
        (
            r#"{"instances":["#,
            "[[[[[[[[",
            "nested deeper than 16 levels",
            "nested deeper than 16 levels",
        ),
        (
            r#"{"instances":[1"#,
            "111111111111111111111",
            "a row of its list is larger than 16 KiB",
            "its body is larger than 16 KiB",
        ),
        (
            r#"{"x":""#,
            &long,
            "next to its list is larger than 8 KiB",
            "its body is larger than 16 KiB",
        ),
        (
            r#"{"instances":[{"ecsResourceUUID":"ecs-1","x":["#,
            r#"{"":{}},"#,
            "takes more than 128 KiB of memory",
            "takes more than 64 KiB of memory",
        ),
    ] {
        let service = endless(begins, goes_on).await;
        expect_error(&page(&service).await, "oversized", of_page);
        expect_error(&detail(&service).await, "oversized", of_detail);
        let error = service.probe(CallPriority::Urgent).await.unwrap_err();
        assert_eq!(error.category(), "oversized", "{error}");
        let error = create(&service).await.unwrap_err();
        expect_error(&error, "oversized", "check that the endpoint");
        let error = service
            .offers(CallPriority::Urgent, &List::Regions, 1)
            .await
            .unwrap_err();
        assert_eq!(error.category(), "oversized", "{error}");
    }
}

#[tokio::test]
async fn a_body_with_a_too_large_content_length_is_refused_at_once() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 4194304\r\n\r\n{";
    let server = Scripted::new(Act::Drip(head.to_owned(), b" ".to_vec())).await;
    let error = detail(&client(&server.endpoint)).await;
    expect_error(&error, "oversized", "its body is larger than 16 KiB");
}

#[tokio::test]
async fn a_wrong_content_length_makes_an_incomplete_answer() {
    for (length, category) in [("9", "undecodable"), ("900", "broken")] {
        let body = r#"{"instance":{"ecsResourceUUID":"ecs-1"}}"#;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        let server = Scripted::new(Act::ReplyAndClose(head)).await;
        let error = detail(&client(&server.endpoint)).await;
        assert_eq!(error.category(), category, "{error}");
    }
}

#[tokio::test]
async fn an_endless_head_is_given_up() {
    let status = "HTTP/1.1 200 OK\r\n";
    let field = format!("x-more: {}\r\n", "x".repeat(1_000));
    for (head, goes_on) in [
        (status.to_owned(), field.as_str()),
        (format!("{status}x: "), "x"),
        (status.to_owned(), "x: y\r\n"),
        // An endless chunk extension.
        (format!("{HEAD}5;"), "x=y;"),
        // Endless trailer fields after the last chunk.
        (format!("{HEAD}0\r\n"), field.as_str()),
    ] {
        let goes_on = goes_on.repeat(100).into_bytes();
        let server = Scripted::new(Act::Pour(head.clone(), goes_on)).await;
        let error = detail(&client(&server.endpoint)).await;
        assert!(!error.is_no_such_instance(), "{head}: {error}");
        assert_eq!(error.category(), "broken", "{head}: {error}");
    }
}

#[tokio::test]
async fn an_answer_sent_byte_by_byte_ends_at_the_deadline() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n";
    for (head, goes_on) in [
        (HEAD, "1\r\n \r\n"),
        (HEAD, ""),
        ("HTTP/1.1 200 OK\r\nx: ", "y"),
        (interim, interim),
    ] {
        let goes_on = goes_on.as_bytes().to_vec();
        let server = Scripted::new(Act::Drip(head.to_owned(), goes_on)).await;
        let client = client(&server.endpoint);
        let call = tokio::spawn(async move { create(&client).await });
        while server.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::pause();
        let error = call.await.unwrap().unwrap_err();
        tokio::time::resume();
        assert_eq!(error.category(), "timeout", "{head}: {error}");
        assert!(error.may_have_happened());
    }
}

#[tokio::test]
async fn endless_informational_answers_end_at_the_deadline() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n";
    let pieces = interim.repeat(500).into_bytes();
    let server = Scripted::new(Act::Pour(String::new(), pieces)).await;
    let client = client(&server.endpoint);
    let call = tokio::spawn(async move { detail(&client).await });
    while server.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    let error = call.await.unwrap();
    assert_eq!(error.category(), "timeout", "{error}");
}

#[tokio::test]
async fn numbers_and_texts_of_any_size_cause_no_panic() {
    let digits = "9".repeat(10_000);
    for value in [
        digits.as_str(),
        &format!("-{digits}.{digits}"),
        "1e999999999",
        "1e-999999999",
        r#""\ud800""#,
        "\u{feff}1",
        "tru",
    ] {
        let body = format!(r#"{{"instance":{{"ecsResourceUUID":"ecs-1","x":{value}}}}}"#);
        let server = Scripted::answering("200 OK", &body).await;
        // The test only requires that the call ends.
        let _ = client(&server.endpoint)
            .detail(CallPriority::Urgent, &id())
            .await;
        let rows = format!(r#"{{"instances":[{{"ecsResourceUUID":"e","x":{value}}}]}}"#);
        let server = Scripted::answering("200 OK", &rows).await;
        let read = |_: &Map<String, Value>| Ok(Some(()));
        let place = Place::new("r", "z");
        let page = client(&server.endpoint)
            .instances_page(CallPriority::Resync, &place, 1, read)
            .await;
        drop(page);
    }
}

#[tokio::test]
async fn a_compressed_body_is_not_unpacked() {
    // Decompressed, these bytes would be an empty text.
    let packed = "\u{1f}\u{8b}\u{8}";
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n{packed}",
        packed.len()
    );
    let server = Scripted::new(Act::Reply(head)).await;
    let client = client(&server.endpoint);
    assert_eq!(detail(&client).await.category(), "undecodable");
    let request = server.requests()[0].to_ascii_lowercase();
    assert!(!request.contains("accept-encoding"), "{request}");
}

#[tokio::test]
async fn an_endless_refusal_is_a_refusal_without_a_reason() {
    let head = HEAD.replace("200 OK", "404 Not Found");
    for goes_on in ["x", "[", " "] {
        let goes_on = chunk(&goes_on.repeat(1_000));
        let server = Scripted::new(Act::Pour(head.clone(), goes_on)).await;
        let error = detail(&client(&server.endpoint)).await;
        assert_eq!(error.category(), "unexpected_status", "{error}");
        assert!(!error.is_no_such_instance());
    }
}

/// Starts calls that get no answer, until they hold all the room that one client may have.
async fn with_silent_calls(client: &Client, server: &Scripted) -> Vec<JoinHandle<Error>> {
    let mut calls = Vec::new();
    while calls.len() < 60 {
        let client = client.clone();
        calls.push(tokio::spawn(async move { detail(&client).await }));
    }
    while server.requests().len() < 10 {
        tokio::task::yield_now().await;
    }
    calls
}

#[tokio::test]
async fn a_call_without_memory_for_its_answer_is_not_sent() {
    let server = Scripted::new(Act::Stall).await;
    let client = client(&server.endpoint);
    let calls = with_silent_calls(&client, &server).await;
    tokio::time::pause();
    let mut not_sent = 0;
    for call in calls {
        let error = call.await.unwrap();
        match error.category() {
            "timeout" => {}
            "not_sent" => {
                assert!(error.to_string().contains("left no memory"), "{error}");
                assert!(!error.may_have_happened());
                not_sent += 1;
            }
            other => panic!("{other}: {error}"),
        }
    }
    // How many calls time out without room depends on how fast the others connect.
    assert!((1..60).contains(&not_sent), "{not_sent} of 60");
}

/// Nothing may come between a recorded intent and its call.
#[tokio::test]
async fn a_mutation_reserves_memory_before_its_permit() {
    let server = Scripted::new(Act::Stall).await;
    let client = client(&server.endpoint);
    let calls = with_silent_calls(&client, &server).await;
    let permit = client.permit(CallPriority::Urgent);
    tokio::pin!(permit);
    assert!(permit.as_mut().now_or_never().is_none());
    for call in calls {
        call.abort();
    }
    let permit = permit.await;
    let sent = server.requests().len();
    let created = tokio::spawn({
        let client = client.clone();
        async move { client.create(permit, &create_request()).await }
    });
    while server.requests().len() == sent {
        tokio::task::yield_now().await;
    }
    created.abort();
}
