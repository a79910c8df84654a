//! Connections that can end without another byte, in order or by a reset, and that report when a reply has left.

use super::trap::Trap;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// The state that a connection shares with the handler of its requests.
#[derive(Clone, Default)]
pub(super) struct Line(Arc<Shared>);

#[derive(Default)]
struct Shared {
    number: u64,
    mute: AtomicBool,
    resets: AtomicBool,
    /// The trap to notify once the written bytes have left.
    notified: Mutex<Option<Trap>>,
}

impl Line {
    /// Its number, from the counter of all connections.
    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// Stops all writing: the next attempt to write a byte ends the connection.
    pub(super) fn mute(&self) {
        self.0.mute.store(true, Ordering::SeqCst);
    }

    /// Whenever the connection ends, it ends by a reset.
    pub(super) fn resets(&self) {
        self.0.resets.store(true, Ordering::SeqCst);
    }

    /// Notifies a trap that it was reached, once everything written so far has left.
    pub(super) fn notify(&self, trap: Trap) {
        *self.0.notified.lock().unwrap() = Some(trap);
    }

    fn check(&self) -> io::Result<()> {
        match self.0.mute.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }
}

impl Connected<IncomingStream<'_, Lines>> for Line {
    fn connect_info(stream: IncomingStream<'_, Lines>) -> Self {
        stream.io().line.clone()
    }
}

/// A listener for these connections, with the counter that numbers them.
pub(super) struct Lines(pub(super) TcpListener, pub(super) Arc<AtomicU64>);

impl Listener for Lines {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        let (tcp, peer) = Listener::accept(&mut self.0).await;
        tcp.set_nodelay(true).ok();
        let line = Line(Arc::new(Shared {
            number: self.1.fetch_add(1, Ordering::SeqCst) + 1,
            ..Shared::default()
        }));
        (Stream { tcp, line }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// One of the connections.
pub(super) struct Stream {
    tcp: TcpStream,
    line: Line,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.line.0.resets.load(Ordering::SeqCst) {
            self.tcp.set_zero_linger().ok();
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.line.check()?;
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.tcp).poll_flush(context))?;
        if let Some(trap) = self.line.0.notified.lock().unwrap().take() {
            trap.reach();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.line.0.resets.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}
