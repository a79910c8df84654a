//! A Secret decides what it may be used for, and where its content may be sent.
//!
//! A user who may create Accounts can name any Secret and any endpoint, without being allowed to read that Secret. The operator
//! therefore uses a Secret as token or client certificate only with the Secret's own consent: a label or its type permits the use,
//! and an annotation limits the endpoints and the proxy in front of them (with a CA of the Account's own, a proxy can read the
//! traffic). Only a user who may write the Secret can set these. The check reads the same object whose content is used,
//! not the version that a watch showed.

use super::account_session::Problem;
use super::secrets::{Content, SecretProblem, read};
use crate::api::conditions::Reason;
use crate::api::names::{ENDPOINT, TOKEN, USE};
use crate::api::{AccountSpec, SecretKeyRef};
use crate::cloud::{BuildError, EndpointPattern, PatternError, check_endpoint, check_proxy};
use kube::Client;
use secrecy::SecretString;
use std::fmt;
use thiserror::Error;
use url::Url;

/// The destination to which an Account sends the content of its Secrets.
#[derive(Clone, Debug)]
pub struct Destination {
    /// `spec.endpoint`.
    pub endpoint: Url,
    /// `spec.proxy.url`.
    pub proxy: Option<Url>,
}

impl Destination {
    /// The destination of an Account.
    ///
    /// # Errors
    /// The endpoint or the proxy is not a URL to which requests can go.
    pub fn of(spec: &AccountSpec) -> Result<Self, BuildError> {
        let proxy = spec.proxy.as_ref().map(|proxy| check_proxy(&proxy.url));
        Ok(Self {
            endpoint: check_endpoint(&spec.endpoint)?,
            proxy: proxy.transpose()?,
        })
    }

    /// Each field of the spec with its URL.
    fn urls(&self) -> impl Iterator<Item = (&'static str, &Url)> {
        let proxy = self.proxy.as_ref().map(|proxy| ("spec.proxy.url", proxy));
        std::iter::once(("spec.endpoint", &self.endpoint)).chain(proxy)
    }
}

/// A use of a Secret's content that needs consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The operator sends it to the endpoint as the token.
    Token,
    /// The operator authenticates with it in the TLS handshake.
    ClientCertificate,
}

impl Use {
    /// The value of the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::ClientCertificate => "client-certificate",
        }
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "a token",
            Self::ClientCertificate => "a client certificate",
        })
    }
}

/// Why a Secret is not used. Each message names the label, annotation or field to change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConsentRefusal {
    /// The Secret does not permit this use.
    #[error(
        "Secret {name} does not consent to its use as {wanted}: if that is its purpose, a user who may write it runs: kubectl \
         label secret {name} -n {namespace}{overwrite} {USE}={}", wanted.as_str()
    )]
    Unlabelled {
        name: String,
        namespace: String,
        wanted: Use,
        /// The part that the command needs if the label exists with another value.
        overwrite: &'static str,
    },
    /// The Secret is bound to other endpoints.
    #[error(
        "Secret {name} is bound to {bound} (annotation {ENDPOINT}), and {field} is another endpoint: {remedy}"
    )]
    BoundElsewhere {
        name: String,
        /// The endpoints that the Secret allows.
        bound: String,
        /// The field of the Account that names a different one.
        field: &'static str,
        remedy: String,
    },
    /// The annotation with the endpoints cannot be parsed.
    #[error(
        "annotation {ENDPOINT} of Secret {name} cannot be read: endpoint {number} of it: {error}"
    )]
    Unreadable {
        name: String,
        /// Which of the endpoints, counted from 1.
        number: usize,
        error: PatternError,
    },
    /// The annotation lists no endpoint.
    #[error(
        "annotation {ENDPOINT} of Secret {name} names no endpoint: name those that it is for, or remove the annotation"
    )]
    BoundNowhere { name: String },
}

impl ConsentRefusal {
    pub fn reason(&self) -> Reason {
        match self {
            Self::Unlabelled { .. } => Reason::SecretUseNotAllowed,
            Self::BoundElsewhere { .. } | Self::Unreadable { .. } | Self::BoundNowhere { .. } => {
                Reason::SecretEndpointMismatch
            }
        }
    }

    /// The problem of an Account that names the Secret.
    pub fn problem(&self) -> Problem {
        Problem::new(self.reason(), self.to_string())
    }
}

