use super::account::is_default;
use super::cause::Cause;
use super::marker::Marker;
use super::operation::Applied;
use super::references::Resolved;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use thiserror::Error;

/// The durable record of the purchase for an Instance: the annotation [`BINDING`](super::names::BINDING), as JSON.
///
/// It must survive the loss of status, so it is an annotation (`docs/decisions/0001-record-in-an-annotation.md`). The intent
/// is written by compare-and-swap; the receipt is written only if exactly this intent is still there.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PurchaseRecord {
    /// UID of the cluster's namespace kube-system. A backup that is restored in another cluster is not valid there.
    pub cluster: String,
    /// Namespace of the object for which it was written.
    pub namespace: String,
    /// Name of the object for which it was written.
    pub name: String,
    /// UID of the object for which it was first written; the marker is derived from it.
    pub uid: String,
    /// The marker in the server's name.
    pub marker: Marker,
    /// Number of the newest attempt; strictly increasing.
    pub attempt: u32,
    /// A random value of the reconcile that wrote the newest intent. If the write of an intent got no answer, the intent is
    /// ours only if it contains our value.
    pub nonce: String,
    /// The server's identifier, once it is known.
    pub id: Option<String>,
    /// The name of an imported server at the time of the import. Such a server has no marker, and is identified by its
    /// identifier and this name.
    pub imported: Option<String>,
    /// The task of the newest attempt, once it is known.
    pub task: Option<String>,
    /// When the newest attempt was announced. For display only.
    pub started_at: Timestamp,
    /// Generation of the spec for which the newest attempt was made.
    pub generation: i64,
    /// Why the newest attempt was made, for users. No call depends on it; it also selects the Event of a create, and the cause of
    /// the next attempt.
    #[serde(default, deserialize_with = "Cause::read")]
    pub cause: Option<Cause>,
    /// The values with which the server was requested.
    #[serde(default)]
    pub target: Applied,
    /// The server's password is under a separate key for pending passwords in a Secret of the operator. An Instance that names
    /// the same Secret and key by passwordSecretRef gets a different password, to which the version in `target` does not refer.
    /// Also set if the server was adopted or imported and its password is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting_password: bool,
    /// The requested package: the service does not report it later.
    pub package: String,
    /// The security group that the create named: the service does not report it later. None if the create named none; empty if
    /// a server was adopted before the name in the spec was resolved.
    pub firewall: Option<String>,
    /// The identifiers that the selectors of the spec were resolved to for the purchase. If status is lost, they are not
    /// resolved again.
    pub resolved: Option<Resolved>,
    /// Every zone (region/zone) in which a server of this Instance may be. A server on record is in the last one.
    pub places: Vec<String>,
    /// Number of attempts from which a further server may appear: they ended without a receipt, or their server was adopted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: u32,
    /// Number of consecutive creates whose task failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: u32,
    /// The service's refusal of the newest attempt: that attempt bought nothing, and no further call is made for it.
    pub refused: Option<Refusal>,
    /// Number of replacements for externally released servers, including one whose create was refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recreated: u32,
    /// The Account of the newest attempt. Its server belongs to this Account, even if the spec now names another.
    pub account: String,
    /// A digest of that Account's endpoint and token (`session/credential.rs`). While the Account's digest is the same,
    /// answers of the service come from the account that bought the server.
    pub credential: String,
}

/// No attempt number and no count of attempts comes near this limit: at one per second it would take thirty years. A larger
/// number was not counted but edited in, and to count on from it could overflow.
const COUNT_MAX: u32 = 1_000_000_000;

/// An attempt number from an external source, if it is plausible.
pub fn attempt_number(number: i64) -> Option<u32> {
    let number = u32::try_from(number).ok();
    number.filter(|number| *number <= COUNT_MAX)
}

/// The service's refusal of a create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The reason, as in the condition Ready.
    pub reason: String,
    /// The service's message.
    pub message: String,
}

/// The object for which a record is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Exactly this object.
    Own,
    /// This object, which was restored from a backup: another UID, the same cluster, namespace and name.
    Restored,
    /// Another object: the annotation was copied with a manifest, and is not valid here.
    Other,
}

/// The reason why an annotation is not a record, with the remedy.
#[derive(Debug, Error)]
#[error("annotation {annotation} {0}", annotation = super::names::BINDING)]
pub struct BindingError(String);

impl PurchaseRecord {
    /// Parses the text of the annotation.
    ///
    /// # Errors
    /// The text is not JSON of this shape, its marker does not belong to its uid, or a number in it is so large that it must
    /// have been edited.
    pub fn parse(text: &str) -> Result<Self, BindingError> {
        let remedy = "restore it, or remove it (a deletion then leaves a renamed server)";
        let record: Self = serde_json::from_str(text)
            .map_err(|error| BindingError(format!("cannot be read ({error}): {remedy}")))?;
        if record.marker != Marker::of_uid(&record.uid) {
            let why = format!("has a marker that does not belong to its uid: {remedy}");
            return Err(BindingError(why));
        }
        let numbers = [
            ("attempt", record.attempt),
            ("lost", record.lost),
            ("failed", record.failed),
            ("recreated", record.recreated),
        ];
        match numbers.into_iter().find(|(_, number)| *number > COUNT_MAX) {
            Some((field, number)) => Err(BindingError(format!(
                "has {field} {number}, which is more than any count ({COUNT_MAX}): restore the annotation from a backup, or \
                 remove it while the Instance is not being deleted: the record is then rebuilt"
            ))),
            None => Ok(record),
        }
    }

