//! Cases of the rules about the connection to the service: TLS and the proxy of an Account.

use super::table::{Case, account};
use serde_json::{Value, json};

pub fn cases() -> Vec<Case> {
    let case = |message, field: &str, accepted: &[Value], refused: &[Value]| {
        let of = |values: &[Value]| values.iter().map(|value| account(field, value)).collect();
        Case::new(message, true, of(accepted), of(refused))
    };
    let (config_map, secret) = (
        json!({"name": "ca", "key": "ca.crt"}),
        json!({"name": "ca", "key": "tls.ca"}),
    );
    let bundle = json!({"caBundle": {"configMapKeyRef": config_map}});
    let client = json!({"clientCertificateSecretRef": {"name": "client"}});
    let in_the_clear = |tls: &Value| {
        let mut account = account("endpoint", &json!("http://127.0.0.1:8090"));
        account["spec"]["tls"] = tls.clone();
        account
    };
    vec![
        Case::new(
            "spec.tls needs an https endpoint",
            true,
            vec![
                account("tls", &client),
                account("endpoint", &json!("http://127.0.0.1:8090")),
            ],
            vec![in_the_clear(&client), in_the_clear(&bundle)],
        ),
        case(
            "set spec.tls.caBundle, spec.tls.clientCertificateSecretRef, or both",
            "tls",
            &[bundle.clone(), client],
            &[json!({})],
        ),
        case(
            "set exactly one of caBundle.configMapKeyRef and caBundle.secretKeyRef",
            "tls",
            &[bundle, json!({"caBundle": {"secretKeyRef": secret}})],
            &[
                json!({"caBundle": {}}),
                json!({"caBundle": {"secretKeyRef": secret, "configMapKeyRef": config_map}}),
            ],
        ),
        case(
            "proxy.url must be an http URL",
            "proxy",
            &[json!({"url": "http://proxy.example:3128"})],
            &[
                json!({"url": "https://proxy.example:3128"}),
                json!({"url": "http://me@proxy.example:3128"}),
                json!({"url": "http://proxy.example:3128/a"}),
            ],
        ),
    ]
}
