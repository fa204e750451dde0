//! Behind a real nginx with the example's configuration: TLS, whose address counts, and what a client writes into
//! headers.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use reqwest::{Certificate, Client, StatusCode};
use serde_json::{Value, json};

use crate::stack::{PATIENCE, Stack, command, port};

const NAME: &str = "kazma.example";
/// Two clients; nginx is at 127.0.0.1.
const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 5);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);

/// Makes a server's certificate for `name`, which is its own authority, and its key.
pub(crate) fn certificate(name: &str, certificate: &Path, key: &Path) -> Certificate {
    let folder = tempfile::tempdir().unwrap();
    // Else openssl makes it an authority, which no server may be.
    let plain = folder.path().join("plain");
    fs::write(&plain, "[req]\ndistinguished_name = name\n[name]\n").unwrap();
    let made = command("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=kazma", "-config"])
        .arg(plain)
        .arg("-addext")
        .arg(format!("subjectAltName=DNS:{name}"))
        .arg("-keyout")
        .arg(key)
        .arg("-out")
        .arg(certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    Certificate::from_pem(&fs::read(certificate).unwrap()).unwrap()
}

/// A real nginx with a certificate of its own.
struct Nginx {
    process: Child,
    at: SocketAddr,
    certificate: Certificate,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// In front of the gateway at `upstream`, with the example's configuration but for names and ports.
    fn start(at: SocketAddr, upstream: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let certificate = certificate(NAME, path("cert.pem").as_ref(), path("key.pem").as_ref());
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/nginx/kazma.conf");
        let mut server = fs::read_to_string(example).unwrap();
        for (from, to) in [
            ("listen 443 ssl", format!("listen {at} ssl")),
            (
                "http://127.0.0.1:9090",
                format!("http://127.0.0.1:{upstream}"),
            ),
            ("/etc/ssl/kazma.example/fullchain.pem", path("cert.pem")),
            ("/etc/ssl/kazma.example/privkey.pem", path("key.pem")),
        ] {
            assert_eq!(server.matches(from).count(), 1, "{from}");
            server = server.replace(from, &to);
        }
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {};", path(name)))
            .concat();
        let whole = format!(
            "daemon off; master_process off; pid {}; error_log stderr warn; events {{}}\n\
             http {{ access_log off;\n{temporary}{server}}}\n",
            path("pid")
        );
        fs::write(path("nginx.conf"), whole).unwrap();
        let process = command("nginx")
            .env("PATH", "/usr/sbin:/usr/bin:/bin")
            .args(["-p", &path(""), "-c", &path("nginx.conf")])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            process,
            at,
            certificate,
            _folder: folder,
        }
    }

    /// A client with an address of its own, which trusts nginx's certificate and nobody else's.
    fn client(&self, from: Ipv4Addr) -> Client {
        kazma_mesh::install_crypto_provider();
        Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .local_address(IpAddr::from(from))
            .resolve(NAME, self.at)
            .tls_certs_only([self.certificate.clone()])
            .build()
            .unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{NAME}:{}{path}", self.at.port())
    }

    async fn until_up(&self) {
        let deadline = Instant::now() + PATIENCE;
        while tokio::net::TcpStream::connect(self.at).await.is_err() {
            assert!(Instant::now() < deadline, "nginx does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Kazma behind nginx.
struct Behind {
    stack: Stack,
    nginx: Nginx,
}

impl Behind {
    async fn with(flags: &[&str]) -> Self {
        // Free a moment ago; nginx cannot be asked which one it took.
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let public = format!("https://{NAME}:{}", free.port());
        let mut all = vec!["--public-url", &public];
        all.extend(flags);
        let stack = Stack::start_with(&all);
        let nginx = Nginx::start(free, port(&stack.ready));
        nginx.until_up().await;
        Self { stack, nginx }
    }

    async fn guess(&self, from: Ipv4Addr, says: &str) -> StatusCode {
        let request = self
            .nginx
            .client(from)
            .post(self.nginx.url("/api/auth/login"))
            .header("x-forwarded-for", says)
            .header("x-real-ip", says)
            .header("forwarded", format!("for={says}"))
            .json(&json!({"secret": "a guess"}));
        request.send().await.unwrap().status()
    }

    async fn proxy_state(&self) -> String {
        let url = self.nginx.url("/api/auth/status");
        let answer = self.nginx.client(ONE).get(url).send().await.unwrap();
        let text = answer.text().await.unwrap();
        let status: Value = serde_json::from_str(&text).expect(&text);
        status["proxy"]["state"].as_str().unwrap().to_owned()
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let request = self.nginx.client(ONE).post(self.nginx.url(path)).json(body);
        let answer = request
            .bearer_auth(self.stack.text("api_token"))
            .send()
            .await
            .unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        answer.json().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_declared_proxy_the_client_s_own_address_counts() {
    let behind = Behind::with(&["--trusted-proxies", "127.0.0.1"]).await;
    assert_eq!(behind.proxy_state().await, "declared");
    for n in 0..10 {
        // Another address in each header changes nothing: nginx writes over them.
        let guessed = behind.guess(ONE, &format!("8.8.8.{n}")).await;
        assert_eq!(guessed, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(
        behind.guess(ONE, "9.9.9.9").await,
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(
        behind.guess(OTHER, "127.0.0.5").await,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(behind.proxy_state().await, "declared");

    // Beside nginx, who is not declared is nobody's proxy.
    let direct = Client::builder()
        .no_proxy()
        .local_address(IpAddr::from(OTHER))
        .build()
        .unwrap();
    let url = behind.stack.url("/health/live");
    direct
        .get(url)
        .header("x-forwarded-for", "10.0.0.1")
        .send()
        .await
        .unwrap();
    assert_eq!(behind.proxy_state().await, "undeclared_proxy");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeclared_proxy_is_everybody_and_is_told_of() {
    let behind = Behind::with(&[]).await;
    assert_eq!(behind.proxy_state().await, "undeclared_proxy");
    for _ in 0..10 {
        assert_eq!(behind.guess(ONE, "8.8.8.8").await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(
        behind.guess(OTHER, "8.8.8.8").await,
        StatusCode::TOO_MANY_REQUESTS
    );
    let log = behind.stack.log();
    assert!(log.contains("KAZMA_TRUSTED_PROXIES"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_story_through_nginx_with_tls() {
    let behind = Behind::with(&["--trusted-proxies", "127.0.0.1"]).await;
    let (nginx, stack) = (&behind.nginx, &behind.stack);
    let link = stack.text("login_url");
    assert!(link.starts_with(&nginx.url("/login#token=")), "{link}");
    let (_, secret) = link.split_once("#token=").unwrap();
    let login = nginx.client(ONE).post(nginx.url("/api/auth/login"));
    let answer = login.json(&json!({"secret": secret})).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    assert!(
        cookie.starts_with("__Host-") && cookie.contains("; Secure"),
        "{cookie}"
    );

    // What happens is told at once, and not when nginx has enough of it.
    let stream = nginx.client(ONE).get(nginx.url("/api/events"));
    let mut events = stream
        .bearer_auth(stack.text("api_token"))
        .send()
        .await
        .unwrap();
    let thread = behind.post("/api/threads", &json!({})).await;
    let thread = thread["thread_id"].as_str().unwrap();
    let words = json!({"text": "run python: print(sum(range(10)))"});
    behind
        .post(&format!("/api/threads/{thread}/messages"), &words)
        .await;
    let mut told = String::new();
    while !told.contains("event: gate.pending") {
        let piece = events.chunk().await.unwrap().unwrap();
        told.push_str(std::str::from_utf8(&piece).unwrap());
    }
    let card = stack.api.card(thread).await.unwrap();
    let gate = card["gate_id"].as_str().unwrap();
    let decision = json!({"decision": "approve", "args_digest": card["args_digest"]});
    behind
        .post(&format!("/api/gates/{gate}/decision"), &decision)
        .await;
    let (state, reply) = stack.api.ended(thread).await.unwrap();
    assert_eq!(state, "done");
    assert!(reply.contains("45"), "{reply}");
}
