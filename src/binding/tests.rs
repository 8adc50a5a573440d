//! The pool against the embedded API server, with faults. Time is real where bytes travel; nothing waits longer than
//! it must: every end is awaited.

mod evicting;
mod extended;
mod faults;
mod kit;
mod metrics;
mod permit;
mod reasons;
mod volumes;
mod writers;
