//! Connections that can be aborted, and that notify when a reply has been passed to the kernel.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

type Notify = Box<dyn FnOnce() + Send>;

/// State shared by a connection's stream and its handlers.
#[derive(Default)]
struct Shared {
    aborted: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
    written: Mutex<Option<(usize, Notify)>>,
}

/// A handle to one connection.
#[derive(Clone)]
pub(super) struct Connection(Arc<Shared>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl Connection {
    /// Resets the connection: the peer receives no further byte.
    pub(super) fn abort(&self) {
        self.0.aborted.store(true, Ordering::SeqCst);
        self.0.reader.wake();
        self.0.writer.wake();
    }

    /// Calls the given function once at least this many further bytes were written and flushed.
    pub(super) fn when_written(&self, bytes: usize, notify: Notify) {
        *self
            .0
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some((bytes, notify));
    }
}

impl Connected<IncomingStream<'_, TrackedListener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, TrackedListener>) -> Self {
        Self(Arc::clone(&stream.io().shared))
    }
}

/// All open connections.
#[derive(Default)]
pub(super) struct Connections {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Weak<Shared>>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connections")
    }
}

impl Connections {
    pub(super) fn abort_all(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for shared in open.values().filter_map(Weak::upgrade) {
            Connection(shared).abort();
        }
    }
}

/// A TCP listener that keeps track of its streams.
pub(super) struct TrackedListener {
    listener: TcpListener,
    connections: Arc<Connections>,
}

impl TrackedListener {
    pub(super) const fn new(listener: TcpListener, connections: Arc<Connections>) -> Self {
        Self {
            listener,
            connections,
        }
    }
}

impl Listener for TrackedListener {
    type Io = TrackedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TrackedStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    stream.set_nodelay(true).ok();
                    let shared = Arc::new(Shared::default());
                    let number = self.connections.next.fetch_add(1, Ordering::Relaxed);
                    let open = &self.connections.open;
                    open.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(number, Arc::downgrade(&shared));
                    let connections = Arc::clone(&self.connections);
                    return (
                        TrackedStream {
                            stream,
                            shared,
                            number,
                            connections,
                        },
                        peer,
                    );
                }
                // Most likely no file descriptor is free; one becomes free when a connection ends.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A TCP stream that can be aborted through a [`Connection`].
pub(super) struct TrackedStream {
    stream: TcpStream,
    shared: Arc<Shared>,
    number: u64,
    connections: Arc<Connections>,
}

impl TrackedStream {
    fn check(&self) -> io::Result<()> {
        if !self.shared.aborted.load(Ordering::SeqCst) {
            return Ok(());
        }
        // With zero linger, the kernel sends a reset and drops the data that is not sent yet.
        self.stream.set_zero_linger().ok();
        Err(io::ErrorKind::ConnectionReset.into())
    }

    fn wrote(&self, bytes: usize) {
        let mut written = self
            .shared
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((left, _)) = written.as_mut() {
            *left = left.saturating_sub(bytes);
        }
    }

    fn flushed(&self) {
        let mut written = self
            .shared
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((_, notify)) = written.take_if(|(left, _)| *left == 0) {
            notify();
        }
    }
}

impl Drop for TrackedStream {
    fn drop(&mut self) {
        self.connections
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.number);
    }
}

impl AsyncRead for TrackedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.shared.reader.register(cx.waker());
        self.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TrackedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.shared.writer.register(cx.waker());
        self.check()?;
        let bytes = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.wrote(bytes);
        Poll::Ready(Ok(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
