//! Events.

use core::ffi::c_uint;

use cuda_sys::*;

use crate::{
    args::Out,
    checker::Misuse,
    context::ContextRef,
    handle::Kind,
    past::Mark,
    scheduler,
    slots::Call,
    state::{Answer, State},
    work::{QueueId, Work},
};

/// An event that was created.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: ContextRef,
    pub(crate) flags: c_uint,
    record: Record,
}

/// The most recent record.
#[derive(Clone, Debug)]
enum Record {
    Never,
    /// In a stream; the time is known once it is done.
    At {
        mark: Mark,
        serial: u64,
        time: Option<u64>,
    },
    /// In a stream that was being captured.
    Captured {
        capture: u64,
        queue: QueueId,
        position: usize,
    },
}

impl State {
    fn event(&mut self, event: CUevent) -> Result<u32, CUresult> {
        let number = self.number(Kind::Event, event);
        match number.and_then(|number| Some((number, self.events.get(number)?))) {
            Some((number, found)) => {
                self.alive(found.context)?;
                Ok(number)
            }
            None => {
                self.found(Misuse::UnknownHandle, event.addr() as u64, 0, None);
                Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
            }
        }
    }

    /// The flags of an event.
    pub(crate) fn event_flags(&mut self, event: CUevent) -> Result<c_uint, CUresult> {
        let number = self.event(event)?;
        Ok(self.events.get(number).map_or(0, |event| event.flags))
    }

    fn last_record(&mut self, event: CUevent) -> Result<Record, CUresult> {
        let number = self.event(event)?;
        Ok(self.events.get(number).map_or(Record::Never, |event| event.record.clone()))
    }

    /// An event's record has run.
    pub(crate) fn recorded(&mut self, event: u32, serial: u64) {
        let now = self.clock;
        if let Some(event) = self.events.get_mut(event)
            && let Record::At { serial: latest, time, .. } = &mut event.record
            && *latest == serial
        {
            *time = Some(now);
        }
    }
}

pub(crate) fn create(state: &mut State, event: Out<CUevent>, flags: c_uint) -> Answer {
    event.required()?;
    let context = state.current_context()?;
    let interprocess = CUevent_flags_enum::CU_EVENT_INTERPROCESS.0;
    let untimed = CUevent_flags_enum::CU_EVENT_DISABLE_TIMING.0;
    if flags > 7 || flags & (interprocess | untimed) == interprocess {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let number = state.events.insert(Event { context, flags, record: Record::Never });
    event.set(state.handle(Kind::Event, number))
}

pub(crate) fn destroy(state: &mut State, event: CUevent) -> Answer {
    let number = state.event(event)?;
    state.events.remove(number);
    Ok(())
}

pub(crate) fn record(state: &mut State, event: CUevent, stream: CUstream) -> Answer {
    let queue = state.queue_of(stream)?;
    let number = state.event(event)?;
    let context = state.queue_context(queue)?;
    if state.events.get(number).is_some_and(|event| event.context != context) {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    let serial = state.serial();
    let record = match state.captures_on(queue)? {
        Some((capture, position)) => Record::Captured { capture, queue, position },
        None => match state.submit(queue, Work::Record { event: number, serial })? {
            Some(_) => Record::At { mark: state.queues.mark(queue), serial, time: None },
            None => Record::Never,
        },
    };
    if let Some(event) = state.events.get_mut(number) {
        event.record = record;
    }
    Ok(())
}

pub(crate) fn wait(state: &mut State, stream: CUstream, event: CUevent, flags: c_uint) -> Answer {
    let queue = state.queue_of(stream)?;
    let record = state.last_record(event)?;
    if flags > CUevent_wait_flags_enum::CU_EVENT_WAIT_EXTERNAL.0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    match record {
        Record::Never => Ok(()),
        Record::At { mark, .. } => {
            if state.captures_on(queue)?.is_some() && flags != CUevent_wait_flags_enum::CU_EVENT_WAIT_EXTERNAL.0 {
                state.invalidate_capture_of(queue);
                return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
            }
            if mark.point.queue == queue {
                return Ok(());
            }
            state.submit(queue, Work::Wait(mark.point))?;
            state.queue_waits(queue, &mark);
            Ok(())
        }
        Record::Captured { capture, queue: from, position } => state.join_capture(queue, capture, from, position),
    }
}

pub(crate) fn query(call: &mut Call, event: CUevent) -> Answer {
    match call.last_record(event)? {
        Record::Captured { .. } => Err(CUresult::CUDA_ERROR_CAPTURED_EVENT),
        record => {
            call.unsafe_in_capture()?;
            let Record::At { mark, .. } = record else { return Ok(()) };
            if !scheduler::poll(call, mark.point)? {
                return Err(CUresult::CUDA_ERROR_NOT_READY);
            }
            call.host_saw(&mark);
            Ok(())
        }
    }
}

pub(crate) fn synchronize(call: &mut Call, event: CUevent) -> Answer {
    match call.last_record(event)? {
        Record::Never => Ok(()),
        Record::At { mark, .. } => {
            call.unsafe_in_capture()?;
            scheduler::wait(call, mark.point)?;
            call.host_saw(&mark);
            call.give_back();
            Ok(())
        }
        Record::Captured { .. } => Err(CUresult::CUDA_ERROR_CAPTURED_EVENT),
    }
}

pub(crate) fn elapsed(state: &mut State, milliseconds: Out<f32>, start: CUevent, end: CUevent) -> Answer {
    milliseconds.required()?;
    let untimed = CUevent_flags_enum::CU_EVENT_DISABLE_TIMING.0;
    if (state.event_flags(start)? | state.event_flags(end)?) & untimed != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    match (state.last_record(start)?, state.last_record(end)?) {
        (Record::At { time: start, .. }, Record::At { time: end, .. }) => match (start, end) {
            (Some(start), Some(end)) => milliseconds.set((end as f64 - start as f64) as f32 / 1e6),
            _ => Err(CUresult::CUDA_ERROR_NOT_READY),
        },
        _ => Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
    }
}
