//! Events.

use core::ffi::c_uint;
use std::sync::Arc;

use cuda_sys::*;

use crate::{
    args::Out,
    checker::Misuse,
    context::ContextRef,
    handle::Kind,
    past::Mark,
    scheduler,
    signal::{self, Signal},
    slots::Call,
    state::{Answer, State},
    work::{Point, QueueId, Work},
};

/// An event that was created.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: ContextRef,
    pub(crate) flags: c_uint,
    record: Record,
    /// What other processes can have of it.
    signal: Option<Arc<Signal>>,
    /// Others may know of it: what is recorded must come to pass although nobody here waits.
    exported: bool,
    /// The number of the last record in this process.
    own: u64,
    /// Where others are told of that.
    told: Option<Point>,
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
    /// In another process: the record of that number.
    Abroad(Arc<Signal>, u64),
}

const INTERPROCESS: c_uint = CUevent_flags_enum::CU_EVENT_INTERPROCESS.0;

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
        let Some(event) = self.events.get(number) else { return Ok(Record::Never) };
        match &event.signal {
            Some(signal) if signal.last() != event.own => Ok(Record::Abroad(Arc::clone(signal), signal.last())),
            _ => Ok(event.record.clone()),
        }
    }

    /// What another process is to know an event by.
    pub(crate) fn export_signal(&mut self, event: CUevent) -> Result<Arc<Signal>, CUresult> {
        let number = self.event(event)?;
        let event = self.events.get_mut(number).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        // Only its own process can export it.
        let signal = event.signal.clone().filter(|_| event.flags & INTERPROCESS != 0);
        let signal = signal.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        event.exported = true;
        if let Some(point) = event.told {
            self.work_towards(point);
        }
        Ok(signal)
    }

    /// An event of another process.
    pub(crate) fn add_opened_event(&mut self, context: ContextRef, signal: Arc<Signal>) -> u32 {
        let (flags, signal) = (CUevent_flags_enum::CU_EVENT_DISABLE_TIMING.0, Some(signal));
        self.events.insert(Event { context, flags, record: Record::Never, signal, exported: true, own: 0, told: None })
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
    let untimed = CUevent_flags_enum::CU_EVENT_DISABLE_TIMING.0;
    if flags > 7 || flags & (INTERPROCESS | untimed) == INTERPROCESS {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let signal = match flags & INTERPROCESS {
        0 => None,
        _ => Some(state.new_signal().ok_or(CUresult::CUDA_ERROR_OPERATING_SYSTEM)?),
    };
    let event_made = Event { context, flags, record: Record::Never, signal, exported: false, own: 0, told: None };
    let number = state.events.insert(event_made);
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
    let signal = state.events.get(number).and_then(|event| event.signal.clone());
    let record = match state.captures_on(queue)? {
        Some(_) if signal.is_some() => {
            state.spoil_capture_of(queue);
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        Some((capture, position)) => Record::Captured { capture, queue, position },
        None => match state.submit(queue, Work::Record { event: number, serial })? {
            Some(_) => Record::At { mark: state.queues.mark(queue), serial, time: None },
            None => Record::Never,
        },
    };
    let mut exported = false;
    if let Some(event) = state.events.get_mut(number) {
        event.record = record;
        exported = event.exported;
    }
    if let Some(signal) = signal {
        let count = signal.next();
        let told = state.submit(queue, Work::Signal(signal, count))?;
        if let Some(event) = state.events.get_mut(number) {
            (event.own, event.told) = (count, told);
        }
        if let (Some(point), true) = (told, exported) {
            state.work_towards(point);
        }
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
        Record::Abroad(signal, count) => {
            if state.captures_on(queue)?.is_some() {
                state.invalidate_capture_of(queue);
                return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
            }
            state.submit(queue, Work::WaitSignal(signal, count)).map(drop)
        }
    }
}

pub(crate) fn query(call: &mut Call, event: CUevent) -> Answer {
    match call.last_record(event)? {
        Record::Captured { .. } => Err(CUresult::CUDA_ERROR_CAPTURED_EVENT),
        Record::Abroad(signal, count) => {
            call.unsafe_in_capture()?;
            if signal.is_past(count) { Ok(()) } else { Err(CUresult::CUDA_ERROR_NOT_READY) }
        }
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
        Record::Abroad(signal, count) => {
            let epoch = call.epoch;
            while !signal.is_past(count) {
                signal::rest(call);
                if call.shut || call.epoch != epoch {
                    return Err(CUresult::CUDA_ERROR_DEINITIALIZED);
                }
            }
            Ok(())
        }
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
