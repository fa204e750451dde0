//! A code runner that does what a test says.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, future::BoxFuture, stream, stream::BoxStream};
use kazma_domain::{CallId, plan::Sandbox};
use tokio::sync::Notify;

use crate::{
    api::{CodeError, CodeEvent, CodeRunner, CodeSpec, CodeStatus, Ended, How, Stream, Trouble},
    executor::Redeemed,
};

/// A code runner that notes what it is told to run, and answers as a test says.
#[derive(Debug)]
pub(super) struct Python {
    pub(super) inner: Mutex<PythonInner>,
}

#[derive(Debug)]
pub(super) struct PythonInner {
    pub(super) ran: Vec<CodeSpec>,
    pub(super) cancelled: Vec<CallId>,
    pub(super) how: Option<How>,
    pub(super) print: Vec<(Stream, &'static [u8])>,
    pub(super) status: CodeStatus,
    pub(super) unreachable: bool,
    /// Runs wait for this before they end.
    pub(super) gate: Option<Arc<Notify>>,
}

impl Python {
    pub(super) fn new() -> Arc<Self> {
        let sandbox = Sandbox {
            tier: "native".into(),
            runtime: "bubblewrap".into(),
            image: None,
            limit: "shares the kernel".into(),
            enforcement: vec!["memory 512 MiB (cgroup v2)".into()],
            network: "none".into(),
            workspace: "read-only".into(),
        };
        Arc::new(Self {
            inner: Mutex::new(PythonInner {
                ran: Vec::new(),
                cancelled: Vec::new(),
                how: Some(How::Exit { code: 0 }),
                print: vec![(Stream::Stdout, b"45\n")],
                status: CodeStatus {
                    sandbox,
                    trouble: None,
                    programs: [
                        ("git", "/usr/bin/git"),
                        ("ls", "/usr/bin/ls"),
                        ("mkdir", "/usr/bin/mkdir"),
                    ]
                    .map(|(name, path)| (name.to_owned(), path.to_owned()))
                    .into(),
                    unwritable: None,
                    pool: 2,
                    note: String::new(),
                },
                unreachable: false,
                gate: None,
            }),
        })
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&mut PythonInner) -> T) -> T {
        look(&mut self.inner.lock().unwrap())
    }

    pub(super) fn runs(&self) -> usize {
        self.with(|inner| inner.ran.len())
    }

    pub(super) fn trouble(&self, reason: &str) {
        self.with(|inner| {
            inner.status.trouble = Some(Trouble {
                starting: false,
                reason: reason.into(),
                fix: "Install it.".into(),
            });
        });
    }
}

impl CodeRunner for Python {
    fn status(&self) -> BoxFuture<'_, Result<CodeStatus, CodeError>> {
        Box::pin(async move {
            self.with(|inner| {
                if inner.unreachable {
                    return Err(CodeError::Unreachable("scripted".into()));
                }
                Ok(inner.status.clone())
            })
        })
    }

    fn run(
        &self,
        _: Redeemed,
        code: CodeSpec,
    ) -> BoxFuture<'_, Result<BoxStream<'static, CodeEvent>, CodeError>> {
        Box::pin(async move {
            let (print, how, gate) = self.with(|inner| {
                inner.ran.push(code);
                (inner.print.clone(), inner.how.clone(), inner.gate.clone())
            });
            let of = |which| {
                print
                    .iter()
                    .filter(|(s, _)| *s == which)
                    .map(|(_, b)| b.len() as u64)
                    .sum()
            };
            let (stdout_bytes, stderr_bytes) = (of(Stream::Stdout), of(Stream::Stderr));
            let printed = print.into_iter().map(|(stream, bytes)| CodeEvent::Output {
                stream,
                bytes: Bytes::from_static(bytes),
            });
            let end = async move {
                if let Some(gate) = gate {
                    gate.notified().await;
                }
                let ran = Duration::from_millis(41);
                how.map(|how| {
                    CodeEvent::Ended(Ended {
                        how,
                        ran,
                        stdout_bytes,
                        stderr_bytes,
                        remark: None,
                    })
                })
            };
            let end = stream::once(end).filter_map(std::future::ready);
            Ok(stream::iter(printed).chain(end).boxed())
        })
    }

    fn cancel(&self, call: CallId) -> BoxFuture<'_, Result<(), CodeError>> {
        Box::pin(async move {
            self.with(|inner| inner.cancelled.push(call));
            Ok(())
        })
    }
}
