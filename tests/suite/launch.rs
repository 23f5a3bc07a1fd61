//! Kernels: a real one as PTX, which the simulated driver knows by its name.

use std::sync::Arc;

use cupool::{
    Error, Graph, InstantiateOptions,
    launch::{ByValue, Function, LaunchConfig, Module},
};
use cupool_sim::{CUresult, KernelAccess, Symbol};

use crate::{
    fixture::{Fixture, owned},
    gate::Gate,
};

/// `add(out, in, n, value)`: out[i] = in[i] + value for i below n.
const PTX: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 p0, .param .u64 p1, .param .u32 p2, .param .u32 p3)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    ld.param.u32 %r1, [p2];
    ld.param.u32 %r2, [p3];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.u32 %rd5, %r6, 4;
    add.s64 %rd6, %rd4, %rd5;
    add.s64 %rd7, %rd3, %rd5;
    ld.global.u32 %r7, [%rd6];
    add.u32 %r7, %r7, %r2;
    st.global.u32 [%rd7], %r7;
DONE:
    ret;
}
";

/// What the PTX does.
fn add(kernel: &mut KernelAccess<'_>) {
    let [out, source, n, value] = [0, 1, 2, 3].map(|at| kernel.parameter_u64(at));
    let threads = u64::from(kernel.grid()[0]) * u64::from(kernel.block()[0]);
    for at in 0..n.min(threads) {
        let read = kernel.read(source + 4 * at, 4);
        let sum = u32::from_ne_bytes(read.try_into().unwrap()).wrapping_add(value as u32);
        kernel.write(out + 4 * at, &sum.to_ne_bytes());
    }
}

fn kernel(fixture: &Fixture) -> Function {
    if let Some(simulator) = fixture.simulator() {
        simulator.register_kernel("add", &[8, 8, 4, 4], add);
    }
    Module::from_ptx(&fixture.context(), PTX).unwrap().function("add").unwrap()
}

#[test]
fn a_kernel_reads_and_writes_the_memory_that_it_is_given() {
    let fixture = Fixture::new();
    let (pool, stream, add) = (fixture.pool(), fixture.stream(), kernel(&fixture));
    let source = pool.alloc_from_host(&(0..1000).collect::<Vec<u32>>(), &stream).unwrap();
    let mut target = pool.alloc_zeroed::<u32, _>(1000, &stream).unwrap();
    let config = LaunchConfig::for_elements(1000, 256);
    // SAFETY: the arguments are as the kernel has them, and it stays within their bounds.
    unsafe { add.launch(&stream, config, &(&mut target, &source, 1000_u32, 5_u32)) }.unwrap();
    assert!(target.to_vec().unwrap().into_iter().eq(5..1005));
    // Parts of buffers, as views.
    let (view, part) = (target.slice_mut(100..200).unwrap(), source.slice(..100).unwrap());
    // SAFETY: as above.
    unsafe { add.launch(&stream, LaunchConfig::for_elements(100, 32), &(view, part, 100_u32, 0_u32)) }.unwrap();
    let values = target.to_vec().unwrap();
    assert_eq!((values[99], values[100], values[199], values[200]), (104, 0, 99, 205));
}

#[test]
fn a_launch_at_home_is_one_call_and_one_with_foreign_memory_is_fenced() {
    let fixture = Fixture::simulated();
    let (pool, stream, other, add) = (fixture.pool(), fixture.stream(), fixture.stream(), kernel(&fixture));
    let mut target = pool.alloc_zeroed::<u32, _>(10, &stream).unwrap();
    let near = pool.alloc_zeroed::<u32, _>(10, &stream).unwrap();
    let far = pool.alloc_zeroed::<u32, _>(10, &other).unwrap();
    stream.wait_for(&other).unwrap();
    other.wait_for(&stream).unwrap();
    let config = LaunchConfig::for_elements(10, 32);
    fixture.expect_calls(&[Symbol::cuLaunchKernel], || {
        // SAFETY: the arguments are as the kernel has them, and it stays within their bounds.
        unsafe { add.launch(&stream, config, &(&mut target, &near, 10_u32, 1_u32)) }.unwrap();
    });
    let fence = [Symbol::cuEventRecord, Symbol::cuStreamWaitEvent];
    fixture.expect_calls(&[&fence[..], &[Symbol::cuLaunchKernel], &fence].concat(), || {
        // SAFETY: as above.
        unsafe { add.launch(&stream, config, &(&mut target, &far, 10_u32, 1_u32)) }.unwrap();
    });
}

