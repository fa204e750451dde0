//! kazma-runtime.
