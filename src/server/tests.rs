//! The whole server over real TLS on loopback.

mod access;
mod serving;
mod support;
