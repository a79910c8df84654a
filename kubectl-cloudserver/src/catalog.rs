//! `catalog`: the offers of the service, as tables for people and as JSON or YAML for programs.

use super::completion::values;
use super::output::{Column, Output, note, print, render};
use super::progress::Progress;
use super::servers::{Within, region_code};
use super::service::ServiceArgs;
use super::{asked, unreadable};
use clap::{Args, Subcommand};
use cloud_server_operator::api::PackageRef;
use cloud_server_operator::catalog::{self, Candidates, Catalog, Choice, Listing, Looked};
use cloud_server_operator::cloud::{CallPriority, Client, Firewall, Offer, Region};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

/// Flags of `catalog`.
#[derive(Debug, Args)]
pub(super) struct CatalogArgs {
    #[command(flatten)]
    service: ServiceArgs,

    /// How it is printed.
    #[arg(short, long, global = true, value_enum, default_value_t)]
    output: Output,

    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Regions and their zones. A sold-out region may be missing.
    Regions(Named),
    /// Packages, the smallest first: a filter in spec.package selects the first that fits.
    Packages(Packages),
    /// Images.
    Images(Images),
    /// Security groups.
    Firewalls(InRegion),
    /// Key pairs.
    Keys(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// Only rows with this text in their name.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

#[derive(Debug, Args)]
struct InRegion {
    /// Only this region, by code or name.
    #[arg(long, value_name = "REGION", add = values::regions())]
    region: Option<String>,

    #[command(flatten)]
    named: Named,
}

#[derive(Debug, Args)]
struct Images {
    #[command(flatten)]
    within: InRegion,

    /// Only images of this type.
    #[arg(long = "type", value_parser = ["System", "Self", "Application"], ignore_case = true, value_name = "TYPE")]
    kind: Option<String>,

    /// Only images of this distribution (osDistroVersion).
    #[arg(long, value_name = "TEXT")]
    distribution: Option<String>,
}

#[derive(Debug, Args)]
struct Packages {
    #[command(flatten)]
    within: Within,

    /// Minimum of CPUs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    cpu: Option<i32>,

    /// Minimum of memory, in GiB.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(i32).range(1..))]
    memory: Option<i32>,

    /// Minimum size of the system disk, in GiB.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(i32).range(1..))]
    system_disk: Option<i32>,

    /// Minimum size of the data disk, in GiB.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(i32).range(1..))]
    data_disk: Option<i32>,

    /// Only packages with this charge mode.
    #[arg(long, value_parser = ["PayByTraffic", "PayByBandwidth"], ignore_case = true, value_name = "MODE")]
    charge_mode: Option<String>,
}

const REGIONS: [Column; 4] = [
    Column::text("REGION", "regionCode"),
    Column::text("NAME", "regionName"),
    Column::text("ZONE", "zoneCode"),
    Column::text("ZONE NAME", "zoneName"),
];

const PACKAGES: [Column; 10] = [
    Column::text("CODE", "packageCode"),
    Column::text("CPU", "cpu"),
    Column::text("MEMORY", "memory"),
    Column::text("SYSTEM DISK", "systemDiskSize"),
    Column::text("DATA DISK", "dataDiskSize"),
    Column::text("CHARGE MODE", "publicIpChargeMode"),
    Column::text("BANDWIDTH", "bandwidth").wide(),
    Column::text("FREE FLOW", "freeFlow").wide(),
    Column::text("REGION", "regionCode").telling(),
    Column::text("ZONE", "zoneCode").telling(),
];

const IMAGES: [Column; 9] = [
    Column::text("ID", "imageResourceUUID"),
    Column::text("NAME", "imageName"),
    Column::text("TYPE", "imageType"),
    Column::text("DISTRIBUTION", "osDistroVersion"),
    Column::text("REGION", "regionCode"),
    Column::text("VERSION", "osVersion").wide(),
    Column::text("SIZE", "imageSize").wide(),
    Column::text("ACCOUNT", "imageAccount").wide(),
    Column::text("SSH", "supportSsh").wide(),
];

const FIREWALLS: [Column; 7] = [
    Column::text("ID", "firewallUUID"),
    Column::text("NAME", "firewallName"),
    Column::text("REGION", "regionCode"),
    Column::text("RULES", "ruleNumber"),
    Column::text("SERVERS", "ecsNumber"),
    Column::text("STATUS", "firewallStatus").wide(),
    Column::text("DESCRIPTION", "description").wide(),
];

const KEYS: [Column; 3] = [
    Column::text("ID", "sshKeyUUID"),
    Column::text("NAME", "sshKeyName"),
    Column::text("CREATED", "createTime"),
];

/// Prints the requested list.
pub(super) fn catalog(args: &CatalogArgs) -> ExitCode {
    asked(show(args), |text| print(&text))
}

async fn show(args: &CatalogArgs) -> Result<String, String> {
    let progress = Progress::begin("asking the service");
    let client = args.service.reach().await?.client;
    let view = View {
        catalog: Catalog::new(client.clone()),
        client,
        progress: &progress,
    };
    let output = args.output;
    let (columns, rows): (&[Column], Vec<Value>) = match &args.what {
        What::Regions(named) => {
            let rows = view.regions(named).await?;
            let is_table = matches!(output, Output::Table | Output::Wide);
            (&REGIONS, if is_table { by_zone(&rows) } else { rows })
        }
        What::Packages(wanted) => (&PACKAGES, view.packages(wanted).await?),
        What::Images(wanted) => (&IMAGES, view.images(wanted).await?),
        What::Firewalls(wanted) => (&FIREWALLS, view.firewalls(wanted).await?),
        What::Keys(named) => (&KEYS, view.keys(named).await?),
    };
    drop(progress);
    if rows.is_empty() {
        note("the service lists nothing that fits: try without some of the filters");
    }
    render(output, columns, &rows)
}

/// The offers of a service.
struct View<'a> {
    client: Client,
    catalog: Catalog,
    progress: &'a Progress,
}

impl View<'_> {
    /// A list. A warning on standard error reports that rows may be missing, so that standard output stays valid for programs.
    fn read<T>(&self, what: &str, listed: Looked<T>) -> Result<Arc<Listing<T>>, String> {
        let listing = listed.map_err(|unread| unreadable(&self.client, what, unread))?;
        self.warn(what, listing.doubt());
        Ok(listing)
    }

