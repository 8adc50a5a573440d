//! The whole server over real TLS on loopback.

mod access;
mod rotation;
mod serving;
mod support;
