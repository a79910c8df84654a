//! The page of metrics of a Pod of the operator, by way of the apiserver.

use super::redact::OPERATOR;
use crate::cli::service::Cluster;
use crate::runtime::kubernetes::call;
use serde_json::Value;
use std::net::SocketAddr;

/// Name of the port for probes and metrics, as all forms of installation call it.
const PLAIN: &str = "metrics";
/// Name of the port of `metrics-auth`.
const WITH_TLS: &str = "metrics-tls";

const NEEDS_A_TOKEN: &str = "this Pod serves metrics with TLS, and with metrics-auth to those alone who show a token, which the \
     apiserver does not pass on: read them by kubectl port-forward, with a token that may get /metrics";

/// The page, or why it is not to be had.
pub(super) async fn page(
    cluster: &Cluster,
    namespace: &str,
    pod: &Value,
) -> Result<String, String> {
    let port = port(pod)?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/metrics");
    let request = async {
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        cluster.client.request_text(request).await
    };
    let read = call("read the metrics of a Pod", request).await;
    read.map_err(|error| cluster.told(&error))
}

/// Where the metrics are: on the port of --metrics-listen, else on the one that is called `metrics`.
fn port(pod: &Value) -> Result<u16, String> {
    let named = |list: &Value, name: &str| -> Option<Value> {
        let mut items = list.as_array()?.iter();
        items.find(|item| item["name"] == name).cloned()
    };
    let operator = named(&pod["spec"]["containers"], OPERATOR)
        .ok_or_else(|| format!("this Pod has no container called {OPERATOR}"))?;
    let ports = &operator["ports"];
    let certificate = setting(&operator, "--metrics-tls-cert", "CSO_METRICS_TLS_CERT");
    if certificate.is_some() || named(ports, WITH_TLS).is_some() {
        return Err(NEEDS_A_TOKEN.to_owned());
    }
    if let Some(address) = setting(&operator, "--metrics-listen", "CSO_METRICS_LISTEN") {
        let read: Result<SocketAddr, _> = address.parse();
        return match read {
            Ok(address) => Ok(address.port()),
            Err(_) => Err(format!(
                "--metrics-listen of this Pod is no address: {address:?}"
            )),
        };
    }
    let port = named(ports, PLAIN).and_then(|port| port["containerPort"].as_u64());
    port.and_then(|port| u16::try_from(port).ok())
        .ok_or_else(|| format!("no port of the container {OPERATOR} of this Pod is called {PLAIN}"))
}

/// What a flag of `run` is set to, on the command line or in the environment.
fn setting(container: &Value, flag: &str, variable: &str) -> Option<String> {
    let list = |field: &str| container[field].as_array().into_iter().flatten();
    let arguments: Vec<&str> = list("args").filter_map(Value::as_str).collect();
    let joined = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix(flag)?.strip_prefix('='));
    let apart = arguments
        .iter()
        .zip(arguments.iter().skip(1))
        .find_map(|(argument, value)| (*argument == flag).then_some(*value));
    let set = || list("env").find(|set| set["name"] == variable)?["value"].as_str();
    joined.or(apart).or_else(set).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metrics_are_asked_for_where_the_pod_serves_them() {
        let ports = json!([{"name": "metrics", "containerPort": 8080}]);
        let with_tls = json!([{"name": "metrics", "containerPort": 8080}, {"name": "metrics-tls", "containerPort": 8443}]);
        let another = json!([{"name": "metrics", "containerPort": 9090}]);
        let variable = |name: &str, value: &str| json!([{"name": name, "value": value}]);
        for (operator, expected) in [
            (json!({"ports": ports}), Ok(8080)),
            (
                json!({"ports": another, "args": ["run", "--listen=0.0.0.0:9090"]}),
                Ok(9090),
            ),
            (
                json!({"ports": ports, "args": ["run", "--metrics-listen=[::]:9100"]}),
                Ok(9100),
            ),
            (
                json!({"ports": ports, "args": ["run", "--metrics-listen", "0.0.0.0:9100"]}),
                Ok(9100),
            ),
            (
                json!({"ports": ports, "env": variable("CSO_METRICS_LISTEN", "0.0.0.0:9100")}),
                Ok(9100),
            ),
            (
                json!({"ports": ports, "env": variable("CSO_METRICS_LISTEN", "nowhere")}),
                Err("no address"),
            ),
            (json!({"ports": with_tls}), Err("show a token")),
            (
                json!({"ports": ports, "env": variable("CSO_METRICS_TLS_CERT", "/a")}),
                Err("show a token"),
            ),
            (json!({"ports": []}), Err("is called metrics")),
            (
                json!({"ports": [{"name": "metrics", "containerPort": 80_800}]}),
                Err("is called metrics"),
            ),
        ] {
            let mut named = operator.clone();
            named["name"] = json!(OPERATOR);
            let sidecar =
                json!({"name": "sidecar", "ports": [{"name": "metrics", "containerPort": 1}]});
            let told = port(&json!({"spec": {"containers": [sidecar, named]}}));
            match (told, expected) {
                (Ok(port), Ok(expected)) => assert_eq!(port, expected, "{operator}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{operator}: {why}"),
                (told, expected) => panic!("{operator}: {told:?} is not {expected:?}"),
            }
        }
        let why = port(&json!({"spec": {}})).unwrap_err();
        assert!(why.contains("no container called operator"), "{why}");
    }
}
