//! Identifiers and places end up in the right part of a request, regardless of their characters: they come from users and from
//! the service.

use super::*;
use crate::cloud::CarrierError;
use proptest::prelude::*;
use url::Url;

/// The URLs and bodies of every call that takes a name, with this text as each name.
fn sent(text: &str) -> Vec<(Url, String)> {
    let sent: Arc<Mutex<Vec<(Url, String)>>> = Arc::default();
    let seen = sent.clone();
    let http = Http::carried(Arc::new(move |request| {
        let body = request.body().and_then(reqwest::Body::as_bytes);
        let body = String::from_utf8(body.unwrap_or_default().to_vec()).unwrap();
        seen.lock().unwrap().push((request.url().clone(), body));
        Box::pin(std::future::ready(Err(CarrierError::NotSent)))
    }));
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    runtime.block_on(async {
        let limiter = RateLimiter::new(Limits {
            per_second: 10_000.0,
            burst: 1000,
            concurrent: 100,
        });
        let endpoint = "https://cloud.example/api";
        let client = Client::new(http, endpoint, TOKEN.into(), Paths::default(), limiter).unwrap();
        let (priority, server) = (CallPriority::Urgent, ServerId::from(text));
        let _ = client.detail(priority, &server).await;
        let _ = client.task(priority, &TaskId::from(text)).await;
        let _ = client
            .instances_page(priority, &Place::new(text, text), 1, |_| Ok(Some(())))
            .await;
        let (region, zone) = (text.to_owned(), Some(text.to_owned()));
        let packages = List::Packages { region, zone };
        let region = text.to_owned();
        let (images, firewalls) = (
            List::Images {
                region: region.clone(),
            },
            List::Firewalls { region },
        );
        for list in [packages, images, firewalls] {
            let _ = client.offers(priority, &list, 1).await;
        }
        let _ = client.release(client.permit(priority).await, &server).await;
        let _ = client.start(client.permit(priority).await, &server).await;
    });
    drop(runtime);
    std::mem::take(&mut *sent.lock().unwrap())
}

proptest! {
    #[test]
    fn no_identifier_changes_the_path_or_adds_a_parameter(
        text in r"([-a-z/.?#%&=+;@: 0-9\\]{0,24}|\PC{0,12}|(?s:.){0,6})",
    ) {
        let plain: Vec<(Url, String)> = sent("plain");
        let hostile = sent(&text);
        prop_assert_eq!(plain.len(), 8);
        prop_assert_eq!(plain.len(), hostile.len());
        for ((plain, plain_body), (url, body)) in plain.iter().zip(&hostile) {
            prop_assert_eq!(url.origin(), plain.origin());
            prop_assert_eq!(url.path(), plain.path());
            prop_assert_eq!(url.fragment(), None);
            let expected: Vec<(String, String)> = plain
                .query_pairs()
                .map(|(key, value)| (key.into_owned(), value.replace("plain", &text)))
                .collect();
            let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            prop_assert_eq!(pairs, expected);
            if !plain_body.is_empty() {
                let expected: Value = serde_json::from_str(plain_body).unwrap();
                let sent: Value = serde_json::from_str(body).unwrap();
                prop_assert_eq!(&sent["ecsResourceUUID"], &json!(text));
                let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
                prop_assert_eq!(keys(&sent), keys(&expected));
            }
        }
    }
}
