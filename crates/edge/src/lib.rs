//! kazma-edge.
