//! The guarded client: it fetches what the judge lets pass, from the address that was judged.

use std::{fmt, io::ErrorKind, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use reqwest::{
    Response,
    header::{self, HeaderValue},
};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::{Answers, Judge, Origin, Refusal, Target, row::redirects};

/// Who asks. It names no version of anything else, and no person.
const USER_AGENT: &str = concat!("kazma/", env!("CARGO_PKG_VERSION"));
/// What is asked for.
const ACCEPT: &str = "text/html, application/xhtml+xml, text/*, application/json, */*;q=0.1";

/// A future that a trait object returns.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Looks names up.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Every address of `name`, and the names on the way to them where they are known.
    ///
    /// # Errors
    ///
    /// The name has no address (`NotFound`), nobody answered (`TimedOut`), or the lookup failed otherwise: in
    /// each case nothing is fetched.
    fn resolve<'a>(&'a self, name: &'a str) -> Boxed<'a, std::io::Result<Answers>>;
}

/// The system's resolver. It is asked for the absolute name, so that no search domain is tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Boxed<'a, std::io::Result<Answers>> {
        Box::pin(async move {
            let absolute = format!("{}.", name.trim_end_matches('.'));
            let found = tokio::net::lookup_host((absolute, 0))
                .await
                .map_err(told_apart)?;
            Ok(Answers {
                addresses: found.map(|address| address.ip()).collect(),
                aliases: Vec::new(),
            })
        })
    }
}

/// Tells a name that is not there from a name server that does not answer. The library says it in words alone.
/// Source: `gai_strerror` of glibc and of musl.
fn told_apart(error: std::io::Error) -> std::io::Error {
    let words = error.to_string();
    let says = |any: &[&str]| any.iter().any(|one| words.contains(one));
    let kind = if says(&["Temporary failure in name resolution", "Try again"]) {
        ErrorKind::TimedOut
    } else if says(&[
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "Name has no usable address",
    ]) {
        ErrorKind::NotFound
    } else {
        return error;
    };
    std::io::Error::new(kind, error)
}

/// Bounds of one fetch, all hops together.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the first lookup to the last byte.
    pub total: Duration,
    /// Until a connection stands.
    pub connect: Duration,
    /// Bytes of the body that are kept.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total: Duration::from_secs(20),
            connect: Duration::from_secs(5),
            body: 2 * 1024 * 1024,
        }
    }
}

/// What was fetched. Nobody vouches for any of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Every address that was asked, in order; the last one answered with the page.
    pub trail: Vec<Url>,
    /// The status of the last answer.
    pub status: u16,
    /// What it says it is.
    pub content_type: Option<String>,
    /// How it says it is compressed. Compression is not asked for, and not undone.
    pub content_encoding: Option<String>,
    /// How many bytes it says it has.
    pub length: Option<u64>,
    /// Its first bytes, as many as the limits let.
    pub body: Vec<u8>,
    /// Why there are not all of them; none if there are.
    pub cut: Option<Cut>,
}

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It is larger than is kept.
    Size,
    /// It took too long.
    Time,
    /// The server broke off.
    Broken,
}

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Looking the name up.
    Lookup,
    /// The connection, or the server's answer.
    Answer,
}

