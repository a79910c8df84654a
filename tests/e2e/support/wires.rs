//! What stands around an operator: wires to what it talks to, a program that becomes it, its environment.

use super::cluster::Shared;
use super::link::Link;
use super::setup::Setup;
use super::world::World;
use cloud_simulator::Simulator;
use devcluster::Component;

/// The wires of an operator.
pub struct Links {
    /// To the apiserver.
    pub kubernetes: Link,
    /// To the service.
    pub service: Link,
}

impl Links {
    /// Lays them, and has the kubeconfig lead there.
    pub async fn lay(shared: &Shared, sim: &Simulator, kubeconfig: &mut String) -> Self {
        let far = shared.cluster.url();
        let links = Self {
            kubernetes: Link::to(far).await,
            service: Link::to(sim.url()).await,
        };
        let near = format!("https://{}", links.kubernetes.address());
        *kubeconfig = kubeconfig.replace(far, &near);
        links
    }
}

impl Setup {
    /// The operator reaches apiserver and service by wires that can be cut.
    pub fn links(mut self) -> Self {
        self.links = true;
        self
    }

    /// The operator is started by a program that becomes it: its command line follows.
    pub fn around(mut self, line: &[&str]) -> Self {
        self.launch.around = line.iter().map(ToString::to_string).collect();
        self
    }

    /// Another executable than the one that the tests were built with.
    pub fn executable(mut self, path: &str) -> Self {
        self.launch.executable = Some(path.to_owned());
        self
    }

    /// The operator has this in its environment.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        let pair = (name.to_owned(), value.to_owned());
        self.launch.environment.push(pair);
        self
    }
}

impl World {
    /// From now on this executable is started, or the one that the tests were built with.
    pub fn executable(&mut self, path: Option<&str>) {
        self.launch.executable = path.map(ToOwned::to_owned);
    }

    /// The wires.
    pub fn links(&self) -> &Links {
        self.links.as_ref().expect("the test did not ask for wires")
    }

    /// The apiserver's own address.
    pub fn cluster_url(&self) -> &str {
        self.shared.cluster.url()
    }

    /// The process of a part of the control plane.
    pub fn process_of(&self, part: Component) -> u32 {
        self.shared.cluster.process_id(part).unwrap()
    }

    /// Where the service is for the operator.
    pub fn endpoint(&self) -> String {
        self.links.as_ref().map_or_else(
            || self.sim.url().to_owned(),
            |links| format!("http://{}", links.service.address()),
        )
    }
}
