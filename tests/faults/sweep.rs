//! Runs a scenario under every fault, and looks at what it came to.

use core::cell::Cell;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use cupool::{Context, Driver, Error, MemPool, PinnedBuffer, Result, Stream, cuda_sys::CUstreamCaptureMode};
use cupool_sim::{CUresult, Simulator, Symbol};

use super::{
    left::{Left, is_first_exchange},
    world::{Base, Body, Scenario, Unwound, World, limited},
};

/// One of each kind: the call's own fault, no memory, a driver that is over, no context, a handle, not ready, a fault of
/// the device, a context that is gone, not supported, in a capture, and a code that no header names.
pub(crate) const CODES: [u32; 11] = [1, 2, 4, 201, 400, 600, 700, 709, 801, 901, 12345];

/// What comes of a sweep.
#[derive(Default)]
pub(crate) struct Swept {
    pub(crate) runs: usize,
    pub(crate) troubles: Vec<String>,
}

/// How calls fail in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Once,
    FromThenOn,
    /// From then on, and the caller panics at the first error.
    Unwinding,
}

/// A run: which calls fail, and with what.
#[derive(Clone, Copy)]
struct Fault {
    index: usize,
    code: u32,
    mode: Mode,
}

/// What a run came to.
struct Outcome {
    errors: Vec<Error>,
    reported: u64,
    calls: Vec<Symbol>,
    /// Of everything but pools, which end when their memory is free.
    left: Left,
    /// Pools that will never end.
    lost_pools: i64,
    trouble: Option<String>,
}

thread_local! {
    static REPORTED: Cell<u64> = const { Cell::new(0) };
}

/// Has failed releases counted, on the thread that they happen on.
pub(crate) fn count_reports() {
    cupool::set_release_hook(Some(|error| {
        assert!(!error.to_string().is_empty());
        REPORTED.set(REPORTED.get() + 1);
    }));
}

/// Sweeps one scenario; `loud` names each run before it starts, for one that ends the process.
pub(crate) fn sweep(scenario: &Scenario, loud: bool) -> Swept {
    let mut swept = Swept::default();
    for (mode, seed) in [(Mode::Once, 0), (Mode::FromThenOn, 3), (Mode::Unwinding, 0)] {
        let whole = run(scenario, seed, mode == Mode::Unwinding, None);
        swept.runs += 1;
        if let Some(trouble) = trouble_when_nothing_fails(scenario, &whole) {
            swept.troubles.push(format!("{}, nothing fails: {trouble}", scenario.name));
            continue;
        }
        for index in 0..whole.calls.len() {
            let mut last = String::new();
            for code in CODES {
                let what = format!("{}, call {index}, {:?}: {code}, {mode:?}", scenario.name, whole.calls[index]);
                if loud {
                    eprintln!("{what}");
                }
                let fault = Fault { index, code, mode };
                let outcome = run(scenario, seed, mode == Mode::Unwinding, Some(fault));
                swept.runs += 1;
                if let Some(trouble) = trouble(scenario, fault, &whole, &outcome).filter(|trouble| *trouble != last) {
                    swept.troubles.push(format!("{what}: {trouble}"));
                    last = trouble;
                }
            }
        }
    }
    swept
}

/// The calls that a scenario makes when nothing fails.
pub(crate) fn calls_of(scenario: &Scenario) -> Vec<Symbol> {
    run(scenario, 0, false, None).calls
}

