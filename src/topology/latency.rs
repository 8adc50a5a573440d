//! One table of latencies between places of one level.
//!
//! Does not: know where the figures come from or how old they are.

use rustc_hash::FxHashMap;

use crate::ids::Symbol;

/// The highest latency taken for a figure: one hour.
pub const MAX_LATENCY_MS: f64 = 3_600_000.0;

/// Names at most in one table: its square stays below 64 MB.
const MAX_NAMES: usize = 4096;

/// Stands for a pair without a figure.
const MISSING: u32 = u32::MAX;

/// One figure: from here to there it takes so long.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LatencyRow {
    /// The place that sends.
    pub from: Symbol,
    /// The place that receives.
    pub to: Symbol,
    /// Milliseconds.
    pub millis: f64,
}

/// What a table has to say about a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// So many µs.
    Known(u32),
    /// It knows both places, but no figure for them.
    Missing,
    /// It does not know one of the places.
    Foreign,
}

/// Why a figure is refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum LatencyError {
    /// It is no number, infinite, negative or too high.
    #[error(
        "from {from:?} to {to:?}: {millis} is not a latency: it must be a number of milliseconds from 0 to {MAX_LATENCY_MS}"
    )]
    NotALatency {
        /// The place that sends.
        from: Symbol,
        /// The place that receives.
        to: Symbol,
        /// The figure.
        millis: f64,
    },
    /// Two figures for one pair that differ.
    #[error("from {from:?} to {to:?}: there are two figures, {first} ms and {second} ms: leave one")]
    Twice {
        /// The place that sends.
        from: Symbol,
        /// The place that receives.
        to: Symbol,
        /// The first.
        first: f64,
        /// The second.
        second: f64,
    },
    /// Too many places.
    #[error("there are more than {MAX_NAMES} places: use a wider level, such as regions instead of racks")]
    TooMany,
}

/// Latencies between the places of one level. `[from][to]`, flat.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LatencyTable {
    names: FxHashMap<Symbol, u32>,
    micros: Vec<u32>,
}

impl LatencyTable {
    /// A table of these figures. The way back may differ; a way that has no figure is missing, unless
    /// `mirrored`: then the way back stands for it. A place is at 0 from itself where nothing else is said.
    ///
    /// # Errors
    /// All figures that are refused.
    pub fn new(rows: &[LatencyRow], mirrored: bool) -> Result<Self, Vec<LatencyError>> {
        let mut table = Self::default();
        for name in rows.iter().flat_map(|row| [row.from, row.to]) {
            let next = u32::try_from(table.names.len()).unwrap_or(MISSING);
            table.names.entry(name).or_insert(next);
        }
        if table.names.len() > MAX_NAMES {
            return Err(vec![LatencyError::TooMany]);
        }
        table.micros = vec![MISSING; table.names.len() * table.names.len()];
        let errors: Vec<LatencyError> = rows.iter().filter_map(|row| table.set(row).err()).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        table.complete(mirrored);
        Ok(table)
    }

    fn set(&mut self, row: &LatencyRow) -> Result<(), LatencyError> {
        let LatencyRow { from, to, millis } = *row;
        let Some(micros) = micros(millis) else {
            return Err(LatencyError::NotALatency { from, to, millis });
        };
        let Some(at) = self.at(from, to) else { return Ok(()) };
        let before = self.micros[at];
        if before != MISSING && before != micros {
            return Err(LatencyError::Twice {
                from,
                to,
                first: f64::from(before) / 1000.0,
                second: millis,
            });
        }
        self.micros[at] = micros;
        Ok(())
    }

    fn complete(&mut self, mirrored: bool) {
        let count = self.names.len();
        for from in 0..count {
            for to in 0..count {
                let back = self.micros[to * count + from];
                let figure = &mut self.micros[from * count + to];
                if *figure != MISSING {
                    continue;
                }
                if from == to {
                    *figure = 0;
                } else if mirrored {
                    *figure = back;
                }
            }
        }
    }

    fn at(&self, from: Symbol, to: Symbol) -> Option<usize> {
        let (from, to) = (*self.names.get(&from)?, *self.names.get(&to)?);
        Some(from as usize * self.names.len() + to as usize)
    }

    /// What it says about a pair of places.
    #[must_use]
    pub fn figure(&self, from: Symbol, to: Symbol) -> Figure {
        match self.at(from, to).map(|at| self.micros[at]) {
            None => Figure::Foreign,
            Some(MISSING) => Figure::Missing,
            Some(micros) => Figure::Known(micros),
        }
    }

    /// Names of the places it knows, in no order.
    pub fn names(&self) -> impl Iterator<Item = Symbol> {
        self.names.keys().copied()
    }
}

/// Milliseconds as µs, rounded; `None`: no latency.
pub(crate) fn micros(millis: f64) -> Option<u32> {
    let sound = (0.0..=MAX_LATENCY_MS).contains(&millis);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was checked: at most 3.6e9, which fits"
    )]
    sound.then(|| (millis * 1000.0).round() as u32)
}
