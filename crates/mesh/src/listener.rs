//! The listening side: TLS handshakes beside the accept loop, and the peer's name on every request.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::connect_info::Connected,
    middleware::from_fn,
    serve::{IncomingStream, Listener},
};
use kazma_domain::Service;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::{Identity, MeshError, Peer};

/// Handshakes at once; more wait in the kernel's queue.
const HANDSHAKES: usize = 128;
/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Where a service of the mesh is called: one socket, or several where it stands in several networks.
#[derive(Debug)]
pub struct Listeners(Vec<std::net::TcpListener>);

impl Listeners {
    /// Where the first of them listens: there the service asks itself whether it serves.
    ///
    /// # Errors
    ///
    /// Where there is none, or the operating system says no.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0
            .first()
            .ok_or_else(|| std::io::Error::other("no socket to listen on"))?
            .local_addr()
    }
}

impl From<std::net::TcpListener> for Listeners {
    fn from(one: std::net::TcpListener) -> Self {
        Self(vec![one])
    }
}

impl From<Vec<std::net::TcpListener>> for Listeners {
    fn from(several: Vec<std::net::TcpListener>) -> Self {
        Self(several)
    }
}

/// Serves `app` over mutual TLS until `stop`, then finishes what runs.
///
/// # Errors
///
/// Says why the listener or TLS could not be set up.
pub async fn serve(
    listeners: impl Into<Listeners>,
    identity: Arc<Identity>,
    app: Router,
    stop: CancellationToken,
) -> Result<(), MeshError> {
    let acceptor = TlsAcceptor::from(Arc::new(identity.server()?));
    let (ready, incoming) = mpsc::channel(HANDSHAKES);
    let slots = Arc::new(Semaphore::new(HANDSHAKES));
    let mut accepting = JoinSet::new();
    for listener in listeners.into().0 {
        listener.set_nonblocking(true).map_err(MeshError::Listen)?;
        let listener = TcpListener::from_std(listener).map_err(MeshError::Listen)?;
        let door = Door {
            acceptor: acceptor.clone(),
            ready: ready.clone(),
            slots: slots.clone(),
        };
        accepting.spawn(accept(listener, door, stop.clone()));
    }
    drop(ready);
    let app = app
        .fallback(kazma_edge::fallback)
        .method_not_allowed_fallback(kazma_edge::method_not_allowed)
        .layer(from_fn(kazma_edge::request::carry))
        .into_make_service_with_connect_info::<Peer>();
    let served = axum::serve(MeshListener { incoming }, app)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
        .map_err(MeshError::Listen);
    accepting.abort_all();
    served
}

/// What all sockets of a service share.
struct Door {
    acceptor: TlsAcceptor,
    ready: mpsc::Sender<(TlsStream<TcpStream>, Peer)>,
    slots: Arc<Semaphore>,
}

async fn accept(listener: TcpListener, door: Door, stop: CancellationToken) {
    let Door {
        acceptor,
        ready,
        slots,
    } = door;
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Mostly: no file descriptors left. They come back when connections end.
                tracing::warn!(error = error.to_string(), "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (acceptor, ready) = (acceptor.clone(), ready.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let _ = stream.set_nodelay(true);
            match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let peer = Peer {
                        service: peer_service(&stream),
                    };
                    let _ = ready.send((stream, peer)).await;
                }
                Ok(Err(error)) => tracing::debug!(error = error.to_string(), "handshake failed"),
                Err(_) => tracing::debug!("handshake took too long"),
            }
        });
    }
}

/// The service in the certificate that the handshake verified.
fn peer_service(stream: &TlsStream<TcpStream>) -> Option<Service> {
    let leaf = stream.get_ref().1.peer_certificates()?.first()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(leaf).ok()?;
    let names = certificate.subject_alternative_name().ok()??;
    let mut uris = names
        .value
        .general_names
        .iter()
        .filter_map(|name| match name {
            x509_parser::extensions::GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
    // SPIFFE X.509-SVID, section 2: exactly one URI.
    let (first, second) = (uris.next()?, uris.next());
    if second.is_some() {
        None
    } else {
        Service::from_spiffe(first)
    }
}

struct MeshListener {
    incoming: mpsc::Receiver<(TlsStream<TcpStream>, Peer)>,
}

impl Listener for MeshListener {
    type Io = TlsStream<TcpStream>;
    type Addr = Peer;

    async fn accept(&mut self) -> (Self::Io, Peer) {
        match self.incoming.recv().await {
            Some(ready) => ready,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Peer> {
        Ok(Peer { service: None })
    }
}

impl Connected<IncomingStream<'_, MeshListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, MeshListener>) -> Self {
        *stream.remote_addr()
    }
}
