//! What stands between the network and the handlers.

pub(crate) mod headers;
pub(crate) mod layers;
pub(crate) mod limits;
pub(crate) mod listen;
mod opening;
pub(crate) mod path;
pub(crate) mod proxy;
pub(crate) mod site;
