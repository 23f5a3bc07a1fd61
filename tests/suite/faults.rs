//! Every driver call fails in turn, once and from then on: nothing panics, nothing is freed twice or too early, and
//! nothing is left behind but what the failed releases were to release.

use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use cupool::{Context, MemPool};
use cupool_sim::{CUresult, Symbol};

use crate::{
    fixture::{Fixture, Owned, owned},
    scenario,
};

const CODES: [u32; 7] = [1, 2, 4, 201, 700, 709, 9999];

/// The calls of the scenario when nothing fails.
fn calls() -> Vec<Symbol> {
    let (fixture, _context) = kept();
    assert_eq!(scenario::everything(fixture.driver()), []);
    let calls = fixture.sim().calls();
    assert_eq!(run(&fixture, "nothing fails"), Owned::default());
    assert!(calls.len() > 100, "the scenario has lost its operations: {}", calls.len());
    calls
}

/// What the failure of one call leaves behind; `later` are the calls that follow when it does not fail.
fn left_by(failed: Symbol, before: &[Symbol], later: &[Symbol]) -> Owned {
    let mut left = Owned::default();
    match failed {
        Symbol::cuMemFreeAsync if is_in_capture(before) => {}
        Symbol::cuGraphDestroy | Symbol::cuGraphExecDestroy => left.others = 1,
        Symbol::cuDevicePrimaryCtxRelease => left.retains = 1,
        Symbol::cuCtxPopCurrent => left.pushed_contexts = 1,
        Symbol::cuStreamDestroy => left.streams = 1,
        Symbol::cuEventDestroy => left.events = 1,
        Symbol::cuMemPoolDestroy => left.pools = 1,
        Symbol::cuMemFreeAsync => left.allocations = 1,
        Symbol::cuMemFreeHost => left.host_allocations = 1,
        Symbol::cuMemHostUnregister => left.others = 1,
        // Without it, what was to be released in the context stays.
        Symbol::cuCtxPushCurrent => {
            for call in later.iter().take_while(|call| **call != Symbol::cuCtxPopCurrent) {
                left.host_allocations += usize::from(*call == Symbol::cuMemFreeHost);
                left.events += usize::from(*call == Symbol::cuEventDestroy);
                left.others += usize::from(*call == Symbol::cuMemHostUnregister);
            }
        }
        _ => {}
    }
    left
}

/// Whether these calls have begun a capture and not ended it.
fn is_in_capture(calls: &[Symbol]) -> bool {
    let last =
        calls.iter().rev().find(|call| matches!(call, Symbol::cuStreamBeginCapture | Symbol::cuStreamEndCapture));
    last == Some(&Symbol::cuStreamBeginCapture)
}

/// What is alive after these calls.
fn made_by(calls: &[Symbol]) -> Owned {
    // What a graph allocates is not there before it is launched.
    let of_graph = |at: usize| {
        matches!(calls[at], Symbol::cuMemAllocFromPoolAsync | Symbol::cuMemFreeAsync) && is_in_capture(&calls[..at])
    };
    let calls: Vec<Symbol> = (0..calls.len()).filter(|at| !of_graph(*at)).map(|at| calls[at]).collect();
    let count = |symbol| calls.iter().filter(|call| **call == symbol).count();
    Owned {
        retains: (count(Symbol::cuDevicePrimaryCtxRetain) - count(Symbol::cuDevicePrimaryCtxRelease)) as u64,
        pushed_contexts: count(Symbol::cuCtxPushCurrent) - count(Symbol::cuCtxPopCurrent),
        streams: count(Symbol::cuStreamCreateWithPriority) - count(Symbol::cuStreamDestroy),
        events: count(Symbol::cuEventCreate) - count(Symbol::cuEventDestroy),
        pools: count(Symbol::cuMemPoolCreate) - count(Symbol::cuMemPoolDestroy),
        allocations: count(Symbol::cuMemAllocFromPoolAsync) + count(Symbol::cuMemAllocAsync)
            - count(Symbol::cuMemFreeAsync),
        host_allocations: count(Symbol::cuMemHostAlloc) - count(Symbol::cuMemFreeHost),
        others: count(Symbol::cuMemHostRegister) - count(Symbol::cuMemHostUnregister)
            + count(Symbol::cuStreamEndCapture)
            - count(Symbol::cuGraphDestroy)
            + count(Symbol::cuGraphInstantiateWithFlags)
            - count(Symbol::cuGraphExecDestroy),
    }
}