#[test]
fn a_launch_with_foreign_memory_comes_between_what_its_home_has_and_gets() {
    let fixture = Fixture::alone();
    let (pool, stream, other, add) = (fixture.pool(), fixture.stream(), fixture.stream(), kernel(&fixture));
    let mut source = pool.alloc::<u32, _>(1000, &other).unwrap();
    let mut target = pool.alloc_zeroed::<u32, _>(1000, &stream).unwrap();
    source.fill(1).unwrap();
    let gate = Gate::on(&fixture, &other);
    source.fill(2).unwrap();
    let config = LaunchConfig::for_elements(1000, 256);
    // SAFETY: the arguments are as the kernel has them, and it stays within their bounds.
    unsafe { add.launch(&stream, config, &(&mut target, &source, 1000_u32, 40_u32)) }.unwrap();
    source.fill(3).unwrap();
    drop(source);
    drop(pool.alloc_zeroed::<u32, _>(1000, &other).unwrap());
    fixture.assert_pending(&stream);
    gate.open();
    assert_eq!(target.to_vec().unwrap(), [42; 1000]);
}

#[test]
fn loans_are_arguments() {
    let fixture = Fixture::new();
    let (pool, home, other, add) = (fixture.pool(), fixture.stream(), fixture.stream(), kernel(&fixture));
    let mut target = pool.alloc_zeroed::<u32, _>(100, &home).unwrap();
    let source = pool.alloc_from_host(&[7_u32; 100], &home).unwrap();
    {
        let mut exclusive = target.on(&other).unwrap();
        let shared = source.read_on(&other).unwrap();
        let config = LaunchConfig::for_elements(100, 64);
        // SAFETY: the arguments are as the kernel has them, and it stays within their bounds.
        unsafe { add.launch(&other, config, &(&mut exclusive, &shared, 100_u32, 1_u32)) }.unwrap();
    }
    assert_eq!(target.to_vec().unwrap(), [8; 100]);
}

#[test]
fn a_function_keeps_its_module_loaded_and_the_last_unloads_it() {
    let fixture = Fixture::simulated();
    fixture.sim().register_kernel("add", &[8, 8, 4, 4], add);
    let module = Module::from_ptx(&fixture.context(), PTX).unwrap();
    let first = module.function("add").unwrap();
    let second = first.clone();
    drop((module, first));
    assert_eq!(fixture.sim().live().modules, 1);
    fixture.expect_calls(
        &[Symbol::cuCtxPushCurrent, Symbol::cuModuleUnload, Symbol::cuCtxPopCurrent, Symbol::cuDevicePrimaryCtxRelease],
        || drop(second),
    );
}

#[test]
fn what_cannot_be_loaded_or_found_is_an_error() {
    let fixture = Fixture::new();
    let context = fixture.context();
    assert_eq!(Module::from_ptx(&context, ".version 7.0\n\0inside").unwrap_err(), Error::InteriorNul);
    // The driver would take some text for a binary, and read what is not there.
    for text in ["", "// only a comment", "/* open", "\u{7f}ELF\u{2}\u{1}\u{1}3", "version 7.0", "\0"] {
        assert_eq!(Module::from_ptx(&context, text).unwrap_err(), Error::NotPtx, "{text:?}");
    }
    assert!(Module::from_ptx(&context, &format!(" \n// one\n/* two\n */ {PTX}")).is_ok());
    let add = kernel(&fixture);
    let module = Module::from_ptx(&context, PTX).unwrap();
    assert_eq!(module.function("subtract").unwrap_err().code(), Some(CUresult::CUDA_ERROR_NOT_FOUND));
    assert_eq!(module.function("a\0dd").unwrap_err(), Error::InteriorNul);
    drop(add);
}

#[test]
fn a_launch_of_another_drivers_function_is_refused() {
    let (one, other) = (Fixture::simulated(), Fixture::simulated());
    let (add, there) = (kernel(&one), other.stream());
    // SAFETY: nothing is launched.
    let answer = unsafe { add.launch(&there, LaunchConfig::for_elements(0, 0), &(0_u64, 0_u64, 0_u32, 0_u32)) };
    assert_eq!(answer, Err(Error::DriverMismatch));
}

#[test]
fn every_release_of_a_module_that_fails_leaves_the_rest() {
    let fixture = Fixture::unchecked();
    let context = fixture.context();
    let shared = Arc::new(kernel(&fixture));
    fixture.sim().fail(Symbol::cuModuleUnload, 0, CUresult::CUDA_ERROR_UNKNOWN);
    drop(shared);
    drop(context);
    assert_eq!(owned(&fixture.sim().live()).retains, 0);
    fixture.assert_no_findings();
}

