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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    fn normalized(how: ByGreatest, raw: &[i64]) -> Vec<i64> {
        let mut scores = raw.to_vec();
        let status = how.normalize(&CycleState::default(), &pod("a").build(), &mut scores);
        assert!(status.is_success());
        scores
    }

    #[test]
    fn scores_are_scaled_by_the_greatest() {
        let table: [(&[i64], &[i64], &[i64]); 4] = [
            (&[1, 2, 3, 4], &[25, 50, 75, 100], &[75, 50, 25, 0]),
            (&[1000, 10, 20, 30], &[100, 1, 2, 3], &[0, 99, 98, 97]),
            (&[0, 0], &[0, 0], &[100, 100]),
            (&[0, 1, 1, 1], &[0, 100, 100, 100], &[100, 0, 0, 0]),
        ];
        for (raw, upwards, reversed) in table {
            assert_eq!(normalized(ByGreatest::Upwards, raw), upwards);
            assert_eq!(normalized(ByGreatest::Reversed, raw), reversed);
        }
    }
}