impl Stage {
    const fn words(self) -> &'static str {
        match self {
            Self::Lookup => "looking the name of the host up",
            Self::Answer => "the answer of the server",
        }
    }
}

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The judge refused it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It took longer than it may.
    #[error("{} took longer than {} s", .0.words(), .1.as_secs())]
    TimedOut(Stage, Duration),
    /// The name could not be looked up.
    #[error("{}", not_found(.0.kind()))]
    Lookup(#[source] std::io::Error),
    /// No connection, or one that broke.
    #[error("{what}")]
    Unreachable {
        /// What happened, in words.
        what: &'static str,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
    /// TLS could not be set up.
    #[error("the client could not be set up")]
    Setup(#[source] reqwest::Error),
}

impl Error {
    fn unreachable(source: reqwest::Error) -> Self {
        Self::Unreachable {
            what: unreached(&source),
            source,
        }
    }
}

/// Why a name was not found, as far as the resolver tells by the kind of its error.
const fn not_found(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "no host has this name",
        ErrorKind::TimedOut => "the name server does not answer",
        _ => "the name of the host could not be looked up",
    }
}

/// Why a server was not reached, as far as the cause tells.
fn unreached(error: &reqwest::Error) -> &'static str {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(now) = cause {
        if let Some(io) = now.downcast_ref::<std::io::Error>() {
            match io.kind() {
                ErrorKind::ConnectionRefused => return "the server refused the connection",
                ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
                    return "there is no way to the server from here";
                }
                ErrorKind::PermissionDenied => {
                    return "this machine does not let fetches connect there";
                }
                // How a TLS connection says that it does not accept the other side.
                ErrorKind::InvalidData => {
                    return "the server's certificate, or its TLS, is not accepted";
                }
                _ => {}
            }
            // An error that wraps another names the cause of that one as its own, and so skips it.
            if let Some(wrapped) = io.get_ref() {
                cause = Some(wrapped);
                continue;
            }
        }
        cause = now.source();
    }
    if error.is_timeout() {
        "no connection to the server could be made in time"
    } else if error.is_connect() {
        "no connection to the server could be made"
    } else {
        "the server broke the connection off"
    }
}

/// Fetches pages. It sends no cookie, no credential and no referrer, and reads nothing from the environment.
#[derive(Debug, Clone)]
pub struct Client {
    judge: Judge,
    limits: Limits,
    resolver: Arc<dyn Resolve>,
}

