//! The people's edge in one process, against a scripted registry.

#![cfg(test)]

mod decisions;
mod double;
mod events;
mod house;
mod input;
mod openapi;
mod pages;
mod protections;
mod roles;
mod signin;
