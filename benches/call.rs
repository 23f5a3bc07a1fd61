//! What a call through the function table costs beside a call through a plain C function pointer.
//!
//! Both call one C function that does next to nothing, put in the simulated driver's table in place of
//! `cuDriverGetVersion`, so that what differs is only the way there.
//! `cargo bench --bench call`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use cupool::{Driver, cuda_sys::CUresult};
use cupool_sim::Simulator;

unsafe extern "C" fn version(version: *mut i32) -> CUresult {
    // SAFETY: every caller here passes a local variable.
    unsafe { *version = 13000 };
    CUresult::CUDA_SUCCESS
}

fn call(criterion: &mut Criterion) {
    let simulator = Simulator::new();
    let mut functions = *simulator.functions();
    functions.cuDriverGetVersion = version;
    let functions = &*Box::leak(Box::new(functions));
    // SAFETY: the simulator's functions behave as the driver's, and the simulator outlives their use here.
    let driver = unsafe { Driver::from_functions(functions) };
    let pointer = black_box(functions.cuDriverGetVersion);

    let mut group = criterion.benchmark_group("call");
    group.bench_function("C function pointer", |bencher| {
        let mut version = 0;
        // SAFETY: the out-parameter is a local variable.
        bencher.iter(|| unsafe { pointer(black_box(&raw mut version)) });
    });
    group.bench_function("function table", |bencher| {
        let mut version = 0;
        // SAFETY: as above.
        bencher.iter(|| unsafe { (black_box(functions).cuDriverGetVersion)(black_box(&raw mut version)) });
    });
    group.bench_function("safe layer", |bencher| bencher.iter(|| black_box(driver).version()));
    group.finish();
}

criterion_group!(benches, call);
criterion_main!(benches);
