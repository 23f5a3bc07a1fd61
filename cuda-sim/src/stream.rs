//! Streams: creating, asking, waiting; host functions.

use core::ffi::{c_int, c_uint, c_ulonglong};

use cuda_sys::*;

use crate::{
    args::{HostPointer, Out},
    checker::Misuse,
    context::ContextRef,
    handle::Kind,
    scheduler,
    slots::Call,
    state::{Answer, State},
    work::{HostFunction, QueueId, Work},
};

/// A stream that was created.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) queue: QueueId,
    pub(crate) context: ContextRef,
    flags: c_uint,
    priority: c_int,
}

const LEAST_PRIORITY: c_int = 0;
const GREATEST_PRIORITY: c_int = -5;

impl State {
    fn next_stream_id(&mut self) -> u64 {
        self.streams_made += 1;
        self.streams_made
    }

    fn add_queue(&mut self, context: ContextRef, blocking: bool, legacy: bool) -> QueueId {
        let id = self.next_stream_id();
        self.queues.add(id, context, blocking, legacy, &self.waited.past)
    }

    /// The queue behind a stream handle. The default streams belong to the current context, which they need.
    pub(crate) fn queue_of(&mut self, stream: CUstream) -> Result<QueueId, CUresult> {
        match stream.addr() {
            0 | 1 => {
                let context = self.current_context()?;
                if let Some(queue) = self.device(context.device)?.legacy {
                    return Ok(queue);
                }
                let queue = self.add_queue(context, false, true);
                self.device_mut(context.device)?.legacy = Some(queue);
                Ok(queue)
            }
            2 => {
                let context = self.current_context()?;
                match self.thread().default_queues.get(&context.device) {
                    Some((of, queue)) if *of == context => Ok(*queue),
                    _ => {
                        let queue = self.add_queue(context, true, false);
                        self.thread().default_queues.insert(context.device, (context, queue));
                        Ok(queue)
                    }
                }
            }
            _ => Ok(self.stream(stream)?.1),
        }
    }

    /// The number and queue of a stream that was created.
    fn stream(&mut self, stream: CUstream) -> Result<(u32, QueueId), CUresult> {
        let number = self.number(Kind::Stream, stream);
        match number.and_then(|number| Some((number, self.streams.get(number)?))) {
            Some((number, found)) => {
                self.alive(found.context)?;
                Ok((number, found.queue))
            }
            None => {
                self.found(Misuse::UnknownHandle, stream.addr() as u64, 0, None);
                Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
            }
        }
    }

    /// The context of a queue.
    pub(crate) fn queue_context(&self, queue: QueueId) -> Result<ContextRef, CUresult> {
        self.queues.get(queue).map(|queue| queue.context).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// The id of a queue's stream.
    pub(crate) fn stream_id(&self, queue: QueueId) -> Option<u64> {
        self.queues.get(queue).map(|queue| queue.stream_id)
    }

    fn created(&mut self, stream: CUstream) -> Result<Option<&Stream>, CUresult> {
        if stream.addr() <= 2 {
            self.queue_of(stream)?;
            return Ok(None);
        }
        let (number, _) = self.stream(stream)?;
        Ok(self.streams.get(number))
    }
}

pub(crate) fn priority_range(state: &mut State, least: Out<c_int>, greatest: Out<c_int>) -> Answer {
    state.current_context()?;
    least.set_if_wanted(LEAST_PRIORITY);
    greatest.set_if_wanted(GREATEST_PRIORITY);
    Ok(())
}

pub(crate) fn create(state: &mut State, stream: Out<CUstream>, flags: c_uint, priority: c_int) -> Answer {
    stream.required()?;
    let context = state.current_context()?;
    if flags > CUstream_flags_enum::CU_STREAM_NON_BLOCKING.0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let queue = state.add_queue(context, flags == CUstream_flags_enum::CU_STREAM_DEFAULT.0, false);
    let priority = priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY);
    let number = state.streams.insert(Stream { queue, context, flags, priority });
    stream.set(state.handle(Kind::Stream, number))
}

pub(crate) fn create_plain(state: &mut State, stream: Out<CUstream>, flags: c_uint) -> Answer {
    create(state, stream, flags, LEAST_PRIORITY)
}

pub(crate) fn destroy(state: &mut State, stream: CUstream) -> Answer {
    if stream.addr() <= 2 {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    let (number, queue) = state.stream(stream)?;
    state.stream_leaves_capture(queue);
    state.streams.remove(number);
    state.queues.retire(queue);
    Ok(())
}

pub(crate) fn query(call: &mut Call, stream: CUstream) -> Answer {
    let queue = call.queue_of(stream)?;
    call.waits_in_capture(queue)?;
    call.unsafe_in_capture()?;
    let end = call.queues.mark(queue);
    if !scheduler::poll(call, end.point)? {
        return Err(CUresult::CUDA_ERROR_NOT_READY);
    }
    call.host_saw(&end);
    Ok(())
}

pub(crate) fn synchronize(call: &mut Call, stream: CUstream) -> Answer {
    let queue = call.queue_of(stream)?;
    call.waits_in_capture(queue)?;
    call.unsafe_in_capture()?;
    let end = call.queues.mark(queue);
    scheduler::wait(call, end.point)?;
    call.host_saw(&end);
    call.give_back();
    Ok(())
}

pub(crate) fn context(state: &mut State, stream: CUstream, context: Out<CUcontext>) -> Answer {
    let queue = state.queue_of(stream)?;
    context.set(state.context_handle(state.queue_context(queue)?.device))
}

pub(crate) fn id(state: &mut State, stream: CUstream, id: Out<c_ulonglong>) -> Answer {
    let queue = state.queue_of(stream)?;
    id.set(state.queues.get(queue).map_or(0, |queue| queue.stream_id))
}

pub(crate) fn flags(state: &mut State, stream: CUstream, flags: Out<c_uint>) -> Answer {
    flags.set(state.created(stream)?.map_or(0, |stream| stream.flags))
}

pub(crate) fn priority(state: &mut State, stream: CUstream, priority: Out<c_int>) -> Answer {
    priority.set(state.created(stream)?.map_or(0, |stream| stream.priority))
}

pub(crate) fn launch_host_function(
    state: &mut State,
    stream: CUstream,
    function: CUhostFn,
    data: HostPointer,
) -> Answer {
    let queue = state.queue_of(stream)?;
    if function.is_none() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.submit(queue, Work::CallHost(HostFunction { function, data }))?;
    Ok(())
}
