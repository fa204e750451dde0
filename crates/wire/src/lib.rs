//! kazma-wire.
