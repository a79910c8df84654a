//! The audit log: who asked the API for what, and how it ended.
//!
//! One line a request, written before the request is answered. No bodies.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// Why the log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the audit log {}", path.display())]
    File {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line that is complete is not an entry.
    #[error("line {line} of the audit log {} is not an entry", path.display())]
    Line {
        /// The log.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// How far a request had come when the entry was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[non_exhaustive]
pub enum Stage {
    /// The first stage of all. Left out by the clusters of this crate.
    RequestReceived,
    /// A watch has begun to answer.
    ResponseStarted,
    /// The answer is complete.
    ResponseComplete,
    /// The server failed on the request.
    Panic,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Names the request; a watch has two entries with the same one.
    pub id: String,
    /// How far the request had come.
    pub stage: Stage,
    /// The user, such as `system:serviceaccount:team-a:operator`.
    pub user: String,
    /// What the client calls itself. Empty if it does not.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or a method for what is no
    /// resource.
    pub verb: String,
    /// Path and query as the client sent them.
    pub uri: String,
    /// The group of the resource. Empty for the core group, and for what is no resource.
    pub api_group: String,
    /// The plural name of the resource. Empty for what is no resource.
    pub resource: String,
    /// `status`, `scale`, `token` and the like. Empty for the object itself.
    pub subresource: String,
    /// Empty for what is in no namespace.
    pub namespace: String,
    /// Empty where the request names no object, such as a list.
    pub name: String,
    /// The HTTP status of the answer. Zero where none was sent.
    pub code: u16,
    /// When the request came.
    pub received_at: Timestamp,
    /// When it had come as far as [`Entry::stage`] says.
    pub stage_at: Timestamp,
}

impl Entry {
    /// Whether the request is one that changes objects, whether or not it was let do so.
    ///
    /// A dry run counts as well; [`Entry::is_dry_run`] tells it from the others.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// Whether the client asked for nothing to be stored.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.uri
            .split_once('?')
            .is_some_and(|(_, query)| query.split('&').any(|pair| pair.starts_with("dryRun=")))
    }

    /// Whether the API did as it was asked.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether the request was on this resource, by its plural name, and on the object itself.
    #[must_use]
    pub fn is_on(&self, resource: &str) -> bool {
        self.resource == resource && self.subresource.is_empty()
    }

    /// How long the API worked on the request, up to [`Entry::stage`].
    #[must_use]
    pub fn duration(&self) -> SignedDuration {
        self.stage_at.duration_since(self.received_at)
    }
}

/// Reads the whole log, in the order in which the answers were given.
///
/// A last line without its end is left out: the API is still writing it.
///
/// # Errors
/// When the file cannot be read, or a complete line is not an entry.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<Entry>, Error> {
    read_where(path.as_ref(), |_| true)
}

/// The same of what is in this namespace. The log of a cluster that many share is long, and most lines are decoded for nobody.
///
/// # Errors
/// As [`read`], of the lines of the namespace.
pub fn read_namespace(path: impl AsRef<Path>, namespace: &str) -> Result<Vec<Entry>, Error> {
    let quoted = format!("\"{namespace}\"");
    let names_it = |line: &[u8]| String::from_utf8_lossy(line).contains(&quoted);
    let mut entries = read_where(path.as_ref(), names_it)?;
    entries.retain(|entry| entry.namespace == namespace);
    Ok(entries)
}

fn read_where(path: &Path, is_wanted: impl Fn(&[u8]) -> bool) -> Result<Vec<Entry>, Error> {
    let bytes = fs::read(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?;
    parse(&bytes, is_wanted).map_err(|(line, source)| Error::Line {
        path: path.to_owned(),
        line,
        source,
    })
}

fn parse(
    bytes: &[u8],
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<Vec<Entry>, (usize, serde_json::Error)> {
    let complete = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    bytes[..complete]
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && is_wanted(line))
        .map(|(index, line)| match serde_json::from_slice::<Line>(line) {
            Ok(line) => Ok(Entry::from(line)),
            Err(error) => Err((index + 1, error)),
        })
        .collect()
}

/// A line as the API writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: Stage,
    user: User,
    #[serde(default)]
    user_agent: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl From<Line> for Entry {
    fn from(line: Line) -> Self {
        let ObjectRef {
            api_group,
            resource,
            subresource,
            namespace,
            name,
        } = line.object_ref;
        Self {
            id: line.audit_id,
            stage: line.stage,
            user: line.user.username,
            user_agent: line.user_agent,
            verb: line.verb,
            uri: line.request_uri,
            api_group,
            resource,
            subresource,
            namespace,
            name,
            code: line.response_status.code,
            received_at: line.request_received_timestamp,
            stage_at: line.stage_timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS_PATCH: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a-1","stage":"ResponseComplete","requestURI":"/apis/example.dev/v1/namespaces/team-a/widgets/w/status?dryRun=All","verb":"patch","user":{"username":"system:serviceaccount:team-a:operator","groups":["system:authenticated"]},"sourceIPs":["127.0.0.1"],"userAgent":"operator/1","objectRef":{"resource":"widgets","namespace":"team-a","name":"w","apiGroup":"example.dev","apiVersion":"v1","subresource":"status"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-21T10:00:00.000000Z","stageTimestamp":"2026-11-21T10:00:00.250000Z","annotations":{"authorization.k8s.io/decision":"allow"}}"#;

    fn all(bytes: &[u8]) -> Result<Vec<Entry>, (usize, serde_json::Error)> {
        parse(bytes, |_| true)
    }

    #[test]
    fn a_line_becomes_an_entry() {
        let entries = all(format!("{STATUS_PATCH}\n").as_bytes()).unwrap();
        let [entry] = entries.as_slice() else {
            panic!("{entries:?}")
        };
        assert!(entry.is_write() && entry.is_success() && entry.is_dry_run());
        assert!(
            !entry.is_on("widgets"),
            "a write of the status is not one of the object"
        );
        assert_eq!(
            (entry.resource.as_str(), entry.subresource.as_str()),
            ("widgets", "status")
        );
        assert_eq!(entry.duration(), SignedDuration::from_millis(250));
    }

    #[test]
    fn a_line_that_is_still_being_written_is_left_out() {
        let half = &STATUS_PATCH[..STATUS_PATCH.len() / 2];
        assert_eq!(
            all(format!("{STATUS_PATCH}\n{half}").as_bytes())
                .unwrap()
                .len(),
            1
        );
        assert_eq!(all(half.as_bytes()).unwrap().len(), 0);
        assert_eq!(all(b"").unwrap().len(), 0);
    }

    #[test]
    fn a_complete_line_that_is_not_an_entry_is_named() {
        let (line, _) = all(format!("{STATUS_PATCH}\n{{}}\n").as_bytes()).unwrap_err();
        assert_eq!(line, 2);
    }
}
