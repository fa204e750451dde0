//! `kazma doctor`: what this machine can hold, what it cannot, what that means and what to do about it.
//!
//! It looks first and judges then, so that the judgement can be tried on machines that are not here. It
//! changes nothing, needs nothing that runs, and works for an ordinary user.

mod facts;
mod judge;
mod look;
#[cfg(test)]
mod tests;

use std::{io::Write, process::ExitCode};

use kazma_runtime::BoxError;
use serde::Serialize;

use crate::cli;

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Ok,
    /// Kazma works, with one wall less.
    Weaker,
    /// Kazma does not work so, or nothing holds what it promises.
    Broken,
}

/// One line of the doctor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    /// A name that stays, for programs.
    id: &'static str,
    state: State,
    /// What is looked at.
    what: &'static str,
    /// What was found.
    found: String,
    /// What that means for safety; empty where all is well.
    #[serde(skip_serializing_if = "str::is_empty")]
    means: &'static str,
    /// What to do; empty where there is nothing to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    fix: String,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    version: &'static str,
    state: State,
    checks: &'a [Finding],
}

/// Looks, judges and says so. 1 where something is broken.
pub(crate) fn run(options: &cli::Doctor) -> Result<ExitCode, BoxError> {
    let data = camino::absolute_utf8(options.place.path())?;
    let findings = judge::findings(&look::facts(options, &data)?);
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = Report {
            version: env!("CARGO_PKG_VERSION"),
            state: worst(&findings),
            checks: &findings,
        };
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        out.write_all(text(&findings).as_bytes())?;
    }
    Ok(match worst(&findings) {
        State::Ok | State::Weaker => ExitCode::SUCCESS,
        State::Broken => ExitCode::FAILURE,
    })
}

fn worst(findings: &[Finding]) -> State {
    findings
        .iter()
        .map(|finding| finding.state)
        .max()
        .unwrap_or(State::Ok)
}

/// The findings for a person, and how many of each there are.
fn text(findings: &[Finding]) -> String {
    let word = |state| match state {
        State::Ok => "ok",
        State::Weaker => "weaker",
        State::Broken => "BROKEN",
    };
    let mut lines = Vec::new();
    for finding in findings {
        let (word, what) = (word(finding.state), finding.what);
        lines.push(format!("{word:7} {what}: {}", finding.found));
        let more = [("means", finding.means), ("fix", &*finding.fix)];
        lines.extend(
            more.into_iter()
                .filter(|(_, said)| !said.is_empty())
                .map(|(name, said)| format!("        {name}: {said}")),
        );
    }
    let count = |state| findings.iter().filter(|f| f.state == state).count();
    lines.push(format!(
        "\n{} ok, {} weaker, {} broken\n",
        count(State::Ok),
        count(State::Weaker),
        count(State::Broken)
    ));
    lines.join("\n")
}
