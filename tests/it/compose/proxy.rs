//! nginx or Caddy in front, or TLS of the gateway's own, and clients in a network namespace of their own.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use reqwest::{Certificate, Client, Method, StatusCode};
use serde_json::{Value, json};

use super::{
    Clone,
    namespace::{block_on, within},
};
use crate::{
    proxy::certificate,
    stack::{PATIENCE, command},
};

const NAME: &str = "kazma.example";
/// The engine's side of the clients' line, and the clients.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 213, 7, 1);
const ONE: Ipv4Addr = Ipv4Addr::new(10, 213, 7, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 213, 7, 3);

/// A network namespace with two addresses and a line to the engine's.
struct Elsewhere {
    name: String,
}

impl Elsewhere {
    fn beside(engine: &Path) -> Self {
        let name = format!("kazma-{}", std::process::id());
        let engine = format!("--net={}", engine.display());
        let run = |program: &str, arguments: &[&str]| {
            let output = command(program)
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .args(arguments)
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{program} {arguments:?}: {output:?}"
            );
        };
        let near = |arguments: &[&str]| run("nsenter", &[&[&engine, "ip"], arguments].concat());
        let far = |arguments: &[&str]| run("ip", &[&["-n", &name], arguments].concat());
        run("ip", &["netns", "add", &name]);
        near(&[
            "link", "add", "kzm-near", "type", "veth", "peer", "name", "kzm-far",
        ]);
        let file = format!("/run/netns/{name}");
        near(&["link", "set", "kzm-far", "netns", &file]);
        near(&["address", "add", &format!("{SERVER}/24"), "dev", "kzm-near"]);
        near(&["link", "set", "kzm-near", "up"]);
        for client in [ONE, OTHER] {
            far(&["address", "add", &format!("{client}/24"), "dev", "kzm-far"]);
        }
        far(&["link", "set", "kzm-far", "up"]);
        Self { name }
    }

    fn file(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = command("ip")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["netns", "del", &self.name])
            .output();
    }
}

/// Somebody at an address of their own, who trusts the proxy's certificate and nobody else's.
struct Visitor<'a> {
    from: Ipv4Addr,
    certificate: &'a Certificate,
}

