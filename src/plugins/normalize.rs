//! The normalisation that several plugins share.
//!
//! Source: `pkg/scheduler/framework/plugins/helper/normalize_score.go`, Kubernetes 1.36.

use crate::cluster::PodInfo;
use crate::framework::{CycleState, NormalizeScore, Status};

const HIGHEST: i64 = 100;

/// Scales raw scores, which are not negative, by the greatest of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ByGreatest {
    /// The greatest becomes 100.
    Upwards,
    /// The greatest becomes 0; where all are 0, all become 100.
    Reversed,
}

impl NormalizeScore for ByGreatest {
    fn by_value(&self) -> bool {
        true
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, scores: &mut [i64]) -> Status {
        let greatest = scores.iter().copied().max().unwrap_or(0);
        for score in scores {
            let scaled = if greatest == 0 {
                0
            } else {
                score.saturating_mul(HIGHEST) / greatest
            };
            *score = match self {
                Self::Upwards => scaled,
                Self::Reversed => HIGHEST - scaled,
            };
        }
        Status::SUCCESS
    }
}