#[test]
fn a_configuration_has_a_thread_for_each_element() {
    for (elements, block, blocks) in [(0, 256, 1), (1, 256, 1), (256, 256, 1), (257, 256, 2), (10, 0, 10)] {
        let config = LaunchConfig::for_elements(elements, block);
        assert_eq!((config.grid, config.block[1..].to_vec()), ([blocks, 1, 1], vec![1, 1]), "{elements} by {block}");
        assert!(config.grid[0] * config.block[0] >= elements.max(1));
    }
    assert_eq!(LaunchConfig::for_elements(u32::MAX, 1024).grid, [1 << 22, 1, 1]);
}

/// `store(out, three, flag)`: writes the members of a structure, and a `bool`.
const STORE: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry store(.param .u64 p0, .param .align 4 .b8 p1[12], .param .u8 p2)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p0];
    cvta.to.global.u64 %rd2, %rd1;
    ld.param.u32 %r1, [p1];
    ld.param.u32 %r2, [p1+4];
    ld.param.u32 %r3, [p1+8];
    ld.param.u8 %r4, [p2];
    st.global.u32 [%rd2], %r1;
    st.global.u32 [%rd2+4], %r2;
    st.global.u32 [%rd2+8], %r3;
    st.global.u32 [%rd2+12], %r4;
    ret;
}
";

#[test]
fn structures_and_truth_values_are_passed_as_they_are() {
    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    struct Three {
        first: u32,
        second: f32,
        third: i32,
    }
    let fixture = Fixture::new();
    if let Some(simulator) = fixture.simulator() {
        simulator.register_kernel("store", &[8, 12, 1], |kernel| {
            let (out, three, flag) = (kernel.parameter_u64(0), kernel.parameter(1).to_vec(), kernel.parameter_u64(2));
            kernel.write(out, &[three, (flag as u32).to_le_bytes().to_vec()].concat());
        });
    }
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let function = Module::from_ptx(&fixture.context(), STORE).unwrap().function("store").unwrap();
    let mut out = pool.alloc_zeroed::<u32, _>(4, &stream).unwrap();
    let three = ByValue(Three { first: 7, second: 0.5, third: -3 });
    // SAFETY: the kernel's parameters are of these types, and it writes four elements.
    unsafe { function.launch(&stream, LaunchConfig::for_elements(1, 1), &(&mut out, three, true)) }.unwrap();
    assert_eq!(out.to_vec().unwrap(), [7, 0.5_f32.to_bits(), (-3_i32).cast_unsigned(), 1]);
}

#[test]
fn a_kernel_in_a_graph_takes_views_of_the_capture_and_nothing_of_other_homes() {
    let fixture = Fixture::alone();
    let (pool, stream, add) = (fixture.pool(), fixture.stream(), kernel(&fixture));
    let source = pool.alloc_from_host(&[1_u32; 1000], &stream).unwrap();
    let mut target = pool.alloc_zeroed::<u32, _>(1000, &stream).unwrap();
    let mut elsewhere = pool.alloc_zeroed::<u32, _>(1000, &stream).unwrap();
    let config = LaunchConfig::for_elements(1000, 256);
    // Code is loaded when it is first launched, which a capture might not allow.
    // SAFETY: the arguments are as the kernel has them, and it stays within their bounds.
    unsafe { add.launch(&stream, config, &(&mut elsewhere, &source, 1000_u32, 0_u32)) }.unwrap();
    let (graph, ()) = Graph::capture(&fixture.context(), |capture| {
        let mut own = capture.alloc::<u32>(&pool, 1000)?;
        let mut target = capture.slice_mut(target.as_mut_slice())?;
        // SAFETY: as above.
        unsafe {
            let given = capture.slice(source.as_slice())?;
            add.launch(capture.stream(), config, &(own.as_mut_slice(), given, 1000_u32, 5_u32))?;
            add.launch(capture.stream(), config, &(target.reborrow(), own.as_slice(), 1000_u32, 10_u32))?;
            let refused = add.launch(capture.stream(), config, &(&mut elsewhere, given, 1000_u32, 5_u32));
            assert_eq!(refused, Err(Error::StreamCapturing));
            let refused = add.launch(&stream, config, &(&mut elsewhere, own.as_slice(), 1000_u32, 5_u32));
            assert_eq!(refused, Err(Error::StreamCapturing));
        }
        own.free()
    })
    .unwrap();
    let mut exec = graph.instantiate(InstantiateOptions { use_node_priority: true, ..Default::default() }).unwrap();
    for _ in 0..10 {
        target.fill(0).unwrap();
        // SAFETY: both buffers are at home on this stream, and outlive the launches.
        unsafe { exec.launch(&stream) }.unwrap();
        assert_eq!(target.to_vec().unwrap(), [16; 1000]);
    }
    assert_eq!(elsewhere.to_vec().unwrap(), [1; 1000]);
}
