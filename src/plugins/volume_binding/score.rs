//! How full the volumes of a node would be, as a score.
//!
//! Source: `pkg/scheduler/framework/plugins/volumebinding/{volume_binding,scorer}.go`, Kubernetes 1.36.

use std::collections::BTreeMap;

use super::claims::Claims;
use super::node::{Found, Served};
use crate::plugins::node_resources_fit::Shape;

const FULL: i64 = 100;

#[derive(Default)]
struct Use {
    requested: i64,
    capacity: i64,
}

/// 0 to 100: the mean over StorageClasses. Volumes that are made do not count beside volumes that are there.
pub(super) fn score(shape: &Shape, claims: &Claims, found: &Found) -> i64 {
    let uses_static = found
        .served
        .iter()
        .any(|(_, served)| matches!(served, Served::Static(_)));
    let mut classes = BTreeMap::new();
    for (at, served) in &found.served {
        let Some(delayed) = claims.delayed.get(*at) else {
            continue;
        };
        let requested = delayed.claim.requested().value();
        match served {
            Served::Static(volume) => {
                let of_class: &mut Use = classes.entry(volume.class).or_default();
                of_class.requested = of_class.requested.saturating_add(requested);
                of_class.capacity = of_class.capacity.saturating_add(volume.capacity.value());
            }
            Served::Made(Some(capacity)) if !uses_static => {
                let of_class: &mut Use = classes.entry(delayed.claim.class).or_default();
                of_class.requested = of_class.requested.saturating_add(requested);
                of_class.capacity = capacity.capacity.unwrap_or_default().value();
            }
            Served::Made(_) => {}
        }
    }
    mean(classes.values().map(|of_class| shape.at(utilization(of_class))))
}

fn utilization(of_class: &Use) -> i64 {
    if of_class.capacity == 0 || of_class.requested > of_class.capacity {
        return FULL;
    }
    let percent = i128::from(of_class.requested) * i128::from(FULL) / i128::from(of_class.capacity);
    i64::try_from(percent).unwrap_or(FULL)
}

/// Rounded to the nearest, halves up; 0 of nothing.
fn mean(scores: impl Iterator<Item = i64>) -> i64 {
    let (mut sum, mut count) = (0, 0);
    for score in scores {
        sum += score;
        count += 1;
    }
    if count == 0 { 0 } else { (2 * sum + count) / (2 * count) }
}
