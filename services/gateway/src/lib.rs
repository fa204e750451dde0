//! kazma-gateway.

pub mod model;
pub mod pages;
