//! The guarded client: it fetches what the judge lets pass, from the address that was judged.

use std::{fmt, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use reqwest::{Response, header};
use url::Url;

use crate::{Answers, Judge, Origin, Refusal, Target, row::redirects};

/// A future that a trait object returns.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Looks names up.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Every address of `name`, and the names on the way to them where they are known.
    ///
    /// # Errors
    ///
    /// The name has no address, or the lookup failed: either way nothing is fetched.
    fn resolve<'a>(&'a self, name: &'a str) -> Boxed<'a, std::io::Result<Answers>>;
}

/// The system's resolver. It is asked for the absolute name, so that no search domain is tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Boxed<'a, std::io::Result<Answers>> {
        Box::pin(async move {
            let absolute = format!("{}.", name.trim_end_matches('.'));
            let found = tokio::net::lookup_host((absolute, 0)).await?;
            Ok(Answers {
                addresses: found.map(|address| address.ip()).collect(),
                aliases: Vec::new(),
            })
        })
    }
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
    /// Where it came from in the end.
    pub url: Url,
    /// The status of the last answer.
    pub status: u16,
    /// What it says it is.
    pub content_type: Option<String>,
    /// Its first bytes, as many as the limit lets.
    pub body: Vec<u8>,
    /// Whether there was more.
    pub truncated: bool,
}

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The judge refused it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It took longer than it may.
    #[error("it took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The name could not be looked up.
    #[error("the name of the host could not be looked up")]
    Lookup(#[source] std::io::Error),
    /// No connection, or one that broke.
    #[error("the server could not be reached, or broke off")]
    Unreachable(#[source] reqwest::Error),
    /// TLS could not be set up.
    #[error("the client could not be set up")]
    Setup(#[source] reqwest::Error),
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

    /// Fetches what a text that nobody vouches for names.
    ///
    /// # Errors
    ///
    /// Any hop is refused, a bound is met, or the network fails.
    pub async fn fetch(&self, url: &str) -> Result<Page, Error> {
        self.bounded(async {
            let mut trail = vec![self.judge.url(url)?];
            loop {
                let Some(target) = trail.last() else {
                    return Err(Refusal::Unresolved.into());
                };
                let response = self.hop(target).await?;
                match location(&response) {
                    Some(location) => {
                        let next = self.judge.redirect(&trail, &location)?;
                        trail.push(next);
                    }
                    None => return self.read(target.url().clone(), response).await,
                }
            }
        })
        .await
    }

    /// Fetches `url` of a service that the operator configured: it may be anywhere, and it may send the
    /// fetch on within its own origin alone.
    ///
    /// # Errors
    ///
    /// It sends elsewhere, a bound is met, or the network fails.
    pub async fn configured(
        &self,
        origin: &Origin,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Page, Error> {
        self.bounded(async {
            let mut url = origin.at(path, query);
            let http = self.builder(&url).build().map_err(Error::Setup)?;
            for _ in 0..=self.judge.most_redirects() {
                let response = http
                    .get(url.clone())
                    .send()
                    .await
                    .map_err(Error::Unreachable)?;
                match location(&response) {
                    Some(location) => url = origin.redirect(&url, &location)?,
                    None => return self.read(url, response).await,
                }
            }
            Err(Refusal::TooManyRedirects(self.judge.most_redirects()).into())
        })
        .await
    }

    async fn bounded(
        &self,
        work: impl Future<Output = Result<Page, Error>>,
    ) -> Result<Page, Error> {
        tokio::time::timeout(self.limits.total, work)
            .await
            .unwrap_or(Err(Error::TimedOut(self.limits.total)))
    }

    /// Looks the name up, judges every answer, connects to one of them and checks that it did.
    async fn hop(&self, target: &Target) -> Result<Response, Error> {
        let answers = match target.name() {
            Some(name) => self.resolver.resolve(name).await.map_err(Error::Lookup)?,
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
        let response = http
            .get(target.url().clone())
            .send()
            .await
            .map_err(Error::Unreachable)?;
        let peer = response.remote_addr().ok_or(Refusal::Unresolved)?;
        self.judge.peer(&judged, peer.ip(), port)?;
        self.headers(target, &response)?;
        Ok(response)
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
            .user_agent(concat!("kazma/", env!("CARGO_PKG_VERSION")));
        if url.scheme() == "http" {
            // Nothing will be verified: spare the reading of certificates.
            builder.tls_certs_only([])
        } else {
            builder
        }
    }

    async fn read(&self, url: Url, response: Response) -> Result<Page, Error> {
        let status = response.status().as_u16();
        let content_type = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let mut body = Vec::new();
        let mut truncated = false;
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(Error::Unreachable)?;
            let room = self.limits.body - body.len();
            body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
            if chunk.len() > room {
                truncated = true;
                break;
            }
        }
        Ok(Page {
            url,
            status,
            content_type,
            body,
            truncated,
        })
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
