//! `catalog`: the offers of the service, as tables for people and as JSON or YAML for programs.

use super::completion::values;
use super::offers::{self, choose};
use super::output::{Always, Column, Distinguishing, Output, Wide, note, print, render};
use super::progress::Progress;
use super::run_and_print;
use super::servers::{Within, region_code};
use super::service::ServiceArgs;
use clap::{Args, Subcommand};
use cloud_server_operator::api::PackageRef;
use cloud_server_operator::catalog::{self, Choice};
use cloud_server_operator::cloud::{Client, List, Offer};
use serde_json::Value;
use std::process::ExitCode;

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
    ("REGION", "regionCode", Always),
    ("NAME", "regionName", Always),
    ("ZONE", "zoneCode", Always),
    ("ZONE NAME", "zoneName", Always),
];

const PACKAGES: [Column; 10] = [
    ("CODE", "packageCode", Always),
    ("CPU", "cpu", Always),
    ("MEMORY", "memory", Always),
    ("SYSTEM DISK", "systemDiskSize", Always),
    ("DATA DISK", "dataDiskSize", Always),
    ("CHARGE MODE", "publicIpChargeMode", Always),
    ("BANDWIDTH", "bandwidth", Wide),
    ("FREE FLOW", "freeFlow", Wide),
    ("REGION", "regionCode", Distinguishing),
    ("ZONE", "zoneCode", Distinguishing),
];

const IMAGES: [Column; 9] = [
    ("ID", "imageResourceUUID", Always),
    ("NAME", "imageName", Always),
    ("TYPE", "imageType", Always),
    ("DISTRIBUTION", "osDistroVersion", Always),
    ("REGION", "regionCode", Always),
    ("VERSION", "osVersion", Wide),
    ("SIZE", "imageSize", Wide),
    ("ACCOUNT", "imageAccount", Wide),
    ("SSH", "supportSsh", Wide),
];

const FIREWALLS: [Column; 7] = [
    ("ID", "firewallUUID", Always),
    ("NAME", "firewallName", Always),
    ("REGION", "regionCode", Always),
    ("RULES", "ruleNumber", Always),
    ("SERVERS", "ecsNumber", Always),
    ("STATUS", "firewallStatus", Wide),
    ("DESCRIPTION", "description", Wide),
];

const KEYS: [Column; 3] = [
    ("ID", "sshKeyUUID", Always),
    ("NAME", "sshKeyName", Always),
    ("CREATED", "createTime", Always),
];

/// Prints the requested list.
pub(super) fn catalog(args: &CatalogArgs) -> ExitCode {
    run_and_print(show(args), |text| print(&text))
}

async fn show(args: &CatalogArgs) -> Result<String, String> {
    let progress = &Progress::begin("asking the service");
    let client = &args.service.reach().await?.client;
    let (columns, rows): (&[Column], Vec<Offer>) = match &args.what {
        What::Regions(named) => {
            let fits = |row: &Offer| named.fits(row.name.as_deref()) || named.fits(Some(&row.id));
            let rows = served(client, progress, [List::Regions], fits).await?;
            (&REGIONS, rows)
        }
        What::Packages(wanted) => {
            let lists = package_lists(client, &wanted.within).await?;
            let least = PackageRef {
                cpu: wanted.cpu,
                memory: wanted.memory,
                system_disk: wanted.system_disk,
                data_disk: wanted.data_disk,
                ..PackageRef::default()
            };
            let fits = |row: &Offer| {
                catalog::is_large_enough(row, &least)
                    && is_word(wanted.charge_mode.as_deref(), row.charge_mode.as_deref())
            };
            let mut rows = served(client, progress, lists, fits).await?;
            rows.sort_by(|a, b| catalog::order(&a, &b));
            (&PACKAGES, rows)
        }
        What::Images(wanted) => {
            let fits = |row: &Offer| {
                wanted.within.named.fits(row.name.as_deref())
                    && is_word(wanted.kind.as_deref(), row.kind.as_deref())
                    && contains(wanted.distribution.as_deref(), row.distribution.as_deref())
            };
            let regions = regions(client, wanted.within.region.as_ref()).await?;
            let regions = regions.into_iter().map(|row| row.id);
            let lists = regions.map(|region| List::Images { region });
            (&IMAGES, served(client, progress, lists, fits).await?)
        }
        What::Firewalls(wanted) => {
            let fits = |row: &Offer| wanted.named.fits(row.name.as_deref());
            let regions = regions(client, wanted.region.as_ref()).await?;
            let regions = regions.into_iter().map(|row| row.id);
            let lists = regions.map(|region| List::Firewalls { region });
            (&FIREWALLS, served(client, progress, lists, fits).await?)
        }
        What::Keys(named) => {
            let fits = |row: &Offer| named.fits(row.name.as_deref());
            (&KEYS, served(client, progress, [List::Keys], fits).await?)
        }
    };
    progress.clear();
    if rows.is_empty() {
        note("the service lists nothing that fits: drop a filter, if there is one");
    }
    // The rows keep the service's own field names.
    let rows = rows.into_iter().map(|row| Value::Object(row.fields));
    let mut rows: Vec<Value> = rows.collect();
    let is_table = matches!(args.output, Output::Table | Output::Wide);
    if is_table && matches!(args.what, What::Regions(_)) {
        rows = by_zone(&rows);
    }
    render(args.output, columns, &rows)
}

