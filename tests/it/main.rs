//! The tests of the whole.

#![cfg(test)]

mod architecture;
mod story;