fn run(scenario: &Scenario, seed: u64, unwinds: bool, fault: Option<Fault>) -> Outcome {
    let simulator = Simulator::builder().driver_version(13020).seed(seed).devices(2).build();
    simulator.register_kernel("add_one", &[8, 4], |kernel| {
        let (address, len) = (kernel.parameter_u64(0), kernel.parameter_u64(1));
        for at in 0..len {
            let value = kernel.read(address + 4 * at, 4);
            let value = u32::from_ne_bytes(value.try_into().unwrap_or_default()).wrapping_add(1);
            kernel.write(address + 4 * at, &value.to_ne_bytes());
        }
    });
    // SAFETY: every entry behaves as the driver's, and answers that the driver has shut down once the simulator is
    // dropped.
    let driver = unsafe { Driver::from_functions(simulator.functions()) };
    // Keeps the contexts, which would take everything with them, also what was not released.
    let kept: Vec<Context> = [0, 1].map(|at| driver.device(at).unwrap().primary_context().unwrap()).into();
    let before = alive(&simulator);
    let base = matches!(scenario.body, Body::Base(_)).then(|| Base::new(driver));
    let made_before = alive(&simulator).minus(before);
    let reported = REPORTED.get();
    simulator.reset_log();
    match fault {
        Some(Fault { index, code, mode: Mode::Once }) => simulator.fail_call(index as u64, CUresult(code)),
        Some(Fault { index, code, .. }) => simulator.fail_from(index as u64, CUresult(code)),
        None => {}
    }
    let mut world = World::new(&simulator, unwinds);
    let ended = catch_unwind(AssertUnwindSafe(|| match (scenario.body, base) {
        (Body::Base(body), Some(base)) => drop(body(&mut world, base)),
        (Body::Driver(body), _) => drop(body(&mut world, driver)),
        (Body::Base(_), None) => unreachable!("it was made above"),
    }));
    let mut trouble = ended.err().filter(|payload| !payload.is::<Unwound>()).map(|payload| said(payload.as_ref()));
    let errors = core::mem::take(&mut world.errors);
    let reported = REPORTED.get() - reported;
    simulator.clear_faults();
    let calls = simulator.calls();
    let left = alive(&simulator).minus(before);
    let lost_pools = match end_of_pools(driver, &kept, left.allocations) {
        Ok(waiting) => alive(&simulator).pools - before.pools - waiting,
        Err(waits) => {
            trouble.get_or_insert(waits);
            0
        }
    };
    // What is left is compared to what this run made; what it was given counts as made before.
    let left = if fault.is_some_and(|fault| fault.mode != Mode::Once) { left.minus(made_before) } else { left };
    let left = left.but_pools();
    if let Some(finding) = simulator.take_findings().first() {
        trouble.get_or_insert(finding.to_string());
    }
    if trouble.is_none() {
        trouble = works(driver, &simulator).err();
    }
    drop(kept);
    Outcome { errors, reported, calls, left, lost_pools, trouble }
}

/// Waits for what is pending, so that pools can end, and says how many wait for allocations that are left.
fn end_of_pools(driver: Driver, contexts: &[Context], allocations: i64) -> core::result::Result<i64, String> {
    // A capture whose end has failed goes on, and keeps everybody from waiting.
    let all_done = contexts.iter().all(|context| context.synchronize().is_ok());
    let waiting = MemPool::destroy_dropped(driver).map_err(|error| error.to_string())? as i64;
    if all_done && waiting > allocations {
        return Err(format!("{waiting} pools wait, with {allocations} allocations left"));
    }
    Ok(waiting)
}

/// What is alive, and whether this thread was left in the relaxed capture mode; it is in the ordinary one afterwards.
fn alive(simulator: &Simulator) -> Left {
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the call exchanges one mode, or fails and leaves it.
    let _ = unsafe { simulator.functions().cuThreadExchangeStreamCaptureMode.unwrap()(&raw mut mode) };
    Left::of(&simulator.live(), mode == CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
}

fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.unwrap_or_else(|| "with something else".to_owned()))
}

fn trouble_when_nothing_fails(scenario: &Scenario, outcome: &Outcome) -> Option<String> {
    if let Some(trouble) = &outcome.trouble {
        return Some(trouble.clone());
    }
    if outcome.calls.is_empty() {
        return Some("it makes no call".to_owned());
    }
    let reports = outcome.reported != 0 && scenario.forgets == Left::default() && !scenario.threads;
    let Outcome { left, lost_pools, reported, errors, .. } = outcome;
    (*left != scenario.forgets.but_pools() || *lost_pools != 0 || reports)
        .then(|| format!("left {left:?}, {lost_pools} pools lost, {reported} reports, {errors:?}"))
}

