//! Peers in C and C++: the functions of `shims/peer.h`, in a shared library.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::Path,
    ptr::{self, NonNull},
    sync::Arc,
};

use libloading::{
    Library,
    os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW},
};

use crate::peer::{Event, Outcome, Peer, Step};

macro_rules! functions {
    ($( $name:ident: $type:ty; )*) => {
        /// What a library exports.
        pub(crate) struct Shim {
            $( $name: $type, )*
            // Never unloaded: libraries of CUDA's do not expect to be.
            _library: std::mem::ManuallyDrop<Library>,
        }

        impl Shim {
            pub(crate) fn load(path: &Path) -> Outcome<Arc<Self>> {
                // SAFETY: a library of ours, whose initialisers register things and no more.
                let library = Library::from(unsafe { UnixLibrary::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?);
                Ok(Arc::new(Self {
                    $(
                        // SAFETY: `shims/peer.h` declares the function so.
                        $name: *unsafe { library.get::<$type>(concat!("peer_", stringify!($name))) }?,
                    )*
                    _library: std::mem::ManuallyDrop::new(library),
                }))
            }
        }
    };
}

functions! {
    who: unsafe extern "C" fn() -> *const c_char;
    version: unsafe extern "C" fn() -> *const c_char;
    error: unsafe extern "C" fn() -> *const c_char;
    setting: unsafe extern "C" fn(u32) -> *const c_char;
    own: unsafe extern "C" fn(u32) -> c_int;
    open: unsafe extern "C" fn(u32, u32) -> *mut c_void;
    close: unsafe extern "C" fn(*mut c_void);
    attach: unsafe extern "C" fn(*mut c_void) -> c_int;
    drain: unsafe extern "C" fn(*mut c_void) -> c_int;
    trim: unsafe extern "C" fn(*mut c_void) -> c_int;
    pairs: unsafe extern "C" fn(*mut c_void, u32, u64, u32, c_int) -> f64;
    fill: unsafe extern "C" fn(*mut c_void, *const u64, u32) -> c_int;
    churn: unsafe extern "C" fn(*mut c_void, *const Step, u32) -> f64;
    empty: unsafe extern "C" fn(*mut c_void) -> c_int;
    replay: unsafe extern "C" fn(*mut c_void, *const Event, u32, u32, *mut u64) -> f64;
}

impl Shim {
    pub(crate) fn who(&self) -> String {
        // SAFETY: takes nothing, returns a string that lives as long as the library.
        text(unsafe { (self.who)() })
    }

    pub(crate) fn version(&self) -> String {
        // SAFETY: as above.
        text(unsafe { (self.version)() })
    }

    /// The ways of using the peer, and whether each may have a pool to itself.
    pub(crate) fn settings(&self) -> Vec<(String, bool)> {
        (0..)
            .map_while(|setting| {
                // SAFETY: any number may be passed; a string that lives as long as the library, or null.
                let name = unsafe { (self.setting)(setting) };
                // SAFETY: any number may be passed.
                (!name.is_null()).then(|| (text(name), unsafe { (self.own)(setting) } != 0))
            })
            .collect()
    }

    pub(crate) fn open(self: &Arc<Self>, setting: u32, streams: u32) -> Outcome<ShimPeer> {
        // SAFETY: any numbers may be passed.
        match NonNull::new(unsafe { (self.open)(setting, streams) }) {
            Some(peer) => Ok(ShimPeer { peer, shim: Arc::clone(self) }),
            None => Err(self.failure()),
        }
    }

    fn failure(&self) -> Box<dyn std::error::Error + Send + Sync> {
        // SAFETY: a string that is valid until the next call in this thread.
        text(unsafe { (self.error)() }).into()
    }

    fn succeeded(&self, code: c_int) -> Outcome<()> {
        if code == 0 { Ok(()) } else { Err(self.failure()) }
    }

    fn time(&self, nanoseconds: f64) -> Outcome<f64> {
        if nanoseconds >= 0.0 { Ok(nanoseconds) } else { Err(self.failure()) }
    }
}

fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a C string of the library's, which the callers vouch for.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

pub(crate) struct ShimPeer {
    peer: NonNull<c_void>,
    shim: Arc<Shim>,
}

// SAFETY: `peer_pairs` may be called by several threads with a stream each; all else is called by one at a time.
unsafe impl Sync for ShimPeer {}

impl Drop for ShimPeer {
    fn drop(&mut self) {
        // SAFETY: from `peer_open`, and closed here alone.
        unsafe { (self.shim.close)(self.peer.as_ptr()) }
    }
}

// In all that follows: `peer` is open until `self` is dropped, and slices are as long as the library is told.
impl Peer for ShimPeer {
    fn attach(&self) -> Outcome<()> {
        // SAFETY: see above.
        self.shim.succeeded(unsafe { (self.shim.attach)(self.peer.as_ptr()) })
    }

    fn drain(&self) -> Outcome<()> {
        // SAFETY: see above.
        self.shim.succeeded(unsafe { (self.shim.drain)(self.peer.as_ptr()) })
    }

    fn trim(&self) -> Outcome<()> {
        // SAFETY: see above.
        self.shim.succeeded(unsafe { (self.shim.trim)(self.peer.as_ptr()) })
    }

    fn pairs(&self, stream: u32, bytes: u64, count: u32, synchronise: bool) -> Outcome<f64> {
        // SAFETY: see above; streams are below the number that the peer was opened with.
        self.shim.time(unsafe { (self.shim.pairs)(self.peer.as_ptr(), stream, bytes, count, synchronise.into()) })
    }

    fn fill(&self, bytes: &[u64]) -> Outcome<()> {
        // SAFETY: see above.
        self.shim.succeeded(unsafe { (self.shim.fill)(self.peer.as_ptr(), bytes.as_ptr(), bytes.len() as u32) })
    }

    fn churn(&self, steps: &[Step]) -> Outcome<f64> {
        // SAFETY: see above; blocks are below the length of the live set.
        self.shim.time(unsafe { (self.shim.churn)(self.peer.as_ptr(), steps.as_ptr(), steps.len() as u32) })
    }

    fn empty(&self) -> Outcome<()> {
        // SAFETY: see above.
        self.shim.succeeded(unsafe { (self.shim.empty)(self.peer.as_ptr()) })
    }

    fn replay(&self, events: &[Event], blocks: u32, reserved: Option<&mut [u64]>) -> Outcome<f64> {
        let reserved = reserved.map_or(ptr::null_mut(), |reserved| {
            assert_eq!(reserved.len(), events.len(), "one figure an event");
            reserved.as_mut_ptr()
        });
        let (first, count) = (events.as_ptr(), events.len() as u32);
        // SAFETY: see above; blocks are below `blocks`, and streams below the number that the peer was opened with.
        self.shim.time(unsafe { (self.shim.replay)(self.peer.as_ptr(), first, count, blocks, reserved) })
    }
}
