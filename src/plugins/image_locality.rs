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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::check::{self, plugin, world};
    use crate::testing::{NodeBuilder, PodBuilder, node, pod};

    /// A node with images called by their size in MiB.
    fn with(name: &str, sizes: &[i64]) -> NodeBuilder {
        let add = |node: NodeBuilder, size: &i64| node.image(&image(*size), size * MIB);
        sizes.iter().fold(node(name), add)
    }

    fn image(size: i64) -> String {
        format!("gcr.io/{size}:v1")
    }

    /// A pod with one container for each image.
    fn using(sizes: &[i64]) -> PodBuilder {
        let containers: Vec<_> = sizes
            .iter()
            .map(|size| json!({"name": "c", "image": image(*size)}))
            .collect();
        pod("p").field(&["spec", "containers"], containers)
    }

    fn scores(pod: &PodBuilder, nodes: &[NodeBuilder]) -> Vec<i64> {
        check::scores(&*plugin("ImageLocality"), pod, &world(nodes, &[])).unwrap()
    }

    #[test]
    fn large_images_on_many_nodes_count_most() {
        let table: [(PodBuilder, &[NodeBuilder], &[i64]); 5] = [
            (
                using(&[40, 250]),
                &[with("a", &[40, 300, 2000]), with("b", &[250, 10])],
                &[0, 5],
            ),
            (
                using(&[40, 300]),
                &[with("a", &[40, 300, 2000]), with("b", &[250, 10])],
                &[7, 0],
            ),
            (using(&[4000, 10]), &[with("a", &[4000]), with("b", &[10])], &[100, 0]),
            (
                using(&[4000, 10]),
                &[with("a", &[4000]), with("b", &[10]), with("c", &[])],
                &[66, 0, 0],
            ),
            (
                using(&[300, 600, 900]),
                &[with("a", &[600, 900]), with("b", &[300, 600, 900]), with("c", &[])],
                &[32, 36, 0],
            ),
        ];
        for (pod, nodes, expected) in table {
            assert_eq!(scores(&pod, nodes), expected, "{}", pod.json());
        }
    }

    #[test]
    fn image_volumes_add_and_init_containers_raise_the_bound() {
        let nodes = [with("a", &[300, 40]), with("b", &[30, 10])];
        let volume = json!([{"name": "v", "image": {"reference": image(300)}}]);
        assert_eq!(
            scores(&using(&[30]).field(&["spec", "volumes"], volume), &nodes),
            [12, 0]
        );
        let init = json!([{"name": "i", "image": image(300)}]);
        assert_eq!(
            scores(&using(&[30]).field(&["spec", "initContainers"], init), &nodes),
            [6, 0]
        );
    }

    #[test]
    fn names_without_a_tag_mean_the_latest() {
        for (asked, listed) in [("nginx", "nginx:latest"), ("host:5000/x", "host:5000/x:latest")] {
            let node = node("n").image(listed, 1000 * MIB);
            assert_eq!(scores(&pod("p").image(asked), &[node]), [100], "{asked}");
        }
    }
}
