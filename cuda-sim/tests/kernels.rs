//! Kernels and the memory they are given: what they mean by an address, and how their uses are ordered.
#![allow(clippy::unwrap_used, reason = "this is test code")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]

mod rig;

use core::{ffi::c_void, ptr};

use cuda_sys::*;
use cupool_sim::{Misuse, Simulator};
use rig::{OK, Rig};

/// A kernel that copies 8 bytes from one pointer to another.
fn copier(rig: &Rig) -> CUfunction {
    rig.sim.register_kernel("copy", &[8, 8], |kernel| {
        let (to, from) = (kernel.parameter_u64(0), kernel.parameter_u64(1));
        let bytes = kernel.read(from, 8);
        kernel.write(to, &bytes);
    });
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    unsafe {
        assert_eq!((rig.cuda.cuModuleLoadData.unwrap())(&mut module, c".version 8.0".as_ptr().cast()), OK);
        assert_eq!((rig.cuda.cuModuleGetFunction.unwrap())(&mut function, module, c"copy".as_ptr()), OK);
    }
    function
}

fn launch(rig: &Rig, function: CUfunction, mut to: u64, mut from: u64, stream: CUstream) {
    let mut parameters: [*mut c_void; 2] = [(&raw mut to).cast(), (&raw mut from).cast()];
    let launch = rig.cuda.cuLaunchKernel.unwrap();
    let code = unsafe { launch(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters.as_mut_ptr(), ptr::null_mut()) };
    assert_eq!(code, OK);
}

#[test]
fn memory_freed_behind_a_launch_and_allocated_again_is_still_there_for_it() {
    for seed in 0..20 {
        let rig = Rig::with(Simulator::builder().seed(seed));
        let (stream, pool, copy) = (rig.stream(), rig.pool(), copier(&rig));
        let (to, from) = (rig.alloc(8, pool, stream).unwrap(), rig.alloc(8, pool, stream).unwrap());
        assert_eq!(rig.fill(from, 7, 8, stream), OK);
        launch(&rig, copy, to, from, stream);
        assert_eq!(rig.free(from, stream), OK);
        assert_eq!(rig.alloc(8, pool, stream).unwrap(), from);
        assert_eq!(rig.fill(from, 9, 8, stream), OK);
        assert_eq!(rig.download(to, 8, stream), [7; 8]);
        assert!(rig.sim.findings().is_empty(), "{:?}", rig.sim.findings());
    }
}

#[test]
fn a_pointer_that_lies_in_memory_means_what_it_meant_at_the_launch() {
    let rig = Rig::with(Simulator::builder());
    rig.sim.register_kernel("chase", &[8, 8], |kernel| {
        let (to, at) = (kernel.parameter_u64(0), kernel.parameter_u64(1));
        let next = kernel.read(at, 8);
        let bytes = kernel.read(u64::from_le_bytes(next.try_into().unwrap()), 8);
        kernel.write(to, &bytes);
    });
    let (stream, pool) = (rig.stream(), rig.pool());
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    unsafe {
        assert_eq!((rig.cuda.cuModuleLoadData.unwrap())(&mut module, c".version 8.0".as_ptr().cast()), OK);
        assert_eq!((rig.cuda.cuModuleGetFunction.unwrap())(&mut function, module, c"chase".as_ptr()), OK);
    }
    let [to, at, value] = [0; 3].map(|_| rig.alloc(8, pool, stream).unwrap());
    assert_eq!(rig.upload(at, &value.to_le_bytes(), stream), OK);
    assert_eq!(rig.fill(value, 5, 8, stream), OK);
    launch(&rig, function, to, at, stream);
    assert_eq!(rig.free(value, stream), OK);
    assert_eq!(rig.alloc(8, pool, stream).unwrap(), value);
    assert_eq!(rig.download(to, 8, stream), [5; 8]);
    assert!(rig.sim.findings().is_empty(), "{:?}", rig.sim.findings());
}

#[test]
fn a_kernel_and_other_work_without_order_are_found() {
    for seed in 0..50 {
        let rig = Rig::with(Simulator::builder().seed(seed));
        let (a, b, pool, copy) = (rig.stream(), rig.stream(), rig.pool(), copier(&rig));
        let (to, from) = (rig.alloc(8, pool, a).unwrap(), rig.alloc(8, pool, a).unwrap());
        assert_eq!(rig.sync(a), OK);
        launch(&rig, copy, to, from, b);
        assert_eq!(rig.fill(from, 1, 8, a), OK);
        assert_eq!((rig.sync(a), rig.sync(b)), (OK, OK));
        assert_eq!(rig.misuses(), [Misuse::DataRace]);
    }
}

#[test]
fn memory_freed_without_order_after_a_kernel_is_found() {
    for seed in 0..50 {
        let rig = Rig::with(Simulator::builder().seed(seed));
        let (a, b, pool, copy) = (rig.stream(), rig.stream(), rig.pool(), copier(&rig));
        let (to, from) = (rig.alloc(8, pool, a).unwrap(), rig.alloc(8, pool, a).unwrap());
        assert_eq!(rig.sync(a), OK);
        launch(&rig, copy, to, from, b);
        assert_eq!(rig.free(from, a), OK);
        assert_eq!((rig.sync(a), rig.sync(b)), (OK, OK));
        let found = rig.misuses();
        assert!(matches!(found[..], [Misuse::UseAfterFree | Misuse::UnorderedFree]), "seed {seed}: {found:?}");
    }
}

#[test]
fn kernels_use_pinned_memory_by_its_address() {
    let rig = Rig::with(Simulator::builder());
    let (stream, copy) = (rig.stream(), copier(&rig));
    let (pinned, pointer) = (rig.pinned(16), rig.alloc(8, rig.pool(), stream).unwrap());
    unsafe { pinned.write_bytes(4, 16) };
    let address = pinned.expose_provenance() as u64;
    launch(&rig, copy, pointer, address, stream);
    assert_eq!(rig.fill(pointer, 6, 4, stream), OK);
    launch(&rig, copy, address + 8, pointer, stream);
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(unsafe { pinned.add(8).cast::<[u8; 8]>().read() }, [6, 6, 6, 6, 4, 4, 4, 4]);
    assert_eq!(unsafe { (rig.cuda.cuMemFreeHost.unwrap())(pinned.cast()) }, OK);
    assert!(rig.sim.findings().is_empty(), "{:?}", rig.sim.findings());
}
