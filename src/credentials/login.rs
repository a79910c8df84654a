//! The login that the spec of an Instance names, given or generated.

use super::ownership::{ManagedSecret, Ownership, SecretOwner};
use crate::api::conditions::{Readiness, Reason};
use crate::api::names::{ROTATED_AT, SETTLED_FROM};
use crate::api::{InstanceSpec, PASSWORD, PasswordSpecialCharacters, SecretKeyRef, SecretTemplate};
use crate::cloud::password;
use crate::session::{Content, SecretProblem, read};
use jiff::Timestamp;
use kube::Client;
use secrecy::{ExposeSecret, SecretString};

pub(super) const CURRENT: &str = "current";
pub(super) const PENDING: &str = "pending";
pub(super) const USERNAME: &str = "username";

/// The result of reading the login, without its password.
#[derive(Clone, Debug)]
pub enum LoginFact {
    NotRead,
    Ready(KnownLogin),
    /// The Secret that the operator should create does not exist.
    Missing,
    /// The Secret of this version was made for this Instance and has no living owner: it was restored from a backup.
    Reclaimable(String),
    /// The login cannot be used.
    Problem(Readiness),
    Unread(String),
}

impl LoginFact {
    /// The fact before any read. A login by key pair needs no read.
    pub fn of(spec: &InstanceSpec) -> Self {
        if spec.login.ssh_key.is_some() {
            return Self::Ready(KnownLogin::default());
        }
        if spec.login_secret("").is_some() {
            return Self::NotRead;
        }
        let message = "spec.login names neither passwordSecretRef nor sshKey nor generate: set exactly one of them";
        Self::Problem(Readiness::stalled(Reason::LoginSecretNotFound, message))
    }
}

/// A login that can be sent: its password follows the service's rules. A key pair needs no Secret.
#[derive(Clone, Debug, Default)]
pub struct KnownLogin {
    /// The Secret with the password and its version, see [`named_version`].
    pub secret: Option<String>,
    /// The state of a Secret that the operator makes.
    pub generated: Option<Generated>,
}

impl KnownLogin {
    /// Whether this is a generated password that users should not log in with yet.
    pub fn is_waiting(&self) -> bool {
        let generated = self.generated.as_ref();
        generated.is_some_and(|generated| !generated.is_settled)
    }
}

/// The state of a Secret that the operator makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    /// The login's password is under `password` and is in force; none is pending.
    pub is_settled: bool,
    /// The version on which the operator based a write that left the password of the server unchanged. If `is_settled`, the
    /// password in that version is still in force.
    pub settled_from: Option<String>,
}

/// Metadata of a generated login Secret, as this process read or wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginMetadata {
    /// The version with this metadata, see [`named_version`].
    pub version: String,
    /// When the newest password was generated or came into effect; None if the annotation is missing or cannot be parsed.
    pub rotated_at: Option<Timestamp>,
    /// The template whose labels and annotations the Secret has, or which this process wrote last.
    pub template: Option<SecretTemplate>,
}

/// A version of a Secret with the Secret's name and the key in it: another key of the same Secret is another password.
pub fn named_version(reference: &SecretKeyRef, version: &str) -> String {
    format!("{}/{}/{version}", reference.name, reference.key)
}

/// The key of the password that the server should have: the pending one, unless a user has edited `password` since.
pub(super) fn wanted_key(content: &Content) -> &'static str {
    let is_edited = content.text(PASSWORD) != content.text(CURRENT);
    match content.text(PENDING) {
        Some(_) if !is_edited => PENDING,
        _ => PASSWORD,
    }
}

/// When the newest password was generated or came into effect, according to the annotation.
pub(super) fn rotated_at(content: &Content) -> Option<Timestamp> {
    content.annotations.get(ROTATED_AT)?.parse().ok()
}

/// Whether `password` is the password in force: no other one is pending, and no edit of it is still to be set.
pub(super) fn is_settled(content: &Content) -> bool {
    content.text(PENDING).is_none() && content.text(PASSWORD) == content.text(CURRENT)
}

/// The Secret with the password that a spec names, and who may have made it.
#[derive(Debug)]
pub struct LoginSecret<'a> {
    namespace: &'a str,
    reference: SecretKeyRef,
    /// It is one that the operator makes.
    pub(super) managed: Option<ManagedSecret<'a>>,
}

impl<'a> LoginSecret<'a> {
    /// None if the spec names no password.
    pub fn of(spec: &'a InstanceSpec, owner: SecretOwner<'a>) -> Option<Self> {
        let reference = spec.login_secret(&owner.key.name)?;
        let generate = spec.login.generate.as_ref();
        Some(Self {
            namespace: &owner.key.namespace,
            managed: generate.map(|generate| {
                ManagedSecret::login(owner, reference.name.clone(), generate.template.as_ref())
            }),
            reference,
        })
    }

    /// The version of this Secret.
    pub(super) fn version(&self, content: &Content) -> String {
        named_version(&self.reference, &content.version())
    }

