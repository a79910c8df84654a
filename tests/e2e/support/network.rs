//! Network namespaces for the operator of a test: only loopback, with addresses of one family.

use super::link::Link;
use super::operator::Operator;
use super::wait::eventually;
use super::world::World;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

/// The family of the addresses in a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    /// 127.0.0.1.
    V4,
    /// ::1.
    V6,
}

impl Family {
    const fn prepare(self) -> &'static str {
        match self {
            Self::V4 => {
                "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; /usr/sbin/ip link set lo up"
            }
            Self::V6 => {
                "/usr/sbin/ip link set lo up; /usr/sbin/ip address delete 127.0.0.1/8 dev lo"
            }
        }
    }
}

/// Starts the operator's command line without the `--listen` of the other tests, which follows `run`.
const WITH_DEFAULT_LISTEN: &str = r#"a=$1 b=$2 c=$3; shift 6; exec "$a" "$b" "$c" run "$@""#;

/// A network namespace. A process keeps it open, and ends when this value is dropped or the test ends.
pub struct Network(Child);

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Network {
    /// Makes a namespace whose only interface is loopback.
    pub fn of(family: Family) -> Self {
        let script = format!("{}; echo prepared; exec sleep infinity", family.prepare());
        let mut holder = Command::new("/usr/bin/setpriv")
            .args(["--pdeathsig=KILL", "/usr/bin/unshare", "--net"])
            .args(["/bin/sh", "-e", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = holder.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let network = Self(holder);
        assert_eq!(line, "prepared\n", "no network namespace was made");
        network
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// Runs `run` on a thread within the network. A socket that is opened there stays there.
    pub fn inside<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(self.path()).unwrap();
        let enter_and_run = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            run()
        };
        std::thread::scope(|scope| scope.spawn(enter_and_run).join().unwrap())
    }

    /// A link that listens at this address within the network and leads out of it.
    pub fn link(&self, near: &str, far: &str) -> Link {
        let listener = self.inside(|| TcpListener::bind(near)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Link::from(tokio::net::TcpListener::from_std(listener).unwrap(), far)
    }

    /// The answer to a GET within the network.
    pub fn get(&self, address: SocketAddr, page: &str) -> std::io::Result<String> {
        self.inside(|| {
            let mut stream = TcpStream::connect(address)?;
            write!(
                stream,
                "GET {page} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        })
    }
}

impl World {
    /// Starts the operator within this network, with its default listen address and this URL of the apiserver, and waits until
    /// a probe at `probe` finds the operator ready.
    pub async fn start_inside(&mut self, network: &Network, apiserver: &str, probe: SocketAddr) {
        let path = self.directory.path().join("kubeconfig");
        let kubeconfig = fs::read_to_string(&path).unwrap();
        let direct = self.shared.cluster.url().to_owned();
        fs::write(&path, kubeconfig.replace(&direct, apiserver)).unwrap();
        let enter = format!("--net={}", network.path());
        let around = [
            "/usr/bin/nsenter",
            &enter,
            "/bin/sh",
            "-c",
            WITH_DEFAULT_LISTEN,
            "sh",
        ];
        self.launch.around = around.map(str::to_owned).into();
        let lease = self.namespace.clone();
        let operator: Operator = self.launch("kubeconfig", &lease);
        self.operator = Some(operator);
        eventually("/readyz is ok within the network", async || {
            let answer = network.get(probe, "/readyz");
            let answer = answer.map_err(|error| error.to_string())?;
            match answer.starts_with("HTTP/1.1 200") {
                true => Ok(()),
                false => Err(answer),
            }
        })
        .await;
    }
}
