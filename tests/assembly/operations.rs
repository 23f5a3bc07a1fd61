//! What is counted: each operation by the raw calls with their checks, and by way of this crate.

use std::hint::black_box;

use cupool::{
    Buffer, Error, Stream,
    cuda_sys::{CUresult, CUstreamCaptureMode},
};

use crate::stand_ins::World;

pub(crate) type Form = fn(&mut World) -> Result<(), u32>;

pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) raw: Form,
    pub(crate) ours: Form,
}

/// `name: raw, ours` in each line, each form compiled as a function of its own.
macro_rules! operations {
    ($($name:literal: $raw:ident, $ours:ident;)*) => {
        pub(crate) const OPERATIONS: &[Operation] = &[$( Operation { name: $name, raw: $raw, ours: $ours }, )*];
    };
}

operations! {
    "allocate and free": raw_allocate_and_free, allocate_and_free;
    "copy at home": raw_copy, copy;
    "fill": raw_fill, fill;
    "view": nothing, view;
    "record": raw_record, record;
    "wait": raw_wait, wait;
    "query an event": raw_query_event, query_event;
    "query a stream": raw_query_stream, query_stream;
    "synchronise": raw_synchronize, synchronize;
    "lend and take back": raw_there_and_back, lend;
    "lend for reading and take back": raw_there_and_back, lend_for_reading;
    "copy between homes": raw_copy_between_homes, copy_between_homes;
    "move there and back": raw_there_and_back, move_there_and_back;
}

const fn checked(code: CUresult) -> Result<(), u32> {
    if code.0 == 0 { Ok(()) } else { Err(code.0) }
}

/// Any code of ours: what matters is that it is looked at.
fn ours<T>(result: Result<T, Error>) -> Result<T, u32> {
    result.map_err(|_| 1)
}

fn target(world: &mut World) -> Result<&mut Buffer<u8, &'static Stream>, u32> {
    world.target.as_mut().ok_or(2)
}

#[inline(never)]
pub(crate) fn nothing(world: &mut World) -> Result<(), u32> {
    black_box(world);
    Ok(())
}

#[inline(never)]
fn raw_allocate_and_free(world: &mut World) -> Result<(), u32> {
    let functions = world.home.driver().functions();
    let (mut address, bytes) = (0, black_box(10));
    // SAFETY: pool and stream are live, and nobody uses the allocation.
    let code = unsafe {
        (functions.cuMemAllocFromPoolAsync)(&raw mut address, bytes, world.pool.as_raw(), world.home.as_raw())
    };
    checked(code)?;
    // SAFETY: the address was just allocated.
    checked(unsafe { (functions.cuMemFreeAsync)(address, world.home.as_raw()) })
}

#[inline(never)]
fn allocate_and_free(world: &mut World) -> Result<(), u32> {
    drop(ours(world.pool.alloc::<u8, _>(black_box(10), world.home))?);
    Ok(())
}

#[inline(never)]
fn raw_copy(world: &mut World) -> Result<(), u32> {
    let (to, from) = (target(world)?.as_raw(), world.source.as_raw());
    let functions = world.home.driver().functions();
    // SAFETY: both places hold so many bytes.
    checked(unsafe { (functions.cuMemcpyDtoDAsync)(to, from, world.source.byte_len(), world.home.as_raw()) })
}

#[inline(never)]
fn copy(world: &mut World) -> Result<(), u32> {
    let target = world.target.as_mut().ok_or(2_u32)?;
    ours(target.copy_from(world.source.as_slice()))
}

#[inline(never)]
fn raw_fill(world: &mut World) -> Result<(), u32> {
    let (to, bytes) = (target(world)?.as_raw(), world.source.byte_len());
    let functions = world.home.driver().functions();
    // SAFETY: there are so many bytes.
    checked(unsafe { (functions.cuMemsetD8Async)(to, black_box(7), bytes, world.home.as_raw()) })
}

#[inline(never)]
fn fill(world: &mut World) -> Result<(), u32> {
    ours(target(world)?.fill(black_box(7)))
}

/// A part of a view, as other elements.
#[inline(never)]
fn view(world: &mut World) -> Result<(), u32> {
    let part = ours(world.source.slice(black_box(8)..black_box(24)))?;
    black_box(ours(part.cast::<u32>())?);
    Ok(())
}

