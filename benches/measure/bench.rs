//! What the benches share: a device, and rows of ways to do one thing, which are shown to criterion one by one and then
//! measured in turns, so that they can be compared.
#![allow(dead_code, reason = "no bench uses all of it")]

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use criterion::{Criterion, PlottingBackend, SamplingMode, Throughput};
use cupool::{Context, Device, Driver, Stream};
use cupool_sim::Simulator;
use serde_json::{Map, Value, json};

#[path = "mod.rs"]
pub(crate) mod measure;
pub(crate) mod raw;
pub(crate) mod record;

use record::Record;

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How much is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Full,
    /// Fewer batches: `--quick`, or `CUPOOL_BENCH_QUICK=1`.
    Quick,
    /// Just enough to see that everything runs: `CUPOOL_BENCH_SIMULATED=1`, or `--test`.
    Trial,
}

impl Effort {
    fn from_environment() -> Self {
        let given = |argument: &str| std::env::args().any(|given| given == argument);
        if is_set("CUPOOL_BENCH_SIMULATED") || given("--test") {
            Self::Trial
        } else if is_set("CUPOOL_BENCH_QUICK") || given("--quick") {
            Self::Quick
        } else {
            Self::Full
        }
    }

    /// For how long a row is measured in turns.
    const fn budget(self) -> Duration {
        match self {
            Self::Full => Duration::from_millis(600),
            Self::Quick => Duration::from_millis(100),
            Self::Trial => Duration::ZERO,
        }
    }

    /// How many rounds there are, at least and at most.
    const fn rounds(self) -> (usize, usize) {
        match self {
            Self::Full => (11, 101),
            Self::Quick => (5, 21),
            Self::Trial => (2, 2),
        }
    }

