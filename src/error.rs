//! What can go wrong, in types: small to pass around, and printed without asking the driver.

use std::num::NonZero;

use cuda_sys::{CUdevice_attribute, CUmemPool_attribute, CUresult, LoadError, Symbol};

use crate::{OutOfMemory, attribute_name};

/// The result of a call that can fail.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver answered a call with an error code.
    #[error(transparent)]
    Driver(DriverError),
    /// No usable driver was found; says what was tried.
    #[error(transparent)]
    Load(LoadFailure),
    /// This driver lacks the entry point: it is older than the call.
    #[error(
        "the driver lacks {} (introduced in CUDA {}.{})",
        .0.row(), .0.since() / 1000, .0.since() % 1000 / 10
    )]
    Unsupported(Symbol),
    /// An allocation did not fit; says what was asked for and what there is.
    #[error(transparent)]
    OutOfMemory(Box<OutOfMemory>),
    /// The process forked after the driver was initialised. CUDA cannot be used in such a child: start a new process
    /// (fork, then exec) instead.
    #[error("CUDA was initialised before this process was forked; the child cannot use it")]
    ForkedAfterInit,
    /// The handler that recognises forked children could not be installed.
    #[error("pthread_atfork failed with errno {0}")]
    ForkHandler(i32),
    /// The device has no stream-ordered memory pools.
    #[error(
        "device {device} has no memory pools (CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED is 0): \
         some virtual GPUs, TCC-mode and older devices lack them"
    )]
    PoolsUnsupported {
        /// The device's ordinal.
        device: i32,
    },
    /// `len` elements of `size` bytes are more bytes than an address can count.
    #[error("{len} elements of {size} bytes overflow the address space")]
    SizeOverflow {
        /// Number of elements asked for.
        len: usize,
        /// Size of one, in bytes.
        size: usize,
    },
    /// Source and destination of a copy differ in length.
    #[error("the destination has {destination} elements, the source {source_len}")]
    LengthMismatch {
        /// Elements in the destination.
        destination: usize,
        /// Elements in the source.
        source_len: usize,
    },
    /// A range ends beyond the slice, or before it starts.
    #[error("range of elements up to {end} in a slice of {len}")]
    OutOfBounds {
        /// Where the range ends; its start where that is later.
        end: usize,
        /// Elements in the slice.
        len: usize,
    },
    /// A device address is not aligned for the element type or the width of the operation.
    #[error("device address {address:#x} is not a multiple of {align}")]
    Misaligned {
        /// The address.
        address: u64,
        /// What it must be a multiple of.
        align: usize,
    },
    /// A slice's bytes are not a whole number of elements of the new type.
    #[error("{bytes} bytes are not a whole number of {size}-byte elements")]
    UnevenCast {
        /// Bytes in the slice.
        bytes: usize,
        /// Size of an element of the new type, in bytes.
        size: usize,
    },
    /// Text that does not begin as PTX does: with comments, if any, and `.version`.
    #[error("the text is not PTX")]
    NotPtx,
    /// Text for the driver holds a NUL character.
    #[error("the text holds a NUL character")]
    InteriorNul,
    /// A loan to another stream was forgotten, or could not be ended, so nothing orders what that stream does with the
    /// memory. It is leaked.
    #[error("a buffer's loan to another stream was never ended; its memory is given up")]
    LoanForgotten,
    /// A function that a stream called on the host panicked.
    #[error("a host function panicked")]
    HostFunctionPanicked,
    /// No page-locked host memory is to be had. That can run out far below what the host has free (limits of the
    /// system, of a container, or of Windows), and says nothing about device memory.
    #[error("{bytes} bytes of page-locked host memory cannot be had")]
    HostMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// Two objects belong to different drivers (a real one and a simulated one, say).
    #[error("objects of two different drivers cannot be used together")]
    DriverMismatch,
    /// The context is not the device's primary one, and only that can be shared.
    #[error("the context is not the primary context of its device")]
    NotPrimary,
    /// The work that the question is about has not finished.
    #[error("the event's work has not finished")]
    NotReady,
    /// The event was never recorded.
    #[error("the event was never recorded")]
    NotRecorded,
    /// The stream is being captured into a graph, and the call cannot be part of one.
    #[error("the stream is being captured")]
    StreamCapturing,
    /// Kernels and copies of the device cannot reach memory of the pool's device.
    #[error("device {device} cannot access memory of device {owner}")]
    PeerAccessUnsupported {
        /// Who would have got access: the ordinal.
        device: i32,
        /// The device of the pool: the ordinal.
        owner: i32,
    },
    /// A pool's own device cannot be denied its memory.
    #[error("device {device} is the pool's own, whose access cannot be taken back")]
    OwnAccess {
        /// The device's ordinal.
        device: i32,
    },
    /// Memory of the pool is allocated, or waits for a stream to reach a free.
    #[error("memory of the pool is in use: it holds {held} bytes that it cannot give back")]
    PoolInUse {
        /// Bytes that the pool still holds after giving back what is free.
        held: u64,
    },
    /// The driver answered an access that is newer than this crate.
    #[error("the driver answered the access flags {flags:#x}, which are newer than this crate")]
    UnknownAccess {
        /// The driver's flags, a `CUmemAccess_flags`.
        flags: u32,
    },
    /// The device's current pool is somebody else's, who may destroy it at any time.
    #[error("the current pool of device {device} is somebody else's, who may destroy it before it is to be restored")]
    ForeignCurrentPool {
        /// The device's ordinal.
        device: i32,
    },
    /// The two belong to different contexts, and what was asked for works in one only.
    #[error("the objects belong to different contexts")]
    ContextMismatch,
    /// The memory is not managed.
    #[error("the memory is not managed memory")]
    NotManaged,
    /// The device has no managed memory.
    #[error("device {device} has no managed memory (CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY is 0)")]
    ManagedMemoryUnsupported {
        /// The device's ordinal.
        device: i32,
    },
    /// The host must not touch managed memory while that device works, so it is not let to look.
    #[error(
        "device {device} does not share managed memory with the host while it works \
         (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0): copy instead"
    )]
    ConcurrentManagedAccessUnsupported {
        /// The device's ordinal.
        device: i32,
    },
    /// The device address of memory that should be there is 0.
    #[error("the device address is 0")]
    NullAddress,
    /// The owner of foreign memory, or something that a graph was given to keep, panicked when it was dropped.
    #[error("an owner panicked when it was dropped")]
    OwnerPanicked,
    /// A DLPack tensor is not what is wanted, or not well-formed.
    #[cfg(feature = "dlpack")]
    #[error(transparent)]
    Dlpack(crate::dlpack::DlpackError),
    /// The stream is not being captured, and the call is for a graph only.
    #[error("the stream is not being captured")]
    NotCapturing,
    /// Work on another stream that uses this stream's memory could neither be ordered nor waited for.
    /// Its memory is leaked rather than freed.
    #[error("foreign work on this stream's memory could neither be ordered nor waited for; its memory is given up")]
    OrderLost,
    /// The device has memory pools, but not such a one.
    #[error(
        "device {device} cannot have such a memory pool ({} is {value})",
        attribute_name::of_device(.attribute)
    )]
    PoolKindUnsupported {
        /// The device's ordinal.
        device: i32,
        /// What says so.
        attribute: CUdevice_attribute,
        /// The device's answer.
        value: i32,
    },
    /// The driver is older than memory pools that are made so.
    #[error(
        "the driver has no memory pools with {property} (introduced in CUDA {}.{})",
        .since / 1000, .since % 1000 / 10
    )]
    PropertyUnsupported {
        /// What was asked for.
        property: &'static str,
        /// The CUDA version that introduced it, as `1000 * major + 10 * minor`.
        since: u32,
    },
    /// Properties of a memory pool that do not go together.
    #[error("there is no such memory pool: {0}")]
    PoolProperties(&'static str),
    /// The driver lacks the attribute of memory pools: it is older than that.
    #[error(
        "the driver lacks {} (introduced in CUDA {}.{})",
        attribute_name::of_pool(.0),
        attribute_name::pool_since(.0) / 1000,
        attribute_name::pool_since(.0) % 1000 / 10
    )]
    AttributeUnsupported(CUmemPool_attribute),
    /// The driver took a value for an attribute of a memory pool, and has another.
    #[error("{} was set to {set}, and is {read}", attribute_name::of_pool(.attribute))]
    AttributeNotKept {
        /// The attribute.
        attribute: CUmemPool_attribute,
        /// What it was set to.
        set: u64,
        /// What the driver answers.
        read: u64,
    },
    /// The pool was not made to be exported in this way: its [`handle_types`](crate::MemPoolProperties::handle_types) lack the kind
    /// of handle. (Default, imported and borrowed pools may be without any.)
    #[error("the pool was not made to be shared with other processes in this way")]
    NotShareable,
    /// Bytes that are to name something exported do not: says what is wrong with them.
    #[error("not an exported handle: {0}")]
    MalformedHandle(&'static str),
    /// Memory was exported as elements of one size and is imported as elements of another.
    #[error("memory was exported as {exported}-byte elements, and cannot be imported as {imported}-byte ones")]
    ElementSize {
        /// Size of an element when it was exported, in bytes.
        exported: usize,
        /// Size of an element of the type that was asked for, in bytes.
        imported: usize,
    },
    /// A descriptor claims more memory than was exported.
    #[error("the descriptor says {bytes} bytes, and the allocation has {allocated}")]
    BeyondAllocation {
        /// What the descriptor says.
        bytes: usize,
        /// What the driver says.
        allocated: usize,
    },
    /// Imported memory lies on another device than the context or stream that was given.
    #[error("the imported memory is on device {found}, not on device {expected}")]
    OtherDevice {
        /// The device of the context or stream.
        expected: i32,
        /// The memory's.
        found: i32,
    },
    /// The device has no events that processes can share.
    #[error("device {device} has no interprocess events (CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED is 0)")]
    InterprocessEventsUnsupported {
        /// The device's ordinal.
        device: i32,
    },
    /// The handle is of an event of this very process, which uses the event itself.
    #[error("an event's handle cannot be opened in the process that exported it; use the event itself")]
    OwnEvent,
    /// An earlier import of the same allocation could not be released in order. What becomes of its addresses is not
    /// known, so it is not imported again through this pool.
    #[error("an earlier import of this allocation was given up, so it is not imported again")]
    ImportLost,
}

