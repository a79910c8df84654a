//! Names by which Kubernetes and the service know the operator. They are a public interface: users' automation, RBAC rules and
//! GitOps ignore-lists depend on them.

use super::Marker;

/// API group of both kinds.
pub const GROUP: &str = "cloudserver.dev";

/// Finalizer on an Instance: the object stays until its server is confirmed gone or is retained, or certainly none was bought.
pub const FINALIZER: &str = "cloudserver.dev/release";

/// Annotation that contains the [`PurchaseRecord`](super::PurchaseRecord): the durable record of the purchase for an Instance.
pub const BINDING: &str = "cloudserver.dev/binding";

/// Label of every Secret that the operator creates.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Label of the Secrets that the operator writes for Instances: the purpose of the Secret.
pub const SECRET_ROLE: &str = "cloudserver.dev/secret";

/// Label of the Secrets that the operator writes for Instances: the marker of the Instance. By this label the operator recognizes
/// a Secret that was restored from a backup without its owner reference.
pub const SECRET_MARKER: &str = "cloudserver.dev/marker";

/// Annotation of a generated login Secret: when its newest password was generated or came into effect. The next rotation is due
/// relative to this time.
pub const ROTATED_AT: &str = "cloudserver.dev/rotated-at";

/// Annotation of a generated login Secret: the resourceVersion on which the operator based a write that left the password of the
/// server unchanged, so that both versions stand for one password.
pub const SETTLED_FROM: &str = "cloudserver.dev/settled-from";

/// Label by which a Secret consents to its use: `token` or `client-certificate`.
pub const USE: &str = "cloudserver.dev/use";

/// Type of a Secret that consents to its use as a token without the label.
pub const TOKEN: &str = "cloudserver.dev/token";

/// Annotation of a Secret that consents: the endpoints for which it may be used, separated by white space.
pub const ENDPOINT: &str = "cloudserver.dev/endpoint";

/// Type of the Secrets, in the operator's own namespace, that contain copies of tokens.
pub const TOKEN_COPY: &str = "cloudserver.dev/token-copy";

/// Annotation in which kubectl stores the manifest of a client-side apply.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Field manager of every write of the operator, and the program's name in logs and in the user agent.
pub const MANAGER: &str = "cloud-server-operator";

/// Reporting controller of every Event.
pub const REPORTING_CONTROLLER: &str = "cloudserver.dev/operator";

/// The Account of an Instance that names none.
pub const DEFAULT_ACCOUNT: &str = "default";

/// Longest server name that the service accepts (specification section 8).
pub const SERVER_NAME_MAX: usize = 64;

/// The server's name at the service: as much of the object's name as fits, and the marker
/// (`docs/decisions/0002-marker-in-the-name.md`).
///
/// Dots of a Kubernetes name become hyphens, since the service allows only letters, digits and hyphens. The attempt is not part
/// of the name: every attempt makes servers with the same marker.
pub fn server_name(object_name: &str, marker: &Marker) -> String {
    let prefix_max = SERVER_NAME_MAX - 1 - marker.as_str().len();
    let prefix: String = object_name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(prefix_max)
        .collect();
    format!("{prefix}-{marker}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_name_obeys_the_service_and_carries_the_marker() {
        let marker = Marker::of_uid("0f6c0a1e-5a0e-4a56-9d3e-3f1d6f1f9a11");
        for name in ["web-1", "a.b.c", &"x".repeat(253)] {
            let server = server_name(name, &marker);
            assert!(server.len() <= SERVER_NAME_MAX, "{server}");
            assert!(
                server
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-'),
                "{server}"
            );
            assert_eq!(Marker::in_name(&server).as_ref(), Some(&marker));
        }
        assert!(server_name("a.b.c", &marker).starts_with("a-b-c-"));
    }
}
