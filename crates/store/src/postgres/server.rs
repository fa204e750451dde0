//! Where a database server is, as its operator says it: by a URL.

use std::{fmt, net::IpAddr, str::FromStr as _, sync::Arc};

use camino::Utf8PathBuf;
use kazma_domain::Digest;
use secrecy::{ExposeSecret as _, SecretString};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use crate::StoreError;

/// Settings that a URL may carry behind its `?`. Others are refused by name: a typing error there is worth a
/// word, and a password belongs in the front.
const SETTINGS: [&str; 6] = [
    "host",
    "port",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
];
/// Letters of a schema's name.
const NAME_MAX: usize = 40;

/// A database on a PostgreSQL server, and the schema in it. Shown without its password.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    options: PgConnectOptions,
    schema: String,
    /// Where it is, without who comes.
    shown: String,
    /// The TCP port; none for a socket of this machine.
    port: Option<u16>,
    files: Vec<Utf8PathBuf>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.0.shown).finish()
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.shown)
    }
}

impl Server {
    /// Reads a URL such as `postgres://kazma:PASSWORD@db.lan/kazma` or, for a socket in a folder of this machine,
    /// `postgres://kazma@/kazma?host=/run/postgresql`. `schema` is where the tables are: small letters, digits, `_`.
    ///
    /// To another machine it speaks TLS and looks at the certificate (`verify-full`), unless the URL says
    /// otherwise by `sslmode`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it, and never what it holds.
    pub fn new(url: &SecretString, schema: &str) -> Result<Self, StoreError> {
        let plain = schema
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
            && schema.starts_with(|c: char| !c.is_ascii_digit());
        if !plain || schema.len() > NAME_MAX {
            return Err(wrong(
                "the name of a schema has small letters, digits and _",
            ));
        }
        let (text, mut host) = hosted(url.expose_secret().trim());
        let parsed = Url::parse(&text).map_err(|error| wrong(error.to_string()))?;
        if !matches!(parsed.scheme(), "postgres" | "postgresql") {
            return Err(wrong("it does not begin with postgres://"));
        }
        let mut mode = None;
        if host.is_none() {
            host = parsed.host_str().map(ToOwned::to_owned);
        }
        let mut files = Vec::new();
        for (name, value) in parsed.query_pairs() {
            if !SETTINGS.contains(&&*name) {
                return Err(wrong(format!(
                    "{} is no setting of it; there are {}",
                    name.escape_debug(),
                    SETTINGS.join(", ")
                )));
            }
            match &*name {
                "sslmode" => mode = Some(value.into_owned()),
                "host" => host = Some(value.into_owned()),
                name if name.starts_with("ssl") => files.push(Utf8PathBuf::from(&*value)),
                _ => {}
            }
        }
        let database = parsed.path().trim_start_matches('/');
        if database.is_empty() {
            return Err(wrong("it names no database: postgres://USER@HOST/DATABASE"));
        }
        let host = host.unwrap_or_default();
        // `%2F` is how a folder is written where a host stands.
        let local =
            host.is_empty() || host.starts_with('/') || host.to_lowercase().starts_with("%2f");
        if host.is_empty() {
            return Err(wrong(
                "it names no host, and no folder with a socket by ?host=/FOLDER",
            ));
        }
        // Its errors may quote what they stumble over.
        let mut options = PgConnectOptions::from_str(parsed.as_str())
            .map_err(|_| wrong("a setting of it has a value that is none"))?;
        if mode.is_none() && !local && !is_loopback(&host) {
            options = options.ssl_mode(PgSslMode::VerifyFull);
        }
        let port = (!local).then(|| options.get_port());
        Ok(Self(Arc::new(Inner {
            shown: if local {
                format!("database {database}, schema {schema}, by a socket of this machine")
            } else {
                format!("database {database}, schema {schema}, on {host}")
            },
            options: options
                .application_name(&format!("kazma {schema}, process {}", std::process::id()))
                .statement_cache_capacity(256),
            schema: schema.to_owned(),
            port,
            files,
        })))
    }

    /// The TCP port it listens on; none for a socket of this machine.
    pub fn port(&self) -> Option<u16> {
        self.0.port
    }

    /// Files that are read to connect: certificates and a key.
    pub fn files(&self) -> &[Utf8PathBuf] {
        &self.0.files
    }

