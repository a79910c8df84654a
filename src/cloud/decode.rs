//! Decodes an answer as it arrives: the rows of its list one by one, the rest at the end. At most one row and the rest are in
//! memory, each within its limit.
//!
//! This file finds the boundaries of rows, and counts bytes, levels and rows. serde_json decides whether a text is JSON and decodes
//! it, once its size, depth and decoded size are known to be within the limits.

use serde_json::{Map, Value};

use super::bounds::{Bounds, ExceededBound, ListBounds};
use super::budget::NoMemory;

/// The reason why an answer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    /// It is not the requested kind of answer.
    #[error("{0}")]
    Malformed(&'static str),
    #[error(
        "{0}, more than is read of such an answer: check that the endpoint and the paths of the Account lead to the service"
    )]
    Excess(#[from] ExceededBound),
    /// There is no memory for the rows that are to be kept.
    #[error("{0}")]
    NoMemory(#[from] NoMemory),
}

/// The error for a body that is not a JSON object.
pub(super) const NO_OBJECT: Unfit = Unfit::Malformed("its body is no JSON object");
const NO_ROW: Unfit = Unfit::Malformed("a row of its list is no JSON");

/// Receives each row of a list as text.
pub(super) type TakeRow<'a> = dyn FnMut(&[u8]) -> Result<(), Unfit> + Send + 'a;

/// An answer that was read to its end.
#[derive(Debug)]
pub(super) struct Decoded {
    /// Everything but the rows of the list, which is empty here.
    pub body: Map<String, Value>,
    /// Whether the answer contained the list.
    pub listed: bool,
}

/// Receives an answer piece by piece.
pub(super) struct Decoder {
    bounds: Bounds,
    /// Number of bytes received.
    received: usize,
    depth: usize,
    text: Text,
    /// The start of the latest string outside of rows, while that string may be the name of the list.
    name: Option<usize>,
    /// The name of the list and its colon were read: a bracket now begins the list.
    is_named: bool,
    /// The current byte is inside the list.
    within: bool,
    /// The list has begun, and may have ended.
    listed: bool,
    /// Number of complete rows.
    rows: usize,
    rest: TextPart,
    row: TextPart,
}

/// Whether the current byte is part of a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    No,
    Yes,
    /// Right after a backslash.
    Escaped,
}

/// A piece of JSON that is decoded as a whole.
#[derive(Default)]
struct TextPart {
    text: Vec<u8>,
    /// The memory of the decoded value without its text: an upper bound, based on the structure of serde_json's tree.
    tree: usize,
}

/// A map allocates room for eleven entries with its first one: 640 bytes, plus its slot in the containing value.
const MAP: usize = 704;
/// A list begins with room for four values.
const LIST: usize = 160;
/// An entry of a map that is half full, or a value of a list that just grew.
const ENTRY: usize = 112;
/// The allocator's minimum for a string.
const STRING: usize = 16;
/// The initial size of a buffer: most rows fit into it.
const FIRST: usize = 2 * 1024;

impl TextPart {
    /// Appends a text unless the result exceeds `most` bytes; returns whether the text was appended.
    fn grow(&mut self, text: &[u8], most: usize) -> bool {
        let needed = self.text.len() + text.len();
        if needed > most {
            return false;
        }
        if needed > self.text.capacity() {
            let doubled = self.text.capacity().saturating_mul(2);
            let capacity = needed.max(doubled).max(FIRST).min(most);
            self.text.reserve_exact(capacity - self.text.len());
        }
        self.text.extend_from_slice(text);
        true
    }

    fn clear(&mut self) {
        self.text.clear();
        self.tree = 0;
    }

    fn decoded(&self) -> usize {
        self.text.len() + self.tree
    }
}

