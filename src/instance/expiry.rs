//! The time at which a prepaid server expires, and the condition that warns about it.

use crate::api::InstanceStatus;
use crate::api::conditions::{AdditionalCondition, EXPIRING, Reason};
use crate::cloud::Detail;
use crate::instance::observation::text;
use crate::instance::times;
use crate::inventory::Row;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde_json::{Map, Value};

/// The field in detail and listing.
pub const FIELD: &str = "expireTime";

/// The expiry time in a detail, which the service writes without a time zone.
pub fn read(detail: &Map<String, Value>, offset: Offset) -> Option<Timestamp> {
    let civil = DateTime::strptime("%Y-%m-%d %H:%M:%S", text(detail, FIELD)?.trim()).ok()?;
    offset.to_timestamp(civil).ok()
}

/// Adds the expiry time to a detail that lacks it, since some services show it only in the listing. Until a listing shows the
/// server, the time in status is used.
pub fn add(detail: &mut Detail, row: Option<&Row>, status: &InstanceStatus) {
    let is_same = status.id.as_deref() == Some(detail.id.as_str());
    let known = match row {
        Some(row) => row.expires.as_deref(),
        None => text(&status.detail, FIELD).filter(|_| is_same),
    };
    if let Some(known) = known.filter(|_| text(&detail.fields, FIELD).is_none()) {
        detail.fields.insert(FIELD.to_owned(), known.into());
    }
}

/// The warning that belongs to a status now. Its message changes only with the expiry time, and when that passes.
pub fn warning(status: &InstanceStatus, now: Timestamp) -> Option<AdditionalCondition> {
    let at = status.expire_time.as_ref()?.0;
    let left = at.duration_since(now);
    let (reason, message) = if left.is_positive() {
        let message = format!("the server expires at {at}: renew it at the service");
        (Reason::ExpiresSoon, message)
    } else {
        let message = format!(
            "the server expired at {at}: renew it at the service before the service destroys it"
        );
        (Reason::Expired, message)
    };
    (left <= times::EXPIRES_WITHIN).then_some(AdditionalCondition {
        type_: EXPIRING,
        is_true: true,
        reason,
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    fn read(expires: &Value, hours: i8) -> Option<String> {
        let detail = json!({ "expireTime": expires });
        let offset = Offset::from_hours(hours).unwrap();
        super::read(detail.as_object().unwrap(), offset).map(|at| at.to_string())
    }

    #[test]
    fn the_time_is_read_in_the_time_zone_of_the_service() {
        let at = json!("2026-12-15 06:13:20");
        assert_eq!(read(&at, 8).as_deref(), Some("2026-12-14T22:13:20Z"));
        assert_eq!(read(&at, 0).as_deref(), Some("2026-12-15T06:13:20Z"));
        for none in [
            json!(null),
            json!(""),
            json!("soon"),
            json!(7),
            json!("2026-13-01 00:00:00"),
        ] {
            assert_eq!(read(&none, 8), None, "{none}");
        }
    }

    #[test]
    fn the_expiry_in_status_stays_until_a_listing_shows_the_server() {
        let status = |id: &str| InstanceStatus {
            id: Some(id.to_owned()),
            detail: json!({ FIELD: "2026-12-15 06:13:20" })
                .as_object()
                .cloned()
                .unwrap(),
            ..InstanceStatus::default()
        };
        let added = |shown: Value, row: Option<&Row>, id: &str| {
            let mut detail = Detail {
                id: "ecs-1".into(),
                fields: shown.as_object().cloned().unwrap(),
            };
            add(&mut detail, row, &status(id));
            text(&detail.fields, FIELD).map(str::to_owned)
        };
        let kept = added(json!({}), None, "ecs-1");
        assert_eq!(kept.as_deref(), Some("2026-12-15 06:13:20"));
        let own = added(json!({ FIELD: "2027-01-01 00:00:00" }), None, "ecs-1");
        assert_eq!(own.as_deref(), Some("2027-01-01 00:00:00"));
        assert_eq!(added(json!({}), None, "ecs-2"), None);
    }

    #[test]
    fn an_expiry_is_reported_a_week_ahead_and_afterwards() {
        let at: Timestamp = "2026-12-15T06:00:00Z".parse().unwrap();
        let status = InstanceStatus {
            expire_time: Some(Time(at)),
            ..InstanceStatus::default()
        };
        for (now, reason) in [
            ("2026-12-08T05:59:59Z", None),
            ("2026-12-08T06:00:00Z", Some(Reason::ExpiresSoon)),
            ("2026-12-15T05:59:59Z", Some(Reason::ExpiresSoon)),
            ("2026-12-15T06:00:00Z", Some(Reason::Expired)),
            ("2027-12-15T06:00:00Z", Some(Reason::Expired)),
        ] {
            let warning = warning(&status, now.parse().unwrap());
            assert_eq!(warning.map(|warning| warning.reason), reason, "{now}");
        }
        assert_eq!(warning(&InstanceStatus::default(), at), None);
    }
}
