//! The tests of the whole: see `it/`.