/// The requested region, or all regions.
async fn regions(client: &Client, wanted: Option<&String>) -> Result<Vec<Offer>, String> {
    let mut rows = offers::read(client, &List::Regions).await?.rows;
    if let Some(text) = wanted {
        let code = region_code(&rows, text)?;
        rows.retain(|row| row.id == code);
    }
    Ok(rows)
}

/// The lists of packages in the requested region and zone, or everywhere.
async fn package_lists(client: &Client, within: &Within) -> Result<Vec<List>, String> {
    let mut lists = Vec::new();
    for row in regions(client, within.region.as_ref()).await? {
        let zone = match &within.zone {
            None => None,
            Some(text) => match catalog::by_code_or_name(row.zones, text) {
                Choice::One(zone) => Some(zone),
                // The zone may be in another region.
                _ if within.region.is_none() => continue,
                Choice::Many(near) | Choice::None(near) => {
                    let (code, remedy) = (row.id, choose("--zone", &near));
                    return Err(format!(
                        "region {code} has no zone {text}, or several of that name; {remedy}"
                    ));
                }
            },
        };
        let region = row.id;
        lists.push(List::Packages { region, zone });
    }
    Ok(lists)
}

impl Named {
    fn fits(&self, name: Option<&str>) -> bool {
        contains(self.name.as_deref(), name)
    }
}

/// The rows of these lists that fit. A row of a list of one region gets this region if the service omits it. A warning that
/// rows may be missing goes to standard error, so that standard output stays valid for programs.
async fn served(
    client: &Client,
    progress: &Progress,
    lists: impl IntoIterator<Item = List>,
    fits: impl Fn(&Offer) -> bool,
) -> Result<Vec<Offer>, String> {
    let mut rows = Vec::new();
    for list in lists {
        let listed = offers::read(client, &list).await?;
        if let Some(doubt) = listed.doubt {
            let what = list.name();
            progress.note(&format!(
                "warning: the list of {what} may lack some: {doubt}"
            ));
        }
        let region = match list {
            List::Images { region }
            | List::Firewalls { region }
            | List::Packages { region, .. } => Some(region),
            List::Regions | List::Keys | List::Servers(_) => None,
        };
        for mut row in listed.rows.into_iter().filter(&fits) {
            if let Some(region) = &region {
                let field = row.fields.entry("regionCode");
                field.or_insert_with(|| Value::from(region.as_str()));
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Whether a field is the wanted word, case-insensitively; true if no word is wanted.
fn is_word(wanted: Option<&str>, word: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted)))
}

/// Whether a text contains this part, case-insensitively; true without a part.
fn contains(part: Option<&str>, text: Option<&str>) -> bool {
    part.is_none_or(|part| {
        text.is_some_and(|text| text.to_lowercase().contains(&part.to_lowercase()))
    })
}

/// One row for each zone, and one for each region without zones.
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