    fn criterion(self) -> Criterion {
        let ms = Duration::from_millis;
        let (warm_up, measurement, samples, resamples) = match self {
            Self::Full => (ms(100), ms(500), 20, 10_000),
            Self::Quick => (ms(20), ms(100), 10, 1_000),
            Self::Trial => (ms(1), ms(1), 10, 1_000),
        };
        let criterion = Criterion::default()
            .warm_up_time(warm_up)
            .measurement_time(measurement)
            .sample_size(samples)
            .nresamples(resamples)
            .plotting_backend(PlottingBackend::Plotters);
        let criterion = if self == Self::Trial { criterion.without_plots() } else { criterion };
        criterion.configure_from_args()
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether benches are to run on the simulated device.
pub(crate) fn is_simulated() -> bool {
    is_set("CUPOOL_BENCH_SIMULATED")
}

/// Whether criterion was asked what there is, or the bench is not to measure anything else.
fn only_lists() -> bool {
    std::env::args().any(|given| given == "--list")
}

/// A bench on a device.
pub(crate) struct Bench {
    name: &'static str,
    criterion: Criterion,
    effort: Effort,
    record: Record,
    pub(crate) driver: Driver,
    pub(crate) device: Device,
    pub(crate) context: Context,
}

/// Runs a bench on the first device of the real driver; on the simulated one only if that is asked for.
pub(crate) fn main(name: &'static str, run: impl FnOnce(&mut Bench) -> Result) -> ExitCode {
    ended(on_a_device(name, run))
}

/// Runs a bench that needs no device: on a driver whose functions are stand-ins.
pub(crate) fn main_anywhere(
    name: &'static str,
    driver: impl FnOnce() -> Driver,
    run: impl FnOnce(&mut Bench) -> Result,
) -> ExitCode {
    println!("{name}: of calls that do next to nothing, on this machine's processor");
    ended(start(name, driver(), false, run))
}

pub(crate) fn ended(result: Result) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn on_a_device(name: &'static str, run: impl FnOnce(&mut Bench) -> Result) -> Result {
    if !is_simulated() {
        let driver = real_driver()?;
        println!("{name} on {}, CUDA driver {}", driver.device(0)?.name()?, driver.version()?);
        return start(name, driver, true, run);
    }
    println!("{name} on the SIMULATED device: it runs to its end, and its figures mean nothing.");
    let simulator = Simulator::new();
    // SAFETY: the simulator's functions behave as the driver's for as long as it lives, which is to the end.
    start(name, unsafe { Driver::from_functions(simulator.functions()) }, false, run)
}

fn start(name: &'static str, driver: Driver, is_real: bool, run: impl FnOnce(&mut Bench) -> Result) -> Result {
    let device = driver.device(0)?;
    let effort = Effort::from_environment();
    let record = if effort == Effort::Trial { Record::nowhere() } else { Record::from_environment() };
    if is_real {
        record.line(&record::machine(&device)?);
    }
    let context = device.primary_context()?;
    // A program of raw calls has it current.
    let current = context.try_clone()?;
    let mut bench = Bench { name, criterion: effort.criterion(), effort, record, driver, device, context };
    current.with_current(|| Ok(run(&mut bench)))??;
    bench.criterion.final_summary();
    Ok(())
}

/// The real driver, or what is to be said without one.
pub(crate) fn real_driver() -> Result<Driver> {
    Driver::load().map_err(|error| {
        let alternative = "CUPOOL_BENCH_SIMULATED=1 has it run on the simulated device, to see that it runs";
        format!("{error}\n\nThis bench measures a real driver; it has nothing to say without one ({alternative}).")
            .into()
    })
}

impl Bench {
    pub(crate) fn stream(&self) -> Result<Stream> {
        Ok(Stream::new(&self.context)?)
    }

    /// Those of the values that are worth trying: few and small ones, where nothing is measured.
    pub(crate) fn choose<T: Copy + PartialOrd>(&self, values: &[T], most: T) -> Vec<T> {
        let keep = |value: &&T| self.effort != Effort::Trial || **value <= most;
        values.iter().filter(keep).copied().collect()
    }

    pub(crate) const fn is_trial(&self) -> bool {
        matches!(self.effort, Effort::Trial)
    }

    /// A line of the record that no row gives.
    pub(crate) fn note(&self, line: &Value) {
        self.record.line(line);
    }

    /// Has criterion measure each way by itself, then measures all in turns, says how they compare and records it.
    pub(crate) fn row(&mut self, mut row: Row<'_>) {
        let Some((batch, wall)) = row.calibrate(self.effort) else { return };
        if !self.show_to_criterion(&mut row, batch, wall) || only_lists() {
            return;
        }
        let (least, most) = self.effort.rounds();
        let fitting = self.effort.budget().as_nanos() / wall.as_nanos().max(1);
        let rounds = usize::try_from(fitting).unwrap_or(usize::MAX).clamp(least, most);
        let measured = row.measure(rounds, batch);
        row.report(self.name, &measured, &self.record);
    }

    /// Whether criterion wanted the row: it may have been given a filter.
    fn show_to_criterion(&mut self, row: &mut Row<'_>, batch: u64, wall: Duration) -> bool {
        let mut wanted = false;
        let mut group = self.criterion.benchmark_group(format!("{}/{}", row.bench.unwrap_or(self.name), row.label));
        if wall > Duration::from_millis(10) {
            // As many of each sample are too many.
            group.sampling_mode(SamplingMode::Flat).sample_size(10);
        }
        if row.per > 1 {
            group.throughput(Throughput::Elements(row.per));
        }
        let Row { ways, drain, .. } = row;
        for way in ways {
            group.bench_function(format!("{}, {}", way.who, way.setting), |bencher| {
                wanted = true;
                bencher.iter_custom(|iterations| {
                    let mut elapsed = Duration::ZERO;
                    for begun in (0..iterations).step_by(usize::try_from(batch).unwrap_or(usize::MAX)) {
                        elapsed += (way.run)(batch.min(iterations - begun));
                        drain();
                    }
                    elapsed
                });
            });
        }
        group.finish();
        wanted
    }
}

/// Ways of doing one thing. The last is this crate's, and is compared with all before it.
pub(crate) struct Row<'a> {
    label: String,
    bench: Option<&'static str>,
    parameters: Map<String, Value>,
    per: u64,
    most: u64,
    ways: Vec<Way<'a>>,
    drain: Box<dyn FnMut() + 'a>,
}

struct Way<'a> {
    who: &'static str,
    setting: String,
    /// Does it so many times, and says how long that took.
    run: Box<dyn FnMut(u64) -> Duration + 'a>,
}

impl<'a> Row<'a> {
    /// `drain` runs after each batch, outside the clock.
    pub(crate) fn new(label: impl Into<String>, drain: impl FnMut() + 'a) -> Self {
        let (parameters, ways) = (Map::new(), Vec::new());
        Self { label: label.into(), bench: None, parameters, per: 1, most: 2000, ways, drain: Box::new(drain) }
    }

    /// Under another bench's name.
    pub(crate) const fn of(mut self, bench: &'static str) -> Self {
        self.bench = Some(bench);
        self
    }

    pub(crate) fn with(mut self, parameter: &str, value: impl Into<Value>) -> Self {
        self.parameters.insert(parameter.into(), value.into());
        self
    }

    /// How many operations one turn is; figures are per operation.
    pub(crate) const fn per(mut self, operations: u64) -> Self {
        self.per = operations;
        self
    }

