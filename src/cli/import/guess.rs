//! What the service does not tell of a server, as far as it can be told by what it tells.

use super::super::unreadable;
use super::{ImportArgs, Placed, SHOWN};
use crate::api::printable;
use crate::catalog;
use crate::cloud::{Client, Detail, Firewall, Lane, Package};
use serde_json::Value;

/// The package that is like the server; of several the smallest, as a filter would have it.
pub(super) async fn package(
    args: &ImportArgs,
    client: &Client,
    detail: &Detail,
    place: &Placed,
) -> Result<String, String> {
    if let Some(code) = &args.package {
        return Ok(code.clone());
    }
    let listed = client
        .packages(Lane::Urgent, &place.region, Some(&place.zone))
        .await;
    let listed = listed.map_err(|error| unreadable(client, "packages", error))?;
    let alike = listed.rows.iter().filter(|row| is_like(row, detail));
    let found = alike.min_by(catalog::order);
    found.map(|row| row.code.clone()).ok_or_else(|| {
        format!(
            "no package on sale in {}/{} is like server {}: name the one that it was bought with, with --package CODE \
             (`catalog packages --region {}` lists those on sale)",
            place.region, place.zone, detail.id, place.region
        )
    })
}

/// Whether a server of this package would look like this one, as far as both tell.
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

/// The security group: the one that was named, or the only one.
pub(super) async fn firewall(
    args: &ImportArgs,
    client: &Client,
    place: &Placed,
) -> Result<String, String> {
    if let Some(id) = &args.firewall {
        return Ok(id.clone());
    }
    let read = |page| client.firewalls_page(Lane::Urgent, &place.region, page);
    let listed = catalog::all::<Firewall, _>(read).await;
    let listed = listed.map_err(|unread| unreadable(client, "security groups", unread))?;
    match listed.rows.as_slice() {
        [only] => Ok(only.id.clone()),
        [] => Err(format!(
            "region {} lists no security group: name the server's with --firewall ID",
            place.region
        )),
        several => {
            let said = several.iter().take(SHOWN).map(|row| match &row.name {
                Some(name) => format!("{} ({})", row.id, printable(name)),
                None => row.id.clone(),
            });
            let said = said.collect::<Vec<_>>().join(", ");
            let more = if several.len() > SHOWN {
                " and others"
            } else {
                ""
            };
            Err(format!(
                "the service does not tell the security group of a server, and region {} has several: name the server's with \
                 --firewall: {said}{more}",
                place.region
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{Offer, ServerId};
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
}