    fn warn(&self, what: &str, doubt: Option<&str>) {
        if let Some(doubt) = doubt {
            let warning = format!("warning: the list of {what} may lack some: {doubt}");
            self.progress.note(&warning);
        }
    }

    /// The requested region, or all regions.
    async fn chosen(&self, wanted: Option<&String>) -> Result<Vec<Region>, String> {
        let listed = self.read("regions", self.catalog.regions(|_| true).await)?;
        let mut rows = listed.rows.clone();
        if let Some(text) = wanted {
            let code = region_code(&rows, &BTreeSet::new(), text)?;
            rows.retain(|row| row.code == code);
        }
        Ok(rows)
    }

    async fn regions(&self, named: &Named) -> Result<Vec<Value>, String> {
        let mut rows = self.chosen(None).await?;
        rows.retain(|row| named.fits(row.name.as_deref()) || named.fits(Some(&row.code)));
        Ok(rows.iter().map(|row| served(row, None)).collect())
    }

    async fn packages(&self, wanted: &Packages) -> Result<Vec<Value>, String> {
        let least = PackageRef {
            cpu: wanted.cpu,
            memory: wanted.memory,
            system_disk: wanted.system_disk,
            data_disk: wanted.data_disk,
            ..PackageRef::default()
        };
        let mut found = Vec::new();
        for region in self.chosen(wanted.within.region.as_ref()).await? {
            let zone = match &wanted.within.zone {
                None => None,
                Some(text) => match catalog::zone(&region.zones, text) {
                    Choice::One(code) => Some(code),
                    // The zone may be in another region.
                    _ if wanted.within.region.is_none() => continue,
                    Choice::Many(near) => {
                        return Err(format!(
                            "region {} has several zones {text}: {near}: name one of these with --zone",
                            region.code
                        ));
                    }
                    Choice::None(near) => {
                        return Err(no_zone(&region.code, text, &near));
                    }
                },
            };
            let (client, code) = (&self.client, &region.code);
            let listed = client.packages(CallPriority::Urgent, code, zone.as_deref());
            let listed = listed.await;
            let listed = listed.map_err(|error| unreadable(client, "packages", error))?;
            self.warn("packages", catalog::doubt(true, listed.unreadable == 0));
            found.extend(listed.rows.into_iter().map(|row| (code.clone(), row)));
        }
        found.retain(|(_, row)| {
            catalog::is_large_enough(row, &least)
                && is_word(wanted.charge_mode.as_deref(), row.charge_mode.as_deref())
        });
        found.sort_by(|(_, a), (_, b)| catalog::order(&a, &b));
        let rows = found.iter().map(|(region, row)| served(row, Some(region)));
        Ok(rows.collect())
    }

