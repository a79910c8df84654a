use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The reason why an operation was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Cause {
    /// The spec was applied or edited.
    Spec,
    /// The Secret with the password was edited.
    Secret,
    /// A generated password reached its maximum age, or its Secret was edited or deleted.
    Rotation,
    /// The server was started or stopped externally.
    Drift,
    /// The server was released externally, and spec.onExternalDeletion is Recreate.
    ExternalDeletion,
    /// A server was found by its name, which identifies it as the server of this Instance.
    Adoption,
    /// The server that spec.import names was imported.
    Import,
}

impl Cause {
    /// Reads a cause. An unknown cause, written by a newer version, reads as none, so that the record or status stays readable.
    ///
    /// # Errors
    /// The value is not JSON.
    pub fn read<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Self>, D::Error> {
        let value = serde_json::Value::deserialize(source)?;
        Ok(Self::deserialize(value).ok())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spec => "as the spec asks",
            Self::Secret => "since the Secret was changed",
            Self::Rotation => "since the generated password is to be replaced",
            Self::Drift => "since its power state was changed outside the operator",
            Self::ExternalDeletion => {
                "since the former server was released outside the operator, and spec.onExternalDeletion is Recreate"
            }
            Self::Adoption => "since it was found by its name",
            Self::Import => "as spec.import asks",
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::api::HistoryEntry;
    use serde_json::json;

    #[test]
    fn a_cause_reads_as_a_clause() {
        assert_eq!(
            super::Cause::Secret.to_string(),
            "since the Secret was changed"
        );
        let drift = super::Cause::Drift.to_string();
        assert_eq!(
            drift,
            "since its power state was changed outside the operator"
        );
    }

    #[test]
    fn an_entry_of_an_older_or_a_newer_version_is_read() {
        let mut entry = json!({"verb": "Stop", "attempt": 1, "succeeded": true,
            "startedAt": "1970-01-01T00:00:00Z", "finishedAt": "1970-01-01T00:00:00Z"});
        let older: HistoryEntry = serde_json::from_value(entry.clone()).unwrap();
        assert_eq!((older.cause, older.generation), (None, None));
        entry["cause"] = "Whim".into();
        let newer: HistoryEntry = serde_json::from_value(entry).unwrap();
        assert_eq!(newer, older);
    }
}