#[inline(never)]
fn raw_record(world: &mut World) -> Result<(), u32> {
    let functions = world.home.driver().functions();
    // SAFETY: both are live.
    checked(unsafe { (functions.cuEventRecord)(world.event.as_raw(), world.home.as_raw()) })
}

#[inline(never)]
fn record(world: &mut World) -> Result<(), u32> {
    ours(world.event.record(world.home))
}

#[inline(never)]
fn raw_wait(world: &mut World) -> Result<(), u32> {
    let functions = world.home.driver().functions();
    // SAFETY: both are live.
    checked(unsafe { (functions.cuStreamWaitEvent)(world.home.as_raw(), world.event.as_raw(), 0) })
}

#[inline(never)]
fn wait(world: &mut World) -> Result<(), u32> {
    ours(world.home.wait(&world.event))
}

/// Between two changes of the capture mode, as ours: without them the question ends captures elsewhere.
#[inline(never)]
fn raw_query_event(world: &mut World) -> Result<(), u32> {
    let functions = world.home.driver().functions();
    let exchange = functions.cuThreadExchangeStreamCaptureMode.ok_or(3_u32)?;
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the mode is a local variable.
    checked(unsafe { exchange(&raw mut mode) })?;
    // SAFETY: the event is live.
    let code = unsafe { (functions.cuEventQuery)(world.event.as_raw()) };
    // SAFETY: as above.
    checked(unsafe { exchange(&raw mut mode) })?;
    checked(code)
}

#[inline(never)]
fn query_event(world: &mut World) -> Result<(), u32> {
    black_box(ours(world.event.query())?);
    Ok(())
}

#[inline(never)]
fn raw_query_stream(world: &mut World) -> Result<(), u32> {
    let functions = world.home.driver().functions();
    // SAFETY: the stream is live.
    checked(unsafe { (functions.cuStreamQuery)(world.home.as_raw()) })
}

#[inline(never)]
fn query_stream(world: &mut World) -> Result<(), u32> {
    black_box(ours(world.home.query())?);
    Ok(())
}

#[inline(never)]
fn raw_synchronize(world: &mut World) -> Result<(), u32> {
    let functions = world.home.driver().functions();
    // SAFETY: the stream is live.
    checked(unsafe { (functions.cuStreamSynchronize)(world.home.as_raw()) })
}

#[inline(never)]
fn synchronize(world: &mut World) -> Result<(), u32> {
    ours(world.home.synchronize())
}

/// A record and a wait.
#[inline(always)]
fn fence(world: &World, from: &Stream, to: &Stream) -> Result<(), u32> {
    let functions = from.driver().functions();
    // SAFETY: all are live.
    checked(unsafe { (functions.cuEventRecord)(world.event.as_raw(), from.as_raw()) })?;
    // SAFETY: as above.
    checked(unsafe { (functions.cuStreamWaitEvent)(to.as_raw(), world.event.as_raw(), 0) })
}

#[inline(never)]
fn raw_there_and_back(world: &mut World) -> Result<(), u32> {
    fence(world, world.home, world.other)?;
    fence(world, world.other, world.home)
}

#[inline(never)]
fn lend(world: &mut World) -> Result<(), u32> {
    let other = world.other;
    drop(ours(target(world)?.on(other))?);
    Ok(())
}

#[inline(never)]
fn lend_for_reading(world: &mut World) -> Result<(), u32> {
    drop(ours(world.source.read_on(world.other))?);
    Ok(())
}

#[inline(never)]
fn raw_copy_between_homes(world: &mut World) -> Result<(), u32> {
    fence(world, world.home, world.other)?;
    raw_copy(world)?;
    fence(world, world.other, world.home)
}

/// To a buffer whose home is the other stream.
#[inline(never)]
fn copy_between_homes(world: &mut World) -> Result<(), u32> {
    let target = world.target.as_mut().ok_or(2_u32)?;
    if target.home().as_raw() == world.home.as_raw() {
        // The first of the two times that do not count.
        move_target(world, world.other)?;
        return copy_between_homes(world);
    }
    ours(target.copy_from(world.source.as_slice()))
}

#[inline(never)]
fn move_there_and_back(world: &mut World) -> Result<(), u32> {
    move_target(world, world.other)?;
    move_target(world, world.home)
}

#[inline(always)]
fn move_target(world: &mut World, to: &'static Stream) -> Result<(), u32> {
    let moved = world.target.take().ok_or(2_u32)?.move_to(to);
    world.target = Some(ours(moved.map_err(|(error, _)| error))?);
    Ok(())
}
