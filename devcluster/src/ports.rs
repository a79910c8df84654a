//! Free ports on loopback.

use std::{
    collections::BTreeSet,
    io,
    net::{Ipv4Addr, TcpListener},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What this process has given to clusters that still run. Between the choice of a port and the server that binds it,
/// the kernel thinks it is free; a second cluster of this process must not get it. Other processes may: then the bind
/// fails, and the start is tried again with other ports.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

fn taken() -> MutexGuard<'static, BTreeSet<u16>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two ports, this process's until dropped.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) apiserver: u16,
}

impl Ports {
    pub(crate) fn choose() -> io::Result<Self> {
        let mut taken = taken();
        // Refused ones stay bound until both are chosen, so that the kernel offers each only once.
        let mut bound = Vec::new();
        let mut chosen = Vec::new();
        while chosen.len() < 2 {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            if !taken.contains(&port) {
                chosen.push(port);
            }
            bound.push(listener);
        }
        taken.extend(&chosen);
        Ok(Self {
            etcd: chosen[0],
            apiserver: chosen[1],
        })
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        let mut taken = taken();
        taken.remove(&self.etcd);
        taken.remove(&self.apiserver);
    }
}

#[cfg(test)]
mod tests {
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
}
