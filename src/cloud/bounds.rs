//! Limits on how much of an answer is read.
//!
//! Every limit is derived from the largest answer that the specification allows, plus a margin. A call whose answer has a success
//! status and exceeds a limit fails with an error that names the limit. A refusal that exceeds a limit counts by its status and
//! head alone. No answer uses memory beyond the limits.

use super::cloud_call::CloudCall;

const KIBIBYTE: usize = 1024;

/// One object: an instance with all fields of the specification, sixteen data disks and sixteen further addresses is some 8
/// KiB. A row of a listing may have the same size.
const OBJECT: usize = 16 * KIBIBYTE;
/// An answer without its list; also a receipt or the state of a task: a dozen short fields. Also a refusal, which is a code and a
/// sentence: a longer body is a web page.
const ENVELOPE: usize = 8 * KIBIBYTE;
/// A probe requests one row of key pairs. A service that ignores `pageSize` may send about a hundred.
const PROBE: usize = 64 * KIBIBYTE;
/// A page of fifty rows is some 100 KiB. Five times that leaves room for large rows, or for a service that sends 250 rows at
/// once.
const PAGE: usize = 512 * KIBIBYTE;
/// The regions or the packages come in one answer: three thousand packages of 300 bytes.
const WHOLE_LIST: usize = 1024 * KIBIBYTE;

/// Ten times the requested rows.
const ROWS_OF_A_PAGE: usize = 500;
/// More packages of that size than fit into [`WHOLE_LIST`].
const ROWS_OF_A_WHOLE_LIST: usize = 4_000;

/// The specification nests five levels: a data disk's field within the instance within the list within the body.
const DEPTH: usize = 16;

/// Memory for one decoded row or object. The instance above takes some 30 KiB; without this limit, 16 KiB of empty objects
/// would take 2 MiB.
const DECODED: usize = 128 * KIBIBYTE;

/// Memory for a decoded detail: twice that of the instance above.
const DETAIL: usize = 64 * KIBIBYTE;

/// The limits for one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of the body in total.
    pub body: usize,
    /// Bytes of the body without the rows of the list.
    pub rest: usize,
    /// Levels of nesting.
    pub depth: usize,
    /// Bytes of memory for a decoded row, or for the decoded rest.
    pub decoded: usize,
    /// The list whose rows are decoded one by one.
    pub list: Option<ListBounds>,
}

/// The limits for the list in an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListBounds {
    /// The field that contains the list.
    pub field: &'static str,
    /// Bytes of one row.
    pub row: usize,
    /// Number of rows.
    pub rows: usize,
}

impl Bounds {
    fn object(size: usize) -> Self {
        Self {
            body: size,
            rest: size,
            depth: DEPTH,
            decoded: DECODED,
            list: None,
        }
    }

    fn list(body: usize, field: &'static str, rows: usize) -> Self {
        let row = OBJECT;
        Self {
            list: Some(ListBounds { field, row, rows }),
            body,
            ..Self::object(ENVELOPE)
        }
    }

    /// The limits for an answer with a success status.
    pub(super) fn of(operation: CloudCall) -> Self {
        let page = |field| Self::list(PAGE, field, ROWS_OF_A_PAGE);
        let whole = |field| Self::list(WHOLE_LIST, field, ROWS_OF_A_WHOLE_LIST);
        match operation {
            // A detail stays in status and in the object cache until the server is released, so its limit is lower.
            CloudCall::Detail => Self {
                decoded: DETAIL,
                ..Self::object(OBJECT)
            },
            CloudCall::Instances => page("instances"),
            CloudCall::Firewalls => page("firewalls"),
            CloudCall::Images => page("images"),
            CloudCall::Keys => page("sshKeys"),
            CloudCall::Packages => whole("packages"),
            CloudCall::Regions => whole("regions"),
            // The task, and every mutating call.
            _ => Self::short(),
        }
    }

    /// The limits for a short answer: a receipt, the state of a task, or a refusal.
    pub(super) fn short() -> Self {
        Self::object(ENVELOPE)
    }

    /// The limits for the answer to a probe.
    pub(super) fn of_probe() -> Self {
        Self {
            body: PROBE,
            ..Self::of(CloudCall::Keys)
        }
    }

    /// Memory that reading such an answer may take: the HTTP library's buffer for the head, which cannot be configured and ends
    /// at 408 KiB, and the pieces of the body, which are limited in total. Memory for decoded rows is counted where the rows
    /// are kept.
    pub(super) fn memory(&self) -> usize {
        const HEAD: usize = 408 * KIBIBYTE;
        HEAD + self.body
    }
}

/// The limit that an answer exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExceededBound {
    /// [`Bounds::body`].
    #[error("its body is larger than {} KiB", .0 / KIBIBYTE)]
    Body(usize),
    /// [`Bounds::rest`], next to a list.
    #[error("the part next to its list is larger than {} KiB", .0 / KIBIBYTE)]
    Rest(usize),
    /// [`ListBounds::row`].
    #[error("a row of its list is larger than {} KiB", .0 / KIBIBYTE)]
    Row(usize),
    /// [`ListBounds::rows`].
    #[error("its list has more than {0} rows")]
    Rows(usize),
    /// [`Bounds::depth`].
    #[error("its body is nested deeper than {0} levels")]
    Depth(usize),
    /// [`Bounds::decoded`].
    #[error("an object in it takes more than {} KiB of memory", .0 / KIBIBYTE)]
    Decoded(usize),
}
