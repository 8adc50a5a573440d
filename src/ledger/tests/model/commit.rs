//! The commit protocol of pods with rules that span nodes, whole and broken in four ways.

use super::*;
use crate::cluster::{ChangeLog, Cursor, Replay};
use crate::sync::model::Unlocked;

/// How the commit protocol may be broken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A reader does not look whether its evaluation is of the epoch that it commits in.
    OldEpoch,
    /// A writer decides by a view that it has not brought up to date.
    OldView,
    /// The epoch moves only after the pod with the new rule has looked around.
    LooseEpoch,
}

const PLAIN: ClassId = ClassId(1);
const ALONE: ClassId = ClassId(2);

/// Two nodes of one zone, in which no pod of class `ALONE` may be with one of class `PLAIN`.
struct Zone<P: Primitives> {
    ledger: Ledger<P>,
    log: Arc<ChangeLog<P::Word>>,
    commit: CommitLock<P>,
    fault: Fault,
}

/// A worker's view: how many pods of each class are in the zone.
#[derive(Default)]
struct View {
    cursor: Cursor,
    counts: [i32; 3],
}

impl<P: Primitives> Zone<P> {
    fn new(fault: Fault) -> Arc<Self> {
        let log = Arc::new(ChangeLog::with_capacity(16));
        let ledger = Ledger::with_primitives(Arc::<ChangeLog<P::Word>>::clone(&log));
        ledger.upsert_node(N1, FIRST, capacity(1000, 10));
        ledger.upsert_node(N2, FIRST, capacity(1000, 10));
        Arc::new(Self {
            ledger,
            log,
            commit: CommitLock::with_primitives(),
            fault,
        })
    }

    fn replay(&self, view: &mut View) {
        let replay = self.log.replay_to_end(&mut view.cursor, |_, change| {
            let step = match change.kind {
                ChangeKind::PodAdded => 1,
                ChangeKind::PodRemoved => -1,
                _ => 0,
            };
            if let Some(class) = change.class {
                view.counts[class.0 as usize] += step;
            }
        });
        assert_ne!(replay, Replay::FellBehind);
    }

    fn reserve(&self, pod: &Arc<Charge>, node: NodeIdx) {
        self.ledger.reserve(pod, &checks(pod), node, FIRST).unwrap();
    }

    /// A pod of class `PLAIN`: free to commit as a reader as long as no rule is about it.
    fn place_plain(&self, uid: u128, node: NodeIdx) {
        let pod = with(&charge(uid, 100), |pod| pod.class = PLAIN);
        let mut view = View::default();
        let epoch = self.commit.epoch();
        self.replay(&mut view);
        let is_ruled = epoch > 0;
        if !is_ruled {
            let guard = self.commit.read();
            if guard.epoch() == epoch || self.fault == Fault::OldEpoch {
                return self.reserve(&pod, node);
            }
        }
        self.commit_as_writer(&mut view, &pod, node, ALONE);
    }

    /// The first pod of class `ALONE`: its rule is made known before it may be popped.
    fn place_alone(&self, uid: u128, node: NodeIdx) {
        let pod = with(&charge(uid, 100), |pod| pod.class = ALONE);
        if self.fault == Fault::LooseEpoch {
            let mut view = View::default();
            let guard = self.commit.write();
            self.replay(&mut view);
            drop(guard);
            self.commit.write().advance_epoch();
            if view.counts[PLAIN.0 as usize] == 0 {
                self.reserve(&pod, node);
            }
            return;
        }
        self.commit.write().advance_epoch();
        let mut view = View::default();
        self.replay(&mut view);
        self.commit_as_writer(&mut view, &pod, node, PLAIN);
    }

    fn commit_as_writer(&self, view: &mut View, pod: &Arc<Charge>, node: NodeIdx, enemy: ClassId) {
        let _guard = self.commit.write();
        if self.fault != Fault::OldView {
            self.replay(view);
        }
        if view.counts[enemy.0 as usize] == 0 {
            self.reserve(pod, node);
        }
    }
}

fn two_plain_and_one_alone<P: Primitives>(fault: Fault) {
    let zone = Zone::<P>::new(fault);
    let plain = [(1, N1), (2, N2)].map(|(uid, node)| {
        let zone = Arc::clone(&zone);
        thread::spawn(move || zone.place_plain(uid, node))
    });
    let alone = {
        let zone = Arc::clone(&zone);
        thread::spawn(move || zone.place_alone(3, N2))
    };
    for worker in plain {
        worker.join().unwrap();
    }
    alone.join().unwrap();
    let mut view = View::default();
    zone.replay(&mut view);
    let [_, plain, alone] = view.counts;
    assert!(
        plain == 0 || alone == 0,
        "{plain} plain pods with one that must be alone"
    );
    assert!(plain + alone > 0, "nobody was placed");
    let counted = [N1, N2]
        .map(|node| zone.ledger.charges(node).len())
        .iter()
        .sum::<usize>();
    assert_eq!(
        i32::try_from(counted).unwrap(),
        plain + alone,
        "the log does not tell what the ledger holds"
    );
}

#[test]
fn model_no_plain_pod_slips_past_a_new_anti_affinity() {
    explore(|| two_plain_and_one_alone::<Modelled>(Fault::None));
}

#[test]
fn model_finds_a_commit_on_an_old_epoch() {
    assert!(is_found_out(|| two_plain_and_one_alone::<Modelled>(Fault::OldEpoch)));
}

#[test]
fn model_finds_a_commit_on_an_old_view() {
    assert!(is_found_out(|| two_plain_and_one_alone::<Modelled>(Fault::OldView)));
}

#[test]
fn model_finds_an_epoch_that_moves_after_the_decision() {
    assert!(is_found_out(|| two_plain_and_one_alone::<Modelled>(Fault::LooseEpoch)));
}

#[test]
fn model_finds_a_commit_lock_that_locks_nobody_out() {
    assert!(is_found_out(|| two_plain_and_one_alone::<Unlocked>(Fault::None)));
}
