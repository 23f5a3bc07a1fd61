//! Loaders that ask the linker for each function by name; and what the library says was called.

use std::{
    ffi::{CString, c_char, c_void},
    mem::{ManuallyDrop, transmute},
    path::Path,
    ptr,
};

use cuda_sys::{CUresult, Functions, Symbol};
use libloading::os::unix::{Library as SharedObject, RTLD_LOCAL, RTLD_NOW};

use crate::layout::{Layout, load};

/// The rows whose signature is the second of its name in `cuda.h`, where a macro leads from the name to the export.
const SUFFIXED: [Symbol; 17] = [
    Symbol::cuDeviceTotalMem,
    Symbol::cuDevicePrimaryCtxRelease,
    Symbol::cuDevicePrimaryCtxReset,
    Symbol::cuCtxPushCurrent,
    Symbol::cuCtxPopCurrent,
    Symbol::cuStreamDestroy,
    Symbol::cuStreamBeginCapture,
    Symbol::cuEventDestroy,
    Symbol::cuMemGetInfo,
    Symbol::cuMemAlloc,
    Symbol::cuMemFree,
    Symbol::cuMemHostGetDevicePointer,
    Symbol::cuMemHostRegister,
    Symbol::cuMemGetAddressRange,
    Symbol::cuMemcpyHtoDAsync,
    Symbol::cuMemcpyDtoHAsync,
    Symbol::cuMemcpyDtoDAsync,
];

/// A copy of the simulated driver, as the linker sees it. It stays loaded: threads have state in it.
struct Object(ManuallyDrop<SharedObject>);

impl Object {
    fn open(path: &Path) -> Self {
        // SAFETY: it is a simulated driver, which does nothing when it is loaded.
        Self(ManuallyDrop::new(unsafe { SharedObject::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.unwrap()))
    }

    fn address(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).unwrap();
        // SAFETY: only the address is taken.
        unsafe { self.0.get::<*mut c_void>(&name) }.ok().map(|found| found.into_raw())
    }

    /// The function of a row, by the name that it is exported by.
    fn by_name(&self, symbol: Symbol) -> *mut c_void {
        let suffix = if SUFFIXED.contains(&symbol) { "_v2" } else { "" };
        let name = format!("{}{suffix}", symbol.row());
        self.address(&name).unwrap_or_else(|| panic!("{name} is not exported"))
    }

    /// All rows by their names.
    fn functions(&self) -> Functions {
        // SAFETY: exports have the signatures of their rows, and the library stays loaded.
        unsafe { Functions::resolve(|symbol| self.by_name(symbol)) }.unwrap()
    }

    fn start_log(&self) {
        // SAFETY: the function has this signature.
        unsafe { self.0.get::<extern "C" fn()>(c"cupool_sim_log_start") }.unwrap()();
    }

