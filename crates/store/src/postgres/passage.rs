//! For tests: a way to a server on which the answer to a commit can be lost.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
};

/// A socket that leads to another one.
pub(crate) struct Passage {
    folder: tempfile::TempDir,
    url: String,
    cut: Arc<AtomicBool>,
}

impl Passage {
    /// A way to the server of this URL, which names a folder by `?host=`.
    pub(crate) fn to(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let cut = Arc::new(AtomicBool::new(false));
        let (front, real) = url.split_once("?host=").unwrap();
        let socket = format!("{real}/.s.PGSQL.5432");
        tokio::spawn(serve(listener, socket, Arc::clone(&cut)));
        Self {
            url: format!("{front}?host={}", folder.path().display()),
            folder,
            cut,
        }
    }

    /// The URL of this way.
    pub(crate) fn url(&self) -> String {
        assert!(self.folder.path().exists());
        self.url.clone()
    }

    /// The server's answer to the next commit does not come through: its connection ends instead.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }
}

async fn serve(listener: UnixListener, socket: String, cut: Arc<AtomicBool>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let server = UnixStream::connect(&socket).await.unwrap();
        tokio::spawn(pass(client, server, Arc::clone(&cut)));
    }
}

async fn pass(client: UnixStream, server: UnixStream, cut: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut asked, mut told) = ([0; 4096], [0; 4096]);
    let mut committing = false;
    loop {
        tokio::select! {
            read = from_client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                committing = asked[..length].windows(6).any(|six| six == b"COMMIT");
                if to_server.write_all(&asked[..length]).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut told) => {
                let Ok(length @ 1..) = read else { return };
                if committing && cut.swap(false, Ordering::SeqCst) {
                    return;
                }
                if to_client.write_all(&told[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
