//! The mesh over real TLS on loopback: who gets in, who does not, and how leaves are renewed.

#![cfg(test)]

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, routing::get};
use base64::{Engine, engine::general_purpose::STANDARD};
use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Clock, Service};
use kazma_edge::{ApiError, Json};
use kazma_mesh::{
    Ca, Caller, Callers, Client, Identity, JoinToken, enrol, keep_fresh, own_identity, serve,
};
use kazma_wire::{
    Problem,
    mesh::{JoinRequest, Leaf, RenewRequest},
};
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct Now(Timestamp);

impl Clock for Now {
    fn now(&self) -> Timestamp {
        self.0
    }
}

fn now() -> Now {
    Now(machine_time())
}

// TLS verifies by the machine's clock, so this test must too.
#[expect(
    clippy::disallowed_methods,
    reason = "certificates are verified by the machine's clock"
)]
fn machine_time() -> Timestamp {
    Timestamp::now()
}

enum AgentOnly {}

impl Callers for AgentOnly {
    const ALLOWED: &'static [Service] = &[Service::Agent];
}

struct Mesh {
    ca: Arc<Ca>,
    at: SocketAddr,
    folder: tempfile::TempDir,
    stop: CancellationToken,
}

impl Mesh {
    fn start() -> Self {
        Self::that_renews(true)
    }

