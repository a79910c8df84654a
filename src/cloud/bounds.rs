//! How much of an answer is read: what is needed of it, with room, and no more.
//!
//! Every figure follows from what an answer of the specification holds. A service that sends more, or something else, gets
//! an error that names the bound, and costs no memory beyond it.

use std::fmt;

use super::operation::Operation;

const KIBIBYTE: usize = 1024;

/// One object: an instance with all fields of the specification, sixteen data disks and sixteen further addresses is some
/// 8 KiB. A row of a listing may be as much.
const OBJECT: usize = 16 * KIBIBYTE;
/// What stands beside a list, and a receipt or the state of a task: a dozen short fields.
const ENVELOPE: usize = 8 * KIBIBYTE;
/// The key pairs that a probe asks for are one row; a service that does not know `pageSize` may send some hundred.
const PROBE: usize = 64 * KIBIBYTE;
/// Fifty rows are asked for, some 100 KiB. Five times that is room for fat rows, or for a service that gives 250 at once.
const PAGE: usize = 512 * KIBIBYTE;
/// Regions and packages come in one answer each: three thousand packages of 300 bytes.
const WHOLE_LIST: usize = 1024 * KIBIBYTE;
/// A refusal is a code and a sentence. What is longer is somebody's web page.
const REFUSAL: usize = 8 * KIBIBYTE;

/// Ten times the rows that are asked for.
const ROWS_OF_A_PAGE: usize = 500;
/// As many packages as fit into such an answer.
const ROWS_OF_A_WHOLE_LIST: usize = 4_000;

/// The specification nests five deep: a data disk's field within the instance within the list within the body.
const DEPTH: usize = 16;

/// What one row or object may take once it is decoded. The instance above takes some 30 KiB; without this bound 16 KiB of
/// empty objects would take 2 MiB.
const DECODED: usize = 128 * KIBIBYTE;

/// What a detail may take once it is decoded: twice the instance above.
const DETAIL: usize = 64 * KIBIBYTE;

/// The bounds of one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of the body, however they are spread.
    pub body: usize,
    /// Bytes of everything but the rows of the list.
    pub rest: usize,
    /// Levels of nesting.
    pub depth: usize,
    /// Bytes that a row, or the rest, may take once decoded.
    pub decoded: usize,
    /// The list whose rows are decoded one by one.
    pub list: Option<ListBounds>,
}

/// The bounds of the list of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListBounds {
    /// The field that it stands in.
    pub field: &'static str,
    /// Bytes of a row.
    pub row: usize,
    /// Rows.
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

    /// An answer with a status of success.
    pub(super) fn of(operation: Operation) -> Self {
        let page = |field| Self::list(PAGE, field, ROWS_OF_A_PAGE);
        let whole = |field| Self::list(WHOLE_LIST, field, ROWS_OF_A_WHOLE_LIST);
        match operation {
            Operation::Create
            | Operation::Release
            | Operation::Reinstall
            | Operation::ModifyPassword
            | Operation::Start
            | Operation::Stop
            | Operation::Restart
            | Operation::Task => Self::of_receipt(),
            // It stands in status, and in the cache of objects, for as long as the server.
            Operation::Detail => Self {
                decoded: DETAIL,
                ..Self::object(OBJECT)
            },
            Operation::Instances => page("instances"),
            Operation::Firewalls => page("firewalls"),
            Operation::Images => page("images"),
            Operation::Keys => page("sshKeys"),
            Operation::Packages => whole("packages"),
            Operation::Regions => whole("regions"),
        }
    }

    /// The answer to a call that changes something.
    pub(super) fn of_receipt() -> Self {
        Self::object(ENVELOPE)
    }

    /// The answer to a probe.
    pub(super) fn of_probe() -> Self {
        Self {
            body: PROBE,
            ..Self::of(Operation::Keys)
        }
    }

    /// An answer with any other status.
    pub(super) fn of_refusal() -> Self {
        Self::object(REFUSAL)
    }

    /// Memory that reading such an answer may take: the buffer in which the HTTP library collects the head, which cannot be set
    /// and ends at 408 KiB; then pieces of the body, which never take more than the body may have. What is decoded of it is
    /// counted where it is kept.
    pub(super) fn memory(&self) -> usize {
        const HEAD: usize = 408 * KIBIBYTE;
        HEAD + self.body
    }
}

/// Which bound an answer exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// [`Bounds::body`].
    Body(usize),
    /// [`Bounds::rest`], beside a list.
    Rest(usize),
    /// [`ListBounds::row`].
    Row(usize),
    /// [`ListBounds::rows`].
    Rows(usize),
    /// [`Bounds::depth`].
    Depth(usize),
    /// [`Bounds::decoded`].
    Decoded(usize),
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kibibytes = |bytes: &usize| bytes / KIBIBYTE;
        match self {
            Self::Body(most) => write!(f, "its body is larger than {} KiB", kibibytes(most)),
            Self::Rest(most) => write!(
                f,
                "what stands beside its list is larger than {} KiB",
                kibibytes(most)
            ),
            Self::Row(most) => write!(
                f,
                "a row of its list is larger than {} KiB",
                kibibytes(most)
            ),
            Self::Rows(most) => write!(f, "its list has more than {most} rows"),
            Self::Depth(most) => write!(f, "its body is nested deeper than {most} levels"),
            Self::Decoded(most) => write!(
                f,
                "an object in it takes more than {} KiB of memory",
                kibibytes(most)
            ),
        }
    }
}
