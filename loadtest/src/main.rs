//! The load tester.
fn main() {}