    fn that_renews(renews: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        let ca = Arc::new(Ca::load_or_create(&root.join("ca"), now().now()).unwrap());
        let identity = own_identity(&root.join("registry"), &ca, &now()).unwrap();
        let (joins, renewals) = (ca.clone(), ca.clone());
        let leaf = |ca: &Ca, csr: &str, service| Leaf {
            certificate: ca
                .issue(&STANDARD.decode(csr).unwrap(), service, now().now())
                .unwrap()
                .pem,
            ca: ca.pem().to_owned(),
            permit_key: "key".to_owned(),
        };
        let app = Router::new()
            .route(
                "/agent",
                get(|_: Caller<AgentOnly>| async { Json("hello") }),
            )
            .route(
                "/v1/mesh/join",
                axum::routing::post(move |Json(request): Json<JoinRequest>| async move {
                    assert_eq!(request.token, "secret");
                    Json(leaf(&joins, &request.csr, Service::Agent))
                }),
            )
            .route(
                "/v1/mesh/renew",
                axum::routing::post(move |Json(request): Json<RenewRequest>| async move {
                    if renews {
                        Ok(Json(leaf(&renewals, &request.csr, request.service)))
                    } else {
                        Err(ApiError::from(Problem::new(403, "renewal", "Too late")))
                    }
                }),
            );
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, identity, app, stop.clone()));
        Self {
            ca,
            at,
            folder,
            stop,
        }
    }

    fn path(&self, name: &str) -> camino::Utf8PathBuf {
        Utf8Path::from_path(self.folder.path()).unwrap().join(name)
    }

    fn token(&self) -> JoinToken {
        JoinToken::parse(&format!("{}.secret", self.ca.digest())).unwrap()
    }

    fn issue(&self, service: Service, at: Timestamp) -> Arc<Identity> {
        let key = rcgen::KeyPair::generate().unwrap();
        let csr = rcgen::CertificateParams::default()
            .serialize_request(&key)
            .unwrap();
        let leaf = self.ca.issue(csr.der(), service, at).unwrap();
        Arc::new(Identity::new(service, key, &leaf.pem, self.ca.pem()).unwrap())
    }

    async fn ask(&self, identity: &Arc<Identity>) -> Result<String, kazma_mesh::CallError> {
        Client::new(identity, Service::GateRegistry, self.at)
            .unwrap()
            .get("/agent")
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_answers_only_the_services_it_names() {
    let mesh = Mesh::start();
    let answer = mesh.ask(&mesh.issue(Service::Agent, now().0)).await;
    assert_eq!(answer.unwrap(), "hello");
    for other in [Service::Gateway, Service::RunnerApi, Service::RunnerBroker] {
        let refused = mesh.ask(&mesh.issue(other, now().0)).await.unwrap_err();
        assert_eq!(refused.problem().unwrap().status, 403, "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_leaf_and_a_stranger_s_ca_do_not_get_through() {
    let mesh = Mesh::start();
    let expired = mesh.issue(Service::Agent, now().0 - SignedDuration::from_hours(48));
    assert!(mesh.ask(&expired).await.unwrap_err().problem().is_none());
    let other = Mesh::start();
    let stranger = other.issue(Service::Agent, now().0);
    assert!(mesh.ask(&stranger).await.unwrap_err().problem().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_at_another_service_s_address_is_not_believed() {
    let mesh = Mesh::start();
    let me = mesh.issue(Service::Agent, now().0);
    let client = Client::new(&me, Service::Gateway, mesh.at).unwrap();
    assert!(
        client
            .get::<String>("/agent")
            .await
            .unwrap_err()
            .problem()
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_joins_is_in_and_stays_in_without_a_token() {
    let mesh = Mesh::start();
    let folder = mesh.path("agent");
    let joined = enrol(
        &folder,
        Service::Agent,
        mesh.at,
        Some(&mesh.token()),
        &now(),
    )
    .await
    .unwrap();
    assert_eq!(mesh.ask(&joined.identity).await.unwrap(), "hello");
    let again = enrol(&folder, Service::Agent, mesh.at, None, &now())
        .await
        .unwrap();
    assert_eq!(again.permit_key, "key");
    assert_eq!(mesh.ask(&again.identity).await.unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_leaf_is_renewed_by_its_key() {
    let mesh = Mesh::start();
    let folder = mesh.path("agent");
    let joined = enrol(
        &folder,
        Service::Agent,
        mesh.at,
        Some(&mesh.token()),
        &now(),
    )
    .await
    .unwrap();
    let before = joined.identity.not_after();
    let later = Now(now().0 + SignedDuration::from_hours(60));
    let renewed = enrol(&folder, Service::Agent, mesh.at, None, &later)
        .await
        .unwrap();
    assert!(renewed.identity.not_after() >= before);
    assert_eq!(mesh.ask(&renewed.identity).await.unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_away_for_too_long_joins_again_by_a_token() {
    let mesh = Mesh::that_renews(false);
    let folder = mesh.path("agent");
    let at = mesh.at;
    let enrolled = async |token: Option<JoinToken>, when: Now| {
        enrol(&folder, Service::Agent, at, token.as_ref(), &when).await
    };
    enrolled(Some(mesh.token()), now()).await.unwrap();
    let later = || Now(now().0 + SignedDuration::from_hours(24 * 40));
    assert!(enrolled(None, later()).await.is_err());
    let again = enrolled(Some(mesh.token()), later()).await.unwrap();
    assert_eq!(mesh.ask(&again.identity).await.unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_began_anew_is_joined_anew() {
    let (before, mesh) = (Mesh::start(), Mesh::start());
    let folder = mesh.path("agent");
    let token = before.token();
    enrol(&folder, Service::Agent, before.at, Some(&token), &now())
        .await
        .unwrap();
    let token = mesh.token();
    let joined = enrol(&folder, Service::Agent, mesh.at, Some(&token), &now())
        .await
        .unwrap();
    assert_eq!(mesh.ask(&joined.identity).await.unwrap(), "hello");
    let kept = enrol(&folder, Service::Agent, mesh.at, None, &now())
        .await
        .unwrap();
    assert_eq!(mesh.ask(&kept.identity).await.unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_another_ca_joins_nothing() {
    let mesh = Mesh::start();
    let other = Mesh::start();
    let joined = enrol(
        &mesh.path("a"),
        Service::Agent,
        mesh.at,
        Some(&other.token()),
        &now(),
    )
    .await;
    assert!(joined.is_err());
    let nameless = enrol(&mesh.path("b"), Service::Agent, mesh.at, None, &now()).await;
    assert!(matches!(nameless, Err(kazma_mesh::MeshError::NoToken)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_mesh_does_not_answer() {
    let mesh = Mesh::start();
    let me = mesh.issue(Service::Agent, now().0);
    mesh.ask(&me).await.unwrap();
    mesh.stop.cancel();
    while mesh.ask(&me).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(mesh.ask(&me).await.unwrap_err().is_transient());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_service_gets_a_new_leaf_without_a_restart() {
    let mesh = Mesh::start();
    let folder = mesh.path("agent");
    let joined = enrol(
        &folder,
        Service::Agent,
        mesh.at,
        Some(&mesh.token()),
        &now(),
    )
    .await
    .unwrap();
    let first = std::fs::read_to_string(folder.join("leaf.pem")).unwrap();
    let client = Client::new(&joined.identity, Service::GateRegistry, mesh.at).unwrap();
    client.get::<String>("/agent").await.unwrap();
    // By this clock two thirds of the leaf's life are over.
    let later = Arc::new(Now(now().0 + SignedDuration::from_hours(17)));
    let stop = CancellationToken::new();
    let keeping = {
        let (folder, identity, stop) = (folder.clone(), joined.identity.clone(), stop.clone());
        let at = mesh.at;
        tokio::spawn(async move { keep_fresh(&folder, identity, at, later, stop).await })
    };
    while std::fs::read_to_string(folder.join("leaf.pem")).unwrap() == first {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    keeping.await.unwrap().unwrap();
    // The connection that was open goes on, and a new one shows the new leaf.
    assert_eq!(client.get::<String>("/agent").await.unwrap(), "hello");
    assert_eq!(mesh.ask(&joined.identity).await.unwrap(), "hello");
}
