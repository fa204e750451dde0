//! `kazma policy`: the judges on their own, for tests, evaluations and curious operators.

mod argv;
mod batch;
mod code;
mod fence;
mod sql;
mod url;

pub(crate) use fence::run as fence;

use std::process::ExitCode;

use kazma_runtime::BoxError;

use crate::cli::Policy;

/// Runs one judge over standard input.
pub(crate) fn run(command: Policy) -> Result<ExitCode, BoxError> {
    match command {
        Policy::Argv(options) => argv::run(&options),
        Policy::Url(_) => url::run(),
        Policy::Code(_) => code::run(),
        Policy::Sql(_) => sql::run(),
    }
}
