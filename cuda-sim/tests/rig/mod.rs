//! A simulated driver that is initialised, with a context, and short names for the calls that tests make.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "this is test code")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]

use core::{ffi::c_void, ptr};

use cuda_sys::*;
use cupool_sim::{Builder, Functions, Misuse, Simulator};

pub(crate) const OK: CUresult = CUresult::CUDA_SUCCESS;
pub(crate) const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

pub(crate) struct Rig {
    pub(crate) sim: Simulator,
    pub(crate) cuda: &'static Functions,
    pub(crate) context: CUcontext,
}

pub(crate) fn rig() -> Rig {
    Rig::with(Simulator::builder())
}

impl Rig {
    pub(crate) fn with(options: Builder) -> Self {
        let sim = options.build();
        let cuda = sim.functions();
        let mut context = ptr::null_mut();
        unsafe {
            assert_eq!((cuda.cuInit)(0), OK);
            assert_eq!((cuda.cuDevicePrimaryCtxRetain)(&mut context, 0), OK);
            assert_eq!((cuda.cuCtxPushCurrent)(context), OK);
        }
        Self { sim, cuda, context }
    }

    /// A non-blocking stream.
    pub(crate) fn stream(&self) -> CUstream {
        self.stream_with(1)
    }

    pub(crate) fn stream_with(&self, flags: u32) -> CUstream {
        let mut stream = ptr::null_mut();
        assert_eq!(unsafe { (self.cuda.cuStreamCreateWithPriority)(&mut stream, flags, 0) }, OK);
        stream
    }

    pub(crate) fn destroy_stream(&self, stream: CUstream) -> CUresult {
        unsafe { (self.cuda.cuStreamDestroy)(stream) }
    }

    pub(crate) fn sync(&self, stream: CUstream) -> CUresult {
        unsafe { (self.cuda.cuStreamSynchronize)(stream) }
    }

    pub(crate) fn query(&self, stream: CUstream) -> CUresult {
        unsafe { (self.cuda.cuStreamQuery)(stream) }
    }

    pub(crate) fn event(&self, flags: u32) -> CUevent {
        let mut event = ptr::null_mut();
        assert_eq!(unsafe { (self.cuda.cuEventCreate)(&mut event, flags) }, OK);
        event
    }

    pub(crate) fn record(&self, event: CUevent, stream: CUstream) -> CUresult {
        unsafe { (self.cuda.cuEventRecord)(event, stream) }
    }

    pub(crate) fn wait(&self, stream: CUstream, event: CUevent) -> CUresult {
        unsafe { (self.cuda.cuStreamWaitEvent)(stream, event, 0) }
    }

    pub(crate) fn try_pool(&self, props: &CUmemPoolProps_v1) -> Result<CUmemoryPool, CUresult> {
        let mut pool = ptr::null_mut();
        match unsafe { (self.cuda.cuMemPoolCreate)(&mut pool, props) } {
            OK => Ok(pool),
            code => Err(code),
        }
    }

    pub(crate) fn pool(&self) -> CUmemoryPool {
        self.pool_of(0)
    }

    pub(crate) fn pool_of(&self, max: usize) -> CUmemoryPool {
        let mut props = props();
        props.maxSize = max;
        self.try_pool(&props).unwrap()
    }

    pub(crate) fn alloc(&self, bytes: usize, pool: CUmemoryPool, stream: CUstream) -> Result<u64, CUresult> {
        let mut pointer = 0;
        match unsafe { (self.cuda.cuMemAllocFromPoolAsync)(&mut pointer, bytes, pool, stream) } {
            OK => Ok(pointer),
            code => Err(code),
        }
    }

    pub(crate) fn free(&self, pointer: u64, stream: CUstream) -> CUresult {
        unsafe { (self.cuda.cuMemFreeAsync)(pointer, stream) }
    }

    pub(crate) fn fill(&self, pointer: u64, value: u8, bytes: usize, stream: CUstream) -> CUresult {
        unsafe { (self.cuda.cuMemsetD8Async)(pointer, value, bytes, stream) }
    }

    pub(crate) fn upload(&self, pointer: u64, source: &[u8], stream: CUstream) -> CUresult {
        unsafe { (self.cuda.cuMemcpyHtoDAsync)(pointer, source.as_ptr().cast(), source.len(), stream) }
    }

    pub(crate) fn download(&self, pointer: u64, bytes: usize, stream: CUstream) -> Vec<u8> {
        let mut target = vec![0; bytes];
        let code = unsafe { (self.cuda.cuMemcpyDtoHAsync)(target.as_mut_ptr().cast(), pointer, bytes, stream) };
        assert_eq!(code, OK);
        assert_eq!(self.sync(stream), OK);
        target
    }

    pub(crate) fn pinned(&self, bytes: usize) -> *mut u8 {
        let mut pointer: *mut c_void = ptr::null_mut();
        assert_eq!(unsafe { (self.cuda.cuMemHostAlloc.unwrap())(&mut pointer, bytes, 0) }, OK);
        pointer.cast()
    }

    pub(crate) fn attribute(&self, pool: CUmemoryPool, attribute: CUmemPool_attribute) -> u64 {
        let mut value = 0_u64;
        let code = unsafe { (self.cuda.cuMemPoolGetAttribute)(pool, attribute, (&raw mut value).cast()) };
        assert_eq!(code, OK);
        value
    }

    pub(crate) fn set_attribute(&self, pool: CUmemoryPool, attribute: CUmemPool_attribute, value: u64) -> CUresult {
        let mut value = value;
        unsafe { (self.cuda.cuMemPoolSetAttribute)(pool, attribute, (&raw mut value).cast()) }
    }

    pub(crate) fn used(&self, pool: CUmemoryPool) -> u64 {
        self.attribute(pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
    }

    pub(crate) fn reserved(&self, pool: CUmemoryPool) -> u64 {
        self.attribute(pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
    }

    pub(crate) fn keep_memory(&self, pool: CUmemoryPool) {
        let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        assert_eq!(self.set_attribute(pool, threshold, u64::MAX), OK);
    }

    pub(crate) fn trim(&self, pool: CUmemoryPool) -> CUresult {
        unsafe { (self.cuda.cuMemPoolTrimTo)(pool, 0) }
    }

    pub(crate) fn misuses(&self) -> Vec<Misuse> {
        self.sim.take_findings().into_iter().map(|finding| finding.misuse).collect()
    }
}

/// A pool of a device's memory.
pub(crate) fn props() -> CUmemPoolProps_v1 {
    CUmemPoolProps_v1 {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: 0 },
        win32SecurityAttributes: ptr::null_mut(),
        maxSize: 0,
        usage: 0,
        reserved: [0; 54],
    }
}
