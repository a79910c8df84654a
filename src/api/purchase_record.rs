use super::cause::Cause;
use super::marker::Marker;
use super::operation::Applied;
use super::references::Resolved;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The durable record of what was bought for an Instance: the annotation [`BINDING`](super::names::BINDING), as JSON.
///
/// It must survive the loss of status, hence an annotation (design section 4, rule 2). Written by compare-and-swap as
/// the intent, and conditionally on that very intent as the receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PurchaseRecord {
    /// UID of the cluster's namespace kube-system: a backup that is restored in another cluster binds nothing there.
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
    /// A random word of the reconcile that wrote the newest intent: an intent whose acknowledgement was lost is ours only if
    /// it bears our word.
    pub nonce: String,
    /// The server's identifier, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of a server that was taken over instead of bought, as it was then: it bears no marker, and is told by its
    /// identifier and this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
    /// The task of the newest attempt, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// When the newest attempt was announced; shown to people, decides nothing.
    pub started_at: Timestamp,
    /// Generation of the spec that it was made from.
    pub generation: i64,
    /// Why it was made; shown to people, decides nothing.
    #[serde(
        default,
        deserialize_with = "Cause::read",
        skip_serializing_if = "Option::is_none"
    )]
    pub cause: Option<Cause>,
    /// What the server was asked for with.
    #[serde(default)]
    pub target: Applied,
    /// Its password waits in a Secret of the operator, beside the one that whoever names the same Secret and key by
    /// passwordSecretRef gets: the version in `target` says nothing about that one. Or the server was found or taken
    /// over, and which password it has is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting_password: bool,
    /// The package that was asked for: the service does not tell it later.
    pub package: String,
    /// The security group that the create named: the service does not report it later. None where the create named none;
    /// empty where a server was adopted before the name in the spec was resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firewall: Option<String>,
    /// What the selectors of the spec meant when it was bought: should status be lost, nothing is looked up anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Resolved>,
    /// Every place (region/zone), the newest last, in which an attempt was made: where a server with our marker may be.
    pub places: Vec<String>,
    /// Attempts that ended without a receipt of our own request: a server of theirs may still turn up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u32,
    /// Creates in a row whose task failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// What the service said when it refused the newest attempt: nothing was bought by it, and no call is made under it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// Servers that were bought in the place of one that somebody else had released.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recreated: u32,
    /// The Account of the newest attempt: where its server is, whatever the spec says by now.
    pub account: String,
    /// That Account's endpoint and token under a key that stands in no annotation: as long as it stands, an answer of the
    /// service is known to come from the account that bought the server, and a guess at the token is confirmed by nothing.
    pub credential: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// No attempt, and no count of attempts, comes near this: one a second would take thirty years. A larger one was not counted but
/// written by somebody, and nothing could be counted on from it for long.
const MOST: u32 = 1_000_000_000;

/// A number of an attempt that somebody tells of, if there can be such an attempt.
pub fn attempt_number(told: i64) -> Option<u32> {
    let number = u32::try_from(told).ok();
    number.filter(|number| *number <= MOST)
}

/// What the service said to a create that it refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// What it means, as in the condition Ready.
    pub reason: String,
    /// In the service's words.
    pub message: String,
}

/// Whom a record speaks for (design section 4, rule 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// For this very object.
    Own,
    /// For this object, which was restored from a backup: another UID, the same cluster, namespace and name.
    Restored,
    /// For some other object: a copied manifest. It binds nothing here.
    Other,
}

/// Why an annotation is not a record.
#[derive(Debug, Error)]
pub enum BindingError {
    /// Not the JSON that we write.
    #[error(
        "annotation {annotation} cannot be read ({reason}): restore it, or remove it, and the server is found by its name",
        annotation = super::names::BINDING
    )]
    Malformed {
        /// What the decoder said, without the content.
        reason: String,
    },
    /// The marker is not the one of the UID.
    #[error(
        "annotation {annotation} has a marker that does not belong to its uid: restore it, or remove it, and the server is found \
         by its name",
        annotation = super::names::BINDING
    )]
    Forged,
    /// A number in it is none that was counted.
    #[error(
        "annotation {annotation} says {field} {number}, and nobody has counted beyond {MOST}: restore the annotation \
         from a backup, or remove it while the Instance is not being deleted: the record is then rebuilt",
        annotation = super::names::BINDING
    )]
    Uncounted {
        /// The field.
        field: &'static str,
        /// What it says.
        number: u32,
    },
}

