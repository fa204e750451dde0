//! One service of `kazma up`: told by its boot line what to be, until its standard input ends.

use std::{
    io::{BufRead, Write},
    net::TcpListener,
    process::ExitCode,
};

use kazma_domain::Service;
use kazma_launch::{Invitation, Member, Start, Stop};
use kazma_mesh::https::Pem;
use kazma_runtime::BoxError;
use kazma_sandbox_runner::member as runner;
use listenfd::ListenFd;
use secrecy::ExposeSecret as _;
use tokio::sync::watch;

use crate::boot::{Boot, Ready, Role, Said};

/// Runs one service.
pub(crate) fn run(service: Service) -> Result<ExitCode, BoxError> {
    let mut sockets = ListenFd::from_env();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let boot: Boot = serde_json::from_str(&line)?;
    let confinement = boot.needs();
    let metrics = boot.metrics.map(|index| tcp(&mut sockets, index));
    let start = Start {
        service,
        log: boot.log,
        folder: boot.folder,
        invitation: boot
            .token
            .map_or(Invitation::None, |token| Invitation::Token(token.into())),
        peers: boot.peers,
        metrics: metrics.transpose()?.into_iter().collect(),
        confinement,
        stop: Stop::SignalOrInput,
    };
    kazma_launch::run(start, async |member| {
        let ready = serve(&member, boot.role, &mut sockets).await?;
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &ready)?;
        writeln!(out)?;
        Ok(out.flush()?)
    })
}

async fn serve(member: &Member, role: Role, sockets: &mut ListenFd) -> Result<Ready, BoxError> {
    let mut ready = Ready { ca: None };
    match role {
        Role::GateRegistry(settings) => {
            let mesh = tcp(sockets, 0)?.into();
            ready.ca = Some(kazma_gate_registry::member::start(member, mesh, settings).await?);
        }
        Role::RunnerBroker(settings) => {
            let listener = sockets
                .take_unix_listener(0)?
                .ok_or("no socket was passed")?;
            runner::broker::start(member, Some(listener), "".into(), settings)?;
        }
        Role::RunnerEgress(settings) => {
            runner::egress::start(member, tcp(sockets, 0)?.into(), settings).await?;
        }
        Role::RunnerApi(settings) => {
            runner::api::start(member, tcp(sockets, 0)?.into(), settings).await?;
        }
        Role::Agent => kazma_agent::member::start(member, tcp(sockets, 0)?.into()).await?,
        Role::Gateway(settings) => {
            let (mesh, public) = (tcp(sockets, 0)?.into(), tcp(sockets, 1)?);
            let first = settings.certificate.clone();
            let renewed = first.map(|first| certificates(member, first));
            kazma_gateway::member::start(member, mesh, public, *settings, renewed).await?;
        }
    }
    Ok(ready)
}

/// The certificates that the supervisor tells of, `first` and renewed ones.
fn certificates(member: &Member, first: Pem) -> watch::Receiver<Pem> {
    let (shown, renewed) = watch::channel(first);
    let (mut said, stop) = (member.said.clone(), member.life.soft());
    member.life.spawn_essential("certificates", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                heard = said.changed() => if heard.is_err() {
                    stop.cancelled().await;
                    return Ok(());
                }
            }
            let line = said.borrow_and_update().clone();
            let line = line
                .as_ref()
                .map(|line| serde_json::from_str(line.expose_secret()));
            if let Some(Ok(Said::Certificate(pem))) = line {
                shown.send_replace(pem);
            }
        }
    });
    renewed
}

fn tcp(sockets: &mut ListenFd, index: usize) -> Result<TcpListener, BoxError> {
    Ok(sockets
        .take_tcp_listener(index)?
        .ok_or("no socket was passed")?)
}
