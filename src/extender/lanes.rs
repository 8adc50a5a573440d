//! How many pods may be asked about at a time, and who waits for that.
//!
//! Pods for which the same extenders are asked form a group with lanes of its own: a slow extender holds up the groups
//! that it belongs to. Who gets no lane waits here, the highest priority first, as light as in the queue; a lane that is
//! let go goes to the next, who is then ready for a worker. Nothing waits longer than the pods before it are asked for.
//!
//! Threads: any. One lock, held for a heap operation; `wake` is called without it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Interest;
use crate::sync::Mutex;

/// Lanes by group, and what waits for one or has to be taken up again.
pub struct Lanes<T> {
    /// Lanes of one group.
    each: usize,
    state: Mutex<State<T>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

struct State<T> {
    groups: FxHashMap<Interest, Group<T>>,
    ready: VecDeque<Ready<T>>,
    next: u64,
    closed: bool,
}

struct Group<T> {
    held: usize,
    waiting: BinaryHeap<Waiter<T>>,
}

struct Waiter<T> {
    priority: i32,
    number: Reverse<u64>,
    value: T,
}

impl<T> PartialEq for Waiter<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Waiter<T> {}

impl<T> PartialOrd for Waiter<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Waiter<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.priority, self.number).cmp(&(other.priority, other.number))
    }
}

/// What a worker is to take up, and the lane that it has.
#[derive(Debug)]
pub struct Ready<T> {
    /// What was put aside.
    pub value: T,
    /// Its lane.
    pub permit: Permit<T>,
}

/// A lane; goes to the next when dropped.
pub struct Permit<T> {
    lanes: Arc<Lanes<T>>,
    group: Interest,
}

impl<T> std::fmt::Debug for Lanes<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes")
            .field("each", &self.each)
            .finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for Permit<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit")
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

impl<T> Lanes<T> {
    /// So many lanes for every group; `wake` is called when something became ready.
    #[must_use]
    pub fn new(each: usize, wake: Box<dyn Fn() + Send + Sync>) -> Arc<Self> {
        let state = State {
            groups: FxHashMap::default(),
            ready: VecDeque::new(),
            next: 0,
            closed: false,
        };
        Arc::new(Self {
            each: each.max(1),
            state: Mutex::new(state),
            wake,
        })
    }

    /// A lane of the group, if one is free; else `value` waits for one.
    #[must_use]
    pub fn enter(self: &Arc<Self>, group: &Interest, priority: i32, value: T) -> Option<Ready<T>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.next += 1;
        let number = Reverse(state.next);
        let members = state.groups.entry(group.clone()).or_insert_with(|| Group {
            held: 0,
            waiting: BinaryHeap::new(),
        });
        if members.held < self.each {
            members.held += 1;
            let permit = self.permit(group.clone());
            return Some(Ready { value, permit });
        }
        members.waiting.push(Waiter {
            priority,
            number,
            value,
        });
        None
    }

    fn permit(self: &Arc<Self>, group: Interest) -> Permit<T> {
        let lanes = Arc::clone(self);
        Permit { lanes, group }
    }

    /// Has a worker take `ready` up.
    pub fn resume(&self, ready: Ready<T>) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return;
        }
        state.ready.push_back(ready);
        drop(state);
        (self.wake)();
    }

    /// What is to be taken up next.
    #[must_use]
    pub fn take(&self) -> Option<Ready<T>> {
        self.state.lock().ready.pop_front()
    }

    /// Lets go of everything that waits, now and from now on.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let (groups, ready) = (std::mem::take(&mut state.groups), std::mem::take(&mut state.ready));
        drop(state);
        drop((groups, ready));
    }

    fn release(self: &Arc<Self>, group: &Interest) {
        let mut state = self.state.lock();
        let State { groups, ready, .. } = &mut *state;
        let Some(members) = groups.get_mut(group) else { return };
        match members.waiting.pop() {
            Some(waiter) => ready.push_back(Ready {
                value: waiter.value,
                permit: self.permit(group.clone()),
            }),
            None => {
                members.held -= 1;
                if members.held == 0 {
                    groups.remove(group);
                }
                return;
            }
        }
        drop(state);
        (self.wake)();
    }
}

impl<T> Drop for Permit<T> {
    fn drop(&mut self) {
        self.lanes.release(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn group(at: usize) -> Interest {
        Interest {
            filters: [at].into_iter().collect(),
            ..Interest::default()
        }
    }

    #[test]
    fn a_group_without_a_free_lane_holds_up_nobody_else_and_serves_by_priority() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let lanes = Lanes::new(
            1,
            Box::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }),
        );
        let first = lanes.enter(&group(0), 0, "first").unwrap();
        assert!(lanes.enter(&group(0), 0, "low").is_none());
        assert!(lanes.enter(&group(0), 9, "high").is_none());
        assert!(lanes.enter(&group(0), 0, "low too").is_none());
        let other = lanes.enter(&group(1), 0, "other").unwrap();
        assert!(lanes.take().is_none());
        drop(first);
        let mut order = Vec::new();
        while let Some(ready) = lanes.take() {
            order.push(ready.value);
        }
        assert_eq!(order, ["high", "low", "low too"]);
        assert_eq!(woken.load(Ordering::Relaxed), 3);
        drop(other);
        assert!(lanes.state.lock().groups.is_empty(), "groups that nobody is in go");
    }

    #[test]
    fn what_is_resumed_keeps_its_lane_and_closing_lets_go_of_all() {
        let lanes = Lanes::new(1, Box::new(|| {}));
        let ready = lanes.enter(&group(0), 0, 1).unwrap();
        lanes.resume(ready);
        assert!(lanes.enter(&group(0), 0, 2).is_none());
        lanes.close();
        assert!(lanes.take().is_none() && lanes.enter(&group(0), 0, 3).is_none());
        assert_eq!(Arc::strong_count(&lanes), 1, "nothing refers back");
    }
}
