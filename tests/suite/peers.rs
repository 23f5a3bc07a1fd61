//! Copies between devices.

use cupool::{Buffer, Context, Error, MemPool, MemPoolProperties, Stream};
use cupool_sim::{Simulator, Symbol};

use crate::fixture::{Fixture, POOL_SIZE};

/// Two devices, each with a context, a pool and a stream.
struct Two {
    _contexts: [Context; 2],
    pools: [MemPool; 2],
    streams: [Stream; 2],
}

fn two(fixture: &Fixture) -> Two {
    let devices = [0, 1].map(|ordinal| fixture.driver().device(ordinal).unwrap());
    let contexts = devices.map(|device| device.primary_context().unwrap());
    let properties = MemPoolProperties::new().max_size(POOL_SIZE);
    let pools = devices.map(|device| MemPool::with_properties(&device, &properties).unwrap());
    let streams = contexts.each_ref().map(|context| Stream::new(context).unwrap());
    Two { _contexts: contexts, pools, streams }
}

type Copy = fn(&mut Buffer<u32, &Stream>, &Buffer<u32, &Stream>) -> Result<(), Error>;
const COPIES: [Copy; 2] = [
    |target, source| target.copy_from(source.as_slice()),
    |target, source| target.as_mut_slice().copy_from_peer(source.as_slice()),
];

#[test]
fn i6_a_copy_between_devices_waits_for_the_source_and_the_source_for_it() {
    for seed in 0..20 {
        for copy in COPIES {
            let fixture = Fixture::with(Simulator::builder().devices(2).seed(seed));
            let Two { pools, streams, .. } = &two(&fixture);
            for (here, there) in [(0, 1), (1, 0)] {
                let mut source = pools[there].alloc::<u32, _>(1000, &streams[there]).unwrap();
                let mut target = pools[here].alloc::<u32, _>(1000, &streams[here]).unwrap();
                for round in 0..3 {
                    source.fill(round).unwrap();
                    copy(&mut target, &source).unwrap();
                    // Before the copy is done, and after it in order.
                    source.fill(100).unwrap();
                    assert_eq!(target.to_vec().unwrap(), [round; 1000]);
                }
                copy(&mut target, &source).unwrap();
                drop(source);
                drop(pools[there].alloc_zeroed::<u32, _>(1000, &streams[there]).unwrap());
                assert_eq!(target.to_vec().unwrap(), [100; 1000]);
            }
        }
    }
}

#[test]
fn i6_a_copy_between_devices_is_two_fences_and_one_call() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let Two { pools, streams, .. } = &two(&fixture);
    let mut target = pools[0].alloc_zeroed::<u32, _>(10, &streams[0]).unwrap();
    let source = pools[1].alloc_zeroed::<u32, _>(10, &streams[1]).unwrap();
    streams[0].wait_for(&streams[1]).unwrap();
    streams[1].wait_for(&streams[0]).unwrap();
    let fenced = |copy| {
        [Symbol::cuEventRecord, Symbol::cuStreamWaitEvent, copy, Symbol::cuEventRecord, Symbol::cuStreamWaitEvent]
    };
    fixture.expect_calls(&fenced(Symbol::cuMemcpyDtoDAsync), || target.copy_from(source.as_slice())).unwrap();
    fixture
        .expect_calls(&fenced(Symbol::cuMemcpyPeerAsync), || target.as_mut_slice().copy_from_peer(source.as_slice()))
        .unwrap();
}

#[test]
fn a_copy_between_peers_checks_its_arguments_before_any_call() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let Two { pools, streams, .. } = &two(&fixture);
    let mut target = pools[0].alloc::<u32, _>(10, &streams[0]).unwrap();
    let source = pools[1].alloc::<u32, _>(11, &streams[1]).unwrap();
    let mismatch = Err(Error::LengthMismatch { destination: 10, source_len: 11 });
    fixture.expect_calls(&[], || assert_eq!(target.as_mut_slice().copy_from_peer(source.as_slice()), mismatch));
    let (none, mut no) = (source.slice(..0).unwrap(), target.slice_mut(..0).unwrap());
    fixture.expect_calls(&[], || no.copy_from_peer(none).unwrap());
    let elsewhere = Fixture::simulated();
    let (pool, stream) = (elsewhere.pool(), elsewhere.stream());
    let foreign = pool.alloc::<u32, _>(10, &stream).unwrap();
    assert_eq!(target.as_mut_slice().copy_from_peer(foreign.as_slice()), Err(Error::DriverMismatch));
}

#[test]
fn a_copy_between_peers_works_on_one_device_too() {
    let fixture = Fixture::new();
    let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut source = pool.alloc::<u32, _>(1000, &other).unwrap();
    source.fill(3).unwrap();
    let mut target = pool.alloc_zeroed::<u32, _>(1000, &home).unwrap();
    target.as_mut_slice().copy_from_peer(source.as_slice()).unwrap();
    source.fill(4).unwrap();
    assert_eq!(target.to_vec().unwrap(), [3; 1000]);
}

#[test]
fn i7_devices_pools_streams_and_memory_may_be_dropped_in_any_order() {
    // Device 0's buffer holds a copy from device 1's, and neither its own context nor the other's is there any more.
    for reversed in [false, true] {
        let fixture = Fixture::with(Simulator::builder().devices(2));
        let mut buffers: Vec<Buffer<u32>> = Vec::new();
        let mut rest = two(&fixture);
        let streams = [0, 1].map(|at| {
            let device = fixture.driver().device(at).unwrap();
            std::sync::Arc::new(Stream::new(&device.primary_context().unwrap()).unwrap())
        });
        for (pool, stream) in rest.pools.iter().zip(&streams) {
            buffers.push(pool.alloc_zeroed(1000, std::sync::Arc::clone(stream)).unwrap());
        }
        let (first, second) = buffers.split_at_mut(1);
        first[0].copy_from(second[0].as_slice()).unwrap();
        second[0].copy_from(first[0].as_slice()).unwrap();
        if reversed {
            buffers.reverse();
            rest.pools.reverse();
        }
        drop((rest, streams));
        for buffer in buffers {
            buffer.free().unwrap();
        }
    }
}

/// Which of the two copies does it where the pools have granted nothing. Needs two GPUs: built with
/// `RUSTFLAGS="--cfg cupool_two_gpus"`, and run with `CUPOOL_TEST_DRIVER=real`.
#[cfg(cupool_two_gpus)]
#[test]
fn i6_copies_between_two_real_devices_arrive() {
    let fixture = Fixture::new();
    let Two { pools, streams, .. } = &two(&fixture);
    for (copy, name) in COPIES.iter().zip(["copy_from", "copy_from_peer"]) {
        for (here, there) in [(0, 1), (1, 0)] {
            let mut source = pools[there].alloc::<u32, _>(1 << 20, &streams[there]).unwrap();
            let mut target = pools[here].alloc_zeroed::<u32, _>(1 << 20, &streams[here]).unwrap();
            source.fill(5).unwrap();
            copy(&mut target, &source).unwrap_or_else(|error| panic!("{name}: {error}"));
            source.fill(6).unwrap();
            assert!(target.to_vec().unwrap() == [5; 1 << 20], "{name}, from {there} to {here}");
        }
    }
}
