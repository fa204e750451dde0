//! kazma-gate-registry.
