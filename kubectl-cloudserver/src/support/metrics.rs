//! The metrics of a Pod of the operator, read through the apiserver.

use super::redact::OPERATOR;
use crate::service::Cluster;
use cloud_server_operator::runtime::kubernetes::call;
use serde_json::Value;

/// Name of the port for probes, and without `metrics-auth` also for metrics.
const PLAIN: &str = "metrics";
/// Name of the port for metrics with `metrics-auth`.
const WITH_TLS: &str = "metrics-tls";

const NEEDS_A_TOKEN: &str = "this Pod serves metrics with TLS and only to clients with a token (metrics-auth), which the apiserver \
     does not pass on: read them through kubectl port-forward, with a token that may get /metrics";

/// The metrics, or why they cannot be read.
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
    read.map_err(|error| cluster.explain(&error))
}

/// The port for metrics without TLS.
fn port(pod: &Value) -> Result<u64, String> {
    let named = |list: &Value, name: &str| -> Option<Value> {
        let mut items = list.as_array()?.iter();
        items.find(|item| item["name"] == name).cloned()
    };
    let operator = named(&pod["spec"]["containers"], OPERATOR)
        .ok_or_else(|| format!("this Pod has no container called {OPERATOR}"))?;
    if named(&operator["ports"], WITH_TLS).is_some() {
        return Err(NEEDS_A_TOKEN.to_owned());
    }
    let port = named(&operator["ports"], PLAIN).and_then(|port| port["containerPort"].as_u64());
    port.ok_or_else(|| format!("no port of the container {OPERATOR} of this Pod is called {PLAIN}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metrics_are_read_from_the_port_that_serves_them() {
        let ports = json!([{"name": "metrics", "containerPort": 8080}]);
        let with_tls = json!([{"name": "metrics", "containerPort": 8080}, {"name": "metrics-tls", "containerPort": 8443}]);
        let another = json!([{"name": "metrics", "containerPort": 9090}]);
        for (operator, expected) in [
            (json!({"ports": ports}), Ok(8080)),
            (json!({"ports": another}), Ok(9090)),
            (
                json!({"ports": with_tls}),
                Err("only to clients with a token"),
            ),
            (json!({"ports": []}), Err("is called metrics")),
        ] {
            let mut named = operator.clone();
            named["name"] = json!(OPERATOR);
            let sidecar =
                json!({"name": "sidecar", "ports": [{"name": "metrics", "containerPort": 1}]});
            let found = port(&json!({"spec": {"containers": [sidecar, named]}}));
            match (found, expected) {
                (Ok(port), Ok(expected)) => assert_eq!(port, expected, "{operator}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{operator}: {why}"),
                (found, expected) => panic!("{operator}: {found:?} is not {expected:?}"),
            }
        }
        let why = port(&json!({"spec": {}})).unwrap_err();
        assert!(why.contains("no container called operator"), "{why}");
    }
}
