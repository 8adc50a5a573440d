//! Counters and histograms that many threads add to at once.
//!
//! Threads: any thread may add; a scrape reads. Every thread is given a shard number on its first addition and adds only
//! there, so workers do not share cache lines. All orderings are relaxed: the figures are sums, and nothing is decided
//! from them.
//!
//! Does not: allocate or lock when a value is added (a lazily made cell allocates once, on its first use).

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Most shards of a cell: at 64 bytes a counter shard and under 256 bytes a histogram shard, 16 keep the whole metric
/// set near a megabyte while 64 workers meet four to a cache line.
const MAX_SHARDS: usize = 16;

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD_NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Shards of every cell: the number of cores, rounded up to a power of two, at most [`MAX_SHARDS`].
fn shard_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        cores.next_power_of_two().min(MAX_SHARDS)
    })
}

/// A number of this thread's own, given out in order of first use.
fn thread_number() -> usize {
    THREAD_NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct PaddedU64(AtomicU64);

/// A sum that only grows.
#[derive(Debug)]
pub(super) struct Counter {
    shards: Box<[PaddedU64]>,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            shards: (0..shard_count()).map(|_| PaddedU64::default()).collect(),
        }
    }
}

impl Counter {
    /// Adds `amount`.
    pub(super) fn add(&self, amount: u64) {
        let shard = thread_number() & (self.shards.len() - 1);
        if let Some(cell) = self.shards.get(shard) {
            cell.0.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// The sum over all shards.
    pub(super) fn value(&self) -> u64 {
        self.shards
            .iter()
            .map(|cell| cell.0.load(Ordering::Relaxed))
            .fold(0, u64::wrapping_add)
    }
}

/// A value that goes up and down. One cell: gauges change once a pod, not once a node.
#[derive(Debug, Default)]
pub(super) struct Gauge(AtomicI64);

impl Gauge {
    /// Adds `delta`.
    pub(super) fn add(&self, delta: i64) {
        self.0.fetch_add(delta, Ordering::Relaxed);
    }

    /// Sets the value.
    pub(super) fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The present value.
    pub(super) fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of a histogram's buckets, and what one integer step of an observation is worth.
#[derive(Debug)]
pub(super) struct Buckets {
    /// As printed, in the metric's unit.
    bounds: Vec<f64>,
    /// The same in integer steps.
    steps: Vec<u64>,
    /// Steps in one unit of the metric.
    steps_per_unit: f64,
}

impl Buckets {
    /// `count` bounds in seconds, observed in nanoseconds: `start`, `start * factor`, …
    pub(super) fn exponential_seconds(start: f64, factor: f64, count: usize) -> Self {
        Self::new(exponential(start, factor, count), 1e9)
    }

    /// Bounds in seconds, observed in nanoseconds.
    pub(super) fn seconds(bounds: &[f64]) -> Self {
        Self::new(bounds.to_vec(), 1e9)
    }

    /// `count` bounds of a plain number: `start`, `start * factor`, …
    pub(super) fn exponential_numbers(start: f64, factor: f64, count: usize) -> Self {
        Self::new(exponential(start, factor, count), 1.0)
    }

    fn new(bounds: Vec<f64>, steps_per_unit: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bounds are constants below 2^53"
        )]
        let steps = bounds
            .iter()
            .map(|bound| (bound * steps_per_unit).round() as u64)
            .collect();
        Self {
            bounds,
            steps,
            steps_per_unit,
        }
    }
}

fn exponential(start: f64, factor: f64, count: usize) -> Vec<f64> {
    std::iter::successors(Some(start), |bound| Some(bound * factor))
        .take(count)
        .collect()
}

/// One thread group's part of a histogram: a count for every bound and one above, then the sum in steps.
#[derive(Debug)]
#[repr(align(64))]
struct Part {
    counts: Box<[AtomicU64]>,
    sum_steps: AtomicU64,
}

/// A distribution over fixed buckets.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: &'static Buckets,
    parts: Box<[Part]>,
}

/// What a scrape reads of a [`Histogram`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HistogramView {
    /// Sum of all observations in the metric's unit.
    pub(super) sum: f64,
    /// Number of observations.
    pub(super) count: u64,
    /// (upper bound, observations in this bucket alone), without the bucket above the last bound.
    pub(super) buckets: Vec<(f64, u64)>,
}

