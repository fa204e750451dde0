//! kazma-audit.
