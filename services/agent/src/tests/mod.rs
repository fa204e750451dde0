//! The agent against scripted doubles of the registry, the runner and the model, on a real database.

mod channels;
mod house;
mod limits;
mod refusals;
mod resume;
mod turns;