impl PurchaseRecord {
    /// Reads the annotation's text.
    ///
    /// # Errors
    /// The text is not JSON of this shape, its marker is not the one of its uid, or it counts further than anybody can have
    /// counted (somebody edited it).
    pub fn parse(text: &str) -> Result<Self, BindingError> {
        let record: Self = serde_json::from_str(text).map_err(|e| BindingError::Malformed {
            reason: e.to_string(),
        })?;
        if record.marker != Marker::of_uid(&record.uid) {
            return Err(BindingError::Forged);
        }
        let numbers = [
            ("attempt", record.attempt),
            ("lost", record.lost),
            ("failed", record.failed),
            ("recreated", record.recreated),
        ];
        match numbers.into_iter().find(|(_, number)| *number > MOST) {
            Some((field, number)) => Err(BindingError::Uncounted { field, number }),
            None => Ok(record),
        }
    }

    /// Whether the `test` of a JSON patch can tell that a record, which anybody may have edited, stands as it is: the apiserver
    /// escapes some characters in its own JSON, and compares the escaped forms. What we write has none of them.
    pub fn is_testable(text: &str) -> bool {
        text.chars()
            .all(|c| !matches!(c, '&' | '<' | '>' | '\u{2028}' | '\u{2029}'))
    }

    /// The annotation's text: JSON in plain ASCII, with `&`, `<` and `>` escaped.
    ///
    /// The apiserver escapes these in its own JSON, and the `test` of a JSON patch compares the escaped forms: an unescaped
    /// one in an identifier of the service would make every conditional write of the record fail.
    pub fn to_text(&self) -> String {
        // A struct of strings and numbers always has a JSON form.
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

    /// Whether the service has refused every attempt: whoever believes the record has nothing to look for.
    pub fn bought_nothing(&self) -> bool {
        self.refused.is_some() && self.id.is_none() && self.lost == 0 && self.failed == 0
    }

    /// Whether it speaks for the object with this UID, namespace and name in this cluster.
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
    fn what_is_written_is_read_again() {
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
    fn a_number_that_nobody_counted_is_named_with_its_remedy() {
        for field in ["attempt", "lost", "failed", "recreated"] {
            let parse = |number: u32| {
                let mut json = serde_json::to_value(record()).unwrap();
                json[field] = number.into();
                PurchaseRecord::parse(&json.to_string()).map_err(|error| error.to_string())
            };
            let error = parse(u32::MAX).unwrap_err();
            let says = format!("{field} 4294967295");
            assert!(
                error.contains(&says) && error.contains("restore"),
                "{error}"
            );
            assert!(parse(MOST).is_ok());
        }
        assert_eq!(attempt_number(7), Some(7));
        for absurd in [-1, i64::from(MOST) + 1, i64::from(u32::MAX), i64::MAX] {
            assert_eq!(attempt_number(absurd), None);
        }
    }

    #[test]
    fn a_cause_that_only_a_newer_version_knows_makes_no_record_unreadable() {
        let mut json = serde_json::to_value(record()).unwrap();
        json["cause"] = "Whim".into();
        assert_eq!(PurchaseRecord::parse(&json.to_string()).unwrap(), record());
        let mut known = record();
        known.cause = Some(Cause::Adoption);
        assert_eq!(PurchaseRecord::parse(&known.to_text()).unwrap(), known);
    }

    #[test]
    fn its_text_is_plain_whatever_identifiers_the_service_gives() {
        let mut odd = record();
        odd.id = Some("ecs-a&b<c>d \u{2028} \u{1f600} \"quoted\"".into());
        let text = odd.to_text();
        assert!(text.is_ascii() && !text.contains(['&', '<', '>']), "{text}");
        assert_eq!(PurchaseRecord::parse(&text).unwrap(), odd);
    }

    #[test]
    fn it_speaks_for_its_uid_or_for_its_name_in_its_cluster_and_for_nobody_else() {
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
        assert!(matches!(error, BindingError::Forged));
        let told = error.to_string();
        assert!(told.contains("restore it, or remove it"), "{told}");
        assert!(matches!(
            PurchaseRecord::parse("{}"),
            Err(BindingError::Malformed { .. })
        ));
    }
}
