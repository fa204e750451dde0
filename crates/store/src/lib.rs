//! kazma-store.
