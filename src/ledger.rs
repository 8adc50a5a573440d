//! What is used and promised on every node: the truth of use.

mod charge;

pub use charge::{Capacity, Charge, Checks, NodeUse, NonZero};
