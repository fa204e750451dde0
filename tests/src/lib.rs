//! kazma-tests.
