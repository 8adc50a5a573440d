//! The two bounds of the pool: assumed pods (slots) and API calls (lanes).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::sync::{Condvar, Mutex};

/// Places for assumed pods that are not yet bound.
#[derive(Debug)]
pub(super) struct Slots {
    state: Mutex<SlotState>,
    freed: Condvar,
}

#[derive(Debug)]
struct SlotState {
    held: usize,
    free: usize,
    closed: bool,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
}

impl Slots {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(SlotState {
                held: 0,
                free: count.max(1),
                closed: false,
            }),
            freed: Condvar::new(),
        })
    }

    /// Waits for a place; `None` once closed. For threads, not for tasks.
    pub(super) fn acquire(self: &Arc<Self>) -> Option<Slot> {
        let mut state = self.state.lock();
        while state.free == 0 && !state.closed {
            self.freed.wait(&mut state);
        }
        if state.closed {
            return None;
        }
        state.free -= 1;
        state.held += 1;
        Some(Slot {
            slots: Arc::clone(self),
        })
    }

    /// Number of places taken.
    pub(super) fn held(&self) -> usize {
        self.state.lock().held
    }

    /// Ends every wait for a place.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.freed.notify_all();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        state.free += 1;
        state.held -= 1;
        drop(state);
        self.slots.freed.notify_one();
    }
}

/// A semaphore that serves the highest priority first, and equal ones in order.
#[derive(Debug)]
pub(super) struct Lanes {
    state: Mutex<LaneState>,
}

#[derive(Debug)]
struct LaneState {
    free: usize,
    next: u64,
    waiting: BinaryHeap<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    priority: i32,
    number: Reverse<u64>,
    wake: oneshot::Sender<Lane>,
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Waiter {}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.priority, self.number).cmp(&(other.priority, other.number))
    }
}

/// The right to call the API server; passed on when dropped.
#[derive(Debug)]
pub(super) struct Lane {
    lanes: Arc<Lanes>,
}

impl Lanes {
    pub(super) fn new(count: usize) -> Arc<Self> {
        let state = LaneState {
            free: count.max(1),
            next: 0,
            waiting: BinaryHeap::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    /// Waits for a lane.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place; a lane that was already on its way goes to the next.
    pub(super) async fn acquire(self: &Arc<Self>, priority: i32) -> Lane {
        loop {
            let receiver = {
                let mut state = self.state.lock();
                if state.free > 0 {
                    state.free -= 1;
                    return Lane {
                        lanes: Arc::clone(self),
                    };
                }
                let (wake, receiver) = oneshot::channel();
                let number = Reverse(state.next);
                state.next += 1;
                state.waiting.push(Waiter { priority, number, wake });
                receiver
            };
            // The sender lives until it has sent: an error cannot occur, and would only mean another turn.
            if let Ok(lane) = receiver.await {
                return lane;
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let next = {
            let mut state = self.lanes.state.lock();
            match state.waiting.pop() {
                Some(waiter) => waiter,
                None => {
                    state.free += 1;
                    return;
                }
            }
        };
        // Whoever gave up waiting hands the lane back, and its drop looks for the next one.
        drop(next.wake.send(Self {
            lanes: Arc::clone(&self.lanes),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_bounded_and_closing_ends_the_wait() {
        let slots = Slots::new(1);
        let first = slots.acquire().unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| slots.acquire().is_some());
            drop(first);
            assert!(second.join().unwrap());
            let held = slots.acquire().unwrap();
            let third = scope.spawn(|| slots.acquire().is_none());
            slots.close();
            assert!(third.join().unwrap());
            drop(held);
        });
    }

    #[tokio::test]
    async fn the_highest_priority_is_served_first_and_equals_in_order() {
        let lanes = Lanes::new(1);
        let held = lanes.acquire(0).await;
        let (order, mut seen) = tokio::sync::mpsc::channel(8);
        for (name, priority) in [("low", 0), ("high", 10), ("low too", 0), ("gives up", 20)] {
            let (lanes, order) = (Arc::clone(&lanes), order.clone());
            let task = tokio::spawn(async move {
                let _lane = lanes.acquire(priority).await;
                order.send(name).await.unwrap();
            });
            tokio::task::yield_now().await;
            if name == "gives up" {
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
            }
        }
        drop((held, order));
        let mut names = Vec::new();
        while let Some(name) = seen.recv().await {
            names.push(name);
        }
        assert_eq!(names, ["high", "low", "low too"]);
        assert_eq!(lanes.state.lock().free, 1);
    }
}
