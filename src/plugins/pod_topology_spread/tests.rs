//! The plugin on small clusters, by kind of input.

mod filtering;
mod hints;
mod random;
mod scoring;
mod support;
