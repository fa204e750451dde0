//! kazma-gateway.
