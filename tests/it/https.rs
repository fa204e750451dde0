//! HTTPS of our own: a real certificate of an authority that the client checks, one that is renewed while everything
//! runs, and settings that cannot be.

use std::{
    fs,
    io::Read as _,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use reqwest::{Certificate, Client};
use serde_json::json;

use crate::{
    metrics::{listeners, scrape},
    stack::{PATIENCE, Stack, command, port, refused, until, up_command},
};

/// An authority made by openssl, and where the pair lies that it issued last.
struct Authority(tempfile::TempDir);

impl Authority {
    fn new() -> Self {
        let me = Self(tempfile::tempdir().unwrap());
        let authority = "basicConstraints=critical,CA:TRUE";
        me.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=authority",
            "-config",
            "plain",
            "-addext",
            authority,
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ]);
        me
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &[&str]) {
        // Else openssl adds what its own configuration says.
        fs::write(
            self.path("plain"),
            "[req]\ndistinguished_name = name\n[name]\n",
        )
        .unwrap();
        let mut openssl = command("openssl");
        let made = openssl
            .args(arguments)
            .current_dir(self.0.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    }

    /// Issues a certificate for `localhost`, and puts it and its key where `to` says.
    fn issue(&self, to: &Pair, days: &str) {
        fs::write(self.path("names"), "subjectAltName=DNS:localhost\n").unwrap();
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=kazma",
            "-config",
            "plain",
            "-keyout",
            "new.key",
            "-out",
            "request.pem",
        ]);
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            "request.pem",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            days,
            "-extfile",
            "names",
            "-out",
            "new.pem",
        ]);
        // Root starts the services, and they have users of their own: none of them can read the key.
        fs::set_permissions(self.path("new.key"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(self.path("new.pem"), &to.certificate).unwrap();
        fs::rename(self.path("new.key"), &to.key).unwrap();
    }

    /// A client that trusts this authority and nobody else. Each call makes connections of its own.
    fn client(&self, at: SocketAddr) -> Client {
        kazma_mesh::install_crypto_provider();
        let own = Certificate::from_pem(&fs::read(self.path("ca.pem")).unwrap()).unwrap();
        Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .resolve("localhost", at)
            .tls_certs_only([own])
            .build()
            .unwrap()
    }
}

/// The files that the settings name.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl Pair {
    fn of(authority: &Authority, days: &str) -> Self {
        let pair = Self {
            certificate: authority.path("cert.pem"),
            key: authority.path("key.pem"),
        };
        authority.issue(&pair, days);
        pair
    }

    fn flags(&self) -> [&str; 4] {
        let [certificate, key] = [&self.certificate, &self.key].map(|path| path.to_str().unwrap());
        ["--tls-cert", certificate, "--tls-key", key]
    }
}

fn listens(stack: &Stack) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port(&stack.ready)).into()
}

