//! The acts: what can happen to a call, and at which position of its plan each act takes place.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::hold::{ClientGone, HoldState};
use super::{Execution, Override, Plan, Step};
use crate::model::{TaskScript, World};

/// A position in the course of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Before the call is executed.
    #[default]
    BeforeEffect,
    /// After the execution, before the reply.
    AfterEffect,
    /// After the reply was written. Only for holds; any other act at this position takes place after the effect.
    AfterReply,
}

/// A fault in the rows of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rows", rename_all = "kebab-case")]
pub enum Listing {
    /// The listing has no rows, and `rowCount` is 0.
    Empty,
    /// This many rows are missing from each page.
    Shrunk {
        /// Number of missing rows.
        by: usize,
    },
    /// Each row comes twice.
    Repeated,
    /// Every request gets the first page, regardless of the requested page.
    FirstPageForEver,
    /// This page is never returned. A request for it gets the page after it, and so on.
    SkippedPage {
        /// The page number, from 1.
        page: usize,
    },
    /// This page is returned under the next number as well, and all later pages shift by one.
    DoubledPage {
        /// The page number, from 1.
        page: usize,
    },
    /// Every page has this `rowCount`.
    WrongCount {
        /// The value of `rowCount`.
        count: u64,
    },
    /// The rows belong to another account.
    Foreign {
        /// The account that owns the rows.
        account: String,
    },
}

/// A fault in the bytes of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// Sends half of the announced length, then ends the connection.
    Truncate,
    /// Sends bytes that are not JSON.
    Garble,
    /// Sends an error page of a proxy.
    Html,
    /// Replaces text by numbers and numbers by text.
    WrongTypes,
    /// Replaces every value by null.
    Nulls,
    /// Sends valid JSON padded with this many bytes.
    Huge(usize),
    /// Sends one byte at a time, with this pause between two bytes.
    SlowBytes(Duration),
    /// Adds two fields with this text to every object.
    Quote(String),
}

/// A fault of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "act",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub enum Act {
    /// The call waits.
    Delay {
        /// How long, in milliseconds.
        millis: u64,
        /// At which position.
        #[serde(default)]
        when: When,
    },
    /// The call is answered with an error. After the effect this means: executed, and answered with an error.
    Error {
        /// The HTTP status.
        status: u16,
        /// The envelope's code.
        #[serde(default = "internal")]
        code: String,
        /// The envelope's message.
        #[serde(default)]
        message: String,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
        /// Before the effect (not executed) or after it (executed).
        #[serde(default)]
        when: When,
    },
    /// The connection is aborted without an answer.
    Lose {
        /// Before the effect (not executed) or after it (executed).
        #[serde(default)]
        when: When,
    },
    /// The call is parked until a test releases it.
    Hold {
        /// At which position.
        at: When,
        /// The treatment of the call if its client disconnects meanwhile.
        #[serde(default)]
        gone: ClientGone,
    },
    /// The call gets a 2xx reply that reports a failure.
    Business {
        /// The HTTP status.
        #[serde(default = "accepted")]
        status: u16,
        /// The envelope's code.
        code: String,
        /// The envelope's message.
        #[serde(default)]
        message: String,
        /// Whether the reply also contains `success: false`.
        #[serde(default)]
        success_false: bool,
        /// Before the effect (not executed) or after it (executed).
        #[serde(default)]
        when: When,
    },
    /// The body ends in the middle.
    Truncate,
    /// The body is not JSON.
    Garble,
    /// The body is a web page.
    Html,
    /// The body's values have other types.
    WrongTypes,
    /// The body's values are null.
    Nulls,
    /// The body is huge.
    Huge {
        /// Bytes of padding.
        #[serde(default = "ten_megabytes")]
        bytes: usize,
    },
    /// The body comes byte by byte.
    SlowBytes {
        /// Pause between two bytes.
        millis: u64,
    },
    /// The body repeats a text, for example a secret that it must not contain: every object gets the text as `password` and in
    /// `accessToken`.
    Quote {
        /// The text.
        text: String,
    },
    /// The call is never answered; the connection stays open.
    Hang {
        /// Before the effect (not executed) or after it (executed).
        #[serde(default)]
        when: When,
    },
    /// The call is executed twice.
    Duplicate,
    /// The connection is aborted, and the call is executed later.
    Late {
        /// Milliseconds until the execution.
        millis: u64,
    },
    /// The call is answered from the state at the time when the rule was made. For queries.
    Stale,
    /// The rows of a listing are wrong.
    Listing(Listing),
    /// A rate limit: calls beyond it are answered with 429 and not executed. Only those count as hits.
    Limit {
        /// Calls per second in the long run.
        per_second: u32,
        /// Calls at once after an idle period.
        #[serde(default = "one_call")]
        burst: u32,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// The task that the call starts does not simply succeed.
    Task(TaskScript),
}

