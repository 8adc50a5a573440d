//! What checks share: where errors go and small range checks.

use std::time::Duration;

use crate::decode::Errors;
use crate::duration::GoDuration;
use crate::error::{FieldError, Shown};
use crate::gates::FeatureGates;
use crate::plugins::PluginLookup;

/// What a check reads and where it reports.
pub(super) struct Cx<'a> {
    pub(super) lookup: &'a dyn PluginLookup,
    pub(super) gates: FeatureGates,
    pub(super) errors: Errors,
    pub(super) warnings: Vec<String>,
}

impl<'a> Cx<'a> {
    pub(super) fn new(lookup: &'a dyn PluginLookup, gates: FeatureGates) -> Self {
        Self {
            lookup,
            gates,
            errors: Errors::default(),
            warnings: Vec::new(),
        }
    }

    /// Notes an error.
    pub(super) fn push(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    /// `Invalid value`.
    pub(super) fn invalid(&mut self, path: &str, value: impl Shown, detail: impl Into<String>) {
        self.errors.push(FieldError::invalid(path, value, detail));
    }

    /// A number in `low..=high`, or an error with this detail and `low`.
    pub(super) fn ranged<T>(&mut self, path: &str, value: T, (low, high): (u32, u32), detail: &str) -> u32
    where
        T: Copy + Shown,
        u32: TryFrom<T>,
    {
        match u32::try_from(value) {
            Ok(number) if (low..=high).contains(&number) => number,
            _ => {
                self.invalid(path, value, detail);
                low
            }
        }
    }

    /// A duration that is not negative, or an error with this detail and zero.
    pub(super) fn not_negative(&mut self, path: &str, value: GoDuration, detail: &str) -> Duration {
        value.to_std().unwrap_or_else(|| {
            self.invalid(path, value, detail);
            Duration::ZERO
        })
    }
}
