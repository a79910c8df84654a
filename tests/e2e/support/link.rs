//! A wire between the operator and a server that it calls, which can be cut, go silent or become poor. It passes bytes without
//! interpreting them, so that TLS works through it.

use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Payload of an Ethernet frame.
const PACKET: usize = 1460;
/// TCP's first wait before it resends a lost packet; it doubles each time.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// The condition of the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weather {
    /// Everything goes through.
    Fair,
    /// Every connection is reset, including new ones.
    Cut,
    /// Nothing goes through, and neither end is notified. Pending data continues afterwards.
    Silent,
    /// Packets are delayed, some are lost and resent, and the bandwidth is small.
    Poor {
        /// From end to end.
        delay: Duration,
        /// Share of packets that are lost, each time they are sent.
        loss: f64,
        /// Bytes per second, in each direction.
        rate: f64,
    },
}

#[derive(Clone, Copy, Debug)]
struct State {
    weather: Weather,
    /// Connections up to this number are half open: neither end receives anything from the other again.
    dead: u64,
}

pub struct Link {
    address: SocketAddr,
    state: watch::Sender<State>,
    opened: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    /// Opens a wire to this address, with or without a scheme (`http://` or `https://`).
    pub async fn to(far: &str) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), far).await
    }

    /// The same, listening at `near`. After the wire is dropped, connections are refused.
    pub async fn at(near: SocketAddr, far: &str) -> Self {
        Self::from(TcpListener::bind(near).await.unwrap(), far)
    }

    /// The same, with this listener.
    pub fn from(listener: TcpListener, far: &str) -> Self {
        let far = far.rsplit('/').next().unwrap().to_owned();
        let address = listener.local_addr().unwrap();
        let state = watch::Sender::new(State {
            weather: Weather::Fair,
            dead: 0,
        });
        let (count, opened) = watch::channel(0);
        let task = tokio::spawn(listen(listener, far, state.subscribe(), count));
        Self {
            address,
            state,
            opened,
            task,
        }
    }

    /// The address where it listens: host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn set(&self, weather: Weather) {
        self.state.send_modify(|state| state.weather = weather);
    }

    /// The connections that are open now become half open; new ones work.
    pub fn half_open(&self) {
        let opened = *self.opened.borrow();
        self.state.send_modify(|state| state.dead = opened);
    }

    /// How many connections were ever opened.
    pub fn opened(&self) -> u64 {
        *self.opened.borrow()
    }
}

async fn listen(
    listener: TcpListener,
    far: String,
    state: watch::Receiver<State>,
    count: watch::Sender<u64>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((near, _)) = accepted else { continue };
                count.send_modify(|count| *count += 1);
                let number = *count.borrow();
                connections.spawn(connection(near, far.clone(), number, state.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(mut near: TcpStream, far: String, number: u64, state: watch::Receiver<State>) {
    let is_cut = |state: &State| state.weather == Weather::Cut;
    let mut cut = state.clone();
    if is_cut(&cut.borrow_and_update()) {
        // Without linger the kernel sends a reset.
        near.set_zero_linger().ok();
        return;
    }
    let Ok(mut far) = TcpStream::connect(far).await else {
        near.set_zero_linger().ok();
        return;
    };
    near.set_nodelay(true).ok();
    far.set_nodelay(true).ok();
    let was_cut = {
        let (near_read, near_write) = near.split();
        let (far_read, far_write) = far.split();
        let both = futures::future::join(
            pump(near_read, far_write, number, state.clone()),
            pump(far_read, near_write, number, state),
        );
        tokio::select! {
            _ = both => false,
            _ = cut.wait_for(is_cut) => true,
        }
    };
    if was_cut {
        near.set_zero_linger().ok();
        far.set_zero_linger().ok();
    }
}

/// Passes bytes in one direction until they end.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    number: u64,
    mut state: watch::Receiver<State>,
) {
    let (sender, mut waiting) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let mut silence = state.clone();
    let read = async move {
        let mut last = Instant::now();
        loop {
            passable(&mut state, number).await;
            let weather = state.borrow().weather;
            let mut packet = vec![
                0;
                match weather {
                    Weather::Poor { .. } => PACKET,
                    _ => 64 * 1024,
                }
            ];
            let length = from.read(&mut packet).await.unwrap_or(0);
            if length == 0 {
                return;
            }
            packet.truncate(length);
            // Packets arrive in order, however late one of them is.
            last = arrival(weather, length, last);
            if sender.send((last, packet)).is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((at, packet)) = waiting.recv().await {
            sleep_until(at).await;
            passable(&mut silence, number).await;
            if to.write_all(&packet).await.is_err() {
                return;
            }
        }
        to.shutdown().await.ok();
    };
    futures::future::join(read, write).await;
}

/// The arrival time of a packet that is sent now: after the packet before it.
fn arrival(weather: Weather, length: usize, before: Instant) -> Instant {
    let Weather::Poor { delay, loss, rate } = weather else {
        return before.max(Instant::now());
    };
    let mut late = delay;
    let mut again = RETRANSMISSION + delay;
    while rand::rng().random_bool(loss) {
        late += again;
        again *= 2;
    }
    #[allow(clippy::cast_precision_loss, reason = "a packet is short")]
    let room = Duration::from_secs_f64(length as f64 / rate);
    (Instant::now() + late).max(before + room)
}

/// Waits until data may pass through this connection.
async fn passable(state: &mut watch::Receiver<State>, number: u64) {
    let passes = |state: &State| state.weather != Weather::Silent && number > state.dead;
    // An error means that the wire is gone: from here on nothing goes through.
    if state.wait_for(passes).await.is_err() {
        std::future::pending::<()>().await;
    }
}
