//! The experiment that this crate began with: what does one small allocation cost, when it is freed again at once?
//!
//! With a CUDA driver it measures; without one the same program runs on the simulated device and counts driver calls.

use cupool::{Buffer, Context, Driver, MemPool, MemPoolProperties, Result, Stream};
use cupool_sim::Simulator;

#[path = "../benches/measure/mod.rs"]
mod measure;

/// What cuda-python's issue 756 allocated.
const BYTES: usize = 10;

fn main() -> Result<()> {
    let (driver, simulator) = match Driver::load() {
        Ok(driver) => {
            println!("CUDA driver {}, {}", version(driver.version()?), driver.device(0)?.name()?);
            (driver, None)
        }
        Err(error) => {
            println!("No CUDA driver here: this runs on the SIMULATED device, and counts driver calls, not time.\n");
            println!("{error}\n");
            let simulator = Simulator::new();
            // SAFETY: the simulator's functions behave as the driver's for as long as it lives, which is to the end.
            (unsafe { Driver::from_functions(simulator.functions()) }, Some(simulator))
        }
    };
    let context = driver.device(0)?.primary_context()?;
    let stream = Stream::new(&context)?;

    round_trip(&context, &stream)?;
    println!("A round trip of 1,048,576 numbers through a pooled buffer came back whole.\n");

    println!("Allocate and free {BYTES} bytes on one stream:\n");
    match &simulator {
        None => println!("{:<46} {:>12} {:>12} {:>8}", "", "raw calls", "cupool", "ratio"),
        Some(_) => println!("{:<46} {:>12} {:>12}", "driver calls", "raw", "cupool"),
    }
    for (threshold, kept) in [(0, "memory given back (threshold 0)"), (u64::MAX, "memory kept (as it comes)")] {
        let properties = MemPoolProperties::new().release_threshold(threshold);
        let pool = MemPool::with_properties(&context.device(), &properties)?;
        for (synchronise, then) in [(false, ""), (true, ", synchronise")] {
            let row = format!("{kept}{then}");
            match &simulator {
                None => measure(&row, &pool, &stream, synchronise)?,
                Some(simulator) => count(&row, &pool, &stream, synchronise, simulator)?,
            }
        }
    }
    Ok(())
}

/// Writes data, copies it on the device, and reads it back.
fn round_trip(context: &Context, stream: &Stream) -> Result<()> {
    let pool = MemPool::new(&context.device())?;
    let samples: Vec<u32> = (0..1 << 20).collect();
    let written = pool.alloc_from_host(&samples, stream)?;
    let mut copied: Buffer<u32, &Stream> = pool.alloc(samples.len(), stream)?;
    copied.copy_from(written.as_slice())?;
    drop(written);
    assert_eq!(copied.to_vec()?, samples, "the data must survive the device");
    Ok(())
}

/// One allocation and its free, as a C program would make them.
fn raw_pair(pool: &MemPool, stream: &Stream) {
    let functions = stream.driver().functions();
    let mut address = 0;
    // SAFETY: pool and stream are borrowed, and the allocation is used by nobody.
    unsafe {
        let allocated = (functions.cuMemAllocFromPoolAsync)(&raw mut address, BYTES, pool.as_raw(), stream.as_raw());
        assert_eq!(allocated.0, 0, "allocate");
        assert_eq!((functions.cuMemFreeAsync)(address, stream.as_raw()).0, 0, "free");
    }
}

/// The same by way of a buffer.
#[allow(clippy::panic, reason = "a measurement that fails has nothing else to say")]
fn buffer_pair(pool: &MemPool, stream: &Stream) {
    match pool.alloc::<u8, _>(BYTES, stream) {
        Ok(buffer) => drop(buffer),
        Err(error) => panic!("{error}"),
    }
}

fn measure(row: &str, pool: &MemPool, stream: &Stream, synchronise: bool) -> Result<()> {
    let slow = synchronise && pool.release_threshold()? == 0;
    let finish = || {
        if synchronise {
            assert_eq!(stream.synchronize(), Ok(()));
        }
    };
    let compared = measure::compare(
        21,
        if slow { 50 } else { 2000 },
        || {
            raw_pair(pool, stream);
            finish();
        },
        || {
            buffer_pair(pool, stream);
            finish();
        },
        || assert_eq!(stream.synchronize(), Ok(())),
    );
    let (raw, ours, ratio) = (compared.first_ns, compared.second_ns, compared.ratio);
    println!("{row:<46} {raw:>9.0} ns {ours:>9.0} ns {ratio:>8.3}");
    Ok(())
}

fn count(row: &str, pool: &MemPool, stream: &Stream, synchronise: bool, simulator: &Simulator) -> Result<()> {
    let calls = |pair: fn(&MemPool, &Stream)| -> Result<u64> {
        let before = simulator.call_count();
        pair(pool, stream);
        if synchronise {
            stream.synchronize()?;
        }
        Ok(simulator.call_count() - before)
    };
    println!("{row:<46} {:>12} {:>12}", calls(raw_pair)?, calls(buffer_pair)?);
    Ok(())
}

fn version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}
