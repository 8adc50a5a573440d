//! Snapshots from records and ledger.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::Cluster;
use crate::cluster::change_log::{Cursor, Replay};
use crate::cluster::{NodeInfo, Snapshot};
use crate::ids::NodeIdx;
use crate::ledger::ChangeKind;

/// Who makes snapshots: its place in the change log. There is one.
#[derive(Debug, Default)]
pub struct Publisher {
    cursor: Cursor,
    dirty: FxHashSet<NodeIdx>,
}

impl Cluster {
    /// The node in a slot with its use as of now; `None`: there is no live node.
    #[must_use]
    pub fn node_info(&self, idx: NodeIdx) -> Option<NodeInfo> {
        let record = self.node(idx)?;
        let used = self.ledger.read(idx)?;
        (used.live && used.incarnation == record.incarnation).then_some(NodeInfo {
            idx,
            name: record.name,
            incarnation: record.incarnation,
            place: record.place,
            spec: record.spec,
            used,
        })
    }

    /// Publishes a snapshot that contains all changes so far, at a cost in nodes changed since the last one. Returns
    /// how many nodes were renewed. Changes that are about no node count too: a view that starts from a snapshot which
    /// the log has outrun would start anew for ever.
    pub fn publish(&self, publisher: &mut Publisher) -> usize {
        let Publisher { cursor, dirty } = publisher;
        dirty.clear();
        let mut images_changed = false;
        let replay = self.log.replay_to_end(cursor, |_, change| {
            images_changed |= change.kind == ChangeKind::ImageCounts;
            if change.concerns_node() {
                dirty.insert(change.node);
            }
        });
        let mut next = Snapshot::clone(&self.snapshot.load());
        if replay == Replay::FellBehind {
            // Everything appended so far is contained in what is read from here on.
            *cursor = self.log.cursor();
            next = Snapshot::default();
            images_changed = true;
            dirty.extend(self.records.iter().map(|record| *record.key()));
        }
        if cursor.position() == next.next_change && replay != Replay::FellBehind {
            return 0;
        }
        #[expect(
            clippy::iter_over_hash_type,
            reason = "every node has a slot of its own: the order does not show"
        )]
        for idx in dirty.iter() {
            next.set(*idx, self.node_info(*idx).map(Arc::new));
        }
        if images_changed {
            next.images = self.images();
        }
        next.next_change = cursor.position();
        self.snapshot.store(Arc::new(next));
        dirty.len()
    }
}