impl Error {
    /// The driver's code, where the driver refused a call. A pool's soft limit refuses with the code that the driver has
    /// for what does not fit.
    #[must_use]
    pub fn code(&self) -> Option<CUresult> {
        match self {
            Self::Driver(error) => Some(error.code()),
            Self::OutOfMemory(_) => Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY),
            _ => None,
        }
    }

    /// Whether the device is at fault, so that every later call in this process fails too and the call that reported
    /// it need not be the cause.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        self.code().is_some_and(CUresult::is_sticky)
    }

    /// What to do about it, where something outside the program helps.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.code().and_then(CUresult::hint)
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

/// The code with which the driver answered a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DriverError {
    code: NonZero<u32>,
    call: Symbol,
}

impl DriverError {
    pub(crate) const fn new(call: Symbol, code: NonZero<u32>) -> Self {
        Self { code, call }
    }

    /// The driver's code; may be one that is newer than this crate.
    #[must_use]
    pub const fn code(self) -> CUresult {
        CUresult(self.code.get())
    }

    /// The entry point that answered it.
    #[must_use]
    pub const fn call(self) -> Symbol {
        self.call
    }
}

impl core::fmt::Display for DriverError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (call, code) = (self.call.row(), self.code());
        match code.name() {
            Some(name) => write!(f, "{call} returned {name} ({})", code.0)?,
            None => write!(f, "{call} returned {}, a code newer than this crate", code.0)?,
        }
        if code.is_sticky() {
            write!(f, "; the fault may be of earlier work, and lasts")?;
        }
        match code.hint() {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DriverError {}

/// A [`LoadError`], compared by what it says.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct LoadFailure(#[from] LoadError);

impl LoadFailure {
    /// Every file that was tried, and why it was no driver.
    #[must_use]
    pub fn error(&self) -> &LoadError {
        &self.0
    }
}

impl PartialEq for LoadFailure {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for LoadFailure {}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::Load(LoadFailure(error))
    }
}

const _: () = assert!(size_of::<DriverError>() == 8 && size_of::<Error>() <= 24);
