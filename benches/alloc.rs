//! What a buffer costs over the two driver calls it stands for, on a real GPU.
//!
//! Alternating batches in one process: the same calls made raw through the function table, and by way of `Buffer`.
//! `cargo bench --bench alloc`; the method is in `benches/README.md`.

use std::process::ExitCode;

use cupool::{Driver, Error, MemPool, Result, Stream};

mod measure;

fn main() -> ExitCode {
    match Driver::load().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}\n\nThis bench measures a real driver; it has nothing to say without one.");
            ExitCode::FAILURE
        }
    }
}

fn run(driver: Driver) -> Result<()> {
    let device = driver.device(0)?;
    let context = device.primary_context()?;
    let stream = Stream::new(&context)?;
    let pool = MemPool::new(&device)?;
    println!("{}, CUDA driver {}", device.name()?, driver.version()?);
    println!("allocate + free on one stream, pool that keeps its memory; medians of 101 pairs of batches\n");
    println!("{:<12} {:<16} {:>10} {:>10} {:>8}", "bytes", "", "raw ns", "Buffer ns", "ratio");

    let functions = driver.functions();
    for bytes in [10, 4 << 10, 1 << 20, 64 << 20] {
        for synchronise in [false, true] {
            let finish = || {
                if synchronise {
                    assert_eq!(stream.synchronize(), Ok(()));
                }
            };
            let compared = measure::compare(
                101,
                2000,
                || {
                    let mut address = 0;
                    // SAFETY: pool and stream are live, and the allocation is used by nobody.
                    unsafe {
                        let allocated = (functions.cuMemAllocFromPoolAsync)(
                            &raw mut address,
                            bytes,
                            pool.as_raw(),
                            stream.as_raw(),
                        );
                        assert_eq!(allocated.0, 0);
                        assert_eq!((functions.cuMemFreeAsync)(address, stream.as_raw()).0, 0);
                    }
                    finish();
                },
                || {
                    match pool.alloc::<u8, _>(bytes, &stream) {
                        Ok(buffer) => drop(buffer),
                        Err(error) => failed(&error),
                    }
                    finish();
                },
                || assert_eq!(stream.synchronize(), Ok(())),
            );
            let then = if synchronise { "and synchronise" } else { "" };
            let (raw, ours, ratio) = (compared.first_ns, compared.second_ns, compared.ratio);
            println!("{bytes:<12} {then:<16} {raw:>10.1} {ours:>10.1} {ratio:>8.4}");
        }
    }
    Ok(())
}

#[cold]
fn failed(error: &Error) {
    println!("{error}");
    std::process::exit(1);
}
