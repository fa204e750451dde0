//! The `docker` tier with a real engine of the tests' own.

mod broken;
mod choice;
mod ends;
mod inside;
mod leaks;
mod pool;
mod template;
mod wire;
