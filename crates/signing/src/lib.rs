//! kazma-signing.
