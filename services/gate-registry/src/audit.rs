//! `kazma audit`: the record of all that happened, read beside the running registry.

use std::{io::Write as _, process::ExitCode};

use clap::Subcommand;
use kazma_domain::Service;
use kazma_launch::Place;
use kazma_runtime::BoxError;
use kazma_signing::SigningKey;
use kazma_store::StoreError;

use crate::{Error, audit_verify, member::Store, place};

/// `kazma audit`.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check the whole chain
    Verify {
        #[command(flatten)]
        /// Where the data is.
        place: Place,
        #[command(flatten)]
        /// Where the database is.
        store: Store,
    },
}

/// Runs one command.
///
/// # Errors
///
/// Says why the record could not be read, or where it is broken.
pub fn run(command: Audit) -> Result<ExitCode, BoxError> {
    let Audit::Verify { place, store } = command;
    kazma_mesh::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(verify(&place, store))
}

async fn verify(data: &Place, store: Store) -> Result<ExitCode, BoxError> {
    let folder = data.path().join(Service::GateRegistry.name());
    let database = place(&folder, store.server()?.as_ref())?;
    let key = SigningKey::load(&folder.join("permit.key"))?.verifying_key();
    match audit_verify(&database, Some(key)).await {
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

fn say(line: &str) -> Result<ExitCode, BoxError> {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(ExitCode::SUCCESS)
}
