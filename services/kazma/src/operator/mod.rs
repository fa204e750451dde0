//! The operator's commands, spoken to the running gateway.

pub(crate) mod api;
mod gates;

use std::{io::Write, process::ExitCode};

use camino::Utf8PathBuf;
use kazma_gate_registry::Error;
use kazma_runtime::BoxError;
use kazma_signing::SigningKey;
use kazma_store::StoreError;
use serde_json::{Value, json};

use crate::{
    cli::{Audit, Operator, Place, Store, Usage, Users},
    up::default_data_dir,
};

/// Runs one command.
pub(crate) fn run(command: Operator) -> Result<ExitCode, BoxError> {
    kazma_mesh::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match command {
            Operator::LoginLink(place) => {
                let link = at(&place)?.post("/api/auth/links", &json!({})).await?;
                say(text(&link, "login_url"))
            }
            Operator::Users { command } => users(command).await,
            Operator::Gates { command } => gates::run(command).await,
            Operator::Audit {
                command: Audit::Verify { place, store },
            } => verify(&place, store).await,
        }
    })
}

async fn users(command: Users) -> Result<ExitCode, BoxError> {
    match command {
        Users::Add { name, role, place } => {
            let body = json!({ "name": name, "role": role });
            let added = at(&place)?.post("/api/users", &body).await?;
            say(text(&added, "login_url"))
        }
        Users::List { place } => {
            let answer = at(&place)?.get("/api/users").await?;
            for person in answer
                .get("users")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                say(&format!(
                    "{:10} {}",
                    text(person, "role"),
                    text(person, "name")
                ))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn verify(place: &Place, store: Store) -> Result<ExitCode, BoxError> {
    let folder = data_dir(place).join("gate-registry");
    let database = kazma_gate_registry::place(&folder, store.server()?.as_ref())?;
    let key = SigningKey::load(&folder.join("permit.key"))?.verifying_key();
    match kazma_gate_registry::audit_verify(&database, Some(key)).await {
        Ok(report) => say(&format!(
            "whole: {} records, {} with erased details, {} signed heads, end {}",
            report.records, report.erased, report.heads, report.head
        )),
        // Where nothing could be read, nothing is known.
        Err(Error::Store(
            error @ (StoreError::Unreachable { .. }
            | StoreError::Unfit { .. }
            | StoreError::Lost(_)),
        )) => Err(error.into()),
        Err(error) => {
            say("BROKEN: the record was changed after it was written")?;
            Err(error.into())
        }
    }
}

/// The gateway of the `kazma up` that uses this data folder.
pub(crate) fn at(place: &Place) -> Result<api::Api, BoxError> {
    let folder = data_dir(place);
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|error| {
            Usage(format!(
                "{path}: {error}; is `kazma up` running there? Name its data folder by --data-dir"
            ))
        })
    };
    let services: Value = serde_json::from_str(&read("run/services.json")?)?;
    Ok(api::Api::new(
        text(&services, "api"),
        read("token")?.trim(),
    )?)
}

fn data_dir(place: &Place) -> Utf8PathBuf {
    place.data_dir.clone().unwrap_or_else(default_data_dir)
}

/// A text member of an answer; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Writes a line on standard output.
pub(crate) fn say(line: &str) -> Result<ExitCode, BoxError> {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(ExitCode::SUCCESS)
}
