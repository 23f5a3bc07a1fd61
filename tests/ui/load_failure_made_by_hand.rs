//! What was tried only the loader knows.
use cupool::{LoadFailure, cuda_sys::LoadError};

pub fn f(error: LoadError) -> LoadFailure {
    #[cfg(misuse)]
    return LoadFailure(error); //~ E0423
    #[cfg(not(misuse))]
    error.into()
}
