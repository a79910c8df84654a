use super::*;
use crate::api::ImageKind;
use crate::cloud::List;
use serde_json::{Value, json};

fn read(list: &List, row: &Value) -> Offer {
    Offer::read(list, row.as_object().unwrap()).unwrap()
}

fn packages() -> List {
    List::Packages {
        region: "r".to_owned(),
        zone: None,
    }
}

fn images_of_region() -> List {
    List::Images {
        region: "r".to_owned(),
    }
}

fn size(code: &str, cpu: u32, memory: u32, data: Option<u32>, mode: &str, flow: u32) -> Offer {
    let field = if mode == "PayByTraffic" {
        "freeFlow"
    } else {
        "bandwidth"
    };
    let mut row = json!({"packageCode": code, "cpu": cpu, "memory": memory, "systemDiskSize": 40,
        "publicIpChargeMode": mode, field: flow});
    if let Some(data) = data {
        row["dataDiskSize"] = json!(data);
    }
    read(&packages(), &row)
}

fn sizes() -> Vec<Offer> {
    vec![
        size("big", 8, 16, None, "PayByTraffic", 1000),
        size("b20", 2, 4, None, "PayByBandwidth", 20),
        size("b10", 2, 4, None, "PayByBandwidth", 10),
        size("t9", 2, 4, None, "PayByTraffic", 9),
        size("t9-too", 2, 4, None, "PayByTraffic", 9),
        size("data", 2, 4, Some(100), "PayByBandwidth", 10),
        size("memory", 2, 8, None, "PayByTraffic", 1),
        size("small", 1, 2, None, "PayByTraffic", 1),
    ]
}

fn picked(filter: &PackageRef) -> String {
    let mut rows = sizes();
    let Choice::One(there) = package(&rows, filter) else {
        panic!("nothing fits {filter:?}")
    };
    rows.reverse();
    assert_eq!(
        package(&rows, filter),
        Choice::One(there.clone()),
        "the service's order does not matter"
    );
    there
}

#[test]
fn the_smallest_package_that_fits_is_chosen_in_a_total_order() {
    let filter = PackageRef::default();
    let of = |cpu, memory| PackageRef {
        cpu: Some(cpu),
        memory: Some(memory),
        ..filter.clone()
    };
    assert_eq!(picked(&of(1, 1)), "small");
    assert_eq!(
        picked(&of(2, 3)),
        "b10",
        "mode by name, then what comes with it"
    );
    assert_eq!(picked(&of(2, 5)), "memory");
    assert_eq!(picked(&of(3, 1)), "big");
    let traffic = PackageRef {
        charge_mode: Some(ChargeMode::PayByTraffic),
        ..of(2, 4)
    };
    assert_eq!(picked(&traffic), "t9", "the code decides between equals");
    let data = PackageRef {
        data_disk: Some(50),
        ..filter.clone()
    };
    assert_eq!(picked(&data), "data");
}

#[test]
fn a_package_without_a_size_does_not_match_a_size_filter() {
    let without_cpu = read(&packages(), &json!({"packageCode": "small", "memory": 4}));
    let filter = PackageRef {
        cpu: Some(1),
        ..PackageRef::default()
    };
    assert!(matches!(package(&[without_cpu], &filter), Choice::None(_)));
}

#[test]
fn a_filter_that_no_package_satisfies_names_the_largest() {
    let filter = PackageRef {
        cpu: Some(64),
        ..PackageRef::default()
    };
    let Choice::None(near) = package(&sizes(), &filter) else {
        panic!("something fits")
    };
    assert!(near.to_string().starts_with("big, memory"), "{near}");
}

fn images() -> Vec<Offer> {
    [
        ("img-1", "Ubuntu 24.04 LTS", "Ubuntu", "System"),
        ("img-2", "Ubuntu 22.04 LTS", "Ubuntu", "System"),
        ("img-3", "Debian 12", "Debian", "System"),
        ("img-4", "Debian 12", "Debian", "Self"),
    ]
    .iter()
    .map(|(id, name, distribution, kind)| {
        read(
            &images_of_region(),
            &json!({"imageResourceUUID": id, "imageName": name, "osDistroVersion": distribution,
            "imageType": kind}),
        )
    })
    .collect()
}

