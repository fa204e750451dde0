//! kazma-sandbox-runner.
