//! Readings: where the specification is open, they choose how the service answers.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// One choice for every open question. The default is the reading that the specification makes most likely, or else the field
/// notes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Readings {
    /// The place of the task id in the answer of an accepted operation.
    pub task_id: TaskId,
    /// The HTTP status of successful answers.
    pub http_status: HttpStatus,
    /// The fields in a row of the instance list.
    pub list_rows: ListRows,
    /// The meaning of `rowCount` in a listing.
    pub row_count: RowCount,
    /// The order of the instance list.
    pub list_order: ListOrder,
    /// Whether a reinstall is refused unless the instance is `STOPPED`.
    pub reinstall_needs_stop: bool,
    /// The power state after a reinstall.
    pub power_after_reinstall: PowerAfterReinstall,
    /// How long the listing omits a new instance after its create (milliseconds in JSON).
    #[serde(with = "millis")]
    pub visible_late: Duration,
    /// Whether detail also reports an instance as not found until the listing shows it.
    pub detail_late: bool,
    /// Whether new instance ids and task ids contain characters that a URL must encode.
    pub awkward_ids: bool,
    /// Whether `usedFlow` and `cpuLoad` (which is not in the specification) grow at every read.
    pub used_flow_grows: bool,
    /// The remains of a failed create.
    pub failed_create: FailedCreate,
    /// The answer to a release that arrives while the create task runs.
    pub release_while_creating: ReleaseWhileCreating,
    /// How the service reports "no such instance".
    pub not_found: FailureShape,
    /// How the service reports every other refusal (a missing token is always an HTTP 401).
    pub refusals: FailureShape,
    /// Whether a create may leave out `firewallUUID` (field note 29).
    pub firewall_optional: bool,
    /// Whether a create or reinstall with a key pair must also contain a password (field note 29).
    pub key_needs_password: bool,
    /// How many special characters a password may have.
    pub password_specials: PasswordSpecials,
    /// Whether each region has only one zone, named `<region>-a` (field note 32).
    pub one_zone: bool,
    /// How long `publicIpAddress` stays empty after the create task ended (field note 30; milliseconds in JSON).
    #[serde(with = "millis")]
    pub address_late: Duration,
    /// How long after its create a server expires: `expireTime` in the rows of the instance list shows the moment, and nothing
    /// happens then. If absent, rows have no `expireTime` (field notes 25 and 26; milliseconds in JSON).
    #[serde(with = "optional_millis")]
    pub expires_after: Option<Duration>,
    /// Whether rows of the instance list contain `osName` and `osVersionDetail` (field note 25).
    pub os_in_rows: bool,
    /// Hours by which the service's times are ahead of UTC (field note 27).
    pub utc_offset_hours: i8,
    /// Whether a successful answer contains a numeric `code` of 200 (field note 33).
    pub success_code: bool,
    /// How the service answers a listing of a region that the account's token may not see (field note 24).
    pub unseen_region: UnseenRegion,
    /// The value of `processResult` while a task runs.
    pub result_while_processing: ResultWhileProcessing,
    /// The field that contains the reason of a failed task.
    pub fail_reason: FailReason,
    /// How long a task can be queried after its end; forever if absent (milliseconds in JSON).
    #[serde(with = "optional_millis")]
    pub task_kept: Option<Duration>,
}

impl Default for Readings {
    fn default() -> Self {
        Self {
            task_id: TaskId::AsSpecified,
            http_status: HttpStatus::AsSpecified,
            list_rows: ListRows::Full,
            row_count: RowCount::All,
            list_order: ListOrder::NewestFirst,
            reinstall_needs_stop: false,
            power_after_reinstall: PowerAfterReinstall::Kept,
            visible_late: Duration::ZERO,
            detail_late: false,
            awkward_ids: false,
            used_flow_grows: false,
            failed_create: FailedCreate::LeavesBroken,
            release_while_creating: ReleaseWhileCreating::Refused,
            not_found: FailureShape::HttpStatus,
            refusals: FailureShape::HttpStatus,
            firewall_optional: false,
            key_needs_password: false,
            password_specials: PasswordSpecials::ExactlyOne,
            one_zone: false,
            address_late: Duration::ZERO,
            expires_after: None,
            os_in_rows: false,
            utc_offset_hours: 0,
            success_code: false,
            unseen_region: UnseenRegion::Empty,
            result_while_processing: ResultWhileProcessing::Absent,
            fail_reason: FailReason::ErrorMessage,
            task_kept: None,
        }
    }
}

