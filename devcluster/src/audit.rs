//! The audit log: which user requested what from the API, and the result.
//!
//! The API writes one line for each request, before it answers the request. Bodies are not recorded.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// The reason why the log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the audit log {}", path.display())]
    File {
        /// The log.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A complete line is not an entry.
    #[error("line {line} of the audit log {} is not an entry", path.display())]
    Line {
        /// The log.
        path: PathBuf,
        /// The line number, counted from one.
        line: usize,
        /// The error of the parser.
        source: serde_json::Error,
    },
}

/// The progress of a request when the entry was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[non_exhaustive]
pub enum Stage {
    /// The request was received. The clusters of this crate do not log this stage.
    RequestReceived,
    /// A watch has sent the head of its answer.
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
    /// The identifier of the request. The two entries of a watch share it.
    pub id: String,
    /// The progress of the request.
    pub stage: Stage,
    /// The user, for example `system:serviceaccount:team-a:operator`.
    pub user: String,
    /// The client's user agent. Empty if it sends none.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; or the HTTP method if the request
    /// does not concern a resource.
    pub verb: String,
    /// Path and query as the client sent them.
    pub uri: String,
    /// The group of the resource. Empty for the core group, and if the request does not concern a resource.
    pub api_group: String,
    /// The plural name of the resource. Empty if the request does not concern a resource.
    pub resource: String,
    /// `status`, `scale`, `token` and so on. Empty for the object itself.
    pub subresource: String,
    /// The namespace. Empty if the request concerns none.
    pub namespace: String,
    /// The name of the object. Empty if the request names none, as a list does.
    pub name: String,
    /// The HTTP status of the answer. Zero if no answer was sent.
    pub code: u16,
    /// When the API received the request.
    pub received_at: Timestamp,
    /// When the request reached [`Entry::stage`].
    pub stage_at: Timestamp,
}

impl Entry {
    /// Whether the request tries to change objects, regardless of its success.
    ///
    /// A dry run counts as well; [`Entry::is_dry_run`] distinguishes it.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// Whether the client requested a dry run, which stores nothing.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.uri
            .split_once('?')
            .is_some_and(|(_, query)| query.split('&').any(|pair| pair.starts_with("dryRun=")))
    }

    /// Whether the API carried out the request.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether the request concerns this resource, given by its plural name, and the object itself.
    #[must_use]
    pub fn is_on(&self, resource: &str) -> bool {
        self.resource == resource && self.subresource.is_empty()
    }

    /// How long the API worked on the request until it reached [`Entry::stage`].
    #[must_use]
    pub fn duration(&self) -> SignedDuration {
        self.stage_at.duration_since(self.received_at)
    }
}

/// Reads the whole log, in the order of the answers.
///
/// A last line without a line end is skipped, since the API is still writing it.
///
/// # Errors
/// The file cannot be read, or a complete line is not an entry.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<Entry>, Error> {
    read_where(path.as_ref(), |_| true)
}

/// Reads the entries of this namespace. The log of a shared cluster is long; this function decodes only the lines that name the
/// namespace.
///
/// # Errors
/// As for [`read`], limited to those lines.
pub fn read_namespace(path: impl AsRef<Path>, namespace: &str) -> Result<Vec<Entry>, Error> {
    let quoted = format!("\"{namespace}\"");
    let names_it = |line: &[u8]| String::from_utf8_lossy(line).contains(&quoted);
    let mut entries = read_where(path.as_ref(), names_it)?;
    entries.retain(|entry| entry.namespace == namespace);
    Ok(entries)
}

fn read_where(path: &Path, is_selected: impl Fn(&[u8]) -> bool) -> Result<Vec<Entry>, Error> {
    let bytes = fs::read(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?;
    parse(&bytes, is_selected).map_err(|(line, source)| Error::Line {
        path: path.to_owned(),
        line,
        source,
    })
}

fn parse(
    bytes: &[u8],
    is_selected: impl Fn(&[u8]) -> bool,
) -> Result<Vec<Entry>, (usize, serde_json::Error)> {
    let complete = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    bytes[..complete]
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && is_selected(line))
        .map(|(index, line)| match serde_json::from_slice::<Line>(line) {
            Ok(line) => Ok(Entry::from(line)),
            Err(error) => Err((index + 1, error)),
        })
        .collect()
}

/// A line in the format of the API.
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
