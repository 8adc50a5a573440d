//! `ImageLocality`: prefers nodes that already have the pod's images, the larger the better.
//!
//! An image counts in proportion to the share of nodes that have it, so that pods do not heap up on the one node that
//! pulled it first.
//!
//! Source: `pkg/scheduler/framework/plugins/imagelocality`, Kubernetes 1.36.

use std::sync::LazyLock;

use crate::cluster::{ClusterView, ImageState, NodeInfo, PodInfo};
use crate::framework::{CycleState, EventHint, LabelsRead, Plugin, Reads, Score, Status};
use crate::ids::Symbol;

const MIB: i64 = 1024 * 1024;
/// Below it, images are not worth a thought.
const LEAST: i64 = 23 * MIB;
/// For each container: beyond it, more does not count.
const MOST_PER_CONTAINER: i64 = 1000 * MIB;

static NAME: LazyLock<Symbol> = LazyLock::new(|| Symbol::new("ImageLocality"));

/// The plugin.
pub(super) struct ImageLocality;

impl Plugin for ImageLocality {
    fn name(&self) -> Symbol {
        *NAME
    }

    fn labels_read(&self) -> LabelsRead {
        LabelsRead::Keys(Vec::new())
    }

    fn events(&self) -> Option<Vec<EventHint>> {
        Some(Vec::new())
    }

    fn score(&self) -> Option<&dyn Score> {
        Some(self)
    }
}

impl Score for ImageLocality {
    fn score_reads(&self) -> Reads {
        Reads::NODE_SPEC.and(Reads::IMAGES)
    }

    fn score_node(
        &self,
        cluster: &ClusterView<'_>,
        _: &CycleState,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Result<i64, Status> {
        let here = &node.spec.images;
        if here.is_empty() {
            return Ok(0);
        }
        let mut sum = 0_i64;
        for name in &pod.spec.images {
            let Some(image) = cluster.images.get(*name) else {
                continue;
            };
            if here.iter().any(|have| have.name == *name) {
                sum = sum.saturating_add(scaled(image, cluster.nodes.len()));
            }
        }
        Ok(score(sum, pod.spec.container_count))
    }
}

/// The size of an image times the share of nodes that have it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float is cut off as upstream cuts it off"
)]
fn scaled(image: ImageState, node_count: usize) -> i64 {
    let spread = f64::from(image.nodes) / node_count as f64;
    (image.size as f64 * spread) as i64
}

fn score(sum: i64, containers: u32) -> i64 {
    let most = MOST_PER_CONTAINER * i64::from(containers.max(1));
    100 * (sum.clamp(LEAST, most) - LEAST) / (most - LEAST)
}
