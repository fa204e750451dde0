//! A registry in a folder of its own, and the few things that every test does with one.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use camino::Utf8PathBuf;
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{
    Action, Actor, AttemptId, Clock, Decision, Digest, Entropy, Id, Outcome, PersonId, Plan, Role,
    Service, Surface, ThreadId, TurnId, Wait,
    id::Kind,
    permit::SignedPermit,
    plan::{Sandbox, Window},
};
use kazma_gate_registry::{Error, LeafIssuer, Options, Place, Registry, Server, WAIT, open, place};
use kazma_mesh::{IssuedLeaf, MeshError};
use kazma_metrics::Meters;
use kazma_wire::{
    executor::{FileRequest, Filed, Output, Proposal, RedeemRequest, Redeemed, SettleRequest},
    gateway::{Decided, DecisionRequest, NewMessage, NewThread},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::server;

pub(crate) const RUNNER: Service = Service::RunnerApi;

#[derive(Debug)]
pub(crate) struct ManualClock(Mutex<Timestamp>);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

impl ManualClock {
    pub(crate) fn pass(&self, seconds: i64) {
        let mut now = self.0.lock().unwrap();
        *now += SignedDuration::from_secs(seconds);
    }
}

#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        for (slot, byte) in bytes.iter_mut().rev().zip(next.iter().rev()) {
            *slot = *byte;
        }
    }
}

/// Takes the request's bytes for the key.
#[derive(Debug)]
struct FakeCa;

impl LeafIssuer for FakeCa {
    fn issue(&self, csr: &[u8], service: Service, now: Timestamp) -> Result<IssuedLeaf, MeshError> {
        if csr == b"broken" {
            return Err(MeshError::Certificate("broken".to_owned()));
        }
        Ok(IssuedLeaf {
            pem: format!("leaf of {service}"),
            public_key: Digest::of_bytes(csr),
            not_after: now + SignedDuration::from_hours(24),
        })
    }

    fn ca(&self) -> &'static str {
        "the CA"
    }
}

pub(crate) struct House {
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) stop: CancellationToken,
    pub(crate) meters: Meters,
    entropy: Arc<Counting>,
    folder: Arc<tempfile::TempDir>,
    server: Option<Server>,
}

impl House {
    /// On the server that the suite is to run on, in a schema of its own; else in a file.
    pub(crate) async fn new() -> Self {
        Self::at(server::given().map(|url| server::own_schema(&url))).await
    }

