//! kazma-testkit.