    pub(super) fn options(&self) -> &PgConnectOptions {
        &self.0.options
    }

    pub(crate) fn schema(&self) -> &str {
        &self.0.schema
    }

    /// The number by which processes exclude each other.
    pub(super) fn lock(&self) -> i64 {
        let digest = Digest::of_bytes(format!("kazma schema {}", self.0.schema).as_bytes());
        digest
            .as_bytes()
            .first_chunk()
            .map_or(0, |bytes| i64::from_be_bytes(*bytes))
    }
}

/// The URL as the parser takes it: `USER@/` has no host there, and gets one that the `host` behind the `?`
/// replaces. Then the host is known to be none of the URL's own.
fn hosted(url: &str) -> (String, Option<String>) {
    let end = url.find("://").map(|at| {
        let rest = url.get(at + 3..).unwrap_or_default();
        at + 3 + rest.find(['/', '?', '#']).unwrap_or(rest.len())
    });
    match end.and_then(|end| url.split_at_checked(end)) {
        Some((front, back)) if front.ends_with('@') => {
            (format!("{front}localhost{back}"), Some(String::new()))
        }
        _ => (url.to_owned(), None),
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn wrong(what: impl Into<String>) -> StoreError {
    StoreError::Address { what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Result<Server, StoreError> {
        Server::new(&SecretString::from(url), "registry")
    }

    #[test]
    fn another_machine_must_show_its_certificate_unless_told_otherwise() {
        for (url, mode, port) in [
            ("postgres://kazma@db.lan/kazma", "VerifyFull", Some(5432)),
            (
                "postgresql://kazma@192.0.2.7:6000/kazma",
                "VerifyFull",
                Some(6000),
            ),
            (
                "postgres://kazma@db.lan/kazma?sslmode=disable",
                "Disable",
                Some(5432),
            ),
            (
                "postgres://kazma@db.lan/kazma?sslmode=require",
                "Require",
                Some(5432),
            ),
            ("postgres://kazma@localhost/kazma", "Prefer", Some(5432)),
            ("postgres://kazma@127.0.0.1/kazma", "Prefer", Some(5432)),
            ("postgres://kazma@[::1]/kazma", "Prefer", Some(5432)),
            ("postgres:///kazma?host=/run/postgresql", "Prefer", None),
            ("postgres://k:p@/kazma?host=/run/postgresql", "Prefer", None),
            ("postgres://k@/kazma?host=db.lan", "VerifyFull", Some(5432)),
            ("postgres://kazma@%2Frun%2Fpostgresql/kazma", "Prefer", None),
        ] {
            let server = server(url).unwrap();
            let found = format!("{:?}", server.options().get_ssl_mode());
            assert_eq!((found.as_str(), server.port()), (mode, port), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_what_is_secret_is_not() {
        for (url, what) in [
            ("mysql://kazma:hunter2@db.lan/kazma", "postgres://"),
            ("postgres://kazma:hunter2@db.lan", "database"),
            ("postgres://kazma:hunter2@/kazma", "host"),
            ("postgres:///kazma?password=hunter2", "password"),
            ("postgres://db.lan/kazma?sslmod=disable&x=hunter2", "sslmod"),
            ("postgres://db.lan/kazma?sslmode=hunter2", "value"),
            ("postgres://kazma:hunter2@db.lan:port/kazma", "port"),
            ("hunter2", "base"),
        ] {
            let error = server(url).unwrap_err().to_string();
            assert!(error.contains(what), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{url}: {error}");
        }
        let shown = server("postgres://kazma:hunter2@db.lan/kazma").unwrap();
        let shown = format!("{shown} {shown:?}");
        assert!(
            shown.contains("db.lan") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn certificates_are_named_so_that_they_can_be_read() {
        let url = "postgres://k@db.lan/kazma?sslrootcert=/etc/ca.pem&sslcert=/a.pem&sslkey=/a.key";
        assert_eq!(
            server(url).unwrap().files(),
            ["/etc/ca.pem", "/a.pem", "/a.key"]
        );
    }

    #[test]
    fn a_schema_s_name_needs_no_quotes() {
        let url = SecretString::from("postgres://k@db.lan/kazma");
        for name in ["", "1st", "Registry", "a;b", "a\"b", &"a".repeat(41)] {
            assert!(Server::new(&url, name).is_err(), "{name}");
        }
    }
}