/// A driver whose calls are counted from here on, and a retain that keeps the device's context: it would take
/// everything with it, also what was not released.
fn kept() -> (Fixture, Context) {
    let fixture = Fixture::unchecked();
    let context = fixture.context();
    fixture.sim().reset_log();
    (fixture, context)
}

/// Runs the scenario under faults, looks at its errors, and says what it left behind.
fn run(fixture: &Fixture, what: &str) -> Owned {
    for (operation, error) in scenario::everything(fixture.driver()) {
        assert!(!error.to_string().is_empty() && !format!("{error:?}").is_empty(), "{what}, {operation}");
    }
    fixture.sim().clear_faults();
    // Pools end when their last memory is free. (A capture whose end has failed goes on, and keeps everybody from waiting.)
    let waited = fixture.context().synchronize();
    let waiting = MemPool::destroy_dropped(fixture.driver()).unwrap();
    fixture.assert_no_findings();
    let mut left = owned(&fixture.sim().live());
    left.retains -= 1;
    // What could not be freed keeps its pool.
    assert!(waited.is_err() || waiting <= left.allocations, "{what}: {waiting} pools wait");
    left.pools -= waiting;
    left
}

#[test]
fn each_call_fails_once() {
    let calls = calls();
    for (index, symbol) in calls.iter().copied().enumerate() {
        for code in CODES {
            let what = format!("call {index}, {symbol:?}, answers {code}");
            let (fixture, _context) = kept();
            fixture.sim().fail_call(index as u64, CUresult(code));
            let left = run(&fixture, &what);
            assert_eq!(fixture.sim().calls().get(index), Some(&symbol), "{what}");
            // A staging block that seems to have gone with its context is given up.
            let block = Owned { events: 1, host_allocations: 1, ..Owned::default() };
            if symbol == Symbol::cuEventQuery && matches!(code, 4 | 709) && left == block {
                continue;
            }
            assert_eq!(left, left_by(symbol, &calls[..index], &calls[index + 1..]), "{what}");
        }
    }
}

#[test]
fn each_call_and_all_later_ones_fail() {
    let calls = calls();
    for (index, symbol) in calls.iter().enumerate() {
        for code in CODES {
            let what = format!("call {index}, {symbol:?}, and all later ones answer {code}");
            let (fixture, _context) = kept();
            fixture.sim().fail_from(index as u64, CUresult(code));
            let mut expected = made_by(&calls[..index]);
            // Pools whose memory cannot be asked about wait until it can; only what had been asked is lost.
            expected.pools = usize::from(*symbol == Symbol::cuMemPoolDestroy);
            assert_eq!(run(&fixture, &what), expected, "{what}");
        }
    }
}

#[test]
fn each_entry_point_fails_whenever_it_is_called() {
    for symbol in Symbol::ALL {
        for code in CODES {
            let what = format!("{symbol:?} always answers {code}");
            let (fixture, _context) = kept();
            fixture.sim().fail_every(*symbol, CUresult(code));
            run(&fixture, &what);
        }
    }
}

#[test]
fn a_driver_that_shuts_down_at_any_point_ends_nothing_else() {
    let calls = calls();
    for index in 0..calls.len() {
        let fixture = Fixture::unchecked();
        fixture.sim().fail_from(index as u64, CUresult::CUDA_ERROR_DEINITIALIZED);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            scenario::everything(fixture.driver());
            resume_unwind(Box::new(()))
        }));
        let payload: Box<dyn Any + Send> = unwound.map(|never: ()| never).unwrap_err();
        assert!(payload.is::<()>());
    }
}

#[test]
fn after_a_failure_the_driver_works_as_before() {
    for (index, symbol) in calls().into_iter().enumerate() {
        let fixture = Fixture::unchecked();
        fixture.sim().fail_call(index as u64, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        scenario::everything(fixture.driver());
        assert_eq!(scenario::everything(fixture.driver()), [], "after call {index}, {symbol:?}, failed");
    }
}
