//! Mutual TLS between the services: the CA, leaves and their renewal, the listener, the client.
//!
//! Identities are SPIFFE URIs (`spiffe://kazma/<service>`) in the certificates. Every route names the
//! services that may call it; anything else is refused. This is the only crate that touches TLS, so the
//! certificate that people are shown ([`https`]) is here too.

mod address;
mod ca;
mod caller;
mod client;
mod enrol;
mod expiry;
mod folder;
pub mod https;
mod identity;
mod listener;

pub use address::{Address, NotAnAddress};
pub use ca::{Ca, IssuedLeaf};
pub use caller::{Anyone, Caller, Callers, Peer};
pub use client::{CallError, Client};
pub use enrol::{Enrolment, JoinToken, answers, enrol, keep_fresh, keep_own_fresh, own_identity};
pub use expiry::Expiry;
pub use folder::KeyFolder;
pub use identity::Identity;
pub use listener::{Listeners, serve};

/// What goes wrong in the mesh.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// A file of the key folder.
    #[error("the key folder: {what}")]
    Folder {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A certificate or request that is not what it should be.
    #[error("a certificate is not what it should be: {0}")]
    Certificate(String),
    /// A key or certificate could not be made.
    #[error("a key or certificate could not be made")]
    Make(#[source] rcgen::Error),
    /// The TLS library refuses.
    #[error("TLS is refused")]
    Tls(#[source] rustls::Error),
    /// The listener.
    #[error("the listener failed")]
    Listen(#[source] std::io::Error),
    /// The registry gave no leaf.
    #[error("the registry gave no certificate")]
    Enrol(#[source] CallError),
    /// The service is not there, or is another.
    #[error("the service does not answer")]
    Silent(#[source] CallError),
    /// There is neither a leaf nor a token to get one with.
    #[error("no certificate is there, and no join token to get one with")]
    NoToken,
}

/// Makes the process's TLS provider the one that the mesh uses, for clients of the outside that other
/// crates build. Called once by a `main` or a test; a second call changes nothing.
pub fn install_crypto_provider() {
    // Somebody was first: then it is installed, which is all that was asked.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
