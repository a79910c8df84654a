//! The properties that the service does not report of a server. They are derived from the reported ones, or a flag states them and
//! is accepted unless a reported property contradicts it.

use super::super::unreadable;
use super::{ImportArgs, Placed};
use cloud_server_operator::catalog::{self, Candidates, Choice, Unread};
use cloud_server_operator::cloud::{
    CallPriority, Client, Detail, Firewall, Key, Offer, Offers, Package,
};
use serde_json::Value;

/// Unverified facts, for the reader of the manifest.
pub(super) type Doubts = Vec<String>;

/// The package that matches the server; of several the smallest, as with a filter. A package that a flag names is accepted if CPU and
/// memory match: disk or traffic may have grown since the purchase.
pub(super) async fn package(
    args: &ImportArgs,
    client: &Client,
    detail: &Detail,
    place: &Placed,
    doubts: &mut Doubts,
) -> Result<String, String> {
    let Placed { region, zone, .. } = place;
    let listed = client
        .packages(CallPriority::Urgent, region, Some(zone))
        .await;
    let listed = listed.map_err(|error| unreadable(client, "packages", error))?;
    sold(args.package.as_deref(), &listed, detail, place, doubts)
}

/// See [`package`].
fn sold(
    asked: Option<&str>,
    listed: &Offers<Package>,
    detail: &Detail,
    place: &Placed,
    doubts: &mut Doubts,
) -> Result<String, String> {
    let Placed { region, zone, .. } = place;
    let mut alike: Vec<&Package> = listed.rows.iter().collect();
    alike.retain(|row| is_like(row, detail));
    alike.sort_by(catalog::order);
    let near = Candidates::of(alike.iter().map(|row| (row.code.clone(), None)));
    let id = &detail.id;
    let remedy = match near.is_empty() {
        true => format!(
            "No package on sale is like server {id}: name the one that it was bought with (`catalog packages --region {region}` lists those \
             on sale)"
        ),
        false => {
            format!("Like server {id}: {near}: name one of these with --package, or leave it out")
        }
    };
    let Some(code) = asked else {
        let smallest = alike.first().map(|row| row.code.clone());
        return smallest.ok_or_else(|| {
            format!(
                "no package on sale in {region}/{zone} is like server {id}: name the one that it was bought with, with \
                 --package CODE (`catalog packages --region {region}` lists those on sale)"
            )
        });
    };
    let named = listed.rows.iter().find(|row| row.code == code);
    match named {
        Some(row) if is_like(row, detail) => Ok(code.to_owned()),
        Some(row) => match catalog::unlike(row, detail) {
            Some(unlike) => Err(format!(
                "--package {code} is not the package of that server: server {id} has {unlike}. {remedy}"
            )),
            None => {
                doubts.push(format!(
                    "package {code} has other disks or traffic than server {id}: whether it was bought with it cannot be checked"
                ));
                Ok(code.to_owned())
            }
        },
        // A package that is no longer sold leaves the list; the server may be from that time.
        None if near.is_empty() || listed.unreadable > 0 => {
            doubts.push(format!(
                "package {code} is not on sale in {region}/{zone}, and no package on sale looks like the server: whether it \
                 was bought with it cannot be checked"
            ));
            Ok(code.to_owned())
        }
        None => Err(format!(
            "--package {code}: the service lists no such package in {region}/{zone}. {remedy}"
        )),
    }
}

/// Whether a server of this package would match this one, in the properties that both report.
fn is_like(row: &Package, detail: &Detail) -> bool {
    let has = |field: &str| detail.fields.get(field).and_then(Value::as_u64);
    let same = |told: Option<u64>, has: Option<u64>| told.is_none() || has.is_none() || told == has;
    let letters = |text: &str| {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.collect::<String>().to_lowercase()
    };
    let paid = detail
        .fields
        .get("internetChargeType")
        .and_then(Value::as_str);
    let is_paid_like_it = match (paid, row.charge_mode.as_deref()) {
        (Some(paid), Some(mode)) => letters(paid) == letters(mode),
        _ => true,
    };
    same(row.cpu, has("cpu"))
        && same(row.memory, has("memory"))
        && same(row.system_disk, has("systemDiskSize"))
        && row.data_disk.unwrap_or(0) == has("dataDiskSize").unwrap_or(0)
        && same(row.free_flow, has("freeFlow"))
        && (row.bandwidth.is_none() || same(row.bandwidth, has("bandwidth")))
        && is_paid_like_it
}