fn trouble(scenario: &Scenario, fault: Fault, whole: &Outcome, outcome: &Outcome) -> Option<String> {
    if let Some(trouble) = &outcome.trouble {
        return Some(trouble.clone());
    }
    if let Some(error) = outcome.errors.iter().find(|error| !is_of(error, scenario, fault.code, whole)) {
        return Some(format!("an error of another kind: {error:?}"));
    }
    if scenario.threads {
        // Their calls come in another order each time, and may be fewer.
        let most = Left::after(&makers(&outcome.calls), &[]).plus(OF_THE_BASE);
        return (!outcome.left.is_within(most)).then(|| format!("left {:?}, more than {most:?}", outcome.left));
    }
    let Some(failed) = outcome.calls.get(fault.index).copied() else { return Some("the call was not made".to_owned()) };
    if outcome.calls[..=fault.index] != whole.calls[..=fault.index] {
        return Some(format!("another call: {failed:?}"));
    }
    let in_vain = match fault.mode {
        Mode::Once => &outcome.calls[fault.index..=fault.index],
        Mode::FromThenOn | Mode::Unwinding => &outcome.calls[fault.index..],
    };
    let in_vain = in_vain.iter().filter(|call| **call == Symbol::cuMemPoolDestroy).count() as i64;
    // One that was imported is given up where nothing says that its frees are over.
    let import = Symbol::cuMemPoolImportFromShareableHandle;
    let given_up = outcome.calls[..fault.index].iter().filter(|call| **call == import).count() as i64;
    if !(in_vain..=in_vain + given_up).contains(&outcome.lost_pools) {
        return Some(format!("{} pools lost, {in_vain} destroyed in vain", outcome.lost_pools));
    }
    let (before, later) = (&whole.calls[..fault.index], &whole.calls[fault.index + 1..]);
    let as_expected = match fault.mode {
        Mode::FromThenOn | Mode::Unwinding => outcome.left == Left::after(before, scenario.refused).but_pools(),
        Mode::Once if scenario.forgets != Left::default() => outcome.left.is_within(
            Left::by(before, failed, later).plus(scenario.forgets).plus(Left::block(failed, fault.code)).but_pools(),
        ),
        Mode::Once => {
            let by = Left::by(before, failed, later).but_pools();
            outcome.left == by || outcome.left == by.plus(Left::block(failed, fault.code))
        }
    };
    if !as_expected {
        return Some(format!("left {:?}", outcome.left));
    }
    (!is_told(scenario, fault, whole, outcome)).then(|| "nobody was told".to_owned())
}

/// A retain, two streams and a pool; and one capture mode.
const OF_THE_BASE: Left = Left { retains: 1, streams: 2, pools: 1, relaxed: 1, ..Left::NONE };

/// The calls that make something.
fn makers(calls: &[Symbol]) -> Vec<Symbol> {
    calls.iter().copied().filter(|call| Left::default().is_within(Left::after(&[*call], &[]))).collect()
}

/// Whether it comes of the failure, or comes without any as well.
fn is_of(error: &Error, scenario: &Scenario, code: u32, whole: &Outcome) -> bool {
    assert!(!error.to_string().is_empty() && !format!("{error:?}").is_empty());
    match error {
        Error::Driver(driver) => driver.code().0 == code || whole.errors.contains(error),
        // What is made of these codes.
        Error::NotReady => code == 600,
        Error::NotRecorded => code == 400 || whole.errors.contains(error),
        Error::HostMemory { .. } => code == 2,
        Error::AttributeUnsupported(_) => code == 1,
        Error::NotShareable => code == 1 || whole.errors.contains(error),
        Error::OwnEvent => code == 201 || whole.errors.contains(error),
        Error::OutOfMemory(_) => code == 2 || scenario.rescues,
        // What is said of memory once something has failed.
        Error::OrderLost | Error::LoanForgotten | Error::ImportLost => true,
        other => whole.errors.contains(other),
    }
}

/// Whether the failure came up somewhere, or something was done in place of the call.
fn is_told(scenario: &Scenario, fault: Fault, whole: &Outcome, outcome: &Outcome) -> bool {
    let is_over = [CUresult::CUDA_ERROR_DEINITIALIZED, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED];
    if outcome.errors != whole.errors || outcome.reported > whole.reported || is_over.contains(&CUresult(fault.code)) {
        return true;
    }
    // What loses its memory anyway tells that, and it may come to no more.
    if scenario.forgets != Left::NONE && outcome.reported > 0 {
        return true;
    }
    let stood_in_for = |index: usize| is_stood_in_for(scenario, fault, &outcome.calls, index);
    match fault.mode {
        Mode::Once => stood_in_for(fault.index),
        Mode::FromThenOn | Mode::Unwinding => (fault.index..outcome.calls.len()).all(stood_in_for),
    }
}

