//! Where managed memory is to be: moved there, or advised to stay there.
//!
//! None of it changes what the elements are, so a shared buffer suffices. The driver rounds ranges to whole pages.

use core::ops::RangeBounds;

use bytemuck::Pod;
use cuda_sys::{CUdeviceptr_v2, CUmem_advise, CUmem_range_attribute, CUmemLocation, CUmemLocationType, Symbol};

use super::{ManagedBuffer, MemLocation};
use crate::{Error, Result, StreamHandle, raw};

/// What the driver writes where there is no device.
const NO_DEVICE: i32 = -2;

impl<T: Pod, S: StreamHandle> ManagedBuffer<T, S> {
    /// Has the elements of `range` moved to `location`, in the home stream's order. It is a hint with a cost now and a
    /// gain later: whoever uses the elements next need not wait for their pages one by one.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; [`Error::StreamCapturing`], since it cannot be part of a graph; [`Error::Unsupported`] for
    /// a NUMA node before CUDA 12.2; `CUDA_ERROR_INVALID_DEVICE` for a device without
    /// [concurrent managed access](crate::Device::concurrent_managed_access); else whatever the driver answers.
    #[doc(alias = "cuMemPrefetchAsync")]
    #[doc(alias = "cuMemPrefetchAsync_v2")]
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, range: impl RangeBounds<usize>, location: MemLocation) -> Result<()> {
        let Some(range) = self.bytes_of(range)? else { return Ok(()) };
        let location = self.raw_location(location)?;
        let home = self.home();
        home.ensure_not_capturing()?;
        // SAFETY: managed memory of this buffer's, which is live in its home stream's order.
        home.context().with_current(|| unsafe {
            raw::managed::mem_prefetch_async(self.home().driver().functions(), range, location, home.as_raw())
        })
    }

    /// Says whether the elements of `range` will mostly be read: then each device that reads them gets a copy of its
    /// own, which is thrown away when anybody writes.
    ///
    /// Advice holds from the call on, in no stream's order. It is for devices and the host on every driver, for single NUMA
    /// nodes since CUDA 12.2. Memory of a pool takes none: the driver answers `CUDA_ERROR_NOT_SUPPORTED` (580.159).
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], or whatever the driver answers.
    #[doc(alias = "cuMemAdvise")]
    #[doc(alias = "cuMemAdvise_v2")]
    #[doc(alias = "cudaMemAdvise")]
    pub fn set_read_mostly(&self, range: impl RangeBounds<usize>, on: bool) -> Result<()> {
        let advice = if on {
            CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY
        } else {
            CUmem_advise::CU_MEM_ADVISE_UNSET_READ_MOSTLY
        };
        self.advise(range, advice, MemLocation::Host)
    }

    /// Says where the elements of `range` are best kept, or with `None` that it does not matter: devices that can reach
    /// them there do so, and do not have them moved.
    ///
    /// # Errors
    /// As [`set_read_mostly`](Self::set_read_mostly); [`Error::Unsupported`] for a NUMA node before CUDA 12.2.
    #[doc(alias = "cuMemAdvise")]
    pub fn set_preferred_location(&self, range: impl RangeBounds<usize>, location: Option<MemLocation>) -> Result<()> {
        match location {
            Some(location) => self.advise(range, CUmem_advise::CU_MEM_ADVISE_SET_PREFERRED_LOCATION, location),
            None => self.advise(range, CUmem_advise::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, MemLocation::Host),
        }
    }

    /// Says whether `location`, a device or the host, will use the elements of `range`: then they stay mapped for it
    /// wherever they are, so that it need not wait for a fault of its own.
    ///
    /// # Errors
    /// As [`set_read_mostly`](Self::set_read_mostly).
    #[doc(alias = "cuMemAdvise")]
    pub fn set_accessed_by(&self, range: impl RangeBounds<usize>, location: MemLocation, on: bool) -> Result<()> {
        let advice = if on {
            CUmem_advise::CU_MEM_ADVISE_SET_ACCESSED_BY
        } else {
            CUmem_advise::CU_MEM_ADVISE_UNSET_ACCESSED_BY
        };
        self.advise(range, advice, location)
    }

    /// Whether all of `range` was said to be mostly read.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], or whatever the driver answers.
    #[doc(alias = "cuMemRangeGetAttribute")]
    pub fn is_read_mostly(&self, range: impl RangeBounds<usize>) -> Result<bool> {
        let Some(range) = self.bytes_of(range)? else { return Ok(false) };
        Ok(self.ask(range, CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY)? != 0)
    }

    /// The preferred location of all of `range`; `None` if it has none, or not one for all.
    ///
    /// # Errors
    /// As [`is_read_mostly`](Self::is_read_mostly).
    #[doc(alias = "cuMemRangeGetAttribute")]
    pub fn preferred_location(&self, range: impl RangeBounds<usize>) -> Result<Option<MemLocation>> {
        self.ask_location(
            range,
            CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
            CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
            CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID,
        )
    }

    /// Where all of `range` was last told to go by [`prefetch`](Self::prefetch), whether or not it has got there; `None`
    /// if nowhere, or not to one place.
    ///
    /// # Errors
    /// As [`is_read_mostly`](Self::is_read_mostly).
    #[doc(alias = "cuMemRangeGetAttribute")]
    pub fn last_prefetch_location(&self, range: impl RangeBounds<usize>) -> Result<Option<MemLocation>> {
        self.ask_location(
            range,
            CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
            CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
            CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID,
        )
    }

    /// Who was said to use all of `range`: devices and the host, not told apart by NUMA node.
    ///
    /// # Errors
    /// As [`is_read_mostly`](Self::is_read_mostly).
    #[doc(alias = "cuMemRangeGetAttribute")]
    pub fn accessed_by(&self, range: impl RangeBounds<usize>) -> Result<Vec<MemLocation>> {
        let Some(range) = self.bytes_of(range)? else { return Ok(Vec::new()) };
        let driver = self.home().driver();
        let devices = raw::device::device_get_count(driver.functions())?;
        // All devices and the host.
        let mut numbers = vec![NO_DEVICE; usize::try_from(devices).unwrap_or(0) + 1];
        self.ask_all(range, CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, &mut numbers)?;
        Ok(numbers.into_iter().filter_map(|number| MemLocation::from_number(driver, number)).collect())
    }

    fn advise(&self, range: impl RangeBounds<usize>, advice: CUmem_advise, location: MemLocation) -> Result<()> {
        let Some(range) = self.bytes_of(range)? else { return Ok(()) };
        let location = self.raw_location(location)?;
        let functions = self.home().driver().functions();
        // SAFETY: managed memory that this buffer owns.
        self.home().context().with_current(|| unsafe { raw::managed::mem_advise(functions, range, advice, location) })
    }

    /// Where a range is, by the newer questions for kind and number, or the older one on drivers without them.
    fn ask_location(
        &self,
        range: impl RangeBounds<usize>,
        number: CUmem_range_attribute,
        kind: CUmem_range_attribute,
        id: CUmem_range_attribute,
    ) -> Result<Option<MemLocation>> {
        let Some(range) = self.bytes_of(range)? else { return Ok(None) };
        let driver = self.home().driver();
        // The questions came with the calls that take such locations.
        if driver.functions().cuMemPrefetchAsync_v2.is_none() {
            return Ok(MemLocation::from_number(driver, self.ask(range, number)?));
        }
        let type_ = CUmemLocationType(self.ask(range, kind)?.cast_unsigned());
        let location = CUmemLocation { type_, id: self.ask(range, id)? };
        Ok(MemLocation::from_raw(driver, location))
    }

    fn ask(&self, range: (CUdeviceptr_v2, usize), attribute: CUmem_range_attribute) -> Result<i32> {
        let mut value = [NO_DEVICE];
        self.ask_all(range, attribute, &mut value)?;
        let [value] = value;
        Ok(value)
    }

    fn ask_all(
        &self,
        range: (CUdeviceptr_v2, usize),
        attribute: CUmem_range_attribute,
        values: &mut [i32],
    ) -> Result<()> {
        let functions = self.home().driver().functions();
        // SAFETY: managed memory that this buffer owns; the attribute is of as many 32-bit integers as are passed.
        self.home()
            .context()
            .with_current(|| unsafe { raw::managed::mem_range_get_attribute(functions, range, attribute, values) })
    }

    /// The elements of `range` in bytes; `None` if they are none.
    fn bytes_of(&self, range: impl RangeBounds<usize>) -> Result<Option<(CUdeviceptr_v2, usize)>> {
        let part = self.slice(range)?;
        if part.byte_len() == 0 {
            return Ok(None);
        }
        part.ensure_usable()?;
        Ok(Some((part.as_raw(), part.byte_len())))
    }

    /// The driver's form of `location`, unless its device is another driver's or the driver is too old for it.
    fn raw_location(&self, location: MemLocation) -> Result<CUmemLocation> {
        let driver = self.home().driver();
        match location {
            MemLocation::Device(device) => driver.ensure_same(device.driver())?,
            MemLocation::Host => {}
            MemLocation::HostNuma(_) | MemLocation::HostNumaCurrent => {
                if driver.functions().cuMemPrefetchAsync_v2.is_none() {
                    return Err(Error::Unsupported(Symbol::cuMemPrefetchAsync_v2));
                }
            }
        }
        Ok(location.to_raw())
    }
}