/// Seconds until the certificate ends that the gateway says it shows.
async fn left(stack: &Stack) -> f64 {
    let text = scrape(&listeners(stack)["gateway"]).await;
    let mut lines = text.lines();
    let shown =
        lines.find_map(|line| line.strip_prefix("kazma_public_certificate_expiry_seconds "));
    shown.expect("it is not shown").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn people_come_in_over_https_with_a_certificate_that_they_can_check() {
    let authority = Authority::new();
    let pair = Pair::of(&authority, "2");
    let stack = Stack::start_with(&pair.flags());
    let (client, base) = (
        authority.client(listens(&stack)),
        stack.text("url").to_owned(),
    );
    assert_eq!(base, format!("https://localhost:{}", port(&stack.ready)));

    // Whoever connects and says nothing holds up nobody: one after the other they would outlast the client.
    let silent: Vec<TcpStream> = (0..64)
        .map(|_| TcpStream::connect(listens(&stack)).unwrap())
        .collect();
    let link = stack.text("login_url");
    let page = client.get(format!("{base}/login")).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert_eq!(page.version(), reqwest::Version::HTTP_2);
    drop(silent);
    // Browsers would keep it for every port of this name.
    assert!(!page.headers().contains_key("strict-transport-security"));

    let (at, secret) = link.split_once("#token=").unwrap();
    assert_eq!(at, format!("{base}/login"));
    let login = client.post(format!("{base}/api/auth/login"));
    let answer = login.json(&json!({"secret": secret})).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    assert!(
        cookie.starts_with("__Host-") && cookie.contains("; Secure"),
        "{cookie}"
    );

    let token = stack.text("api_token");
    let stream = client.get(format!("{base}/api/events")).bearer_auth(token);
    let mut events = stream.send().await.unwrap();
    let thread = stack
        .api
        .say("run python: print(sum(range(10)))")
        .await
        .unwrap();
    let mut told = String::new();
    while !told.contains("event: gate.pending") {
        let piece = events.chunk().await.unwrap().unwrap();
        told.push_str(std::str::from_utf8(&piece).unwrap());
    }
    stack.api.card(&thread).await.unwrap();

    // The operator's commands need no certificate; pages in plain there are none.
    let made = stack.command(&["login-link"]);
    let words = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(
        words.starts_with(&format!("{base}/login#token=")),
        "{made:?}"
    );
    let plain = Client::builder().no_proxy().build().unwrap();
    let answer = plain.get(stack.url("/login")).send().await.unwrap();
    assert_eq!(answer.status(), 400);
    assert!(answer.text().await.unwrap().contains(&base));
    assert!((0.0..=172_800.0).contains(&left(&stack).await));

    // Another authority's client sees that it is not the one it trusts.
    let stranger = Authority::new().client(listens(&stack));
    assert!(stranger.get(format!("{base}/login")).send().await.is_err());
    let key = fs::read_to_string(&pair.key).unwrap();
    let key: String = key
        .lines()
        .filter(|line| !line.starts_with("---"))
        .collect();
    assert!(
        !holds(stack.folder(), &key[60..100]),
        "the key lies in the data folder"
    );
}

/// Whether a file beneath `folder` holds these words.
fn holds(folder: &Path, words: &str) -> bool {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return holds(&path, words);
        }
        let mut text = Vec::new();
        let read = path
            .is_file()
            .then(|| fs::File::open(&path).unwrap().read_to_end(&mut text));
        read.is_some()
            && text
                .windows(words.len())
                .any(|part| part == words.as_bytes())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_shown_without_a_new_start() {
    let (first, second) = (Authority::new(), Authority::new());
    let pair = Pair::of(&first, "2");
    let stack = Stack::start_with(&pair.flags());
    let login = format!("{}/login", stack.text("url"));
    let asked = |authority: &Authority| authority.client(listens(&stack)).get(&login).send();
    assert!(asked(&first).await.is_ok());
    assert!(asked(&second).await.is_err());
    let gateway = stack.service("gateway");

    second.issue(&pair, "9");
    let deadline = Instant::now() + PATIENCE;
    while asked(&second).await.is_err() {
        assert!(
            Instant::now() < deadline,
            "the renewed certificate is not shown"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(asked(&first).await.is_err());
    assert!(left(&stack).await > 172_800.0);
    assert_eq!(stack.service("gateway"), gateway);

    // One that starts anew shows it too.
    gateway.kill();
    let again = until(PATIENCE, || {
        let now = stack.services()["gateway"].clone();
        now.is_some_and(|now| now != gateway)
    });
    again.await.expect("the gateway does not come back");
    asked(&second).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_with_the_setting_and_the_fix() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (pair, stray) = (Pair::of(&authority, "2"), Pair::of(&other, "2"));
    let [_, certificate, _, key] = pair.flags();
    let [_, _, _, other_key] = stray.flags();
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    for (flags, says) in [
        (
            &["--tls-cert", certificate][..],
            "KAZMA_TLS_KEY: set it too",
        ),
        (&["--tls-key", key], "KAZMA_TLS_CERT: set it too"),
        (
            &["--tls-cert", certificate, "--tls-key", other_key],
            "KAZMA_TLS_KEY: it is not the key",
        ),
        (
            &["--tls-cert", key, "--tls-key", key],
            "KAZMA_TLS_CERT: no certificate",
        ),
        (
            &["--tls-cert", "/nowhere", "--tls-key", key],
            "KAZMA_TLS_CERT: /nowhere: No such file",
        ),
    ] {
        let mut up = up_command(folder.path());
        up.args(flags);
        let output = refused(up).await;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{words}");
        assert!(words.contains(says), "{words}");
    }
}