    /// Whether the `test` of a JSON patch can match the text of a record, which users may have edited. The apiserver escapes
    /// some characters in its own JSON, and compares the escaped forms. Records that the operator writes contain none of these
    /// characters.
    pub fn is_testable(text: &str) -> bool {
        text.chars()
            .all(|c| !matches!(c, '&' | '<' | '>' | '\u{2028}' | '\u{2029}'))
    }

    /// The text of the annotation: JSON in plain ASCII, with `&`, `<` and `>` escaped.
    ///
    /// The apiserver escapes these characters in its own JSON, and the `test` of a JSON patch compares the escaped forms. One
    /// unescaped character in an identifier of the service would make every conditional write of the record fail.
    pub fn to_text(&self) -> String {
        // Serialization cannot fail for a struct of strings and numbers.
        let text = serde_json::to_string(self).unwrap_or_default();
        let mut plain = String::with_capacity(text.len());
        let mut units = [0; 2];
        for c in text.chars() {
            if c.is_ascii() && !matches!(c, '&' | '<' | '>') {
                plain.push(c);
            } else {
                for unit in c.encode_utf16(&mut units) {
                    plain.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
        plain
    }

    /// Whether the service refused every create since a server was proven gone, if any was (see `recreate::needs_proof_again`).
    pub fn bought_nothing(&self) -> bool {
        self.refused.is_some() && self.id.is_none() && self.lost == 0 && self.failed == 0
    }

    /// Whether the record is valid for the object with this UID, namespace and name in this cluster.
    pub fn speaks_for(&self, cluster: &str, namespace: &str, name: &str, uid: &str) -> Speaks {
        if self.uid == uid {
            Speaks::Own
        } else if self.cluster == cluster && self.namespace == namespace && self.name == name {
            Speaks::Restored
        } else {
            Speaks::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> PurchaseRecord {
        PurchaseRecord {
            cluster: "c".into(),
            namespace: "ns".into(),
            name: "web".into(),
            uid: "u1".into(),
            marker: Marker::of_uid("u1"),
            attempt: 1,
            nonce: "n".into(),
            id: None,
            imported: None,
            task: None,
            started_at: Timestamp::UNIX_EPOCH,
            generation: 1,
            cause: None,
            target: Applied::default(),
            waiting_password: false,
            package: "p".into(),
            firewall: Some("fw".into()),
            resolved: None,
            places: vec!["r/z".into()],
            lost: 0,
            failed: 0,
            refused: None,
            recreated: 0,
            account: "default".into(),
            credential: "s/1".into(),
        }
    }

    #[test]
    fn a_written_record_is_read_unchanged() {
        assert_eq!(
            PurchaseRecord::parse(&record().to_text()).unwrap(),
            record()
        );
    }

    #[test]
    fn a_record_without_a_security_group_is_read() {
        let mut json = serde_json::to_value(record()).unwrap();
        json.as_object_mut().unwrap().remove("firewall");
        let read = PurchaseRecord::parse(&json.to_string()).unwrap();
        assert_eq!(read.firewall, None);
    }

    #[test]
    fn an_impossible_number_is_reported_with_its_remedy() {
        for field in ["attempt", "lost", "failed", "recreated"] {
            let parse = |number: u32| {
                let mut json = serde_json::to_value(record()).unwrap();
                json[field] = number.into();
                PurchaseRecord::parse(&json.to_string()).map_err(|error| error.to_string())
            };
            let error = parse(u32::MAX).unwrap_err();
            let words = format!("{field} 4294967295");
            assert!(
                error.contains(&words) && error.contains("restore"),
                "{error}"
            );
            assert!(parse(COUNT_MAX).is_ok());
        }
        assert_eq!(attempt_number(7), Some(7));
        for absurd in [-1, i64::from(COUNT_MAX) + 1, i64::from(u32::MAX), i64::MAX] {
            assert_eq!(attempt_number(absurd), None);
        }
    }

    #[test]
    fn an_unknown_cause_does_not_make_a_record_unreadable() {
        let mut json = serde_json::to_value(record()).unwrap();
        json["cause"] = "Whim".into();
        assert_eq!(PurchaseRecord::parse(&json.to_string()).unwrap(), record());
        let mut known = record();
        known.cause = Some(Cause::Adoption);
        assert_eq!(PurchaseRecord::parse(&known.to_text()).unwrap(), known);
    }

    #[test]
    fn a_record_is_plain_ascii_with_any_identifier_of_the_service() {
        let mut unusual = record();
        unusual.id = Some("ecs-a&b<c>d \u{2028} \u{1f600} \"quoted\"".into());
        let text = unusual.to_text();
        assert!(text.is_ascii() && !text.contains(['&', '<', '>']), "{text}");
        assert_eq!(PurchaseRecord::parse(&text).unwrap(), unusual);
    }

    #[test]
    fn a_record_is_valid_for_its_uid_or_for_its_name_in_its_cluster_and_for_no_other_object() {
        let b = record();
        assert_eq!(b.speaks_for("c", "ns", "web", "u1"), Speaks::Own);
        assert_eq!(b.speaks_for("c", "ns", "web", "u2"), Speaks::Restored);
        assert_eq!(b.speaks_for("c", "ns", "copy", "u2"), Speaks::Other);
        assert_eq!(b.speaks_for("other", "ns", "web", "u2"), Speaks::Other);
        assert_eq!(b.speaks_for("c", "elsewhere", "web", "u2"), Speaks::Other);
    }

    #[test]
    fn a_marker_of_another_uid_is_refused() {
        let mut forged = record();
        forged.marker = Marker::of_uid("u2");
        let error = PurchaseRecord::parse(&forged.to_text()).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("a marker that does not belong"),
            "{message}"
        );
        assert!(message.contains("restore it, or remove it"), "{message}");
        let message = PurchaseRecord::parse("{}").unwrap_err().to_string();
        assert!(message.contains("cannot be read"), "{message}");
    }
}