fn named(name: &str) -> ImageRef {
    ImageRef {
        name: Some(name.into()),
        ..ImageRef::default()
    }
}

#[test]
fn an_image_is_chosen_only_if_exactly_one_matches() {
    let rows = images();
    assert_eq!(
        image(&rows, &named("Ubuntu 24.04 LTS"), &[]),
        Choice::One("img-1".into())
    );
    let own = ImageRef {
        kind: Some(ImageKind::Own),
        ..named("Debian 12")
    };
    assert_eq!(image(&rows, &own, &[]), Choice::One("img-4".into()));
    let Choice::Many(several) = image(&rows, &named("Debian 12"), &[]) else {
        panic!("two images have this name")
    };
    assert_eq!(
        several.to_string(),
        "img-3 (Debian 12), img-4 (Debian 12, Self)"
    );
    let Choice::None(near) = image(&rows, &named("ubuntu 24.04"), &[]) else {
        panic!("names are exact")
    };
    assert!(
        near.to_string()
            .starts_with("img-1 (Ubuntu 24.04 LTS), img-2 (Ubuntu 22.04 LTS)"),
        "the nearest first: {near}"
    );
}

#[test]
fn an_image_that_the_server_already_has_is_chosen_among_several() {
    let rows = images();
    assert_eq!(
        image(&rows, &named("Debian 12"), &["img-4".to_owned()]),
        Choice::One("img-4".into())
    );
    assert!(
        matches!(
            image(&rows, &named("Debian 12"), &["img-1".to_owned()]),
            Choice::Many(_)
        ),
        "but not if it has another image"
    );
}

#[test]
fn at_most_four_candidates_are_named_and_long_names_are_cut() {
    let all = (0..30).map(|n| (format!("fw-{n:02}"), Some("w".repeat(200))));
    let Choice::None(near) = by_name(all.collect(), "web", &[]) else {
        panic!("none has this name")
    };
    let text = near.to_string();
    assert_eq!(text.matches("fw-").count(), 4);
    assert!(text.ends_with(" and others") && text.len() < 800, "{text}");
}

#[test]
fn an_exact_code_wins_over_a_name() {
    let all = [
        ("R1", "Moscow"),
        ("Moscow", "Other"),
        ("R3", "Tokyo"),
        ("R4", "Tokyo"),
    ];
    let all = all.map(|(code, name)| (code.to_owned(), Some(name.to_owned())));
    let region = |text| by_code_or_name(all.to_vec(), text);
    assert_eq!(region("Moscow"), Choice::One("Moscow".into()));
    assert_eq!(region("Other"), Choice::One("Moscow".into()));
    assert!(matches!(region("Tokyo"), Choice::Many(_)));
    assert!(matches!(region("Berlin"), Choice::None(_)));
}

#[test]
fn a_mistyped_code_gets_the_codes_with_a_similar_spelling_as_hints() {
    let all = ["p-c1m2-s40", "p-c8m16-s40", "p-c1m2-s80", "zz"];
    let all = || all.map(|code| (code.to_owned(), None)).to_vec();
    assert_eq!(exact(all(), "zz"), Choice::One("zz".to_owned()));
    let Choice::None(near) = exact(all(), "p-c8m1b-s40") else {
        panic!("it is no listed code");
    };
    assert!(
        near.to_string().starts_with("p-c8m16-s40, p-c1m2-s40"),
        "{near}"
    );
    // A user who gives a name where an identifier is required sees the matching row first.
    let named = [("img-a", "Debian 12"), ("img-z", "Ubuntu 24.04")];
    let named = named.map(|(id, name)| (id.to_owned(), Some(name.to_owned())));
    let Choice::None(near) = exact(named.to_vec(), "ubuntu") else {
        panic!("a name is no identifier");
    };
    assert!(
        near.to_string().starts_with("img-z (Ubuntu 24.04)"),
        "{near}"
    );
}
