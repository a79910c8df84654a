//! Compares a server's size with the expected one. Pure.
//!
//! Only CPU and memory count: they never change after the purchase, while a disk or the traffic may have grown.

use crate::api::PackageRef;
use crate::cloud::{Detail, Offer};
use serde_json::Value;
use std::fmt;

/// A figure of a server that contradicts the expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlike {
    pub has: String,
    pub wanted: String,
}

impl fmt::Display for Unlike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and not {}", self.has, self.wanted)
    }
}

/// The first figure that does not fit; a figure that either side lacks counts as fitting.
fn first_unlike(
    detail: &Detail,
    wanted: [Option<u64>; 2],
    fits: impl Fn(u64, u64) -> bool,
) -> Option<Unlike> {
    let number = |field: &str| detail.fields.get(field).and_then(Value::as_u64);
    let shown = [("CPU", number("cpu")), ("GiB of memory", number("memory"))];
    let mut pairs = shown.into_iter().zip(wanted);
    pairs.find_map(|((unit, has), wanted)| {
        let (has, wanted) = (has?, wanted?);
        (!fits(has, wanted)).then(|| Unlike {
            has: format!("{has} {unit}"),
            wanted: format!("{wanted} {unit}"),
        })
    })
}

/// A figure of the server that contradicts the purchase of this package.
pub fn unlike(row: &Offer, detail: &Detail) -> Option<Unlike> {
    first_unlike(detail, [row.cpu, row.memory], |has, wanted| has == wanted)
}

/// A figure of the server that is below the filter's minimum.
pub fn smaller(wanted: &PackageRef, detail: &Detail) -> Option<Unlike> {
    let least = |figure: Option<i32>| u64::try_from(figure?).ok();
    let wanted = [least(wanted.cpu), least(wanted.memory)];
    first_unlike(detail, wanted, |has, wanted| has >= wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{List, ServerId};
    use serde_json::json;

    fn detail(fields: &Value) -> Detail {
        Detail {
            id: ServerId::from("ecs-1"),
            fields: fields.as_object().cloned().unwrap(),
        }
    }

    fn package(fields: &Value) -> Offer {
        let packages = List::Packages {
            region: "r".to_owned(),
            zone: None,
        };
        Offer::read(&packages, fields.as_object().unwrap()).unwrap()
    }

    #[test]
    fn only_values_that_both_report_can_differ() {
        let large = package(&json!({"packageCode": "p", "cpu": 8, "memory": 16}));
        for (shown, difference) in [
            (json!({"cpu": 1, "memory": 2}), Some("1 CPU and not 8 CPU")),
            (
                json!({"cpu": 8, "memory": 2}),
                Some("2 GiB of memory and not 16 GiB of memory"),
            ),
            (json!({"cpu": 8, "memory": 16, "systemDiskSize": 500}), None),
            (json!({"memory": 16}), None),
            (json!({"cpu": "eight"}), None),
        ] {
            let unlike = unlike(&large, &detail(&shown)).map(|unlike| unlike.to_string());
            assert_eq!(unlike.as_deref(), difference, "{shown}");
        }
        let without_size = package(&json!({"packageCode": "p"}));
        assert_eq!(unlike(&without_size, &detail(&json!({"cpu": 1}))), None);
    }

    #[test]
    fn a_server_contradicts_a_filter_by_less_and_not_by_more() {
        let filter = PackageRef {
            cpu: Some(2),
            ..PackageRef::default()
        };
        for (cpu, is_less) in [(1, true), (2, false), (4, false)] {
            let shown = detail(&json!({"cpu": cpu, "memory": 1}));
            assert_eq!(smaller(&filter, &shown).is_some(), is_less, "{cpu}");
        }
    }
}