    /// In a file, or on a server.
    pub(crate) async fn at(server: Option<Server>) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let start = Timestamp::from_second(1_700_000_000).unwrap();
        let clock = Arc::new(ManualClock(Mutex::new(start)));
        let entropy = Arc::new(Counting::default());
        let stop = CancellationToken::new();
        let meters = Meters::default();
        let registry = start_registry(
            (&folder, server.as_ref()),
            &clock,
            &entropy,
            stop.clone(),
            &meters,
        )
        .await
        .unwrap();
        let house = Self {
            registry,
            clock,
            stop,
            meters,
            entropy,
            folder,
            server,
        };
        // Past the grace that follows every start.
        house.clock.pass(1_000);
        house
    }

    /// Stops the registry and starts it again on what it left.
    pub(crate) async fn restarted(self) -> Self {
        self.registry.close().await.unwrap();
        let stop = CancellationToken::new();
        let meters = Meters::default();
        let (clock, entropy) = (&self.clock, &self.entropy);
        let registry = start_registry(self.ground(), clock, entropy, stop.clone(), &meters)
            .await
            .unwrap();
        Self {
            registry,
            stop,
            meters,
            ..self
        }
    }

    /// Another registry on the same folder, as a second process would start it.
    pub(crate) async fn second(&self) -> Result<Arc<Registry>, Error> {
        let stop = CancellationToken::new();
        let (clock, entropy) = (&self.clock, &self.entropy);
        start_registry(self.ground(), clock, entropy, stop, &Meters::default()).await
    }

    fn ground(&self) -> (&tempfile::TempDir, Option<&Server>) {
        (&self.folder, self.server.as_ref())
    }

    /// Where its database is.
    pub(crate) fn database(&self) -> Place {
        place(&self.folder(), self.server.as_ref()).unwrap()
    }

    /// Its own folder.
    pub(crate) fn folder(&self) -> Utf8PathBuf {
        Utf8PathBuf::try_from(self.folder.path().to_owned()).unwrap()
    }

    pub(crate) fn id<K: Kind>(&self) -> Id<K> {
        Id::new(self.clock.now(), &*self.entropy)
    }

    pub(crate) async fn thread(&self) -> ThreadId {
        let request = NewThread { actor: ada() };
        self.registry.new_thread(request).await.unwrap().thread
    }

    pub(crate) async fn say(&self, thread: ThreadId, text: &str) -> TurnId {
        self.say_and(Wait::Parked, thread, text).await
    }

    pub(crate) async fn say_and(&self, wait: Wait, thread: ThreadId, text: &str) -> TurnId {
        let request = NewMessage {
            actor: ada(),
            surface: Surface::Web,
            text: text.to_owned(),
            idempotency_key: None,
            wait,
        };
        self.registry
            .new_message(thread, request)
            .await
            .unwrap()
            .turn
    }

    /// A thread with one message.
    pub(crate) async fn turn(&self) -> (ThreadId, TurnId) {
        let thread = self.thread().await;
        (thread, self.say(thread, "go on").await)
    }

    pub(crate) async fn file(
        &self,
        at: (ThreadId, TurnId),
        index: u32,
        tool: &str,
        arguments: Value,
    ) -> Result<Filed, Error> {
        self.registry
            .file(RUNNER, filing(at, index, tool, arguments))
            .await
    }

    /// Files a call that its executor refuses by `rule`.
    pub(crate) async fn refuse(&self, at: (ThreadId, TurnId), index: u32, rule: &str) {
        let mut request = filing(at, index, "python_exec", json!({ "code": "1" }));
        request.proposal = Proposal::Refuse {
            rule: rule.to_owned(),
            reason: "no".to_owned(),
        };
        self.registry.file(RUNNER, request).await.unwrap();
    }

    /// Files Python code, which asks.
    pub(crate) async fn python(&self, at: (ThreadId, TurnId), index: u32, code: &str) -> Filed {
        self.file(at, index, "python_exec", json!({ "code": code }))
            .await
            .unwrap()
    }

    pub(crate) async fn decide(
        &self,
        filed: &Filed,
        by: &Actor,
        decision: Decision,
    ) -> Result<Decided, Error> {
        let gate = filed.call.gate.unwrap();
        let card = self.registry.gate(gate).await.unwrap().args_digest;
        self.registry.decide(gate, ballot(by, decision, card)).await
    }

    pub(crate) async fn approve(&self, filed: &Filed) {
        let decided = self.decide(filed, &ada(), Decision::Approve).await.unwrap();
        assert_eq!(decided.state, "approved");
    }

    pub(crate) async fn collect(&self, filed: &Filed) -> SignedPermit {
        self.registry.collect(RUNNER, filed.call.id).await.unwrap()
    }

    pub(crate) async fn redeem(
        &self,
        permit: &SignedPermit,
        attempt: AttemptId,
    ) -> Result<Redeemed, Error> {
        let request = RedeemRequest {
            permit: permit.clone(),
            attempt,
        };
        self.registry.redeem(RUNNER, request).await
    }

    /// Approved, collected, redeemed.
    pub(crate) async fn begin(&self, filed: &Filed) {
        self.approve(filed).await;
        let permit = self.collect(filed).await;
        self.redeem(&permit, self.id()).await.unwrap();
    }

    pub(crate) async fn settle(&self, filed: &Filed, text: &str) {
        self.registry
            .settle(RUNNER, filed.call.id, ending(text))
            .await
            .unwrap();
    }

    /// The word for where a call stands.
    pub(crate) async fn state(&self, at: (ThreadId, TurnId), index: u32) -> String {
        let view = self.registry.thread(at.0).await.unwrap();
        view.calls
            .iter()
            .find(|view| view.call.turn == at.1 && view.call.index == index)
            .map(|view| view.call.state.name().to_owned())
            .unwrap()
    }

    /// How many records of this kind the audit trail has.
    pub(crate) async fn records(&self, kind: &'static str) -> usize {
        let (send, lines) = std::sync::mpsc::channel();
        kazma_gate_registry::audit_export(&self.database(), move |line| {
            send.send(line).unwrap();
            Ok(())
        })
        .await
        .unwrap();
        lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(&line).unwrap())
            .filter(|line| line["record"]["kind"] == kind)
            .count()
    }
}