    fn log(&self) -> Vec<String> {
        type Read = unsafe extern "C" fn(*mut c_char, usize) -> usize;
        // SAFETY: the function has this signature.
        let read = unsafe { self.0.get::<Read>(c"cupool_sim_log_read") }.unwrap();
        // SAFETY: no byte may be written.
        let mut text = vec![b'.'; unsafe { read(ptr::null_mut(), 0) } + 1];
        // SAFETY: the vector is as long as that.
        let bytes = unsafe { read(text.as_mut_ptr().cast(), text.len()) };
        assert_eq!(text.pop(), Some(b'.'), "nothing is written behind the text");
        assert_eq!(bytes, text.len());
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Calls any entry point with zeroes for all its arguments: as many as the longest has, and as the largest is long.
fn call_with_zeroes(address: *mut c_void) -> CUresult {
    type Word = usize;
    type Longest = unsafe extern "C" fn(
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
        Word,
    ) -> CUresult;
    // SAFETY: arguments are integers, pointers and structures of those, which are zeroes in registers and on the stack; it
    // is the caller who clears the stack, so more of them than a function takes do no harm. It takes null pointers.
    unsafe { transmute::<*mut c_void, Longest>(address)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) }
}

#[test]
fn every_row_is_found_by_name_and_is_what_the_look_up_answers() {
    let layout = Layout::new();
    let driver = layout.driver("libcuda.so.1");
    let (object, looked_up) = (Object::open(&driver), load(&driver).unwrap());
    let looked_up = looked_up.functions();
    for symbol in Symbol::ALL.iter().copied().filter(|symbol| *symbol != Symbol::cuInit) {
        let answers = [object.by_name(symbol), looked_up.address(symbol)].map(|address| {
            object.start_log();
            (!address.is_null()).then(|| (call_with_zeroes(address), object.log()))
        });
        match answers {
            [Some((code, log)), None] => {
                // Newer than the driver that is simulated.
                assert_eq!((code, log), (CUresult::CUDA_ERROR_NOT_FOUND, vec![]), "{symbol:?}");
            }
            [by_name, by_look_up] => {
                assert_eq!(by_name, by_look_up, "{symbol:?}");
                assert_eq!(by_name.unwrap().1, [symbol.row()]);
            }
        }
    }
}

#[test]
fn a_program_that_goes_by_names_works_and_its_calls_are_told() {
    let layout = Layout::new();
    let object = Object::open(&layout.driver("libcuda.so.1"));
    let cuda = object.functions();
    let (mut context, mut stream, mut memory, mut read) = (ptr::null_mut(), ptr::null_mut(), 0, [0_u8; 4]);
    let ok = |code| assert_eq!(code, CUresult::CUDA_SUCCESS);
    // SAFETY: every pointer outlives the call, and `read` the copy, which is waited for.
    unsafe {
        ok((cuda.cuInit)(0));
        assert_eq!(object.log(), [""; 0], "nothing is remembered before that is asked for");
        ok((cuda.cuDevicePrimaryCtxRetain)(&mut context, 0));
        ok((cuda.cuCtxPushCurrent)(context));
        object.start_log();
        ok((cuda.cuStreamCreate.unwrap())(&mut stream, 1));
        ok((cuda.cuMemAllocAsync.unwrap())(&mut memory, 4, stream));
        ok((cuda.cuMemsetD8Async)(memory, 7, 4, stream));
        ok((cuda.cuMemcpyDtoHAsync)(read.as_mut_ptr().cast(), memory, 4, stream));
        ok((cuda.cuStreamSynchronize)(stream));
        std::thread::scope(|scope| {
            let handle = stream.addr();
            scope.spawn(move || ok((cuda.cuMemFreeAsync)(memory, ptr::without_provenance_mut(handle))));
        });
        ok((cuda.cuStreamDestroy)(stream));
    }
    assert_eq!(read, [7; 4]);
    let calls = ["cuStreamCreate", "cuMemAllocAsync", "cuMemsetD8Async", "cuMemcpyDtoHAsync", "cuStreamSynchronize"];
    assert_eq!(object.log(), [&calls[..], &["cuMemFreeAsync elsewhere", "cuStreamDestroy"]].concat());
    object.start_log();
    assert_eq!(object.log(), [""; 0]);
}

#[test]
fn what_a_copy_lacks_it_lacks_by_name_too() {
    let layout = Layout::new();
    let short = Object::open(&layout.altered("short.so", "without = cuMemPoolCreate")).functions();
    // SAFETY: null pointers are refused.
    unsafe {
        let (mut count, unknown) = (0, CUresult::CUDA_ERROR_NOT_FOUND);
        assert_eq!((short.cuMemPoolCreate)(ptr::null_mut(), ptr::null()), unknown);
        assert_eq!((short.cuDeviceGetCount)(&mut count), CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    let stub = Object::open(&layout.stub("stub.so")).functions();
    // SAFETY: `cuInit` takes no pointers.
    assert_eq!(unsafe { (stub.cuInit)(0) }, CUresult::CUDA_ERROR_STUB_LIBRARY);
}
