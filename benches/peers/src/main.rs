//! cupool beside cudarc, in one process and in alternating batches: what a buffer costs to allocate and drop.
//!
//! Needs a GPU: `cargo run --release --manifest-path benches/peers/Cargo.toml`.

use std::error::Error;

use cudarc::driver::CudaContext;
use cupool::{Driver, MemPool, Stream};

#[path = "../../measure/mod.rs"]
mod measure;

fn main() -> Result<(), Box<dyn Error>> {
    let driver = Driver::load()?;
    let device = driver.device(0)?;
    println!("{}, CUDA driver {}", device.name()?, driver.version()?);
    println!("allocate + drop, ns (median of 21 batches; ratio is cudarc / cupool)\n");
    println!("{:<12} {:<22} {:>10} {:>10} {:>8}", "bytes", "", "cupool", "cudarc", "ratio");

    let context = device.primary_context()?;
    let stream = Stream::new(&context)?;
    let pool = MemPool::new(&device)?;
    let cudarc_context = CudaContext::new(0)?;
    let cudarc_stream = cudarc_context.new_stream()?;

    for bytes in [10, 4 << 10, 1 << 20, 64 << 20] {
        for synchronise in [false, true] {
            let compared = measure::compare(
                21,
                if synchronise { 100 } else { 2000 },
                || {
                    drop(pool.alloc::<u8, _>(bytes, &stream).expect("cupool allocates"));
                    if synchronise {
                        stream.synchronize().expect("cupool synchronises");
                    }
                },
                || {
                    // SAFETY: the memory is not read.
                    drop(unsafe { cudarc_stream.alloc::<u8>(bytes) }.expect("cudarc allocates"));
                    if synchronise {
                        cudarc_stream.synchronize().expect("cudarc synchronises");
                    }
                },
                || {
                    stream.synchronize().expect("cupool synchronises");
                    cudarc_stream.synchronize().expect("cudarc synchronises");
                },
            );
            let then = if synchronise { "and synchronise" } else { "" };
            let (ours, theirs, ratio) = (compared.first_ns, compared.second_ns, compared.ratio);
            println!("{bytes:<12} {then:<22} {ours:>10.0} {theirs:>10.0} {ratio:>8.2}");
        }
    }
    Ok(())
}