impl HistogramView {
    /// Adds the observations of another histogram with the same buckets.
    pub(super) fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
        for ((_, count), (_, more)) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
    }
}

impl Histogram {
    /// An empty histogram.
    pub(super) fn new(buckets: &'static Buckets) -> Self {
        let parts = (0..shard_count())
            .map(|_| Part {
                counts: (0..=buckets.steps.len()).map(|_| AtomicU64::new(0)).collect(),
                sum_steps: AtomicU64::new(0),
            })
            .collect();
        Self { buckets, parts }
    }

    /// Records a duration in a histogram of seconds. Durations beyond 584 years count as that.
    pub(super) fn observe(&self, duration: Duration) {
        self.observe_steps(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Records an observation in integer steps (nanoseconds, or plain numbers). O(log buckets).
    pub(super) fn observe_steps(&self, steps: u64) {
        let Some(part) = self.parts.get(thread_number() & (self.parts.len() - 1)) else {
            return;
        };
        let bucket = self.buckets.steps.partition_point(|bound| *bound < steps);
        if let Some(count) = part.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        part.sum_steps.fetch_add(steps, Ordering::Relaxed);
    }

    /// Adds up the parts.
    pub(super) fn view(&self) -> HistogramView {
        let mut counts = vec![0_u64; self.buckets.steps.len() + 1];
        let mut sum_steps = 0_u64;
        for part in &self.parts {
            sum_steps = sum_steps.wrapping_add(part.sum_steps.load(Ordering::Relaxed));
            for (total, count) in counts.iter_mut().zip(&part.counts) {
                *total = total.wrapping_add(count.load(Ordering::Relaxed));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a sum for display; 2^53 ns are 104 days")]
        let sum = sum_steps as f64 / self.buckets.steps_per_unit;
        HistogramView {
            sum,
            count: counts.iter().sum(),
            buckets: self.buckets.bounds.iter().copied().zip(counts).collect(),
        }
    }
}

/// A dense table of cells that come to life when they are first used; an unused cell costs 16 bytes and no line on
/// the page.
#[derive(Debug)]
pub(super) struct Table<M> {
    cells: Box<[OnceLock<Box<M>>]>,
}

impl<M> Table<M> {
    /// A table of `len` unused cells.
    pub(super) fn new(len: usize) -> Self {
        Self {
            cells: (0..len).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The cell at `index`, made by `make` when it is new; `None` when `index` is out of range.
    pub(super) fn cell(&self, index: usize, make: impl FnOnce() -> M) -> Option<&M> {
        Some(self.cells.get(index)?.get_or_init(|| Box::new(make())))
    }

    /// The cells in use with their indices.
    pub(super) fn used(&self) -> impl Iterator<Item = (usize, &M)> {
        self.cells
            .iter()
            .enumerate()
            .filter_map(|(index, cell)| Some((index, cell.get()?.as_ref())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static BUCKETS: OnceLock<Buckets> = OnceLock::new();

    fn buckets() -> &'static Buckets {
        BUCKETS.get_or_init(|| Buckets::exponential_seconds(0.001, 2.0, 3))
    }

    #[test]
    fn an_observation_on_a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::new(buckets());
        for millis in [1, 2, 3, 4, 5] {
            histogram.observe(Duration::from_millis(millis));
        }
        let view = histogram.view();
        assert_eq!(view.buckets, [(0.001, 1), (0.002, 1), (0.004, 2)]);
        assert_eq!(view.count, 5);
        assert!((view.sum - 0.015).abs() < 1e-12);
    }

    #[test]
    fn additions_of_many_threads_add_up() {
        let counter = Counter::default();
        let histogram = Histogram::new(buckets());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        counter.add(2);
                        histogram.observe(Duration::from_micros(1500));
                    }
                });
            }
        });
        assert_eq!(counter.value(), 16_000);
        assert_eq!(histogram.view().count, 8000);
        assert_eq!(histogram.view().buckets.get(1), Some(&(0.002, 8000)));
    }

    #[test]
    fn a_table_shows_only_cells_in_use() {
        let table: Table<Gauge> = Table::new(3);
        table.cell(1, Gauge::default).unwrap().add(5);
        assert!(table.cell(3, Gauge::default).is_none());
        assert_eq!(
            table
                .used()
                .map(|(index, gauge)| (index, gauge.value()))
                .collect::<Vec<_>>(),
            [(1, 5)]
        );
    }
}