async fn start_registry(
    (folder, server): (&tempfile::TempDir, Option<&Server>),
    clock: &Arc<ManualClock>,
    entropy: &Arc<Counting>,
    stop: CancellationToken,
    meters: &Meters,
) -> Result<Arc<Registry>, Error> {
    let options = Options {
        folder: Utf8PathBuf::try_from(folder.path().to_owned()).unwrap(),
        server: server.cloned(),
        tokens: Vec::new(),
        wait: WAIT,
    };
    let (clock, entropy) = (Arc::clone(clock), Arc::clone(entropy));
    open(options, Arc::new(FakeCa), clock, entropy, stop, meters).await
}

pub(crate) fn person(n: u128, name: &str, role: Role) -> Actor {
    Actor {
        id: PersonId::from_uuid(uuid::Uuid::from_u128(n)),
        name: name.to_owned(),
        role,
    }
}

pub(crate) fn ada() -> Actor {
    person(1, "Ada", Role::Admin)
}

pub(crate) fn bo() -> Actor {
    person(2, "Bo", Role::Approver)
}

pub(crate) fn ballot(by: &Actor, decision: Decision, card: Digest) -> DecisionRequest {
    DecisionRequest {
        actor: by.clone(),
        surface: Surface::Web,
        decision,
        card,
        electorate: 1,
        reason: None,
    }
}

pub(crate) fn plan(tool: &str, arguments: Value) -> Plan {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let action = match tool {
        "file_read" => Action::ReadFile {
            path: text("path"),
            window: Window::Bytes {
                offset: 0,
                limit: 1_000,
            },
        },
        _ => Action::RunPython {
            code: text("code"),
            timeout_ms: 30_000,
            sandbox: Sandbox {
                tier: "native".to_owned(),
                runtime: "bubblewrap".to_owned(),
                image: None,
                limit: "shares the kernel".to_owned(),
                enforcement: Vec::new(),
                network: "none".to_owned(),
                workspace: "read-only".to_owned(),
            },
        },
    };
    Plan {
        tool: tool.to_owned(),
        arguments,
        action,
    }
}

pub(crate) fn filing(
    at: (ThreadId, TurnId),
    index: u32,
    tool: &str,
    arguments: Value,
) -> FileRequest {
    FileRequest {
        thread: at.0,
        turn: at.1,
        index,
        tool: tool.to_owned(),
        arguments: arguments.clone(),
        principal: Service::Agent,
        proposal: Proposal::Plan(Box::new(plan(tool, arguments))),
    }
}

pub(crate) fn ending(text: &str) -> SettleRequest {
    SettleRequest {
        outcome: Outcome {
            ok: true,
            summary: "exit 0 after 0.04 s".to_owned(),
        },
        output: Output {
            text: text.to_owned(),
            truncated: false,
            total_bytes: text.len() as u64,
            note: String::new(),
            origin: String::new(),
        },
    }
}