/// The security group: the one that a flag names, or the region's only one; none if the region has none.
pub(super) async fn firewall(
    args: &ImportArgs,
    client: &Client,
    place: &Placed,
    doubts: &mut Doubts,
) -> Result<Option<String>, String> {
    let Placed { region, .. } = place;
    let read = |page| client.firewalls_page(CallPriority::Urgent, region, page);
    let said = |row: &Firewall| (row.id.clone(), row.name.clone());
    let (all, doubt) = listed(read, said)
        .await
        .map_err(|unread| unreadable(client, "security groups", unread))?;
    if let Some(id) = &args.firewall {
        let what = format!("security group in {region}");
        return named("--firewall", &what, id, all, doubt, doubts).map(Some);
    }
    only(region, all, doubt, doubts)
}

/// The region's only security group; none if the list was read completely and is empty.
fn only(
    region: &str,
    all: Rows,
    doubt: Option<&str>,
    doubts: &mut Doubts,
) -> Result<Option<String>, String> {
    match all.as_slice() {
        [(only, _)] => {
            doubts.extend(doubt.map(|why| {
                format!(
                    "security group {only} is the only one that could be read in region {region}; whether there are others could not be \
                     found out: {why}"
                )
            }));
            Ok(Some(only.clone()))
        }
        [] if doubt.is_none() => Ok(None),
        [] => Err(format!(
            "no security group of region {region} could be read: name the server's with --firewall ID"
        )),
        _ => Err(format!(
            "the service does not report the security group of a server, and region {region} has several: name the server's \
             with --firewall, or write the manifest without spec.firewall if the server has none: {}",
            Candidates::of(all)
        )),
    }
}

/// Checks the key pair that a flag names, if any.
pub(super) async fn key(
    args: &ImportArgs,
    client: &Client,
    doubts: &mut Doubts,
) -> Result<(), String> {
    let Some(id) = &args.ssh_key else {
        return Ok(());
    };
    let read = |page| client.keys_page(CallPriority::Urgent, page);
    let (all, doubt) = listed(read, |row: &Key| (row.id.clone(), row.name.clone()))
        .await
        .map_err(|unread| unreadable(client, "key pairs", unread))?;
    named("--ssh-key", "key pair", id, all, doubt, doubts).map(|_| ())
}

/// Identifiers and names.
type Rows = Vec<(String, Option<String>)>;

