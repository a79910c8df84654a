//! Listings that differ from the true state.

use super::common::text;
use super::{rows, running};
use cloud_simulator::catalogue;
use cloud_simulator::faults::{Act, Listing, Rule};
use serde_json::json;

#[tokio::test]
async fn listings_are_stale_empty_shrunk_repeated_or_foreign() {
    let (sim, caller) = running().await;
    sim.add_account("other", "other-token").unwrap();
    caller.create("web-1").await;
    caller.create("web-2").await;
    let (foreign, _) = caller.with_token("other-token").create("not-ours").await;
    let list = "/instance/list";
    let once = |listing| Rule::on(list, Act::Listing(listing)).times(1);

    sim.fault(once(Listing::Empty));
    assert_eq!(rows(&caller).await["instances"], json!([]));
    sim.fault(once(Listing::Shrunk { by: 1 }));
    let shrunk = rows(&caller).await;
    assert_eq!(
        (
            shrunk["instances"].as_array().unwrap().len(),
            &shrunk["rowCount"]
        ),
        (1, &json!(2))
    );
    sim.fault(once(Listing::Repeated));
    assert_eq!(
        rows(&caller).await["instances"].as_array().unwrap().len(),
        4
    );
    sim.fault(once(Listing::Foreign {
        account: "other".to_owned(),
    }));
    let other = rows(&caller).await;
    assert_eq!(text(&other["instances"][0]["ecsResourceUUID"]), foreign);
    sim.fault(once(Listing::FirstPageForEver));
    let known = catalogue::example();
    let query = [
        ("regionCode", known.region),
        ("zoneCode", known.zone),
        ("page", "9"),
    ];
    assert_eq!(
        caller.get(list, &query).await.body["instances"]
            .as_array()
            .unwrap()
            .len(),
        2
    );

    let stale = sim.fault(Rule::on(list, Act::Stale));
    caller.create("web-3").await;
    assert_eq!(
        rows(&caller).await["instances"].as_array().unwrap().len(),
        2
    );
    sim.faults().remove(stale);
    assert_eq!(
        rows(&caller).await["instances"].as_array().unwrap().len(),
        3
    );
}

#[tokio::test]
async fn pages_are_skipped_or_doubled_and_rows_miscounted() {
    let (sim, caller) = running().await;
    for number in 0..3 {
        caller.create(&format!("web-{number}")).await;
    }
    let known = catalogue::example();
    let names = async |page: &str| {
        let query = [
            ("regionCode", known.region),
            ("zoneCode", known.zone),
            ("page", page),
            ("pageSize", "1"),
        ];
        let body = caller.get("/instance/list", &query).await.body;
        let rows = body["instances"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| text(&row["instanceName"]))
            .collect::<Vec<_>>()
    };
    let rule = |listing| Rule::on("/instance/list", Act::Listing(listing));
    let id = sim.fault(rule(Listing::SkippedPage { page: 2 }));
    assert_eq!(
        [names("1").await, names("2").await, names("3").await],
        [vec!["web-2"], vec!["web-0"], vec![]]
    );
    sim.faults().remove(id);
    let id = sim.fault(rule(Listing::DoubledPage { page: 1 }));
    assert_eq!(
        [names("1").await, names("2").await, names("4").await],
        [["web-2"], ["web-2"], ["web-0"]]
    );
    sim.faults().remove(id);
    sim.fault(rule(Listing::WrongCount { count: 7 }));
    let body = rows(&caller).await;
    assert_eq!(
        (
            &body["rowCount"],
            body["instances"].as_array().unwrap().len()
        ),
        (&json!(7), 3)
    );
}
