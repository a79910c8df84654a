//! The acts: what can happen to a call, and where in its plan each one belongs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::hold::{ClientGone, HoldState};
use super::{Execution, Override, Plan, Step};
use crate::model::{TaskScript, World};

/// A position on the way of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Before it is executed.
    #[default]
    BeforeEffect,
    /// After it was executed, and before the reply.
    AfterEffect,
    /// After the reply was written. Holds only; anything else happens after the effect.
    AfterReply,
}

/// What happens to the rows of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rows", rename_all = "kebab-case")]
pub enum Listing {
    /// There are none, and `rowCount` is 0.
    Empty,
    /// So many are left out of each page.
    Shrunk {
        /// How many.
        by: usize,
    },
    /// Each row comes twice.
    Repeated,
    /// Whatever page is asked for, the first comes.
    FirstPageForEver,
    /// This page never comes; in its place comes the one after it, and so on.
    SkippedPage {
        /// Its number, from 1.
        page: usize,
    },
    /// This page comes under the next number as well, and all that follow come one number later.
    DoubledPage {
        /// Its number, from 1.
        page: usize,
    },
    /// `rowCount` is this on every page.
    WrongCount {
        /// What it says.
        count: u64,
    },
    /// The rows are those of another account.
    Foreign {
        /// Whose.
        account: String,
    },
}

/// What happens to the bytes of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// Half of the announced length comes, then the connection ends.
    Truncate,
    /// Bytes that are no JSON.
    Garble,
    /// A page of a proxy.
    Html,
    /// Text is numbers and numbers are text.
    WrongTypes,
    /// Every value is null.
    Nulls,
    /// Valid JSON with so many bytes of ballast.
    Huge(usize),
    /// One byte at a time, so far apart.
    SlowBytes(Duration),
    /// Every object in it has this text in two fields more.
    Quote(String),
}

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "act",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case"
)]
pub enum Act {
    /// It waits.
    Delay {
        /// For so long.
        millis: u64,
        /// And here.
        #[serde(default)]
        when: When,
    },
    /// It is answered with an error; after the effect that means: executed, and answered with an error.
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
        /// Executed or not.
        #[serde(default)]
        when: When,
    },
    /// The connection is aborted without an answer.
    Lose {
        /// Executed or not.
        #[serde(default)]
        when: When,
    },
    /// It is parked until a test lets it go.
    Hold {
        /// Here.
        at: When,
        /// What becomes of it when its client leaves meanwhile.
        #[serde(default)]
        gone: ClientGone,
    },
    /// A 2xx reply that says no.
    Business {
        /// The HTTP status.
        #[serde(default = "accepted")]
        status: u16,
        /// The envelope's code.
        code: String,
        /// The envelope's message.
        #[serde(default)]
        message: String,
        /// Whether `success: false` is in it, too.
        #[serde(default)]
        success_false: bool,
        /// Executed or not.
        #[serde(default)]
        when: When,
    },
    /// The body ends in the middle.
    Truncate,
    /// The body is no JSON.
    Garble,
    /// The body is a web page.
    Html,
    /// The body's values have other types.
    WrongTypes,
    /// The body's values are null.
    Nulls,
    /// The body is huge.
    Huge {
        /// Bytes of ballast.
        #[serde(default = "ten_megabytes")]
        bytes: usize,
    },
    /// The body comes byte by byte.
    SlowBytes {
        /// Between two bytes.
        millis: u64,
    },
    /// The body repeats a text, such as one that it should keep to itself: every object in it has it as `password` and in
    /// `accessToken`.
    Quote {
        /// The text.
        text: String,
    },
    /// No answer ever; the connection stays open.
    Hang {
        /// Executed or not.
        #[serde(default)]
        when: When,
    },
    /// It is executed twice.
    Duplicate,
    /// The connection is aborted, and the call is executed later.
    Late {
        /// So much later.
        millis: u64,
    },
    /// It is answered from the state at the time the rule was made. For queries.
    Stale,
    /// The rows of a listing are not as they should be.
    Listing(Listing),
    /// A request limit: calls beyond it are answered with 429 and not executed. Only those count as met.
    Limit {
        /// Calls in a second in the long run.
        per_second: u32,
        /// Calls at once after a pause.
        #[serde(default = "one_call")]
        burst: u32,
        /// `Retry-After`, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// The task that it makes does not go well.
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
    /// Its name, for the ledger.
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

    /// Puts the act where it belongs.
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

/// An answer that is the service's envelope and nothing else.
fn envelope(status: u16, code: &str, message: &str, retry_after: Option<u64>) -> Override {
    Override {
        status,
        body: json!({ "code": code, "httpStatus": status, "message": message }),
        retry_after,
    }
}
