//! Extenders against real HTTP servers on the loopback.

mod cycle;
pub(crate) mod kit;
mod tls;
mod transport;
mod verbs;
mod victims;