impl Client {
    /// A client of this judge.
    pub fn new(judge: Judge, limits: Limits, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            judge,
            limits,
            resolver,
        }
    }

    /// Whose judgement it follows.
    pub const fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Its bounds.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The first line and every header of a fetch of `url`, as they are sent.
    pub fn request(url: &Url) -> Vec<String> {
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let host = match (url.host_str().unwrap_or_default(), url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        vec![
            format!("GET {path}"),
            format!("Host: {host}"),
            format!("User-Agent: {USER_AGENT}"),
            format!("Accept: {ACCEPT}"),
        ]
    }

    /// Fetches what a text that nobody vouches for names.
    ///
    /// # Errors
    ///
    /// Any hop is refused, a bound is met before the page begins, or the network fails.
    pub async fn fetch(&self, url: &str) -> Result<Page, Error> {
        let deadline = Instant::now() + self.limits.total;
        let mut trail = vec![self.judge.url(url)?];
        loop {
            let Some(target) = trail.last() else {
                return Err(Refusal::Unresolved.into());
            };
            let response = self.hop(target, deadline).await?;
            let Some(location) = location(&response) else {
                let trail = trail.iter().map(|target| target.url().clone()).collect();
                return Ok(self.read(trail, response, deadline).await);
            };
            let next = self.judge.redirect(&trail, &location)?;
            trail.push(next);
        }
    }

    /// Fetches `path` of a service that the operator configured: it may be anywhere, and it may send the
    /// fetch on within its own origin alone.
    ///
    /// # Errors
    ///
    /// It sends elsewhere, a bound is met before the answer begins, or the network fails.
    pub async fn configured(
        &self,
        origin: &Origin,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Page, Error> {
        let deadline = Instant::now() + self.limits.total;
        let mut url = origin.at(path, query);
        let mut trail = Vec::new();
        let http = self.builder(&url).build().map_err(Error::Setup)?;
        for _ in 0..=self.judge.most_redirects() {
            let response = self.send(&http, &url, deadline).await?;
            trail.push(url.clone());
            match location(&response) {
                Some(location) => url = origin.redirect(&url, &location)?,
                None => return Ok(self.read(trail, response, deadline).await),
            }
        }
        Err(Refusal::TooManyRedirects(self.judge.most_redirects()).into())
    }

    /// Looks the name up, judges every answer, connects to one of them and checks that it did.
    async fn hop(&self, target: &Target, deadline: Instant) -> Result<Response, Error> {
        let answers = match target.name() {
            Some(name) => timeout_at(deadline, self.resolver.resolve(name))
                .await
                .map_err(|_| Error::TimedOut(Stage::Lookup, self.limits.total))?
                .map_err(Error::Lookup)?,
            None => Answers::default(),
        };
        let judged = self.judge.answers(target, &answers)?;
        let port = target.port();
        let mut builder = self.builder(target.url());
        if let Some(name) = target.name() {
            let pinned: Vec<SocketAddr> =
                judged.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
            builder = builder.resolve_to_addrs(name, &pinned);
        }
        let http = builder.build().map_err(Error::Setup)?;
        let response = self.send(&http, target.url(), deadline).await?;
        let peer = response.remote_addr().ok_or(Refusal::Unresolved)?;
        self.judge.peer(&judged, peer.ip(), port)?;
        self.headers(target, &response)?;
        Ok(response)
    }

    async fn send(
        &self,
        http: &reqwest::Client,
        url: &Url,
        deadline: Instant,
    ) -> Result<Response, Error> {
        timeout_at(deadline, http.get(url.clone()).send())
            .await
            .map_err(|_| Error::TimedOut(Stage::Answer, self.limits.total))?
            .map_err(Error::unreachable)
    }

    /// Judges the headers that would have another client go elsewhere.
    fn headers(&self, target: &Target, response: &Response) -> Result<(), Refusal> {
        for value in response.headers().get_all(header::REFRESH) {
            self.judge
                .refresh(target, &String::from_utf8_lossy(value.as_bytes()))?;
        }
        for value in response.headers().get_all(header::ALT_SVC) {
            self.judge
                .alt_svc(&String::from_utf8_lossy(value.as_bytes()))?;
        }
        Ok(())
    }

    fn builder(&self, url: &Url) -> reqwest::ClientBuilder {
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(self.limits.connect)
            .pool_max_idle_per_host(0)
            .user_agent(USER_AGENT)
            .default_headers(
                [(header::ACCEPT, HeaderValue::from_static(ACCEPT))]
                    .into_iter()
                    .collect(),
            );
        if url.scheme() == "http" {
            // Nothing will be verified: spare the reading of certificates.
            builder.tls_certs_only([])
        } else {
            builder
        }
    }

    /// Reads the body as far as the limits let. What has come when the time is over is kept.
    async fn read(&self, trail: Vec<Url>, response: Response, deadline: Instant) -> Page {
        let text = |name| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let mut page = Page {
            trail,
            status: response.status().as_u16(),
            content_type: text(header::CONTENT_TYPE),
            content_encoding: text(header::CONTENT_ENCODING),
            length: response.content_length(),
            body: Vec::new(),
            cut: None,
        };
        let mut chunks = response.bytes_stream();
        loop {
            let chunk = match timeout_at(deadline, chunks.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(None) => break,
                Ok(Some(Err(error))) => {
                    tracing::debug!(error = error.to_string(), "a body broke off");
                    page.cut = Some(Cut::Broken);
                    break;
                }
                Err(_) => {
                    page.cut = Some(Cut::Time);
                    break;
                }
            };
            let room = self.limits.body.saturating_sub(page.body.len());
            page.body
                .extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
            if chunk.len() > room {
                page.cut = Some(Cut::Size);
                break;
            }
        }
        page
    }
}

impl Page {
    /// Where it came from in the end.
    pub fn url(&self) -> Option<&Url> {
        self.trail.last()
    }
}

/// Where a redirect leads. What is no text leads nowhere that a judge lets pass.
fn location(response: &Response) -> Option<String> {
    redirects(response.status().as_u16())
        .then(|| response.headers().get(header::LOCATION))
        .flatten()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