impl Decoder {
    /// A decoder at the start of an answer.
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            received: 0,
            depth: 0,
            text: Text::No,
            name: None,
            is_named: false,
            within: false,
            listed: false,
            rows: 0,
            rest: TextPart::default(),
            row: TextPart::default(),
        }
    }

    /// Processes the next piece.
    ///
    /// # Errors
    /// The answer must not be read any further.
    pub(super) fn push(&mut self, piece: &[u8], take: &mut TakeRow<'_>) -> Result<(), Unfit> {
        self.received = self.received.saturating_add(piece.len());
        if self.received > self.bounds.body {
            return Err(ExceededBound::Body(self.bounds.body).into());
        }
        let mut left = piece;
        while let Some((byte, after)) = left.split_first() {
            left = match self.text {
                Text::Yes => self.in_string(left)?,
                Text::Escaped => {
                    self.text = Text::Yes;
                    self.grow(&[*byte])?;
                    after
                }
                Text::No => {
                    self.outside(*byte, take)?;
                    after
                }
            };
        }
        Ok(())
    }

    /// Ends the answer.
    ///
    /// # Errors
    /// The answer is not an object, or was truncated.
    pub(super) fn finish(self) -> Result<Decoded, Unfit> {
        if self.text != Text::No || self.depth != 0 || self.within {
            return Err(NO_OBJECT);
        }
        let body = serde_json::from_slice(&self.rest.text).map_err(|_| NO_OBJECT)?;
        Ok(Decoded {
            body,
            listed: self.listed,
        })
    }

    /// Memory that is held between two pieces.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.rest.text.capacity() + self.row.text.capacity()
    }

    fn part(&mut self) -> &mut TextPart {
        if self.within {
            &mut self.row
        } else {
            &mut self.rest
        }
    }

    /// The size limit of the part that is being read, and the error if the part exceeds it.
    fn most(&self) -> (usize, ExceededBound) {
        let rest = self.bounds.rest;
        match self.bounds.list {
            Some(list) if self.within => (list.row, ExceededBound::Row(list.row)),
            Some(_) => (rest, ExceededBound::Rest(rest)),
            None => (rest, ExceededBound::Body(rest)),
        }
    }

    fn grow(&mut self, text: &[u8]) -> Result<(), ExceededBound> {
        let ((most, excess), decoded) = (self.most(), self.bounds.decoded);
        let part = self.part();
        if !part.grow(text, most) {
            return Err(excess);
        }
        if part.decoded() > decoded {
            return Err(ExceededBound::Decoded(decoded));
        }
        Ok(())
    }

    /// White space between two tokens counts as one byte, regardless of its length.
    fn space(&mut self) -> Result<(), ExceededBound> {
        let before = self.part().text.last();
        if before.is_some_and(|before| *before != b' ') {
            self.grow(b" ")?;
        }
        Ok(())
    }

    /// Processes the text up to the end of the string or of the piece.
    fn in_string<'a>(&mut self, piece: &'a [u8]) -> Result<&'a [u8], Unfit> {
        let end = piece.iter().position(|byte| matches!(byte, b'"' | b'\\'));
        let (text, after) = piece.split_at(end.map_or(piece.len(), |end| end + 1));
        self.grow(text)?;
        self.text = match end.and_then(|end| piece.get(end)) {
            None => Text::Yes,
            Some(b'\\') => Text::Escaped,
            Some(_) => Text::No,
        };
        Ok(after)
    }

    /// Processes a byte outside of any string.
    fn outside(&mut self, byte: u8, take: &mut TakeRow<'_>) -> Result<(), Unfit> {
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            return Ok(self.space()?);
        }
        if self.within && self.depth == 2 && matches!(byte, b',' | b']' | b'}') {
            return self.end_of_row(byte, take);
        }
        let begins_list = std::mem::take(&mut self.is_named) && byte == b'[';
        match byte {
            b'"' => {
                self.text = Text::Yes;
                let at = self.rest.text.len();
                self.name = (!self.within && self.depth == 1).then_some(at);
                self.part().tree += STRING;
            }
            b':' => self.is_named = self.is_name_of_list(),
            b',' => self.part().tree += ENTRY,
            b'{' | b'[' => {
                self.part().tree += if byte == b'{' { MAP } else { LIST };
                self.depth += 1;
                if self.depth > self.bounds.depth {
                    return Err(ExceededBound::Depth(self.bounds.depth).into());
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.checked_sub(1).ok_or(NO_OBJECT)?;
            }
            _ => {}
        }
        self.grow(&[byte])?;
        if begins_list {
            if self.listed {
                return Err(Unfit::Malformed("it carries its list twice"));
            }
            (self.within, self.listed) = (true, true);
        }
        Ok(())
    }

    fn is_name_of_list(&mut self) -> bool {
        let (Some(list), Some(at)) = (&self.bounds.list, self.name.take()) else {
            return false;
        };
        let name = self.rest.text.get(at..).unwrap_or_default();
        serde_json::from_slice::<String>(name).is_ok_and(|name| name == list.field)
    }

    /// Processes a comma or the closing bracket of the list itself.
    fn end_of_row(&mut self, byte: u8, take: &mut TakeRow<'_>) -> Result<(), Unfit> {
        let is_last = byte != b',';
        let is_empty_list = is_last && self.rows == 0 && self.row.text.is_empty();
        if byte == b'}' || (self.row.text.is_empty() && !is_empty_list) {
            return Err(NO_ROW);
        }
        if !is_empty_list {
            self.rows += 1;
            let most = self.bounds.list.map_or(0, |ListBounds { rows, .. }| rows);
            if self.rows > most {
                return Err(ExceededBound::Rows(most).into());
            }
            take(&self.row.text)?;
            self.row.clear();
        }
        if is_last {
            self.within = false;
            self.depth = 1;
            self.grow(b"]")?;
        }
        Ok(())
    }
}

/// The fields of a row; none if the row is not an object.
///
/// # Errors
/// The row is not JSON.
pub(super) fn fields(row: &[u8]) -> Result<Option<Map<String, Value>>, Unfit> {
    match serde_json::from_slice(row).map_err(|_| NO_ROW)? {
        Value::Object(fields) => Ok(Some(fields)),
        _ => Ok(None),
    }
}

/// Checks that a row is JSON, without keeping any of it.
///
/// # Errors
/// The row is not JSON.
pub(super) fn skip(row: &[u8]) -> Result<(), Unfit> {
    let ignored: serde_json::Result<serde::de::IgnoredAny> = serde_json::from_slice(row);
    ignored.map(|_| ()).map_err(|_| NO_ROW)
}

#[cfg(test)]
mod tests;