/// All rows of a list, and the reason if some may be missing.
async fn listed<T: Offer, F>(
    read: impl Fn(u32) -> F,
    said: impl Fn(&T) -> (String, Option<String>),
) -> Result<(Rows, Option<&'static str>), Unread>
where
    F: Future<Output = Result<Offers<T>, cloud_server_operator::cloud::Error>>,
{
    let list = catalog::all(read).await?;
    Ok((list.rows.iter().map(said).collect(), list.doubt()))
}

/// The identifier that a flag names, if the service lists it.
fn named(
    flag: &str,
    what: &str,
    id: &str,
    all: Rows,
    doubt: Option<&str>,
    doubts: &mut Doubts,
) -> Result<String, String> {
    match (catalog::exact(all, id), doubt) {
        (Choice::One(id), _) => Ok(id),
        (Choice::Many(_) | Choice::None(_), Some(why)) => {
            doubts.push(format!(
                "{flag} {id}: it is unknown whether the service has it: {why}"
            ));
            Ok(id.to_owned())
        }
        (Choice::Many(near) | Choice::None(near), None) => Err(match near.is_empty() {
            true => format!("{flag} {id}: the service lists no {what}: leave {flag} out"),
            false => format!(
                "{flag} {id}: the service lists no such {what}; it lists {near}: name one of these with {flag}"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_server_operator::cloud::{Offer, ServerId};
    use serde_json::json;

    #[test]
    fn a_package_is_told_by_what_the_server_shows() {
        let package = |changes: Value| {
            let mut row = json!({"packageCode": "p", "cpu": 2, "memory": 4, "systemDiskSize": 50,
                "publicIpChargeMode": "PayByTraffic", "freeFlow": 1000});
            for (field, value) in changes.as_object().unwrap() {
                row[field] = value.clone();
            }
            Package::read(row.as_object().unwrap()).unwrap()
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
    fn a_package_that_was_named_is_believed_only_where_nothing_contradicts_it() {
        let package = |code: &str, cpu: u64| {
            let row = json!({"packageCode": code, "cpu": cpu, "memory": 2});
            Package::read(row.as_object().unwrap()).unwrap()
        };
        let listed = |rows: Vec<Package>| Offers {
            rows,
            unreadable: 0,
            row_count: None,
            charge: None,
        };
        let fields = json!({"cpu": 1, "memory": 2});
        let detail = Detail {
            id: ServerId::from("ecs-1"),
            fields: fields.as_object().cloned().unwrap(),
        };
        let place = Placed {
            region: "r".to_owned(),
            zone: "z".to_owned(),
            image: "i".to_owned(),
        };
        let choose = |asked: Option<&str>, rows: Vec<Package>| {
            let mut doubts = Vec::new();
            let chosen = sold(asked, &listed(rows), &detail, &place, &mut doubts);
            (chosen, doubts.len())
        };
        let all = || vec![package("small", 1), package("large", 8)];
        assert_eq!(choose(None, all()), (Ok("small".to_owned()), 0));
        assert_eq!(choose(Some("small"), all()), (Ok("small".to_owned()), 0));
        for (asked, word) in [("large", "1 CPU and not 8 CPU"), ("mistyped", "no such")] {
            let (chosen, _) = choose(Some(asked), all());
            let why = chosen.unwrap_err();
            for word in ["--package", asked, word, "small: name"] {
                assert!(why.contains(word), "{word}: {why}");
            }
        }
        // Its disk or its traffic grew since it was bought: no package is like it any more, and the one that was named may be it.
        let grown = |fields: Value| {
            let detail = Detail {
                id: ServerId::from("ecs-1"),
                fields: fields.as_object().cloned().unwrap(),
            };
            let row = json!({"packageCode": "small", "cpu": 1, "memory": 2, "systemDiskSize": 50, "freeFlow": 1000});
            let listed = listed(vec![Package::read(row.as_object().unwrap()).unwrap()]);
            let mut doubts = Vec::new();
            assert!(sold(None, &listed, &detail, &place, &mut doubts).is_err());
            let chosen = sold(Some("small"), &listed, &detail, &place, &mut doubts);
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
                    "package small has other disks or traffic than server ecs-1: whether it was bought with it cannot be checked"
                ]
            );
        }
        // The service no longer sells a package like that of the server, so the server may have been bought with the named one.
        let none_like_it = || vec![package("large", 8)];
        assert!(choose(None, none_like_it()).0.is_err());
        assert!(choose(Some("large"), none_like_it()).0.is_err());
        assert_eq!(
            choose(Some("old"), none_like_it()),
            (Ok("old".to_owned()), 1)
        );
    }

    #[test]
    fn the_only_security_group_of_a_list_that_may_lack_some_comes_with_a_doubt() {
        let choose = |all: &[&str], doubt: Option<&str>| {
            let all = all.iter().map(|id| ((*id).to_owned(), None)).collect();
            let mut doubts = Vec::new();
            let chosen = only("r", all, doubt, &mut doubts);
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
        assert_eq!(only("r", Vec::new(), None, &mut Vec::new()), Ok(None));
    }

    #[test]
    fn what_a_flag_names_and_a_whole_list_does_not_have_is_told_with_what_there_is() {
        let choose = |id: &str, all: &[&str], doubt: Option<&str>| {
            let all = all.iter().map(|id| ((*id).to_owned(), None)).collect();
            let mut doubts = Vec::new();
            let chosen = named("--firewall", "security group", id, all, doubt, &mut doubts);
            (chosen, doubts.len())
        };
        assert_eq!(choose("fw-1", &["fw-1"], None), (Ok("fw-1".to_owned()), 0));
        let why = choose("fw-9", &["fw-1"], None).0.unwrap_err();
        assert!(
            why.contains("--firewall fw-9") && why.contains("fw-1:"),
            "{why}"
        );
        assert!(choose("fw-9", &[], None).0.is_err());
        // The missing group may be in the part of the list that could not be read.
        assert_eq!(
            choose("fw-9", &["fw-1"], Some("moved")),
            (Ok("fw-9".to_owned()), 1)
        );
    }
}
