//! Contexts: one primary context for each device, and each thread's stack of current ones.

use core::ffi::{c_int, c_uint};
use std::collections::BTreeMap;

use cuda_sys::*;

use crate::{
    args::Out,
    handle::Kind,
    scheduler,
    slots::{self, Call},
    state::{Answer, State},
    work::QueueId,
};

/// A context as objects remember it: the primary context of a device, until it is destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextRef {
    pub(crate) device: usize,
    pub(crate) generation: u32,
}

/// What the driver keeps for a thread.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    /// The context stack: ordinals of devices; `None` is "no context", which can be pushed over another.
    pub(crate) contexts: Vec<Option<usize>>,
    /// Per-thread default streams, by device.
    pub(crate) default_queues: BTreeMap<usize, (ContextRef, QueueId)>,
    pub(crate) capture_mode: CUstreamCaptureMode_,
}

/// A capture mode with a default, which the generated type lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CUstreamCaptureMode_(pub(crate) CUstreamCaptureMode);

impl Default for CUstreamCaptureMode_ {
    fn default() -> Self {
        Self(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)
    }
}

impl State {
    pub(crate) fn thread(&mut self) -> &mut Thread {
        self.threads.entry(slots::thread()).or_default()
    }

    /// The calling thread's current context, which the call needs.
    pub(crate) fn current_context(&mut self) -> Result<ContextRef, CUresult> {
        let current = self.thread().contexts.last().copied().flatten();
        let device =
            current.and_then(|ordinal| self.devices.get(ordinal)).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        if !device.active {
            return Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
        }
        Ok(device.context())
    }

    /// Whether the context still exists.
    pub(crate) fn is_alive(&self, context: ContextRef) -> bool {
        self.devices.get(context.device).is_some_and(|device| device.active && device.generation == context.generation)
    }

    /// Refuses a context that was destroyed.
    pub(crate) fn alive(&self, context: ContextRef) -> Answer {
        if self.is_alive(context) { Ok(()) } else { Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED) }
    }

    pub(crate) const fn context_handle(&self, device: usize) -> CUcontext {
        self.handle(Kind::Context, device as u32)
    }

    /// The device whose primary context the handle names.
    pub(crate) fn context_device(&self, context: CUcontext) -> Result<usize, CUresult> {
        let number = self.number(Kind::Context, context).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        match self.devices.get(number as usize) {
            Some(device) if device.active => Ok(number as usize),
            Some(_) => Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED),
            None => Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
        }
    }

    /// Destroys a device's primary context with all that belongs to it. Who retained it keeps the count.
    pub(crate) fn reset_context(&mut self, ordinal: usize) {
        let Some(device) = self.devices.get_mut(ordinal) else { return };
        if !device.active {
            return;
        }
        let context = device.context();
        device.active = false;
        device.generation += 1;
        device.legacy = None;
        for op in self.queues.abandon(context) {
            self.let_go(&op.work);
        }
        self.abandon_captures(context);
        self.abandon_memory(ordinal);
    }
}

pub(crate) fn retain(state: &mut State, context: Out<CUcontext>, ordinal: CUdevice) -> Answer {
    context.required()?;
    let ordinal = state.ordinal(ordinal)?;
    let handle = state.context_handle(ordinal);
    let device = state.device_mut(ordinal)?;
    device.retains += 1;
    device.active = true;
    context.set(handle)
}

pub(crate) fn release(state: &mut State, ordinal: CUdevice) -> Answer {
    let ordinal = state.ordinal(ordinal)?;
    let device = state.device_mut(ordinal)?;
    device.retains = device.retains.checked_sub(1).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    if device.retains == 0 {
        state.reset_context(ordinal);
    }
    Ok(())
}

pub(crate) fn reset(state: &mut State, ordinal: CUdevice) -> Answer {
    let ordinal = state.ordinal(ordinal)?;
    state.reset_context(ordinal);
    Ok(())
}

pub(crate) fn primary_state(state: &mut State, ordinal: CUdevice, flags: Out<c_uint>, active: Out<c_int>) -> Answer {
    let ordinal = state.ordinal(ordinal)?;
    let is_active = state.device(ordinal)?.active;
    flags.set(0)?;
    active.set(is_active.into())
}

pub(crate) fn push(state: &mut State, context: CUcontext) -> Answer {
    let device = state.context_device(context)?;
    state.thread().contexts.push(Some(device));
    Ok(())
}

pub(crate) fn pop(state: &mut State, context: Out<CUcontext>) -> Answer {
    let popped = state.thread().contexts.pop().flatten().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    context.set_if_wanted(state.context_handle(popped));
    Ok(())
}

pub(crate) fn current(state: &mut State, context: Out<CUcontext>) -> Answer {
    let current = state.thread().contexts.last().copied().flatten();
    context.set(current.map_or(core::ptr::null_mut(), |device| state.context_handle(device)))
}

pub(crate) fn set_current(state: &mut State, context: CUcontext) -> Answer {
    let device = if context.is_null() { None } else { Some(state.context_device(context)?) };
    let contexts = &mut state.thread().contexts;
    contexts.pop();
    if device.is_some() || !contexts.is_empty() {
        contexts.push(device);
    }
    Ok(())
}

pub(crate) fn current_device(state: &mut State, device: Out<CUdevice>) -> Answer {
    let context = state.current_context()?;
    device.set(context.device as CUdevice)
}

pub(crate) fn synchronize(call: &mut Call) -> Answer {
    let context = call.current_context()?;
    call.waits_for_all_in_capture()?;
    let (points, ends) = (call.queues.unfinished(Some(context)), call.marks_of(context));
    scheduler::wait_all(call, &points)?;
    call.host_saw_all(&ends);
    call.give_back();
    Ok(())
}
