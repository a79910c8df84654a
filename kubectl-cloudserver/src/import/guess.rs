//! The properties of a server that the service does not report. Each is derived from the reported properties and the offers, or a
//! flag gives it. A flag is refused if the server or the list of offers contradicts it.

use crate::offers::{Listed, choose};
use cloud_server_operator::catalog::{self, Candidates, Choice};
use cloud_server_operator::cloud::{Detail, Offer, Place};
use serde_json::Value;

/// Unverified facts, for the reader of the manifest.
type Doubts = Vec<String>;

/// The package that matches the server; if several match, the smallest, as for a filter in a spec. A package on sale that a flag
/// names is accepted if CPU and memory match: disk or traffic may have grown since the purchase. A package that is not on sale is
/// accepted only if no package on sale matches, or if the list may be incomplete.
pub(super) fn package(
    listed: &Listed,
    named: Option<&str>,
    detail: &Detail,
    place: &Place,
    doubts: &mut Doubts,
) -> Result<String, String> {
    let (id, region) = (&detail.id, &place.region);
    let alike = listed.rows.iter().filter(|row| is_like(row, detail));
    let mut alike: Vec<&Offer> = alike.collect();
    alike.sort_by(catalog::order);
    let near = Candidates::of(alike.iter().map(|row| (row.id.clone(), None)));
    let remedy = match alike.is_empty() {
        true => format!(
            "no package on sale in {place} matches the server: use --package CODE to name the one that it was bought with \
             (`catalog packages --region {region}` lists those on sale)"
        ),
        false => format!("these match it: {near}: name one with --package, or omit the flag"),
    };
    let Some(code) = named else {
        let smallest = alike.first().map(|row| row.id.clone());
        return smallest.ok_or_else(|| format!("the package of server {id} is unknown: {remedy}"));
    };
    match listed.rows.iter().find(|row| row.id == code) {
        Some(row) if is_like(row, detail) => {}
        Some(row) => match catalog::unlike(row, detail) {
            Some(unlike) => {
                return Err(format!(
                    "--package {code} is not the package of server {id}, which has {unlike}; {remedy}"
                ));
            }
            None => doubts.push(format!(
                "package {code} may not be that of server {id}: they differ in disks, traffic, bandwidth or charge mode"
            )),
        },
        // The list has only packages on sale, and the server may have been bought with one that is no longer sold.
        None if alike.is_empty() || listed.doubt.is_some() => doubts.push(format!(
            "the service does not list package {code} in {place}: whether server {id} was bought with it cannot be checked"
        )),
        None => {
            return Err(format!(
                "--package {code}: the service lists no such package in {place}; {remedy}"
            ));
        }
    }
    Ok(code.to_owned())
}

/// Whether the server matches this package in the properties that both report; a missing data disk counts as none.
fn is_like(row: &Offer, detail: &Detail) -> bool {
    let has = |field: &str| detail.fields.get(field).and_then(Value::as_u64);
    let same = |a: Option<u64>, b: Option<u64>| a.is_none() || b.is_none() || a == b;
    let letters = |text: &str| {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.collect::<String>().to_lowercase()
    };
    let paid = detail.fields.get("internetChargeType");
    let paid = paid.and_then(Value::as_str).map(letters);
    let mode = row.charge_mode.as_deref().map(letters);
    same(row.cpu, has("cpu"))
        && same(row.memory, has("memory"))
        && same(row.system_disk, has("systemDiskSize"))
        && row.data_disk.unwrap_or(0) == has("dataDiskSize").unwrap_or(0)
        && same(row.free_flow, has("freeFlow"))
        && same(row.bandwidth, has("bandwidth"))
        && (paid.is_none() || mode.is_none() || paid == mode)
}

