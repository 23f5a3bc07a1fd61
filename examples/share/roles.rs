//! What either process does.

use std::{
    error::Error,
    process::{Command, Stdio},
};

use cupool::{
    Driver, MemHandleTypes, MemPool, MemPoolProperties, Stream,
    ipc::{EventHandle, ExportedPointer, ImportedPool, InterprocessEvent},
};

use crate::channel::Channel;

type Result<T> = core::result::Result<T, Box<dyn Error>>;

const LEN: u32 = 1 << 20;

/// What the other process puts in place of the second half.
const CHANGED: u32 = 7;

/// Makes the memory, has `other` read and change it, and answers the sum of what it then holds.
pub(crate) fn export(driver: Driver, other: &mut Command) -> Result<u64> {
    let context = driver.device(0)?.primary_context()?;
    let stream = Stream::new(&context)?;
    let properties = MemPoolProperties::new().max_size(64 << 20).handle_types(MemHandleTypes::POSIX_FD);
    let pool = MemPool::with_properties(&context.device(), &properties)?;
    let numbers: Vec<u32> = (0..LEN).collect();
    let buffer = pool.alloc_from_host(&numbers, &stream)?;
    let written = InterprocessEvent::new(&context)?;
    written.record(&stream)?;

    let (mut channel, theirs) = Channel::pair()?;
    let mut process = other.stdin(Stdio::from(theirs)).spawn()?;
    // The end that the other process has is closed here, so that its death is noticed.
    other.stdin(Stdio::null());
    channel.send_file(pool.export_fd()?)?;
    channel.send(&buffer.export()?.to_bytes())?;
    channel.send(&written.export()?.to_bytes())?;

    let handle = EventHandle::from_bytes(&channel.receive::<{ EventHandle::BYTES }>()?)?;
    // SAFETY: the other process sends the handle of an event that it keeps until it is told that it may end.
    let released = unsafe { InterprocessEvent::open(&context, &handle)? };
    // What is done here from now on, the free of the buffer included, comes after the other's work and its release.
    stream.wait(&released)?;
    let sum = buffer.to_vec()?.iter().map(|number| u64::from(*number)).sum();
    drop(released);
    channel.send(b".")?;
    let status = process.wait()?;
    if !status.success() {
        return Err(format!("the other process ended with {status}").into());
    }
    let half = u64::from(LEN) / 2;
    if sum != half * (half - 1) / 2 + half * u64::from(CHANGED) {
        return Err(format!("the buffer came back wrong: its sum is {sum}").into());
    }
    Ok(sum)
}

/// Reads and changes memory of the process that started this one.
pub(crate) fn import(driver: Driver) -> Result<()> {
    let mut channel = Channel::of_stdin()?;
    let context = driver.device(0)?.primary_context()?;
    let stream = Stream::new(&context)?;
    let pool = ImportedPool::from_fd(&context, channel.receive_file()?)?;
    let pointer = ExportedPointer::from_bytes(&channel.receive::<{ ExportedPointer::BYTES }>()?)?;
    let handle = EventHandle::from_bytes(&channel.receive::<{ EventHandle::BYTES }>()?)?;
    // SAFETY: the other process keeps the event until it has been told that the buffer is released.
    let written = unsafe { InterprocessEvent::open(&context, &handle)? };
    stream.wait(&written)?;

    // SAFETY: the stream has just been told to wait for the allocation and for what was written. The other process
    // writes no more, and frees the buffer after the event that is recorded below.
    let mut buffer = unsafe { pool.import::<u32, _>(&pointer, &stream)? };
    let numbers = buffer.to_vec()?;
    if !numbers.iter().copied().eq(0..LEN) {
        return Err("the buffer arrived wrong".into());
    }
    // SAFETY: the other process does not touch the buffer until the event below.
    let mut second = unsafe { buffer.as_mut_slice() }.slice(LEN as usize / 2..)?;
    second.fill(CHANGED)?;
    drop(buffer);
    // After the release, which the stream gets to in its order.
    let released = InterprocessEvent::new(&context)?;
    released.record(&stream)?;
    channel.send(&released.export()?.to_bytes())?;
    channel.receive::<1>()?;
    Ok(())
}