impl Readings {
    /// Everything that clients of the service and its documentation report, regardless of confidence. The resulting service is
    /// stricter than the default, except for `firewallUUID` and the password rule.
    #[must_use]
    pub fn as_reported() -> Self {
        Self {
            reinstall_needs_stop: true,
            firewall_optional: true,
            password_specials: PasswordSpecials::AtLeastOne,
            one_zone: true,
            address_late: Duration::from_secs(20),
            expires_after: Some(Duration::from_secs(30 * 24 * 3600)),
            os_in_rows: true,
            utc_offset_hours: 8,
            success_code: true,
            result_while_processing: ResultWhileProcessing::Retry,
            ..Self::default()
        }
    }

    /// A moment in the format and time zone of the service.
    #[must_use]
    pub fn time(&self, moment: Timestamp) -> String {
        let ahead = i64::from(self.utc_offset_hours) * 3_600_000;
        Timestamp::from_millis(moment.as_millis().saturating_add_signed(ahead)).to_string()
    }
}

macro_rules! reading {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }
    };
}

reading!(
    /// The place of the task id in the answer of an accepted operation.
    TaskId {
        /// Nested in `asyncTaskInfo` for create and release, at the top level for the others.
        AsSpecified,
        /// Always in `asyncTaskInfo`.
        Nested,
        /// Always at the top level.
        Flat,
    }
);
reading!(
    /// The HTTP status of successful answers.
    HttpStatus {
        /// 202 in general; 200 for detail, package list and release.
        AsSpecified,
        /// 200 everywhere.
        Ok,
        /// 202 everywhere.
        Accepted,
    }
);
reading!(
    /// The fields in a row of the instance list.
    ListRows {
        /// Every field of the detail object.
        Full,
        /// Identifying and status fields only.
        Minimal,
    }
);
reading!(
    /// The meaning of `rowCount` in a listing.
    RowCount {
        /// The number of rows that match.
        All,
        /// The number of rows on this page.
        Page,
    }
);
reading!(
    /// The order of the instance list.
    ListOrder {
        /// The newest instance comes first.
        NewestFirst,
        /// The oldest instance comes first.
        OldestFirst,
    }
);
reading!(
    /// The power state after a reinstall.
    PowerAfterReinstall {
        /// The same as before.
        Kept,
        /// Started.
        Started,
        /// Stopped.
        Stopped,
    }
);
reading!(
    /// The remains of a failed create.
    FailedCreate {
        /// An instance with `ecsStatus` `ERROR`, billed until it is released.
        LeavesBroken,
        /// Nothing.
        LeavesNothing,
    }
);
reading!(
    /// The answer to a release that arrives while the create task runs.
    ReleaseWhileCreating {
        /// 409 `OperationConflict.InProgress`, as for any second operation.
        Refused,
        /// The create task ends as `CANCEL`, and the release proceeds.
        Allowed,
    }
);
reading!(
    /// The form of a refusal (field notes 12 and 20).
    FailureShape {
        /// A 4xx status and the error envelope.
        HttpStatus,
        /// A 2xx status, the error envelope and `success: false`.
        SuccessFalse,
        /// A 2xx status and the bare error envelope.
        Envelope,
    }
);
reading!(
    /// The value of `processResult` while a task runs (field note 6).
    ResultWhileProcessing {
        /// The field is absent.
        Absent,
        /// The field is null.
        Null,
        /// The field is the empty string.
        Empty,
        /// The field is `RETRY` (field note 33).
        Retry,
    }
);
reading!(
    /// How many special characters a password may have (field note 22).
    PasswordSpecials {
        /// Exactly one.
        ExactlyOne,
        /// At least one; the backtick counts.
        AtLeastOne,
    }
);
reading!(
    /// How the service answers a listing of a region that the account's token may not see (field note 24). A create there is
    /// refused either way.
    UnseenRegion {
        /// With an empty list.
        Empty,
        /// 403 `Authorized.Error`.
        Refused,
    }
);
reading!(
    /// The field that contains the reason of a failed task (field note 6).
    FailReason {
        /// `errorMessage`
        ErrorMessage,
        /// `failMessage`
        FailMessage,
        /// `remark`
        Remark,
        /// `message`
        Message,
    }
);

/// Durations as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// Optional durations as whole milliseconds.
mod optional_millis {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[allow(clippy::ref_option, reason = "the signature is the serialiser's")]
    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        duration
            .map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
            .serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}
