//! What the way to a driver's function costs, with stand-ins that do next to nothing, so that only the way is measured:
//! a call through a plain C function pointer, through the function table and by way of the safe layer, and an allocation
//! with its free, raw and by way of `Buffer`. Runs anywhere.

use std::{hint::black_box, process::ExitCode};

use cupool::{
    Driver, MemPool,
    cuda_sys::{CUdeviceptr_v2, CUmemoryPool, CUresult, CUstream, Functions},
};
use cupool_sim::Simulator;

#[path = "measure/bench.rs"]
mod bench;

use bench::{
    Bench, Result, Row,
    raw::{Raw, must},
};

unsafe extern "C" fn version(version: *mut i32) -> CUresult {
    // SAFETY: every caller here passes a local variable.
    unsafe { *version = 13000 };
    CUresult::CUDA_SUCCESS
}

unsafe extern "C" fn allocate(address: *mut CUdeviceptr_v2, _: usize, _: CUmemoryPool, _: CUstream) -> CUresult {
    // SAFETY: every caller here passes a local variable.
    unsafe { *address = 0x1000 };
    CUresult::CUDA_SUCCESS
}

unsafe extern "C" fn free(_: CUdeviceptr_v2, _: CUstream) -> CUresult {
    CUresult::CUDA_SUCCESS
}

fn main() -> ExitCode {
    let simulator = Simulator::new();
    let mut functions = *simulator.functions();
    functions.cuDriverGetVersion = version;
    functions.cuMemAllocFromPoolAsync = allocate;
    functions.cuMemFreeAsync = free;
    let functions = &*Box::leak(Box::new(functions));
    // SAFETY: the simulator's functions behave as the driver's, and the simulator lives to the end; nobody touches what
    // the stand-ins hand out.
    let driver = || unsafe { Driver::from_functions(functions) };
    bench::main_anywhere("ffi_overhead", driver, |bench| run(bench, functions))
}

fn run(bench: &mut Bench, functions: &Functions) -> Result {
    const MOST: u64 = 1_000_000;
    let driver = bench.driver;
    let pointer = black_box(functions.cuDriverGetVersion);
    let (mut first, mut second) = (0, 0);
    bench.row(
        Row::new("call", || {})
            .with("what", "call")
            .most(MOST)
            .raw("C function pointer", || {
                // SAFETY: the out-parameter is a local variable.
                black_box(unsafe { pointer(black_box(&raw mut first)) });
            })
            .raw("function table", || {
                // SAFETY: as above.
                black_box(unsafe { (black_box(functions).cuDriverGetVersion)(black_box(&raw mut second)) });
            })
            .cupool("as it comes", || {
                let _ = black_box(black_box(driver).version());
            }),
    );

    let stream = bench.stream()?;
    let pool = MemPool::new(&bench.device)?;
    bench.row(
        Row::new("allocate and free", || {})
            .with("what", "allocate and free")
            .most(MOST)
            .raw("function table", || {
                let raw = Raw::new(black_box(&pool), black_box(&stream));
                raw.free(raw.allocate(black_box(10)));
            })
            .cupool("as it comes", || drop(must(black_box(&pool).alloc::<u8, _>(black_box(10), black_box(&stream))))),
    );
    Ok(())
}
