//! Timing ways of doing the same thing beside each other, so that a machine's drift falls on all alike.

use std::time::{Duration, Instant};

/// What two ways cost, and how they compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    /// Median nanoseconds of the first way.
    pub(crate) first_ns: f64,
    /// Median nanoseconds of the second way.
    pub(crate) second_ns: f64,
    /// Median over the batches of second / first, taken within each pair of batches.
    pub(crate) ratio: f64,
}

/// Runs `batches` pairs of batches of `iterations` calls each. Which way goes first alternates; `drain` runs outside
/// the clock, after every batch.
pub(crate) fn compare(
    batches: usize,
    iterations: u32,
    mut first: impl FnMut(),
    mut second: impl FnMut(),
    drain: impl FnMut(),
) -> Compared {
    let drain = std::cell::RefCell::new(drain);
    let iterations = u64::from(iterations);
    let measured = alternate(
        batches,
        &mut [&mut || drained(time(iterations, &mut first), iterations, &mut *drain.borrow_mut()), &mut || {
            drained(time(iterations, &mut second), iterations, &mut *drain.borrow_mut())
        }],
    );
    let of = |way: usize| measured.get(way).map_or(&[][..], Vec::as_slice);
    Compared { first_ns: median(of(0)), second_ns: median(of(1)), ratio: median(&ratios(of(1), of(0))) }
}

fn drained(elapsed: Duration, iterations: u64, drain: &mut impl FnMut()) -> f64 {
    drain();
    elapsed.as_nanos() as f64 / iterations as f64
}

/// How long `iterations` calls take.
pub(crate) fn time(iterations: u64, mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..iterations {
        work();
    }
    start.elapsed()
}

/// Has every way measure itself once a round, beginning with another one each time; the first round warms up. What
/// each answered, by way.
pub(crate) fn alternate(rounds: usize, ways: &mut [&mut dyn FnMut() -> f64]) -> Vec<Vec<f64>> {
    let mut measured = vec![Vec::with_capacity(rounds); ways.len()];
    let mut turns: Vec<_> = ways.iter_mut().zip(&mut measured).collect();
    for round in 0..=rounds {
        for (way, measured) in &mut turns {
            let answer = way();
            if round > 0 {
                measured.push(answer);
            }
        }
        if !turns.is_empty() {
            turns.rotate_left(1);
        }
    }
    measured
}

/// What each value is over its neighbour, in rounds.
pub(crate) fn ratios(values: &[f64], over: &[f64]) -> Vec<f64> {
    values.iter().zip(over).map(|(value, over)| value / over).collect()
}

/// The middle value; NaN of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which that part of the values lies; NaN of none.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}