    /// How many turns a batch has at most, for what would fill the stream's queue.
    pub(crate) const fn most(mut self, turns: u64) -> Self {
        self.most = turns;
        self
    }

    pub(crate) fn raw(self, setting: impl Into<String>, work: impl FnMut() + 'a) -> Self {
        self.way("raw", setting, work)
    }

    pub(crate) fn cupool(self, setting: impl Into<String>, work: impl FnMut() + 'a) -> Self {
        self.way("cupool", setting, work)
    }

    fn way(self, who: &'static str, setting: impl Into<String>, mut work: impl FnMut() + 'a) -> Self {
        self.timed(who, setting, move |turns| measure::time(turns, &mut work))
    }

    /// A way that looks at the clock itself.
    pub(crate) fn timed(
        mut self,
        who: &'static str,
        setting: impl Into<String>,
        run: impl FnMut(u64) -> Duration + 'a,
    ) -> Self {
        self.ways.push(Way { who, setting: setting.into(), run: Box::new(run) });
        self
    }

    /// How many turns make a batch, and how long a round of batches takes, drained; `None` without ways. What is done
    /// for the first time is done here.
    fn calibrate(&mut self, effort: Effort) -> Option<(u64, Duration)> {
        let most = if effort == Effort::Trial { 2 } else { self.most };
        let mut slowest = Duration::ZERO;
        for way in &mut self.ways {
            (way.run)(1);
            (self.drain)();
            let start = Instant::now();
            (way.run)(most.min(4));
            (self.drain)();
            slowest = slowest.max(start.elapsed() / u32::try_from(most.min(4)).unwrap_or(1));
        }
        let batch = Duration::from_millis(2).as_nanos() / slowest.as_nanos().max(1);
        let batch = u64::try_from(batch).unwrap_or(u64::MAX).clamp(1, most);
        let ways = u32::try_from(self.ways.len()).ok().filter(|ways| *ways > 0)?;
        Some((batch, slowest * ways * u32::try_from(batch).unwrap_or(u32::MAX)))
    }

    /// Nanoseconds per operation, for each way and round.
    fn measure(&mut self, rounds: usize, batch: u64) -> Vec<Vec<f64>> {
        let drain = std::cell::RefCell::new(&mut self.drain);
        let operations = (batch * self.per) as f64;
        let mut turns: Vec<_> = self
            .ways
            .iter_mut()
            .map(|way| {
                || {
                    let elapsed = (way.run)(batch);
                    (drain.borrow_mut())();
                    elapsed.as_nanos() as f64 / operations
                }
            })
            .collect();
        let mut turns: Vec<&mut dyn FnMut() -> f64> = turns.iter_mut().map(|turn| turn as _).collect();
        measure::alternate(rounds, &mut turns)
    }

    /// A line to read for the row, and a line of the record for each way.
    fn report(&self, bench: &str, measured: &[Vec<f64>], record: &Record) {
        let Some((ours, others)) = measured.split_last() else { return };
        println!("{}, in {} rounds:", self.label, ours.len());
        for (way, values) in self.ways.iter().zip(measured) {
            let value = measure::median(values);
            let (low, high) = (measure::quantile(values, 0.25), measure::quantile(values, 0.75));
            let mut line = json!({
                "bench": self.bench.unwrap_or(bench),
                "who": way.who,
                "setting": way.setting,
                "parameters": self.parameters,
                "unit": "ns",
                "value": value,
                "low": low,
                "high": high,
                "source": format!("benches/{bench}.rs"),
            });
            let mut said = String::new();
            if way.who != "raw" {
                let ratios = self.ways.iter().zip(others);
                let ratios = ratios.map(|(way, other)| (way, measure::median(&measure::ratios(values, other))));
                let (mut first, mut by_setting) = (None, Map::new());
                for (way, ratio) in ratios {
                    if first.is_none() {
                        first = Some(ratio);
                    }
                    by_setting.insert(way.setting.clone(), ratio.into());
                    said += &format!("  {ratio:.4} of {}, {}", way.who, way.setting);
                }
                if let (Some(fields), Some(first)) = (line.as_object_mut(), first) {
                    fields.insert("against".into(), "raw".into());
                    fields.insert("ratio".into(), first.into());
                    fields.insert("ratios".into(), by_setting.into());
                }
            }
            let name = format!("{}, {}", way.who, way.setting);
            println!("    {name:<32} {value:>12.1} ns  [{low:.1} {high:.1}]{said}");
            record.line(&line);
        }
    }
}

/// Such as `64 KiB`.
pub(crate) fn bytes(bytes: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size));
    unit.map_or_else(|| format!("{bytes} B"), |(size, name)| format!("{} {name}", bytes / size))
}
