//! `kazma fence`: texts, fenced as tool results are fenced for the model.

use std::process::ExitCode;

use kazma_domain::Entropy as _;
use kazma_fence::{Fence, Source};
use kazma_runtime::{BoxError, SystemEntropy};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::batch;
use crate::cli::FenceTexts;

/// One text. Fields that are not named here are passed over.
#[derive(Debug, Deserialize)]
struct Row {
    id: serde_json::Value,
    text: String,
    #[serde(default = "web", deserialize_with = "source")]
    source: Source,
}

const fn web() -> Source {
    Source::Web
}

fn source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)
}

/// What became of it.
#[derive(Debug, Serialize)]
struct Answer {
    id: serde_json::Value,
    open: String,
    close: String,
    nonce: String,
    inner: String,
    fenced: String,
}

/// Fences what comes on standard input.
pub(crate) fn run(options: &FenceTexts) -> Result<ExitCode, BoxError> {
    batch::run(|row: Row| {
        let nonce = options.nonce.unwrap_or_else(|| {
            let mut fresh = [0; 16];
            SystemEntropy.fill(&mut fresh);
            fresh
        });
        let fenced = Fence::new(nonce).wrap(row.source, "kazma fence", &row.text);
        Answer {
            id: row.id,
            open: fenced.open().to_owned(),
            close: fenced.close().to_owned(),
            nonce: fenced.nonce().to_owned(),
            inner: fenced.inner().to_owned(),
            fenced: fenced.to_string(),
        }
    })
}