    async fn images(&self, wanted: &Images) -> Result<Vec<Value>, String> {
        let mut rows = Vec::new();
        for region in self.chosen(wanted.within.region.as_ref()).await? {
            let listed = self.catalog.images(&region.code, |_| true).await;
            rows.extend(self.fitting("images", listed, Some(&region.code), |row| {
                wanted.within.named.fits(row.name.as_deref())
                    && is_word(wanted.kind.as_deref(), row.kind.as_deref())
                    && contains(wanted.distribution.as_deref(), row.distribution.as_deref())
            })?);
        }
        Ok(rows)
    }

    async fn firewalls(&self, wanted: &InRegion) -> Result<Vec<Value>, String> {
        let mut rows = Vec::new();
        for region in self.chosen(wanted.region.as_ref()).await? {
            let listed = self.catalog.firewalls(&region.code, |_| true).await;
            let fits = |row: &Firewall| wanted.named.fits(row.name.as_deref());
            rows.extend(self.fitting("security groups", listed, Some(&region.code), fits)?);
        }
        Ok(rows)
    }

    async fn keys(&self, named: &Named) -> Result<Vec<Value>, String> {
        let listed = self.catalog.keys(|_| true).await;
        self.fitting("key pairs", listed, None, |row| {
            named.fits(row.name.as_deref())
        })
    }

    /// The rows of a list that fit.
    fn fitting<T: Offer>(
        &self,
        what: &str,
        listed: Looked<T>,
        region: Option<&String>,
        fits: impl Fn(&T) -> bool,
    ) -> Result<Vec<Value>, String> {
        let listed = self.read(what, listed)?;
        let rows = listed.rows.iter().filter(|row| fits(row));
        Ok(rows.map(|row| served(row, region)).collect())
    }
}

impl Named {
    fn fits(&self, name: Option<&str>) -> bool {
        contains(self.name.as_deref(), name)
    }
}

/// Whether a field is this word, case-insensitively.
fn is_word(wanted: Option<&str>, word: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted)))
}

/// Whether a text contains this part, case-insensitively.
fn contains(part: Option<&str>, text: Option<&str>) -> bool {
    part.is_none_or(|part| {
        text.is_some_and(|text| text.to_lowercase().contains(&part.to_lowercase()))
    })
}

/// A row under the service's own field names, with its region if the service omits it.
fn served(row: &impl Offer, region: Option<&String>) -> Value {
    let mut fields = row.fields().clone();
    if let Some(region) = region {
        let field = fields.entry("regionCode");
        field.or_insert_with(|| Value::from(region.as_str()));
    }
    Value::Object(fields)
}

/// A line for each zone; one for a region without any.
fn by_zone(regions: &[Value]) -> Vec<Value> {
    let lines = |region: &Value| {
        let zones = region.get("zones").and_then(Value::as_array);
        let zones = zones.filter(|zones| !zones.is_empty());
        let Some(zones) = zones else {
            return vec![region.clone()];
        };
        let line = |zone: &Value| {
            let mut line = region.clone();
            for field in ["zoneCode", "zoneName"] {
                line[field] = zone.get(field).cloned().unwrap_or_default();
            }
            line
        };
        zones.iter().map(line).collect()
    };
    regions.iter().flat_map(lines).collect()
}

/// The message for a zone that the region does not have, with the nearest ones.
fn no_zone(region: &str, text: &str, near: &Candidates) -> String {
    let there = match near.is_empty() {
        true => "the service lists none there: leave --zone out, or name another region".to_owned(),
        false => format!("it has {near}: name one of these with --zone"),
    };
    format!("region {region} has no zone {text}; {there}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_without_zones_is_told_as_such() {
        let near = Candidates::of([("r-1-a".to_owned(), Some("A".to_owned()))]);
        assert_eq!(
            no_zone("r-1", "x", &near),
            "region r-1 has no zone x; it has r-1-a (A): name one of these with --zone"
        );
        assert_eq!(
            no_zone("r-1", "x", &Candidates::default()),
            "region r-1 has no zone x; the service lists none there: leave --zone out, or name another region"
        );
    }
}
