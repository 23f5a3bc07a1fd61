//! Initialisation, errors and devices.

use core::ffi::{c_char, c_int, c_uint};
use std::{ffi::CString, sync::atomic::Ordering::Relaxed};

use cuda_sys::*;

use crate::{
    args::Out,
    attributes,
    context::ContextRef,
    slots,
    state::{Answer, State},
    work::QueueId,
};

/// One device, with its primary context.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ordinal: usize,
    /// How often the primary context has been retained, less releases.
    pub(crate) retains: u64,
    pub(crate) active: bool,
    /// How often the primary context has been destroyed.
    pub(crate) generation: u32,
    /// The legacy default stream's queue, once used.
    pub(crate) legacy: Option<QueueId>,
    pub(crate) default_pool: u32,
    pub(crate) current_pool: u32,
    /// What `cuMemAlloc` takes from.
    pub(crate) linear_pool: u32,
    /// What allocations of graphs take from.
    pub(crate) graph_pool: u32,
    /// Bytes of physical memory in use.
    pub(crate) reserved: u64,
}

impl Device {
    /// The primary context as it is now.
    pub(crate) const fn context(&self) -> ContextRef {
        ContextRef { device: self.ordinal, generation: self.generation }
    }
}

impl State {
    pub(crate) fn add_device(&mut self, ordinal: usize) {
        let device = Device {
            ordinal,
            retains: 0,
            active: false,
            generation: 0,
            legacy: None,
            default_pool: self.add_device_pool(ordinal, true),
            current_pool: 0,
            linear_pool: self.add_device_pool(ordinal, false),
            graph_pool: self.add_device_pool(ordinal, false),
            reserved: 0,
        };
        // The driver keeps what graphs have used until it is told to trim.
        if let Some(pool) = self.pools.get_mut(device.graph_pool) {
            pool.threshold = u64::MAX;
        }
        self.devices.push(Device { current_pool: device.default_pool, ..device });
    }

    /// The ordinal that a device handle is.
    pub(crate) fn ordinal(&self, device: CUdevice) -> Result<usize, CUresult> {
        let ordinal = usize::try_from(device).map_err(|_| CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        if ordinal < self.devices.len() { Ok(ordinal) } else { Err(CUresult::CUDA_ERROR_INVALID_DEVICE) }
    }

    pub(crate) fn device(&self, ordinal: usize) -> Result<&Device, CUresult> {
        self.devices.get(ordinal).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
    }

    pub(crate) fn device_mut(&mut self, ordinal: usize) -> Result<&mut Device, CUresult> {
        self.devices.get_mut(ordinal).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
    }
}

pub(crate) fn init(state: &mut State, flags: c_uint) -> Answer {
    if flags != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if state.devices.is_empty() {
        return Err(CUresult::CUDA_ERROR_NO_DEVICE);
    }
    state.initialised = true;
    if let Some(slot) = slots::slot(state.slot.into()) {
        slot.process.store(std::process::id(), Relaxed);
    }
    Ok(())
}

pub(crate) fn driver_version(state: &mut State, version: Out<c_int>) -> Answer {
    version.set(state.options.driver_version as c_int)
}

/// The code's name, kept for ever: callers get a pointer to it.
fn name_for_ever(code: CUresult) -> Option<*const c_char> {
    static NAMES: parking_lot::Mutex<Vec<(u32, &'static core::ffi::CStr)>> = parking_lot::Mutex::new(Vec::new());
    let mut names = NAMES.lock();
    if let Some((_, name)) = names.iter().find(|(of, _)| *of == code.0) {
        return Some(name.as_ptr());
    }
    let name: &'static core::ffi::CStr = Box::leak(CString::new(code.name()?).ok()?.into_boxed_c_str());
    names.push((code.0, name));
    Some(name.as_ptr())
}

pub(crate) fn error_name(_: &mut State, code: CUresult, name: Out<*const c_char>) -> Answer {
    match name_for_ever(code) {
        Some(known) => name.set(known),
        None => {
            name.set(core::ptr::null())?;
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
    }
}

/// The simulator describes a code by its name.
pub(crate) fn error_string(state: &mut State, code: CUresult, text: Out<*const c_char>) -> Answer {
    error_name(state, code, text)
}

pub(crate) fn get(state: &mut State, device: Out<CUdevice>, ordinal: c_int) -> Answer {
    state.ordinal(ordinal)?;
    device.set(ordinal)
}

pub(crate) fn count(state: &mut State, count: Out<c_int>) -> Answer {
    count.set(state.devices.len() as c_int)
}

pub(crate) fn attribute(
    state: &mut State,
    value: Out<c_int>,
    attribute: CUdevice_attribute,
    device: CUdevice,
) -> Answer {
    let ordinal = state.ordinal(device)?;
    value.required()?;
    value.set(attributes::value(&state.options, ordinal, attribute).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?)
}

/// Writes `text`, cut off at `len` bytes with the terminator.
fn write_text(out: &Out<c_char>, len: c_int, text: &str) -> Answer {
    let room =
        usize::try_from(len).ok().and_then(|len| len.checked_sub(1)).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    out.set_all(text.bytes().take(room).chain(core::iter::once(0)).map(|byte| byte as c_char))
}

pub(crate) fn name(state: &mut State, name: Out<c_char>, len: c_int, device: CUdevice) -> Answer {
    state.ordinal(device)?;
    let known = if state.options.name.is_empty() { "Simulated NVIDIA H200" } else { &state.options.name };
    write_text(&name, len, known)
}

pub(crate) fn uuid(state: &mut State, uuid: Out<CUuuid>, device: CUdevice) -> Answer {
    let ordinal = state.ordinal(device)?;
    let mut bytes = *b"cupool-sim-gpu-0";
    bytes[15] = b'a' + ordinal as u8;
    uuid.set(CUuuid { bytes: bytes.map(|byte| byte as c_char) })
}

pub(crate) fn pci_bus_id(state: &mut State, id: Out<c_char>, len: c_int, device: CUdevice) -> Answer {
    let ordinal = state.ordinal(device)?;
    write_text(&id, len, &format!("0000:{:02X}:00.0", attributes::pci_bus(ordinal)))
}

pub(crate) fn total_memory(state: &mut State, bytes: Out<usize>, device: CUdevice) -> Answer {
    state.ordinal(device)?;
    bytes.set(state.options.device_memory as usize)
}

pub(crate) fn can_access_peer(state: &mut State, can: Out<c_int>, device: CUdevice, peer: CUdevice) -> Answer {
    let (device, peer) = (state.ordinal(device)?, state.ordinal(peer)?);
    can.set((device != peer && state.options.peer_access).into())
}
