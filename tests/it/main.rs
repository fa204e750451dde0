//! The tests of the whole.

#![cfg(test)]

mod alerts;
mod architecture;
mod bugs;
mod clocks;
mod compose;
mod containers;
mod crash;
mod disk;
mod ground;
mod https;
mod metrics;
mod postgres;
mod processes;
mod proxy;
mod reach;
mod secrets;
mod separation;
mod stack;
mod steps;
mod story;
mod strays;
