//! Settings that cannot be, and how a program says so.

use std::{error::Error, process::ExitCode};

use camino::Utf8Path;
use kazma_runtime::BoxError;
use secrecy::{ExposeSecret as _, SecretString};

/// Wrong usage (sysexits: `EX_USAGE`).
const USAGE: u8 = 64;

/// A flag or setting that cannot be, with the fix.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// A program's exit code; what went wrong and why goes to standard error, a cause a line.
pub fn outcome(result: Result<ExitCode, BoxError>) -> ExitCode {
    let error = match result {
        Ok(code) => return code,
        Err(error) => error,
    };
    report(error.as_ref());
    if error.is::<Usage>() {
        ExitCode::from(USAGE)
    } else {
        ExitCode::FAILURE
    }
}

fn report(error: &(dyn Error + 'static)) {
    use std::io::Write;
    let mut stderr = std::io::stderr().lock();
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(stderr, "kazma: {error}");
    let mut next = error.source();
    while let Some(cause) = next {
        let _ = writeln!(stderr, "  because: {cause}");
        next = cause.source();
    }
}

/// A secret that is set by the variable `name`, or in a file that `name_FILE` names.
///
/// # Errors
///
/// Refuses both at once, and a file that cannot be read.
pub fn secret(
    text: Option<SecretString>,
    file: Option<&Utf8Path>,
    name: &str,
) -> Result<Option<SecretString>, Usage> {
    let text = text.filter(|text| !text.expose_secret().is_empty());
    match (text, file.filter(|file| !file.as_str().is_empty())) {
        (Some(_), Some(_)) => Err(Usage(format!(
            "{name} and {name}_FILE are both set; keep one"
        ))),
        (Some(text), None) => Ok(Some(text)),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Usage(format!("{name}_FILE: {file}: {error}")))?;
            Ok(Some(SecretString::from(text.trim().to_owned())))
        }
        (None, None) => Ok(None),
    }
}

/// Reads a switch as the reference system does: `1/true/on/yes` and `0/false/off/no`.
///
/// # Errors
///
/// Says what can be written.
pub fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" => Ok(true),
        "" | "0" | "false" | "off" | "no" => Ok(false),
        _ => Err("use 1 or 0".to_owned()),
    }
}
