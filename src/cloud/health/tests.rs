use super::super::error::Fault;
use super::super::error::TransportError;
use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const S: Duration = Duration::from_secs(1);

fn error(operation: CloudCall, fault: Fault) -> Error {
    Error {
        operation,
        path: "/x".into(),
        fault,
    }
}

fn not_sent() -> Error {
    let fault = Fault::NotSent(TransportError::Carrier);
    error(CloudCall::Task, fault)
}

fn refused(operation: CloudCall, status: u16, code: &str) -> Error {
    let refusal = super::super::error::Envelope {
        status: None,
        code: Some(code.to_owned()),
        message: None,
        missing: false,
    };
    let fault = Fault::Answered {
        status,
        refusal: Some(refusal),
        retry_after: None,
    };
    error(operation, fault)
}

/// A tracker, and a counter of its doubts about the service.
fn counting() -> (Health, Arc<AtomicUsize>) {
    let (health, doubts) = (Health::default(), Arc::<AtomicUsize>::default());
    let counted = doubts.clone();
    health.on_doubt(move |doubt| {
        counted.fetch_add(usize::from(doubt == Doubt::Service), Ordering::SeqCst);
    });
    (health, doubts)
}

#[tokio::test(start_paused = true)]
async fn the_first_failed_call_begins_a_doubt_and_the_next_answer_ends_it() {
    let (health, doubts) = counting();
    let began = Instant::now();
    for _ in 0..3 {
        health.ended(CloudCall::Task, Instant::now(), Some(&not_sent()));
        tokio::time::advance(S).await;
    }
    assert_eq!(health.trouble().unwrap().since, began, "it does not move");
    assert_eq!(doubts.load(Ordering::SeqCst), 1);
    // A readable refusal is an answer.
    let busy = refused(CloudCall::Stop, 409, "Busy");
    health.ended(CloudCall::Stop, Instant::now(), Some(&busy));
    assert_eq!(health.trouble(), None);
    health.ended(CloudCall::Task, Instant::now(), Some(&not_sent()));
    assert_eq!(doubts.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_call_begins_a_doubt_long_before_its_deadline() {
    let (health, doubts) = counting();
    let began = Instant::now();
    let waits = health.watch(tokio::time::sleep(30 * S));
    let watched = async {
        tokio::time::sleep(times::DOUBTED_UNANSWERED_AFTER - S).await;
        assert_eq!(health.trouble(), None);
        // Other calls are answered meanwhile: the trouble begins only after them.
        health.ended(CloudCall::Task, began, None);
        tokio::time::sleep(2 * S).await;
        assert_eq!(
            health.trouble().unwrap().since,
            began + times::DOUBTED_UNANSWERED_AFTER - S
        );
    };
    tokio::join!(waits, watched);
    assert_eq!(began.elapsed(), 30 * S, "the call continues");
    assert_eq!(doubts.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn only_an_unreachable_service_and_a_5xx_are_an_outage() {
    for (error, outage) in [
        (not_sent(), true),
        (refused(CloudCall::Task, 503, "Maintenance"), true),
        (refused(CloudCall::Task, 429, "TooMany"), false),
        (refused(CloudCall::Task, 401, "Authenticated.Token"), false),
        (refused(CloudCall::Task, 404, "NotFound"), false),
        (
            error(
                CloudCall::Task,
                Fault::NotSent(TransportError::NoAnswerMemory),
            ),
            false,
        ),
    ] {
        let (health, _) = counting();
        health.ended(CloudCall::Task, Instant::now(), Some(&error));
        assert_eq!(health.trouble().is_some(), outage, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abnormal_account_stays_abnormal_until_a_create_succeeds() {
    let (health, _) = counting();
    let now = Instant::now();
    let arrears = refused(CloudCall::Create, 403, "AccountStatus.Abnormal");
    health.ended(CloudCall::Create, now, Some(&arrears));
    health.ended(CloudCall::Release, now, None);
    health.ended(CloudCall::Keys, now, None);
    let AccountHealth::Abnormal(abnormal) = health.account() else {
        panic!("the account is abnormal");
    };
    assert_eq!(abnormal.operation, CloudCall::Create);
    assert!(abnormal.message.contains("AccountStatus.Abnormal"));
    health.ended(CloudCall::Create, now, None);
    assert_eq!(health.account(), AccountHealth::Normal);
}
