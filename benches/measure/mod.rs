//! Timing two ways of doing the same thing beside each other, so that a machine's drift falls on both alike.

use std::time::Instant;

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
    mut drain: impl FnMut(),
) -> Compared {
    let mut pairs = Vec::with_capacity(batches);
    for batch in 0..=batches {
        let (a, b);
        if batch % 2 == 0 {
            a = batch_ns(iterations, &mut first, &mut drain);
            b = batch_ns(iterations, &mut second, &mut drain);
        } else {
            b = batch_ns(iterations, &mut second, &mut drain);
            a = batch_ns(iterations, &mut first, &mut drain);
        }
        // The first pair warms up.
        if batch > 0 {
            pairs.push((a, b));
        }
    }
    Compared {
        first_ns: median(pairs.iter().map(|(a, _)| *a)),
        second_ns: median(pairs.iter().map(|(_, b)| *b)),
        ratio: median(pairs.iter().map(|(a, b)| b / a)),
    }
}

/// Nanoseconds per call.
fn batch_ns(iterations: u32, work: &mut impl FnMut(), drain: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..iterations {
        work();
    }
    let elapsed = start.elapsed().as_nanos() as f64 / f64::from(iterations);
    drain();
    elapsed
}

/// The middle value; NaN of none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