/// The security group: the one that a flag names, or the region's only one; none if the list was read completely and is empty.
pub(super) fn firewall(
    listed: &Listed,
    named: Option<&str>,
    region: &str,
    doubts: &mut Doubts,
) -> Result<Option<String>, String> {
    if let Some(id) = named {
        check("--firewall", "security group", id, listed, doubts)?;
        return Ok(Some(id.to_owned()));
    }
    match (listed.rows.as_slice(), listed.doubt) {
        ([Offer { id: only, .. }], doubt) => {
            doubts.extend(doubt.map(|why| {
                format!("security group {only} may not be the only one in region {region}, since the list may be incomplete: {why}")
            }));
            Ok(Some(only.clone()))
        }
        ([], None) => Ok(None),
        ([], Some(_)) => Err(format!(
            "no security group of region {region} could be read: name the server's with --firewall ID"
        )),
        _ => Err(format!(
            "the service does not report the security group of a server, and region {region} has several ({}): name the \
             server's with --firewall, or write the manifest without spec.firewall if the server has none",
            Candidates::of(listed.rows.iter().map(Offer::named))
        )),
    }
}

/// Checks that the service lists the identifier that a flag names. If the list may be incomplete, a missing one is only a doubt.
pub(super) fn check(
    flag: &str,
    what: &str,
    id: &str,
    listed: &Listed,
    doubts: &mut Doubts,
) -> Result<(), String> {
    let all = listed.rows.iter().map(Offer::named).collect();
    match (catalog::exact(all, id), listed.doubt) {
        (Choice::One(_), _) => Ok(()),
        (Choice::Many(_) | Choice::None(_), Some(why)) => {
            doubts.push(format!(
                "{flag} {id}: the list of the service does not show it, but may be incomplete: {why}"
            ));
            Ok(())
        }
        (Choice::Many(near) | Choice::None(near), None) => Err(format!(
            "{flag} {id}: the service lists no such {what}; {}",
            choose(flag, &near)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_server_operator::cloud::{List, ServerId};
    use serde_json::json;

    fn read(row: &Value) -> Offer {
        let packages = List::Packages {
            region: "r".to_owned(),
            zone: None,
        };
        Offer::read(&packages, row.as_object().unwrap()).unwrap()
    }

    #[test]
    fn a_package_is_recognized_by_the_properties_of_the_server() {
        let package = |changes: Value| {
            let mut row = json!({"packageCode": "p", "cpu": 2, "memory": 4, "systemDiskSize": 50,
                "publicIpChargeMode": "PayByTraffic", "freeFlow": 1000});
            for (field, value) in changes.as_object().unwrap() {
                row[field] = value.clone();
            }
            read(&row)
        };
        let fields = json!({"cpu": 2, "memory": 4, "systemDiskSize": 50, "dataDiskSize": 0, "freeFlow": 1000,
            "bandwidth": 30, "internetChargeType": "PAY_BY_TRAFFIC"});
        let detail = Detail {
            id: ServerId::from("ecs-1"),
            fields: fields.as_object().cloned().unwrap(),
        };
        assert!(is_like(&package(json!({})), &detail));
        for other in [
            json!({"cpu": 4}),
            json!({"dataDiskSize": 100}),
            json!({"publicIpChargeMode": "PayByBandwidth"}),
            json!({"freeFlow": 2000}),
        ] {
            assert!(!is_like(&package(other.clone()), &detail), "{other}");
        }
    }

    #[test]
    fn a_named_package_is_accepted_unless_the_server_contradicts_it() {
        let offer = |code: &str, cpu: u64| {
            let row = json!({"packageCode": code, "cpu": cpu, "memory": 2});
            read(&row)
        };
        let listed = |rows: Vec<Offer>| Listed { rows, doubt: None };
        let fields = json!({"cpu": 1, "memory": 2});
        let detail = Detail {
            id: ServerId::from("ecs-1"),
            fields: fields.as_object().cloned().unwrap(),
        };
        let place = Place::new("r", "z");
        let choose = |named: Option<&str>, rows: Vec<Offer>| {
            let mut doubts = Vec::new();
            let chosen = package(&listed(rows), named, &detail, &place, &mut doubts);
            (chosen, doubts.len())
        };
        let all = || vec![offer("small", 1), offer("large", 8)];
        assert_eq!(choose(None, all()), (Ok("small".to_owned()), 0));
        assert_eq!(choose(Some("small"), all()), (Ok("small".to_owned()), 0));
        for (named, word) in [("large", "1 CPU and not 8 CPU"), ("mistyped", "no such")] {
            let (chosen, _) = choose(Some(named), all());
            let why = chosen.unwrap_err();
            for word in ["--package", named, word, "small: name"] {
                assert!(why.contains(word), "{word}: {why}");
            }
        }
        // The server's disk or traffic grew since the purchase: no package matches now, and the named one may be right.
        let grown = |fields: Value| {
            let detail = Detail {
                id: ServerId::from("ecs-1"),
                fields: fields.as_object().cloned().unwrap(),
            };
            let row = json!({"packageCode": "small", "cpu": 1, "memory": 2, "systemDiskSize": 50, "freeFlow": 1000});
            let listed = listed(vec![read(&row)]);
            let mut doubts = Vec::new();
            assert!(package(&listed, None, &detail, &place, &mut doubts).is_err());
            let chosen = package(&listed, Some("small"), &detail, &place, &mut doubts);
            (chosen, doubts)
        };
        for fields in [
            json!({"cpu": 1, "memory": 2, "systemDiskSize": 80, "freeFlow": 1000}),
            json!({"cpu": 1, "memory": 2, "systemDiskSize": 50, "freeFlow": 2000}),
        ] {
            let (chosen, doubts) = grown(fields);
            assert_eq!(chosen, Ok("small".to_owned()));
            assert_eq!(
                doubts,
                [
                    "package small may not be that of server ecs-1: they differ in disks, traffic, bandwidth or charge mode"
                ]
            );
        }
        // The service no longer sells a package like that of the server, so the server may have been bought with the named one.
        let none_like_it = || vec![offer("large", 8)];
        assert!(choose(None, none_like_it()).0.is_err());
        assert!(choose(Some("large"), none_like_it()).0.is_err());
        assert_eq!(
            choose(Some("old"), none_like_it()),
            (Ok("old".to_owned()), 1)
        );
    }

    fn firewalls(all: &[&str], doubt: Option<&'static str>) -> Listed {
        let list = List::Firewalls {
            region: "r".to_owned(),
        };
        let row = |id: &&str| {
            let row = json!({"firewallUUID": id});
            Offer::read(&list, row.as_object().unwrap()).unwrap()
        };
        let rows = all.iter().map(row).collect();
        Listed { rows, doubt }
    }

    #[test]
    fn the_only_security_group_of_a_list_that_may_lack_some_comes_with_a_doubt() {
        let choose = |all: &[&str], doubt: Option<&'static str>| {
            let mut doubts = Vec::new();
            let chosen = firewall(&firewalls(all, doubt), None, "r", &mut doubts);
            (chosen.ok(), doubts.len())
        };
        let it = Some(Some("fw-1".to_owned()));
        assert_eq!(choose(&["fw-1"], None), (it.clone(), 0));
        assert_eq!(choose(&["fw-1"], Some("moved")), (it, 1));
        assert_eq!(choose(&["fw-1", "fw-2"], None), (None, 0));
        assert_eq!(choose(&[], Some("moved")), (None, 0));
    }

    #[test]
    fn a_region_without_security_groups_makes_a_manifest_without_one() {
        let chosen = firewall(&firewalls(&[], None), None, "r", &mut Vec::new());
        assert_eq!(chosen, Ok(None));
    }

    #[test]
    fn an_identifier_that_a_complete_list_lacks_is_refused_with_the_listed_ones() {
        let choose = |id: &str, all: &[&str], doubt: Option<&'static str>| {
            let mut doubts = Vec::new();
            let chosen = firewall(&firewalls(all, doubt), Some(id), "r", &mut doubts);
            (chosen, doubts.len())
        };
        let named = |id: &str| Ok(Some(id.to_owned()));
        assert_eq!(choose("fw-1", &["fw-1"], None), (named("fw-1"), 0));
        let why = choose("fw-9", &["fw-1"], None).0.unwrap_err();
        assert!(
            why.contains("--firewall fw-9") && why.contains("fw-1:"),
            "{why}"
        );
        assert!(choose("fw-9", &[], None).0.is_err());
        // The missing group may be in the part of the list that could not be read.
        let unread = Some("moved");
        assert_eq!(choose("fw-9", &["fw-1"], unread), (named("fw-9"), 1));
    }
}