fn internal() -> String {
    "InternalError.Unknown".to_owned()
}

const fn accepted() -> u16 {
    202
}

const fn one_call() -> u32 {
    1
}

const fn ten_megabytes() -> usize {
    10_000_000
}

impl Act {
    /// The name of the act in the ledger.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Delay { .. } => "delay",
            Self::Error { .. } => "error",
            Self::Lose {
                when: When::BeforeEffect,
            } => "lose-before-effect",
            Self::Lose { .. } => "lose-after-effect",
            Self::Hold { .. } => "hold",
            Self::Business { .. } => "business",
            Self::Truncate => "truncate",
            Self::Garble => "garble",
            Self::Html => "html",
            Self::WrongTypes => "wrong-types",
            Self::Nulls => "nulls",
            Self::Huge { .. } => "huge",
            Self::SlowBytes { .. } => "slow-bytes",
            Self::Quote { .. } => "quote",
            Self::Hang { .. } => "hang",
            Self::Duplicate => "duplicate",
            Self::Late { .. } => "late",
            Self::Stale => "stale",
            Self::Listing(_) => "listing",
            Self::Limit { .. } => "limit",
            Self::Task(_) => "task",
        }
    }

    /// Adds the act to a plan, at its position.
    pub(super) fn add_to(
        &self,
        plan: &mut Plan,
        hold: Option<&Arc<HoldState>>,
        snapshot: Option<&Arc<Mutex<World>>>,
    ) {
        match self {
            Self::Delay { millis, when } => {
                steps(plan, *when).push(Step::Delay(Duration::from_millis(*millis)));
            }
            Self::Error {
                status,
                code,
                message,
                retry_after,
                when,
            } => {
                let answer = envelope(*status, code, message, *retry_after);
                steps(plan, *when).push(Step::Answer(answer));
            }
            Self::Lose { when } => steps(plan, *when).push(Step::Lose),
            Self::Hang { when } => steps(plan, *when).push(Step::Hang),
            Self::Hold { at, .. } => match (at, hold) {
                (When::AfterReply, Some(hold)) => plan.after_reply.push(Arc::clone(hold)),
                (_, Some(hold)) => steps(plan, *at).push(Step::Hold(Arc::clone(hold))),
                (_, None) => {}
            },
            Self::Business {
                status,
                code,
                message,
                success_false,
                when,
            } => {
                let mut answer = envelope(*status, code, message, None);
                if *success_false {
                    answer.body["success"] = json!(false);
                }
                steps(plan, *when).push(Step::Answer(answer));
            }
            Self::Truncate => plan.spoil = Some(Spoil::Truncate),
            Self::Garble => plan.spoil = Some(Spoil::Garble),
            Self::Html => plan.spoil = Some(Spoil::Html),
            Self::WrongTypes => plan.spoil = Some(Spoil::WrongTypes),
            Self::Nulls => plan.spoil = Some(Spoil::Nulls),
            Self::Huge { bytes } => plan.spoil = Some(Spoil::Huge(*bytes)),
            Self::SlowBytes { millis } => {
                plan.spoil = Some(Spoil::SlowBytes(Duration::from_millis(*millis)));
            }
            Self::Quote { text } => plan.spoil = Some(Spoil::Quote(text.clone())),
            Self::Duplicate => plan.execution = Execution::Twice,
            Self::Late { millis } => {
                plan.execution = Execution::Late(Duration::from_millis(*millis));
            }
            Self::Stale => plan.stale = snapshot.cloned(),
            Self::Listing(listing) => plan.listing = Some(listing.clone()),
            Self::Limit { retry_after, .. } => {
                let code = "RequestLimit.Exceeded";
                let answer = envelope(429, code, "too many requests", *retry_after);
                plan.before.push(Step::Answer(answer));
            }
            Self::Task(script) => plan.script = script.clone(),
        }
    }
}

/// The steps before or after the effect.
fn steps(plan: &mut Plan, when: When) -> &mut Vec<Step> {
    match when {
        When::BeforeEffect => &mut plan.before,
        When::AfterEffect | When::AfterReply => &mut plan.after,
    }
}

/// An answer that consists of the service's envelope only.
fn envelope(status: u16, code: &str, message: &str, retry_after: Option<u64>) -> Override {
    Override {
        status,
        body: json!({ "code": code, "httpStatus": status, "message": message }),
        retry_after,
    }
}
