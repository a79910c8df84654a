//! The surroundings of an operator: wires to the servers that it calls, a program that becomes its process, its environment.

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
    /// Opens them, and points the kubeconfig at the first.
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

    /// A program starts the operator and becomes its process: the operator's command line follows.
    pub fn around(mut self, line: &[&str]) -> Self {
        self.launch.around = line.iter().map(ToString::to_string).collect();
        self
    }

    /// An executable other than the one that was built with the tests.
    pub fn executable(mut self, path: &str) -> Self {
        self.launch.executable = Some(path.to_owned());
        self
    }

    /// Sets a variable in the operator's environment.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        let pair = (name.to_owned(), value.to_owned());
        self.launch.environment.push(pair);
        self
    }
}

impl World {
    /// From here on starts this executable, or with `None` the one that was built with the tests.
    pub fn executable(&mut self, path: Option<&str>) {
        self.launch.executable = path.map(ToOwned::to_owned);
    }

    pub fn links(&self) -> &Links {
        self.links.as_ref().expect("the test did not ask for wires")
    }

    /// The apiserver's own address.
    pub fn cluster_url(&self) -> &str {
        self.shared.cluster.url()
    }

    /// The process ID of a part of the control plane.
    pub fn process_of(&self, part: Component) -> u32 {
        self.shared.cluster.process_id(part).unwrap()
    }

    /// The service's address for the operator.
    pub fn endpoint(&self) -> String {
        self.links.as_ref().map_or_else(
            || self.sim.url().to_owned(),
            |links| format!("http://{}", links.service.address()),
        )
    }
}