impl Visitor<'_> {
    async fn ask(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: &Value,
    ) -> (StatusCode, Value) {
        kazma_mesh::install_crypto_provider();
        let client = Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .local_address(IpAddr::from(self.from))
            .resolve(NAME, SocketAddr::from((SERVER, 443)))
            .tls_certs_only([self.certificate.clone()])
            .build()
            .unwrap();
        let request = client
            .request(method, format!("https://{NAME}{path}"))
            // Nobody's word.
            .header("x-forwarded-for", "127.0.0.1")
            .header("x-real-ip", "127.0.0.1");
        let request = match token {
            "" => request,
            token => request.bearer_auth(token),
        };
        let request = if body.is_null() {
            request
        } else {
            request.json(body)
        };
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let bytes = answer.bytes().await.unwrap();
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }

    async fn guess(&self) -> StatusCode {
        let guess = json!({"secret": "a guess"});
        self.ask(Method::POST, "/api/auth/login", "", &guess)
            .await
            .0
    }

    /// The story, by hand.
    async fn story(&self, token: &str) {
        let (_, begun) = self
            .ask(Method::POST, "/api/threads", token, &json!({}))
            .await;
        let path = format!("/api/threads/{}", begun["thread_id"].as_str().unwrap());
        let words = json!({"text": "run python: print(sum(range(10)))"});
        let (said, _) = self
            .ask(Method::POST, &format!("{path}/messages"), token, &words)
            .await;
        assert_eq!(said, StatusCode::ACCEPTED);
        let card = self
            .until(&path, token, |view| view["gates"][0]["state"] == "pending")
            .await["gates"][0]
            .clone();
        let decision = json!({"decision": "approve", "args_digest": card["args_digest"]});
        let at = format!("/api/gates/{}/decision", card["gate_id"].as_str().unwrap());
        let (decided, _) = self.ask(Method::POST, &at, token, &decision).await;
        assert_eq!(decided, StatusCode::OK);
        let ended = self
            .until(&path, token, |view| view["turns"][0]["state"] == "done")
            .await;
        assert!(ended["messages"].to_string().contains("45"), "{ended}");
    }

    async fn until(&self, path: &str, token: &str, done: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let (_, view) = self.ask(Method::GET, path, token, &Value::Null).await;
            if done(&view) {
                return view;
            }
            assert!(tokio::time::Instant::now() < deadline, "{view:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[test]
fn behind_nginx_the_story_from_elsewhere_and_each_client_s_own_address() {
    let (clone, pem) = with_certificate("nginx");
    clone.others();
    clone.up();
    nobody_else_is_published(&clone);
    no_range_that_the_engine_gives_away(&clone);
    from_elsewhere(&clone, &pem, "declared");
}

#[test]
fn without_a_proxy_the_gateway_s_own_certificate() {
    let (mut clone, pem) = with_certificate("tls");
    clone.set("KAZMA_PUBLISH", "0.0.0.0:443");
    clone.up();
    // A proxy that nobody declared is what such headers look like; whose address counts does not change.
    from_elsewhere(&clone, &pem, "undeclared_proxy");
}

/// A clone with a certificate for it and what the overlay needs.
fn with_certificate(overlay: &'static str) -> (Clone, Certificate) {
    let mut clone = Clone::fresh(&[overlay]);
    let tls = clone.folder.path().join("tls");
    fs::create_dir(&tls).unwrap();
    let key = tls.join("privkey.pem");
    let pem = certificate(NAME, &tls.join("fullchain.pem"), &key);
    for (path, mode) in [(key.as_path(), 0o644), (clone.folder.path(), 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    clone.set("KAZMA_TLS_FOLDER", tls.to_str().unwrap());
    clone.set("KAZMA_PUBLIC_URL", &format!("https://{NAME}"));
    (clone, pem)
}

fn nobody_else_is_published(clone: &Clone) {
    let ports = clone.inspect(&clone.container("gateway"))["HostConfig"]["PortBindings"].take();
    let none = ports.as_object().is_none_or(serde_json::Map::is_empty);
    assert!(none, "{ports}");
}

#[test]
fn behind_caddy_the_same_with_a_certificate_of_its_own() {
    let mut clone = Clone::fresh(&["caddy"]);
    clone.set("KAZMA_PUBLIC_URL", &format!("https://{NAME}"));
    // No authority of the web reaches this machine.
    clone.set("KAZMA_CADDY_TLS", "tls internal");
    clone.others();
    clone.up();
    let proxy = clone.container("proxy");
    let authority = format!("{proxy}:/data/caddy/pki/authorities/local/root.crt");
    let to = clone.folder.path().join("root.crt");
    let deadline = Instant::now() + PATIENCE;
    // It makes its authority once it runs.
    while !clone
        .program("docker", &["cp", &authority, to.to_str().unwrap()])
        .status
        .success()
    {
        assert!(Instant::now() < deadline, "Caddy makes no certificate");
        block_on(tokio::time::sleep(Duration::from_millis(100)));
    }
    let pem = Certificate::from_pem(&fs::read(to).unwrap()).unwrap();
    nobody_else_is_published(&clone);
    no_range_that_the_engine_gives_away(&clone);
    from_elsewhere(&clone, &pem, "declared");
}

/// The proxy's addresses are fixed, so they lie where the engine puts no network by itself: it goes round all of its ranges,
/// and another project's network may have any of them.
fn no_range_that_the_engine_gives_away(clone: &Clone) {
    let subnet = clone.told(
        "docker",
        &[
            "network",
            "inspect",
            "--format",
            "{{(index .IPAM.Config 0).Subnet}}",
            "kazma_gateway-proxy",
        ],
    );
    let (address, _) = subnet.split_once('/').unwrap();
    let [first, second, ..] = address.parse::<Ipv4Addr>().unwrap().octets();
    let given = (first == 172 && (16..32).contains(&second)) || (first, second) == (192, 168);
    assert!(!given, "{subnet}");
}

/// The story from another network, and whose address counts.
fn from_elsewhere(clone: &Clone, pem: &Certificate, state: &str) {
    // Where people come in is not where the container listens.
    let link = clone.exec("gateway", &["login-link"]);
    assert!(link.contains(&format!("https://{NAME}/")), "{link}");
    let token = clone.token();
    let elsewhere = Elsewhere::beside(&clone.network);
    let [one, other] = [ONE, OTHER].map(|from| Visitor {
        from,
        certificate: pem,
    });
    within(&elsewhere.file(), || {
        block_on(async {
            one.story(&token).await;
            let (_, told) = one
                .ask(Method::GET, "/api/auth/status", "", &Value::Null)
                .await;
            assert_eq!(told["proxy"]["state"], state, "{told}");
            // Ten wrong guesses lock out who guessed, and nobody else.
            for _ in 0..10 {
                assert_eq!(one.guess().await, StatusCode::UNAUTHORIZED);
            }
            assert_eq!(one.guess().await, StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(other.guess().await, StatusCode::UNAUTHORIZED);
        });
    });
}
