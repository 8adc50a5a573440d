//! How full a node would be, as a score: the three strategies.
//!
//! CPU and memory in use count with the defaults for containers that request none; so does the pod's own request.
//!
//! Source: `pkg/scheduler/framework/plugins/noderesources/{resource_allocation,least_allocated,most_allocated,
//! requested_to_capacity_ratio}.go` and `pkg/scheduler/framework/plugins/helper/shape_score.go`, Kubernetes 1.36.

use supercargo_config::plugin_args::{ResourceSpec, ScoringStrategy, ScoringStrategyKind, ShapePoint};

use crate::cluster::NodeInfo;
use crate::resources::{Resource, Resources};

const HIGHEST: i64 = 100;
/// A shape's scores go to 10.
const SHAPE_FACTOR: i64 = 10;

/// Scores nodes by one strategy.
pub(super) struct Scorer {
    strategy: Strategy,
    resources: Box<[(Resource, i64)]>,
}

enum Strategy {
    LeastAllocated,
    MostAllocated,
    Ratio(Shape),
}

/// The resources of the args, without those that no node offers and no pod requests by that name.
pub(in crate::plugins) fn weighted_resources(specs: &[ResourceSpec]) -> Box<[(Resource, i64)]> {
    let known = specs
        .iter()
        .filter_map(|spec| Some((Resource::parse(&spec.name)?, i64::from(spec.weight))));
    known.collect()
}

impl Scorer {
    pub(super) fn new(args: &ScoringStrategy) -> Self {
        let strategy = match &args.kind {
            ScoringStrategyKind::LeastAllocated => Strategy::LeastAllocated,
            ScoringStrategyKind::MostAllocated => Strategy::MostAllocated,
            ScoringStrategyKind::RequestedToCapacityRatio(points) => Strategy::Ratio(Shape::new(points)),
        };
        Self {
            strategy,
            resources: weighted_resources(&args.resources),
        }
    }

    /// 0 to 100.
    pub(super) fn score(&self, request: &Resources, node: &NodeInfo) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for (resource, weight) in &self.resources {
            let Some((offered, wanted)) = offered_and_wanted(*resource, request, node) else {
                continue;
            };
            let score = self.strategy.of(offered, wanted);
            if score > 0 || !matches!(self.strategy, Strategy::Ratio(_)) {
                sum += score * weight;
                weights += weight;
            }
        }
        if weights == 0 {
            0
        } else if matches!(self.strategy, Strategy::Ratio(_)) {
            rounded_quotient(sum, weights)
        } else {
            sum / weights
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "scores lie in 0 to 100")]
fn rounded_quotient(sum: i64, weights: i64) -> i64 {
    (sum as f64 / weights as f64).round() as i64
}

/// What the node offers, which is not 0, and what would be in use with the pod on it; `None`: does not count.
fn offered_and_wanted(resource: Resource, request: &Resources, node: &NodeInfo) -> Option<(i64, i64)> {
    let wanted = request.get(resource);
    if wanted == 0 && matches!(resource, Resource::Scalar(_)) {
        return None;
    }
    let offered = node.allocatable().resources.get(resource);
    let used = match resource {
        Resource::Cpu => node.used.non_zero.milli_cpu,
        Resource::Memory => node.used.non_zero.memory,
        Resource::EphemeralStorage | Resource::Scalar(_) => node.used.requested.get(resource),
    };
    (offered != 0).then(|| (offered, used.saturating_add(wanted)))
}

impl Strategy {
    fn of(&self, offered: i64, wanted: i64) -> i64 {
        match self {
            Self::LeastAllocated if wanted > offered => 0,
            Self::LeastAllocated => share_of(offered.saturating_sub(wanted), offered),
            Self::MostAllocated => share_of(wanted.min(offered), offered),
            Self::Ratio(shape) if wanted > offered => shape.at(HIGHEST),
            Self::Ratio(shape) => shape.at(share_of(wanted, offered)),
        }
    }
}

/// `part` of `whole` in hundredths, cut off; exact where `100 * part` does not fit into 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "no share is longer than its part")]
fn share_of(part: i64, whole: i64) -> i64 {
    match part.checked_mul(HIGHEST) {
        Some(scaled) => scaled / whole,
        None => (i128::from(part) * i128::from(HIGHEST) / i128::from(whole)) as i64,
    }
}

/// A piecewise linear function of utilisation.
pub(in crate::plugins) struct Shape(Box<[(i64, i64)]>);

impl Shape {
    pub(in crate::plugins) fn new(points: &[ShapePoint]) -> Self {
        let corner = |p: &ShapePoint| (i64::from(p.utilization), i64::from(p.score) * SHAPE_FACTOR);
        Self(points.iter().map(corner).collect())
    }

    pub(in crate::plugins) fn at(&self, utilization: i64) -> i64 {
        let mut before: Option<(i64, i64)> = None;
        for (x, y) in &self.0 {
            if utilization <= *x {
                return before.map_or(*y, |(x0, y0)| y0 + (y - y0) * (utilization - x0) / (x - x0));
            }
            before = Some((*x, *y));
        }
        before.map_or(0, |(_, last)| last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_linear_between_its_corners() {
        let check = |corners: &[(i64, i64)], table: &[(i64, i64)]| {
            let shape = Shape(corners.into());
            for (x, y) in table {
                assert_eq!(shape.at(*x), *y, "{corners:?} at {x}");
            }
        };
        let rising = [(9, 1), (15, 1), (19, 1), (20, 2), (89, 8), (90, 9), (110, 9)];
        check(&[(10, 1), (90, 9)], &rising);
        check(
            &[(0, 2), (40, 10), (100, 0)],
            &[(20, 6), (30, 8), (40, 10), (70, 5), (100, 0)],
        );
    }

    #[test]
    fn shares_of_amounts_near_the_limit_are_exact() {
        assert_eq!(share_of(i64::MAX, i64::MAX), 100);
        assert_eq!(share_of(i64::MAX / 2, i64::MAX), 49);
    }
}
