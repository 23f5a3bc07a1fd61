//! Initialisation and version.

use cuda_sys::Functions;

use super::{call, out};
use crate::Result;

pub(crate) fn init(functions: &Functions) -> Result<()> {
    call!(functions, cuInit(0))
}

pub(crate) fn driver_get_version(functions: &Functions) -> Result<i32> {
    // SAFETY: the driver writes the version when it answers success.
    unsafe { out(|version| call!(functions, cuDriverGetVersion(version))) }
}