/// Whether the failure of that call need not be told, because of what is done in its place.
fn is_stood_in_for(scenario: &Scenario, fault: Fault, calls: &[Symbol], index: usize) -> bool {
    let mut later = calls[index + 1..].iter().copied();
    let occurrence = calls[..index].iter().filter(|call| **call == calls[index]).count();
    // It is refused in any case, and that is told.
    if scenario.refused.contains(&(calls[index], occurrence)) {
        return true;
    }
    if is_of_a_pools_end(&calls[..=index]) {
        return true;
    }
    match calls[index] {
        // The host waits in place of a fence, or for more than was asked for.
        Symbol::cuEventCreate
        | Symbol::cuEventRecord
        | Symbol::cuStreamIsCapturing
        | Symbol::cuStreamWaitEvent
        | Symbol::cuEventSynchronize
        | Symbol::cuStreamSynchronize
        | Symbol::cuStreamIsCapturing
        | Symbol::cuCtxPushCurrent
            if later.find(|call| !is_around(*call)).is_some_and(is_wait) =>
        {
            true
        }
        // The call that finds out by itself which side is which is tried.
        Symbol::cuMemcpyHtoDAsync | Symbol::cuMemcpyDtoHAsync | Symbol::cuMemcpyDtoDAsync
            if fault.code == 1 && later.next() == Some(Symbol::cuMemcpyAsync) =>
        {
            true
        }
        // Nothing is known of what is asked about: it is kept, and waited for when it is needed.
        Symbol::cuEventQuery => true,
        Symbol::cuStreamQuery => fault.code == 600,
        // The work is done in the mode that there is; to go back to it must not fail unsaid.
        // Where all later ones fail too, none of these goes back.
        Symbol::cuThreadExchangeStreamCaptureMode => index > fault.index || is_first_exchange(&calls[..index]),
        // It is ended again.
        Symbol::cuStreamEndCapture => later.any(|call| call == Symbol::cuStreamEndCapture),
        // A rescue is tried, and what fails of it has not helped.
        Symbol::cuMemAllocFromPoolAsync => fault.code == 2,
        Symbol::cuMemPoolTrimTo | Symbol::cuMemPoolGetAttribute => scenario.rescues,
        // It is the answer that there is without any failure.
        Symbol::cuEventElapsedTime => fault.code == 400,
        // A device that cannot say whether it has pools is tried.
        Symbol::cuDeviceGetAttribute if fault.code == 1 => true,
        // What may be within the device's reach is staged.
        Symbol::cuDeviceGetAttribute | Symbol::cuPointerGetAttributes => later
            .find(|call| !is_around(*call))
            .is_some_and(|call| matches!(call, Symbol::cuEventCreate | Symbol::cuEventQuery)),
        _ => false,
    }
}

/// Whether the last call belongs to the end of a pool, but does not destroy it: one that does not answer is asked again.
fn is_of_a_pools_end(calls: &[Symbol]) -> bool {
    let before = calls.iter().rposition(|call| {
        !matches!(
            call,
            Symbol::cuThreadExchangeStreamCaptureMode
                | Symbol::cuMemPoolGetAttribute
                | Symbol::cuMemPoolSetAttribute
                | Symbol::cuDeviceGetMemPool
                | Symbol::cuDeviceGetDefaultMemPool
                | Symbol::cuDeviceSetMemPool
        )
    });
    // A trim of the caller's begins with a question.
    before.is_some_and(|at| {
        let last = calls.len() - 1;
        calls[at] == Symbol::cuMemPoolTrimTo
            && calls[last] != Symbol::cuThreadExchangeStreamCaptureMode
            && at.checked_sub(1).is_some_and(|at| calls[at] == Symbol::cuThreadExchangeStreamCaptureMode)
    })
}

/// What stands around the call that matters.
const fn is_around(call: Symbol) -> bool {
    matches!(
        call,
        Symbol::cuCtxPushCurrent
            | Symbol::cuCtxPopCurrent
            | Symbol::cuThreadExchangeStreamCaptureMode
            | Symbol::cuStreamIsCapturing
    )
}

const fn is_wait(call: Symbol) -> bool {
    matches!(call, Symbol::cuStreamSynchronize | Symbol::cuCtxSynchronize | Symbol::cuEventSynchronize)
}

/// A driver that does what it is asked, and leaves nothing.
fn works(driver: Driver, simulator: &Simulator) -> Result<(), String> {
    let before = alive(simulator);
    let calls = || -> Result<bool> {
        let device = driver.device(0)?;
        let context = device.primary_context()?;
        let pool = limited(device)?;
        let (home, other) = (Stream::new(&context)?, Stream::new(&context)?);
        let mut source = pool.alloc_from_host(&[7_u32; 100], &home)?;
        source.slice_mut(50..)?.fill(8)?;
        let mut target = pool.alloc_zeroed::<u32, _>(100, &other)?;
        target.copy_from(source.as_slice())?;
        source.on(&other)?.as_mut_slice().fill(9)?;
        let mut pinned = PinnedBuffer::<u32>::new(&context, 100)?;
        source.as_slice().copy_to_pinned(&mut pinned)?;
        source.free()?;
        Ok(target.to_vec()? == [[7; 50], [8; 50]].concat() && *pinned.as_slice()? == [9; 100])
    };
    match calls() {
        Ok(true) => {}
        Ok(false) => return Err("wrong contents afterwards".to_owned()),
        Err(error) => return Err(format!("afterwards: {error}")),
    }
    MemPool::destroy_dropped(driver).map_err(|error| error.to_string())?;
    let left = alive(simulator).minus(before);
    if left != Left::default() {
        return Err(format!("left afterwards: {left:?}"));
    }
    simulator.take_findings().first().map_or(Ok(()), |finding| Err(format!("afterwards: {finding}")))
}
