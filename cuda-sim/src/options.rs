//! How a simulated driver is to be.

use std::collections::{BTreeMap, BTreeSet};

use cuda_sys::CUdevice_attribute;

use crate::simulator::Simulator;

/// The options of a simulated driver. The defaults are those of one H200 with 1 GiB of memory.
///
/// ```
/// let sim = cupool_sim::Simulator::builder().devices(2).seed(7).build();
/// # drop(sim);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    pub(crate) driver_version: u32,
    pub(crate) devices: usize,
    pub(crate) device_memory: u64,
    pub(crate) seed: u64,
    pub(crate) pools_supported: bool,
    pub(crate) peer_access: bool,
    pub(crate) stale_access: bool,
    pub(crate) pageable_async: bool,
    pub(crate) record_calls: bool,
    pub(crate) check_order: bool,
    pub(crate) fabric: bool,
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<u32, i32>,
    pub(crate) unknown: BTreeSet<u32>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            driver_version: 13000,
            devices: 1,
            device_memory: 1 << 30,
            seed: 0,
            pools_supported: true,
            peer_access: true,
            stale_access: false,
            pageable_async: false,
            record_calls: true,
            check_order: true,
            fabric: false,
            name: String::new(),
            attributes: BTreeMap::new(),
            unknown: BTreeSet::new(),
        }
    }

    /// The CUDA version that the driver reports, as `1000 * major + 10 * minor`; its table lacks the optional entry
    /// points that are newer.
    pub const fn driver_version(mut self, version: u32) -> Self {
        self.driver_version = version;
        self
    }

    /// How many devices there are; none is allowed, more than 16 become 16.
    pub fn devices(mut self, devices: usize) -> Self {
        self.devices = devices.min(16);
        self
    }

    /// Bytes of memory of each device, at most 1 TiB.
    pub fn device_memory(mut self, bytes: u64) -> Self {
        self.device_memory = bytes.min(1 << 40);
        self
    }

    /// Chooses the order in which streams make progress. 0 runs as late as it can: only what somebody waits for.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whether the devices have memory pools; without them every pool call answers `CUDA_ERROR_NOT_SUPPORTED`.
    pub const fn pools_supported(mut self, supported: bool) -> Self {
        self.pools_supported = supported;
        self
    }

    /// Whether the devices can reach each other's memory.
    pub const fn peer_access(mut self, possible: bool) -> Self {
        self.peer_access = possible;
        self
    }

    /// Whether a pool gets, with the handle of one that is no more, the access which that one had granted, as with some
    /// drivers.
    pub const fn stale_access(mut self, stale: bool) -> Self {
        self.stale_access = stale;
        self
    }

    /// Whether copies from and to pageable host memory take place when they run, not during the call. CUDA's
    /// documentation allows both; drivers do the latter.
    pub const fn pageable_async(mut self, late: bool) -> Self {
        self.pageable_async = late;
        self
    }

    /// Whether [`Simulator::calls`] keeps the order of calls; their counts are kept in any case.
    pub const fn record_calls(mut self, record: bool) -> Self {
        self.record_calls = record;
        self
    }

    /// Whether uses of memory are checked for order: whether each comes after the allocation and before the free, and
    /// whether two that conflict are ordered at all, however they happened to run. On unless set otherwise; without it
    /// only what actually ran too early or too late is found.
    pub const fn check_order(mut self, check: bool) -> Self {
        self.check_order = check;
        self
    }

    /// Whether the system is set up to share memory by fabric handles; without, exporting one answers
    /// `CUDA_ERROR_NOT_SUPPORTED`. They can be imported in the same simulator only.
    pub const fn fabric(mut self, set_up: bool) -> Self {
        self.fabric = set_up;
        self
    }

    /// The name of the devices.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What the devices answer for an attribute, instead of the default.
    pub fn attribute(mut self, attribute: CUdevice_attribute, value: i32) -> Self {
        self.attributes.insert(attribute.0, value);
        self
    }

    /// Makes the driver one that does not know an attribute: it answers `CUDA_ERROR_INVALID_VALUE`.
    pub fn unknown_attribute(mut self, attribute: CUdevice_attribute) -> Self {
        self.unknown.insert(attribute.0);
        self
    }

    /// Starts the driver; waits for an earlier simulator to end if 32 exist.
    #[must_use]
    pub fn build(self) -> Simulator {
        Simulator::with(self)
    }
}
