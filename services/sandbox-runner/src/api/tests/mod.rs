//! The executor against a scripted registry and a scripted sandbox.

mod canary;
mod commands;
mod doubles;
mod execution;
mod queries;
mod recovery;
mod surface;

use std::sync::Arc;

use camino::Utf8PathBuf;
use kazma_domain::{Call, Plan};
use kazma_wire::executor::SettleRequest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use doubles::Python;

use super::{Options, Seams, arguments::Request, execute::Workbench, executor};
use crate::executor::{
    Executor, Hands as _,
    doubles::{Counting, Scripted, Still, noon},
};

/// An executor with its scripted surroundings and a workspace of its own.
struct House {
    dir: tempfile::TempDir,
    registry: Arc<Scripted>,
    python: Arc<Python>,
    executor: Executor<Workbench>,
    stop: CancellationToken,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (registry, python) = (Scripted::new(), Python::new());
        let options = Options::new(Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap());
        let seams = seams(&registry, &python);
        let stop = CancellationToken::new();
        let executor = executor(&options, seams, stop.clone()).unwrap();
        Self {
            dir,
            registry,
            python,
            executor,
            stop,
        }
    }

    /// The plan that the runner makes of a call.
    async fn plan(&self, tool: &str, arguments: Value) -> Plan {
        let request = Request::parse(tool, &arguments).unwrap();
        self.executor
            .hands
            .prepare(tool, &arguments, request)
            .await
            .unwrap()
            .plan
    }

    async fn python_plan(&self) -> Plan {
        self.plan("python_exec", json!({"code": "print(sum(range(10)))"}))
            .await
    }

    /// An approved call that says hello in Python, and everything that comes of it.
    async fn run_python(&self) -> Call {
        let call = self.registry.approve(&self.python_plan().await);
        self.run().await;
        call
    }

    /// Fetches the work and waits until all of it has come to an end.
    async fn run(&self) {
        let works = self.registry.with(|inner| inner.work.clone());
        for work in works {
            self.executor.start(work.call, work.plan, None);
        }
        self.idle().await;
    }

    async fn idle(&self) {
        self.executor.tasks.close();
        self.executor.tasks.wait().await;
        self.executor.tasks.reopen();
    }

    fn settled(&self) -> SettleRequest {
        self.registry
            .with(|inner| inner.settled.last().cloned())
            .expect("nothing was settled")
            .1
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
}

fn seams(registry: &Arc<Scripted>, python: &Arc<Python>) -> Seams {
    Seams {
        registry: registry.clone(),
        permit_key: registry.key.verifying_key(),
        code: python.clone(),
        clock: Arc::new(Still(noon())),
        entropy: Arc::new(Counting::default()),
    }
}
