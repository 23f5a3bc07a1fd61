//! What a result code says, without asking the driver: the code may come from a driver that is newer, broken or gone.

use crate::{bindings::CUresult, result_names::result_name};

impl CUresult {
    /// The code's name in the headers; `None` if it is newer than they are, or not NVIDIA's at all.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        result_name(self.0)
    }

    /// Whether the code reports a fault of the device that outlives the call: every later call in the process
    /// answers it too, and the call that first returns it need not have caused it.
    #[must_use]
    pub const fn is_sticky(self) -> bool {
        // Faults of kernels and of the device; the launch errors below 700 and the peer-access codes among them
        // (704, 705, …) report the call itself.
        matches!(self.0, 214 | 220 | 226 | 227 | 700 | 702 | 710 | 714..=720 | 721 | 999)
    }

    /// What to do about it, where something outside the program helps.
    #[must_use]
    pub const fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::CUDA_ERROR_NOT_INITIALIZED => "the driver was not initialised, or the process forked after it was",
            Self::CUDA_ERROR_DEINITIALIZED => "the process is exiting and the driver has shut down",
            Self::CUDA_ERROR_STUB_LIBRARY => {
                "this is the toolkit's link-time stub, not a driver: take its folder off LD_LIBRARY_PATH"
            }
            Self::CUDA_ERROR_DEVICE_UNAVAILABLE => "another process holds the device exclusively",
            Self::CUDA_ERROR_NO_DEVICE => "no device is visible: look at nvidia-smi and CUDA_VISIBLE_DEVICES",
            Self::CUDA_ERROR_SYSTEM_NOT_READY => {
                "the system is still starting up, or nvidia-fabricmanager is not running; try again later"
            }
            Self::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
                "libcuda and the kernel module are of different versions: reboot, or remove the other driver"
            }
            Self::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
                "a forward-compatibility libcuda is found first, and this device does not support it: remove the \
                 cuda-compat package from the library path"
            }
            Self::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {
                "a stream is being captured into a graph: this one, or one on another thread in the global mode"
            }
            Self::CUDA_ERROR_UNKNOWN => {
                "often a broken driver set-up: see the kernel log, and whether nvidia-uvm is loaded"
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_print_as_the_headers_name_them() {
        assert_eq!(CUresult::CUDA_SUCCESS.name(), Some("CUDA_SUCCESS"));
        assert_eq!(CUresult::CUDA_ERROR_OUT_OF_MEMORY.name(), Some("CUDA_ERROR_OUT_OF_MEMORY"));
        assert_eq!(CUresult(0xffff_ffff).name(), None);
        assert_eq!(CUresult(1001).name(), None);
    }

    #[test]
    fn faults_of_the_device_are_sticky_and_refusals_are_not() {
        for code in [700, 702, 710, 714, 715, 716, 717, 718, 719] {
            assert!(CUresult(code).is_sticky(), "{code}");
        }
        for code in [0, 1, 2, 3, 4, 201, 400, 600, 701, 704, 709, 801, 900, 901] {
            assert!(!CUresult(code).is_sticky(), "{code}");
        }
    }
}
