//! The peak memory for reading the answers of a hostile service, measured by the allocator. The only test of its process, since
//! the counter belongs to the process.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and cargo shows what a test prints"
)]

use cloud_server_operator::cloud::{
    CallPriority, Carried, Client, Error, Http, Limits, List, Paths, Place, RateLimiter, ServerId,
    TaskId,
};
use peak_alloc::PeakAlloc;
use std::sync::{Arc, Mutex};

#[global_allocator]
static COUNTED: PeakAlloc = PeakAlloc;

const KIBIBYTE: usize = 1024;
const BODY: usize = 4 * KIBIBYTE * KIBIBYTE;

/// A client that gets this as its next answer.
fn client(next: &Arc<Mutex<Vec<u8>>>) -> Client {
    let next = next.clone();
    let carrier = move |_: reqwest::Request| -> futures::future::BoxFuture<'static, _> {
        let body = std::mem::take(&mut *next.lock().unwrap());
        Box::pin(async move {
            // A stream announces no length, so that the body is read.
            let body = futures::stream::iter([Ok::<_, std::io::Error>(body)]);
            Ok(Carried::new(reqwest::Body::wrap_stream(body)))
        })
    };
    let limits = Limits {
        per_second: 10_000.0,
        burst: 1_000,
        concurrent: 100,
    };
    Client::new(
        Http::carried(Arc::new(carrier)),
        "http://service.example",
        "token".into(),
        Paths::default(),
        RateLimiter::new(limits),
    )
    .unwrap()
}

/// Makes a call of this kind. The table below has the field that each kind reads, and its memory limit in KiB.
async fn call(client: &Client, kind: &str) -> Result<(), Error> {
    let priority = CallPriority::Urgent;
    match kind {
        "probe" => client.probe(priority).await,
        "detail" => client
            .detail(priority, &ServerId::from("ecs-1"))
            .await
            .map(drop),
        "task" => client.task(priority, &TaskId::from("t-1")).await.map(drop),
        "instances" => {
            let place = Place::new("r", "z");
            let page = client.instances_page(priority, &place, 1, |_| Ok(Some(())));
            page.await.map(drop)
        }
        "packages" => {
            let region = "r".to_owned();
            let packages = List::Packages { region, zone: None };
            client.offers(priority, &packages, 1).await.map(drop)
        }
        "regions" => client.offers(priority, &List::Regions, 1).await.map(drop),
        "release" => {
            let permit = client.permit(priority).await;
            let id = ServerId::from("ecs-1");
            client.release(permit, &id).await.map(drop)
        }
        other => unreachable!("{other}"),
    }
}

/// Four mebibytes: a begin, a repeated piece, an end.
fn body(begins: &str, piece: &str, ends: &str) -> Vec<u8> {
    let times = (BODY - begins.len() - ends.len()) / piece.len();
    [begins, &piece.repeat(times), ends].concat().into_bytes()
}

#[test]
fn no_answer_takes_more_memory_than_its_kind_may() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let next = Arc::default();
    let client = client(&next);
    for (kind, field, most) in [
        ("probe", "sshKeys", 200),
        ("detail", "instance", 200),
        ("task", "asyncTaskInfo", 200),
        ("release", "asyncTaskInfo", 200),
        ("instances", "instances", 300),
        // These keep up to four thousand rows of one mebibyte in total.
        ("packages", "packages", 3_000),
        ("regions", "regions", 3_000),
    ] {
        let list = format!("{{\"{field}\":[");
        let attacks = [
            // Few JSON texts of 4 MiB take more memory than this one: 400 MiB if it is decoded as a whole.
            body(&list, r#"{"":{"":{"":{}}}},"#, "{}]}"),
            body(&format!("{{\"{field}\":"), r#"{"":"#, ""),
            body(&format!("{{\"{field}\":"), "[", ""),
            body(&list, "0,", "0]}"),
            body(&list, r#""","#, r#"""]}"#),
            body(&format!("{list}{{\"x\":\""), "x", "\"}]}"),
            body(&format!("{list}{{\"x\":["), "{},", "{}]}]}"),
            body(&format!("{list}{{"), r#""a":0,"#, r#""a":0}]}"#),
            body(&list, "9", "]}"),
            body("{", " ", "}"),
            body("{", "\"a\":[{}],", "\"a\":0}"),
            body(
                &list,
                r#"{"packageCode":"p","regionCode":"r","zones":[{"zoneCode":""},{"zoneCode":"z"}]},"#,
                "{}]}",
            ),
        ];
        for (number, attack) in attacks.into_iter().enumerate() {
            let length = attack.len();
            *next.lock().unwrap() = attack;
            COUNTED.reset_peak_usage();
            let before = COUNTED.current_usage();
            let outcome = runtime.block_on(call(&client, kind));
            let took = (COUNTED.peak_usage() - before) / KIBIBYTE;
            assert!(took < most, "{kind} took {took} KiB for attack {number}");
            let error = outcome.unwrap_err();
            let operation = error.operation().as_str();
            let error = error.to_string();
            // Measured before anything is printed, since the buffer for a test's output grows on the same heap.
            let with_error = COUNTED.current_usage() as isize - (before - length) as isize;
            let left = with_error - error.capacity() as isize;
            assert!(left < 4 * KIBIBYTE as isize, "{kind} left {left} bytes");
            println!("{kind}: {took} KiB of {length} bytes for attack {number}: {error}");
            let expected = if kind == "probe" { "keys" } else { kind };
            assert_eq!(operation, expected, "{error}");
        }
    }
}
