//! Calls that are accepted and order nothing.
#![allow(clippy::unwrap_used, reason = "this is test code")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]

mod rig;

use cupool_sim::{Misuse, Simulator, Symbol};
use rig::{OK, Rig, rig};

/// A use on another stream, with everything done to order it.
fn ordered(rig: &Rig, ignored: Symbol) -> Vec<Misuse> {
    let (a, b, event) = (rig.stream(), rig.stream(), rig.event(2));
    let pointer = rig.alloc(64, rig.pool(), a).unwrap();
    rig.sim.ignore_every(ignored);
    assert_eq!(rig.record(event, a), OK);
    assert_eq!(rig.wait(b, event), OK);
    assert_eq!(rig.fill(pointer, 1, 64, b), OK);
    assert_eq!(rig.sync(b), OK);
    assert_eq!(rig.free(pointer, a), OK);
    rig.sim.clear_faults();
    assert_eq!((rig.sync(a), rig.sync(b)), (OK, OK));
    rig.misuses()
}

#[test]
fn nothing_is_found_unless_something_is_ignored() {
    assert_eq!(ordered(&rig(), Symbol::cuDeviceGetCount), []);
}

#[test]
fn a_wait_a_record_and_a_synchronisation_are_missed() {
    use Misuse::{UnorderedFree, UnorderedUse, UseAfterFree, UseBeforeAllocation};
    for seed in 0..50 {
        let rig = || Rig::with(Simulator::builder().seed(seed));
        for symbol in [Symbol::cuStreamWaitEvent, Symbol::cuEventRecord] {
            let found = ordered(&rig(), symbol);
            assert!(matches!(found[..], [UseBeforeAllocation | UnorderedUse]), "{found:?}");
        }
        let found = ordered(&rig(), Symbol::cuStreamSynchronize);
        assert!(matches!(found[..], [UseAfterFree | UnorderedFree]), "{found:?}");
    }
}

#[test]
fn only_the_call_that_is_meant_is_ignored() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    rig.alloc(64, pool, stream).unwrap();
    rig.sim.ignore(Symbol::cuStreamSynchronize, 1);
    rig.sim.ignore(Symbol::cuStreamQuery, 0);
    assert_eq!(rig.query(stream), OK);
    assert_eq!(rig.sim.live().pending_operations, 1);
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(rig.sim.live().pending_operations, 0);
    rig.alloc(64, pool, stream).unwrap();
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(rig.sim.live().pending_operations, 1);
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(rig.sim.live().pending_operations, 0);
    assert_eq!(rig.sim.count(Symbol::cuStreamSynchronize), 3);
}

#[test]
fn an_allocation_and_a_free_outside_their_streams_order_are_found() {
    use Misuse::{UnorderedFree, UnorderedUse, UseAfterFree, UseBeforeAllocation};
    for seed in 0..50 {
        let rig = Rig::with(Simulator::builder().seed(seed));
        let (stream, pool) = (rig.stream(), rig.pool());
        rig.sim.ignore(Symbol::cuMemAllocFromPoolAsync, 0);
        let pointer = rig.alloc(64, pool, stream).unwrap();
        assert_eq!(rig.fill(pointer, 1, 64, stream), OK);
        assert_eq!(unsafe { (rig.cuda.cuCtxSynchronize.unwrap())() }, OK);
        let found = rig.misuses();
        assert!(matches!(found[..], [UseBeforeAllocation | UnorderedUse]), "{found:?}");

        assert_eq!(rig.fill(pointer, 1, 64, stream), OK);
        rig.sim.ignore(Symbol::cuMemFreeAsync, 0);
        assert_eq!(rig.free(pointer, stream), OK);
        assert_eq!(unsafe { (rig.cuda.cuCtxSynchronize.unwrap())() }, OK);
        let found = rig.misuses();
        assert!(matches!(found[..], [UseAfterFree | UnorderedFree]), "{found:?}");
        assert_eq!(rig.sim.live().allocations, 0);
    }
}