    /// The metadata of this version, as if the Secret had the labels and annotations of the template. This is assumed after a write
    /// of this process: if a policy changed the write, it is not repeated until another writer changes the Secret.
    pub(super) fn metadata(
        &self,
        managed: &ManagedSecret<'_>,
        version: &str,
        rotated_at: Option<Timestamp>,
    ) -> LoginMetadata {
        LoginMetadata {
            version: named_version(&self.reference, version),
            rotated_at,
            template: managed.template.cloned(),
        }
    }

    /// Reads the login for a plan, and the metadata of a Secret that the operator makes.
    pub async fn observe(
        &self,
        client: &Client,
        specials: PasswordSpecialCharacters,
    ) -> (LoginFact, Option<LoginMetadata>) {
        match read(client, self.namespace, &self.reference.name).await {
            Ok(content) => {
                let metadata = self.managed.as_ref().map(|managed| {
                    let version = content.version();
                    let mut metadata = self.metadata(managed, &version, rotated_at(&content));
                    let is_met =
                        |it: &SecretTemplate| it.is_met(&content.labels, &content.annotations);
                    metadata.template = metadata.template.filter(is_met);
                    metadata
                });
                (self.fact(content, specials), metadata)
            }
            Err(SecretProblem::NoSecret(_)) if self.managed.is_some() => (LoginFact::Missing, None),
            Err(problem) => (of_problem(&problem, &self.reference.key), None),
        }
    }

    /// Reads the password; None if the Secret is not in this version, or if no service accepts the password.
    ///
    /// # Errors
    /// The Secret could not be read.
    pub async fn password(
        &self,
        client: &Client,
        version: &str,
    ) -> Result<Option<SecretString>, SecretProblem> {
        let content = self.read_version(client, version).await?;
        let password = content.and_then(|mut content| {
            let key = self.key(&content);
            content.take(&self.reference.name, key).ok()
        });
        let specials = PasswordSpecialCharacters::AtLeastOne;
        Ok(password.filter(|text| password::broken_rule(text.expose_secret(), specials).is_none()))
    }

    /// Reads the Secret; None if it is not in this version.
    pub(super) async fn read_version(
        &self,
        client: &Client,
        version: &str,
    ) -> Result<Option<Content>, SecretProblem> {
        match read(client, self.namespace, &self.reference.name).await {
            Ok(content) => Ok(Some(content).filter(|it| self.version(it) == version)),
            Err(problem @ SecretProblem::Unread { .. }) => Err(problem),
            Err(_) => Ok(None),
        }
    }

    /// The key of the password that the server should have.
    fn key(&self, content: &Content) -> &str {
        match self.managed {
            Some(_) => wanted_key(content),
            None => &self.reference.key,
        }
    }

    /// The login in this content, if it belongs to the Instance or a user made it, and if its password follows the rules.
    pub(super) fn fact(
        &self,
        mut content: Content,
        specials: PasswordSpecialCharacters,
    ) -> LoginFact {
        let version = self.version(&content);
        let generated = match &self.managed {
            None => None,
            Some(managed) => {
                let ownership = managed.ownership(&content);
                if ownership == Ownership::Reclaimable {
                    return LoginFact::Reclaimable(version);
                }
                if let Some(conflict) = managed.conflict(ownership) {
                    return LoginFact::Problem(conflict);
                }
                let from = content.annotations.get(SETTLED_FROM);
                let from = from.map(|from| format!("{}/{from}", content.uid));
                Some(Generated {
                    is_settled: is_settled(&content),
                    settled_from: from.map(|from| named_version(&self.reference, &from)),
                })
            }
        };
        let (key, secret) = (self.key(&content), &self.reference.name);
        let password = match content.take(secret, key) {
            Ok(password) => password,
            Err(problem) => return of_problem(&problem, key),
        };
        match password::broken_rule(password.expose_secret(), specials) {
            None => LoginFact::Ready(KnownLogin {
                secret: Some(version),
                generated,
            }),
            Some(rule) => LoginFact::Problem(Readiness::stalled(
                Reason::LoginPasswordInvalid,
                format!("the password under key {key} of Secret {secret} {rule}"),
            )),
        }
    }
}

/// The meaning of a Secret that yields no password, with the remedy.
fn of_problem(problem: &SecretProblem, key: &str) -> LoginFact {
    let missing = |remedy: &str| {
        let message = format!("{problem}: {remedy}");
        LoginFact::Problem(Readiness::reconciling(Reason::LoginSecretNotFound, message))
    };
    let invalid = |reason: Reason, remedy: &str| {
        LoginFact::Problem(Readiness::stalled(reason, format!("{problem}: {remedy}")))
    };
    match problem {
        SecretProblem::Unread { .. } => LoginFact::Unread(problem.to_string()),
        SecretProblem::NoSecret(_) => missing(&format!(
            "create it with the login password under key {key}"
        )),
        SecretProblem::NoKey { .. } | SecretProblem::Empty { .. } => {
            missing("put the login password there")
        }
        SecretProblem::InvalidName(_) => invalid(
            Reason::LoginSecretNotFound,
            "fix the name of the Secret in spec.login",
        ),
        SecretProblem::NotText { .. } => invalid(
            Reason::LoginPasswordInvalid,
            "put the login password there as plain text",
        ),
    }
}
