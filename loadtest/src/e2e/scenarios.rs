//! The scenarios, by what they are about.
//!
//! Each gets a world without nodes and pods and gives an error that says what was not as it should be. To show that
//! something does *not* happen, a scenario lets a later pod be bound and then looks at the earlier one.
//!
//! Does not: know which API server it runs on, but where a fault can be made on one only.

pub mod basic;
pub mod claims;
pub mod election;
pub mod extending;
pub mod failures;
pub mod preemption;
pub mod volumes;
pub mod waking;
