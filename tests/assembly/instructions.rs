//! Counts the instructions that an allocation and a free execute, raw and by way of a `Buffer`, and prints both.
//!
//! A child process runs each form between two signals while its parent has it execute one instruction after the
//! other. The two driver calls themselves are stand-ins that do next to nothing, alike for both forms. Build with
//! optimisation; `tests/assembly.rs` runs this.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    print!("{}", count::report());
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(clippy::expect_used, reason = "a program for tests")]
mod count {
    use std::{hint::black_box, ptr};

    use cupool::{
        Driver, MemPool, Stream,
        cuda_sys::{CUdeviceptr_v2, CUmemoryPool, CUresult, CUstream},
    };
    use cupool_sim::Simulator;

    unsafe extern "C" fn allocate(address: *mut CUdeviceptr_v2, _: usize, _: CUmemoryPool, _: CUstream) -> CUresult {
        // SAFETY: both forms pass a local variable.
        unsafe { *address = 0x1000 };
        CUresult::CUDA_SUCCESS
    }

    unsafe extern "C" fn free(_: CUdeviceptr_v2, _: CUstream) -> CUresult {
        CUresult::CUDA_SUCCESS
    }

    #[inline(never)]
    fn nothing(pool: &MemPool, stream: &Stream, bytes: usize) -> Result<(), u32> {
        black_box((pool, stream, bytes));
        Ok(())
    }

    #[inline(never)]
    fn raw(pool: &MemPool, stream: &Stream, bytes: usize) -> Result<(), u32> {
        let functions = stream.driver().functions();
        let mut address = 0;
        // SAFETY: pool and stream are live, and nobody uses the allocation.
        let allocated =
            unsafe { (functions.cuMemAllocFromPoolAsync)(&raw mut address, bytes, pool.as_raw(), stream.as_raw()) };
        if allocated.0 != 0 {
            return Err(allocated.0);
        }
        // SAFETY: the address was just allocated.
        let freed = unsafe { (functions.cuMemFreeAsync)(address, stream.as_raw()) };
        if freed.0 == 0 { Ok(()) } else { Err(freed.0) }
    }

    #[inline(never)]
    fn buffer(pool: &MemPool, stream: &Stream, bytes: usize) -> Result<(), u32> {
        match pool.alloc::<u8, _>(bytes, stream) {
            Ok(buffer) => {
                drop(buffer);
                Ok(())
            }
            Err(_) => Err(1),
        }
    }

    type Form = fn(&MemPool, &Stream, usize) -> Result<(), u32>;

    pub(crate) fn report() -> String {
        let base = steps(nothing);
        format!("raw {}\nbuffer {}\n", steps(raw) - base, steps(buffer) - base)
    }

    /// Calls `work` with a pool and a stream whose two driver calls do next to nothing.
    fn with_pool(work: impl FnOnce(&MemPool, &Stream)) {
        let simulator = Simulator::new();
        let mut functions = *simulator.functions();
        functions.cuMemAllocFromPoolAsync = allocate;
        functions.cuMemFreeAsync = free;
        // SAFETY: the simulator's functions behave as the driver's, and what the two others hand out nobody touches.
        let driver = unsafe { Driver::from_functions(Box::leak(Box::new(functions))) };
        let context = driver.device(0).and_then(cupool::Device::primary_context).expect("a simulated context");
        let stream = Stream::new(&context).expect("a simulated stream");
        let pool = MemPool::new(&context.device()).expect("a simulated pool");
        work(&pool, &stream);
    }

    /// The instructions that `form` executes, with a little of what is around it.
    fn steps(form: Form) -> u64 {
        const MARK: i32 = libc::SIGUSR1;
        // SAFETY: this process has one thread. It has not initialised a driver, so the child may.
        let child = unsafe { libc::fork() };
        if child == 0 {
            with_pool(|pool, stream| {
                let work = || black_box(form)(black_box(pool), black_box(stream), black_box(10)).expect("two calls");
                // Once without counting, so that whatever is done on first use is done.
                work();
                // SAFETY: plain system calls.
                unsafe {
                    libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null_mut::<u8>(), ptr::null_mut::<u8>());
                    libc::raise(MARK);
                    work();
                    libc::raise(MARK);
                    libc::_exit(0);
                }
            });
        }
        assert!(child > 0, "fork failed");
        let wait = || {
            let mut status = 0;
            // SAFETY: the status is a local variable.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFSTOPPED(status), "the child ended early: {status:#x}");
            libc::WSTOPSIG(status)
        };
        assert_eq!(wait(), MARK);
        let mut steps = 0;
        loop {
            // SAFETY: the child is stopped, and traced by this process.
            unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) };
            match wait() {
                MARK => break,
                _ => steps += 1,
            }
        }
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_KILL, child, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) };
        let mut status = 0;
        // SAFETY: the status is a local variable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        steps
    }
}