/// Why the content of a Secret cannot be used.
#[derive(Debug, Error)]
pub enum UseProblem {
    /// The Secret is missing, or its content is not usable.
    #[error(transparent)]
    Secret(#[from] SecretProblem),
    /// The Secret does not consent.
    #[error(transparent)]
    Refused(#[from] ConsentRefusal),
}

/// Reads a Secret if it consents to this use and destination. Consent is checked before any key is read, so that no error
/// reveals the keys of a Secret that does not consent.
///
/// # Errors
/// The Secret does not exist, could not be read, or does not consent.
pub async fn read_for(
    client: &Client,
    namespace: &str,
    name: &str,
    wanted: Use,
    destination: &Destination,
) -> Result<Content, UseProblem> {
    let content = read(client, namespace, name).await?;
    check(&content, namespace, name, wanted, destination)?;
    Ok(content)
}

/// Reads the token for this destination, with UID and resourceVersion of its Secret.
///
/// # Errors
/// See [`UseProblem`]; no variant contains the Secret's content.
pub async fn read_token(
    client: &Client,
    namespace: &str,
    reference: &SecretKeyRef,
    destination: &Destination,
) -> Result<(SecretString, String), UseProblem> {
    let SecretKeyRef { name, key } = reference;
    let mut content = read_for(client, namespace, name, Use::Token, destination).await?;
    let token = content.take(name, key)?;
    Ok((token, content.version()))
}

fn check(
    content: &Content,
    namespace: &str,
    name: &str,
    wanted: Use,
    destination: &Destination,
) -> Result<(), ConsentRefusal> {
    let label = content.labels.get(USE).map(String::as_str);
    // Only the use as a token is also permitted by a type.
    let is_of_type = wanted == Use::Token && content.type_ == TOKEN;
    if label != Some(wanted.as_str()) && !is_of_type {
        return Err(ConsentRefusal::Unlabelled {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            wanted,
            overwrite: if label.is_some() { " --overwrite" } else { "" },
        });
    }
    let Some(bound) = content.annotations.get(ENDPOINT) else {
        return Ok(());
    };
    let name = name.to_owned();
    let mut patterns = Vec::new();
    for (index, text) in bound.split_whitespace().enumerate() {
        match text.parse::<EndpointPattern>() {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => {
                let number = index + 1;
                return Err(ConsentRefusal::Unreadable {
                    name,
                    number,
                    error,
                });
            }
        }
    }
    if patterns.is_empty() {
        return Err(ConsentRefusal::BoundNowhere { name });
    }
    let is_bound = |url: &Url| patterns.iter().any(|pattern| pattern.matches(url));
    let mut urls = destination.urls();
    let Some((field, url)) = urls.find(|(_, url)| !is_bound(url)) else {
        return Ok(());
    };
    let texts: Vec<String> = patterns.iter().map(ToString::to_string).collect();
    let bound = texts.join(" ");
    let remedy = rebind(namespace, &name, &bound, field, url);
    Err(ConsentRefusal::BoundElsewhere {
        name,
        bound,
        field,
        remedy,
    })
}

/// The remedy for a Secret that is bound to other endpoints. Users paste the command into a shell: single quotes protect
/// the patterns, and a URL with a quotation mark or a `*` gets no command.
fn rebind(namespace: &str, name: &str, bound: &str, field: &str, url: &Url) -> String {
    let fix = format!("fix {field}");
    match url.as_str().parse::<EndpointPattern>() {
        Ok(url) if !url.to_string().contains('*') => format!(
            "{fix}; or, if the Secret is for {url} too, a user who may write it runs: kubectl annotate secret {name} \
             -n {namespace} --overwrite {ENDPOINT}='{bound} {url}'"
        ),
        _ => fix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::{Value, json};

    const HERE: &str = "https://cloud.example/api";

    fn checked(secret: Value, requested: Use, endpoint: &str) -> Result<(), ConsentRefusal> {
        through(secret, requested, endpoint, None)
    }

    fn through(
        secret: Value,
        requested: Use,
        endpoint: &str,
        proxy: Option<&str>,
    ) -> Result<(), ConsentRefusal> {
        let mut secret: Secret = serde_json::from_value(secret).unwrap();
        let destination = Destination {
            endpoint: Url::parse(endpoint).unwrap(),
            proxy: proxy.map(|proxy| Url::parse(proxy).unwrap()),
        };
        check(
            &Content::of(&mut secret),
            "team-a",
            "cloud-token",
            requested,
            &destination,
        )
    }

    fn bound(endpoints: &str) -> Value {
        json!({"type": "cloudserver.dev/token", "metadata": {"annotations": {"cloudserver.dev/endpoint": endpoints}}})
    }

    fn labelled(value: &str) -> Value {
        json!({"type": "Opaque", "metadata": {"labels": {"cloudserver.dev/use": value}}})
    }

    #[test]
    fn a_secret_consents_by_its_label_or_its_type_to_one_use() {
        let certificate = Use::ClientCertificate;
        let of_type = |kind: &str| json!({"type": kind});
        for (secret, requested, consents) in [
            (labelled("token"), Use::Token, true),
            (of_type("cloudserver.dev/token"), Use::Token, true),
            (labelled("client-certificate"), certificate, true),
            (labelled("token"), certificate, false),
            (labelled("client-certificate"), Use::Token, false),
            (of_type("cloudserver.dev/token"), certificate, false),
            (of_type("cloudserver.dev/token-copy"), Use::Token, false),
            (of_type("kubernetes.io/tls"), certificate, false),
            (of_type("Opaque"), Use::Token, false),
            (labelled("Token"), Use::Token, false),
            (labelled(""), Use::Token, false),
            (json!({}), Use::Token, false),
        ] {
            let result = checked(secret.clone(), requested, HERE);
            assert_eq!(result.is_ok(), consents, "{secret} as {requested}");
        }
    }

    #[test]
    fn the_refusal_contains_the_command_that_resolves_it() {
        let message_for = |secret| checked(secret, Use::Token, HERE).unwrap_err().to_string();
        let line = "kubectl label secret cloud-token -n team-a cloudserver.dev/use=token";
        let unlabelled = message_for(json!({"type": "Opaque"}));
        assert!(unlabelled.ends_with(line), "{unlabelled}");
        let line =
            "kubectl label secret cloud-token -n team-a --overwrite cloudserver.dev/use=token";
        let other = message_for(labelled("client-certificate"));
        assert!(other.ends_with(line), "{other}");
        let line = "kubectl annotate secret cloud-token -n team-a --overwrite \
                    cloudserver.dev/endpoint='https://a.example *.b.example https://cloud.example/api'";
        let elsewhere = message_for(bound("https://a.example\n *.b.example"));
        assert!(elsewhere.ends_with(line), "{elsewhere}");
    }

    #[test]
    fn an_endpoint_with_shell_characters_makes_no_command() {
        let endpoint = "https://evil.example/'$(reboot)'";
        let message = checked(bound(HERE), Use::Token, endpoint).unwrap_err();
        assert!(!message.to_string().contains("kubectl"), "{message}");
        assert!(!message.to_string().contains("reboot"), "{message}");
    }

    #[test]
    fn a_bound_secret_is_used_only_for_its_endpoints() {
        for (endpoints, goes) in [
            (HERE, true),
            ("https://cloud.example", true),
            ("https://other.example https://cloud.example/", true),
            (
                "  https://other.example\n\thttps://cloud.example/api\n",
                true,
            ),
            ("*.example", true),
            ("https://other.example", false),
            ("http://cloud.example/api", false),
            ("https://cloud.example/api/v2", false),
            ("https://cloud.example.evil.com", false),
            // A malformed pattern allows nothing, even next to valid ones.
            ("", false),
            (" ", false),
            ("https://cloud.example/api,https://other.example", false),
            (
                "https://cloud.example/api https://user:pa55@other.example",
                false,
            ),
            ("any", false),
        ] {
            let result = checked(bound(endpoints), Use::Token, HERE);
            assert_eq!(result.is_ok(), goes, "{endpoints:?}");
            let message = result.err().map(|refusal| refusal.to_string());
            assert!(
                !message.unwrap_or_default().contains("pa55"),
                "{endpoints:?}"
            );
        }
    }

    #[test]
    fn a_bound_secret_is_used_only_through_the_proxies_that_it_names() {
        let proxy = "http://proxy.example:3128";
        let by = |endpoints: &str, proxy| through(bound(endpoints), Use::Token, HERE, Some(proxy));
        assert!(by(&format!("{HERE} {proxy}"), proxy).is_ok());
        assert!(by("*.example", proxy).is_err(), "a host alone means https");
        let message = by(HERE, proxy).unwrap_err().to_string();
        assert!(
            message.contains("and spec.proxy.url is another endpoint"),
            "{message}"
        );
        let line = format!("cloudserver.dev/endpoint='{HERE} {proxy}/'");
        assert!(message.ends_with(&line), "{message}");
        assert!(by(proxy, proxy).is_err(), "and the endpoint counts too");
        let unbound = json!({"type": "cloudserver.dev/token"});
        assert!(through(unbound, Use::Token, HERE, Some(proxy)).is_ok());
    }

    #[test]
    fn a_binding_alone_is_no_consent() {
        let mut secret = bound(HERE);
        secret["type"] = json!("Opaque");
        let refused = checked(secret, Use::Token, HERE).unwrap_err();
        assert_eq!(refused.reason(), Reason::SecretUseNotAllowed);
    }
}
