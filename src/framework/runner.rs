//! Runs a profile's plugins: the rules of each extension point, nominated pods, and the text of a failure.
//!
//! Does not: choose a node, reserve, or go through nodes by itself.
//!
//! Source: `pkg/scheduler/framework/runtime/framework.go` and `pkg/scheduler/framework/types.go` (`FitError`),
//! Kubernetes 1.36.

mod commit;
mod filter;
mod fit_error;
mod score;

pub use commit::{MAX_PERMIT_WAIT, PermitRun};
pub use filter::{Narrowed, PreFilterRun};
pub use fit_error::{Diagnosis, FitError};
pub use score::{PluginScores, ScoreRun};
pub(crate) use score::{check_range, score_error};

#[cfg(test)]
mod tests;
