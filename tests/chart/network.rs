//! Evaluates the NetworkPolicy as Cilium does: an `ipBlock` matches neither nodes nor Pods. The operator must reach the
//! apiserver in such a cluster, too.

use crate::rendered::{helm_with, kustomize};
use crate::{OPERATOR, OWN, root};
use serde_json::{Value, json};

/// The destination of a connection.
#[derive(Clone, Copy, Debug)]
enum To<'a> {
    /// A node, or a process on it, for example the apiserver.
    Node,
    /// A Pod in this namespace.
    Pod(&'a str),
    /// An address outside of the cluster, with the policy's blocks that contain it.
    World(&'a [&'a str]),
}

/// Whether Cilium lets the operator connect. Pod selectors are not evaluated, since no rule here has one.
fn connects(policy: &Value, to: To<'_>, port: u16) -> bool {
    let mut rules = policy["spec"]["egress"].as_array().unwrap().iter();
    rules.any(|rule| {
        let list = |field: &str| rule[field].as_array();
        let is_port =
            list("ports").is_none_or(|ports| ports.iter().any(|one| one["port"] == json!(port)));
        let is_peer = list("to").is_none_or(|peers| peers.iter().any(|peer| is_selected(peer, to)));
        is_port && is_peer
    })
}

fn is_selected(peer: &Value, to: To<'_>) -> bool {
    let block = &peer["ipBlock"];
    match to {
        To::Node => false,
        To::Pod(namespace) => {
            let name = "/namespaceSelector/matchLabels/kubernetes.io~1metadata.name";
            peer.pointer(name) == Some(&json!(namespace))
        }
        To::World(blocks) => {
            let is_in = |cidr: &Value| blocks.iter().any(|block| json!(block) == *cidr);
            let mut except = block["except"].as_array().into_iter().flatten();
            is_in(&block["cidr"]) && !except.any(is_in)
        }
    }
}

fn of(objects: &crate::rendered::Objects) -> &Value {
    &objects[&format!("NetworkPolicy {OWN}/{OPERATOR}")]
}

/// AWS, over IPv4.
const METADATA: To<'_> = To::World(&["0.0.0.0/0", "169.254.0.0/16"]);
const SERVICE: To<'_> = To::World(&["::/0"]);

#[test]
fn under_cilium_the_default_installation_reaches_the_apiserver_and_no_metadata_service() {
    for installation in [helm_with(&[]), kustomize(&root().join("deploy"))] {
        let policy = of(&installation);
        for port in [443, 6443, 8443, 53] {
            assert!(connects(policy, To::Node, port), "{port}");
        }
        assert!(connects(policy, SERVICE, 9443));
        assert!(!connects(policy, METADATA, 80));
        assert!(!connects(policy, To::Node, 10250));
        assert!(!connects(policy, To::Pod("monitoring"), 4318));
    }
}

#[test]
fn the_values_open_another_port_of_the_apiserver_and_a_collector_in_a_pod() {
    let peer = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}});
    let rule = json!({"to": [peer], "ports": [{"protocol": "TCP", "port": 4318}]});
    let objects = helm_with(&[
        "networkPolicy.apiserverPorts=[16443]",
        &format!("networkPolicy.extraEgress=[{rule}]"),
    ]);
    let policy = of(&objects);
    assert!(connects(policy, To::Node, 16443));
    assert!(!connects(policy, To::Node, 6443));
    assert!(connects(policy, To::Pod("monitoring"), 4318));
    assert!(!connects(policy, To::Pod("monitoring"), 4317));
    assert!(!connects(policy, To::Pod("team-a"), 4318));
}

/// A rule without ports would allow every port.
#[test]
fn without_a_port_of_the_apiserver_there_is_no_rule_for_it() {
    let objects = helm_with(&["networkPolicy.apiserverPorts=[]"]);
    let policy = of(&objects);
    assert!(!connects(policy, To::Node, 6443));
    assert!(connects(policy, SERVICE, 6443));
    assert!(!connects(policy, METADATA, 80));
}
