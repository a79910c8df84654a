//! Free ports on loopback.

use std::{io, net::Ipv4Addr};

use tokio::net::TcpSocket;

/// Two ports that this process reserves until this value is dropped, also while no server listens on them: between the choice
/// and the start of a server, and between its end and its next start. The kernel assigns a bound port to no process that
/// requests any free port, neither to listen nor to connect from. A process that requests exactly this port can still listen on
/// it, since our socket does not listen and both sockets allow sharing, as Go's servers do.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) apiserver: u16,
    _bound: [TcpSocket; 2],
}

impl Ports {
    pub(crate) fn choose() -> io::Result<Self> {
        let bound = [bind()?, bind()?];
        let [etcd, apiserver] = &bound;
        Ok(Self {
            etcd: etcd.local_addr()?.port(),
            apiserver: apiserver.local_addr()?.port(),
            _bound: bound,
        })
    }
}

fn bind() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, net::TcpListener};

    use super::*;

    #[test]
    fn no_port_is_given_out_twice_while_it_is_held() {
        let held: Vec<Ports> = (0..50).map(|_| Ports::choose().unwrap()).collect();
        let distinct: BTreeSet<u16> = held
            .iter()
            .flat_map(|ports| [ports.etcd, ports.apiserver])
            .collect();
        assert_eq!(distinct.len(), 100);
    }

    #[test]
    fn a_server_listens_on_a_port_that_is_held_and_again_after_its_end() {
        let ports = Ports::choose().unwrap();
        for _ in 0..2 {
            TcpListener::bind((Ipv4Addr::LOCALHOST, ports.etcd)).unwrap();
        }
    }
}
