//! What one process tells another about a buffer: plain bytes, which are checked before anything is done with them.

use core::fmt;

use bytemuck::Pod;

use super::handle::{Reader, Writer};
use crate::{Buffer, Error, Result, StreamHandle, raw, raw::ipc::HANDLE_LEN};
use cuda_sys::{CUdeviceptr_v2, CUresult};

const MAGIC: [u8; 8] = *b"cupoolXP";

/// A buffer as another process can import it: its length, the size of its elements, and what the driver needs to find
/// it in the pool.
///
/// It keeps nothing alive and owns nothing. It means something only to a process that has imported the buffer's pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExportedPointer {
    /// The driver's; all zero if there is no element.
    data: [u8; HANDLE_LEN],
    /// In the exporting process, where no other live allocation has it; 0 if there is no element.
    address: u64,
    len: u64,
    element: u64,
}

impl ExportedPointer {
    /// Number of bytes that it is written as.
    pub const BYTES: usize = 8 + 4 + 8 + 8 + 8 + HANDLE_LEN;

    /// As bytes, to be sent to another process on the same kind of machine.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put_header(MAGIC);
        writer.put(&self.element.to_le_bytes());
        writer.put(&self.len.to_le_bytes());
        writer.put(&self.address.to_le_bytes());
        writer.put(&self.data);
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. That the bytes are well formed does not make them true: see
    /// [`ImportedPool::import`](super::ImportedPool::import).
    ///
    /// # Errors
    /// [`Error::MalformedHandle`] if they are anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        reader.take_header(MAGIC)?;
        let element = u64::from_le_bytes(reader.take()?);
        let len = u64::from_le_bytes(reader.take()?);
        let address = u64::from_le_bytes(reader.take()?);
        let data = reader.take()?;
        reader.end()?;
        match len.checked_mul(element) {
            None => Err(Error::MalformedHandle("its length overflows")),
            Some(bytes) if (bytes == 0) != (data == [0; HANDLE_LEN]) || (bytes == 0) != (address == 0) => {
                Err(Error::MalformedHandle("its length and its memory contradict each other"))
            }
            Some(_) => Ok(Self { data, address, len, element }),
        }
    }

    /// Number of elements.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size of an element in bytes.
    #[must_use]
    pub const fn element_size(&self) -> u64 {
        self.element
    }

    /// What tells the allocation from the exporter's others.
    pub(super) const fn address(&self) -> CUdeviceptr_v2 {
        self.address
    }

    /// What the driver finds the memory by; `None` if there is none.
    pub(super) fn data(&self) -> Option<&[u8; HANDLE_LEN]> {
        (self.data != [0; HANDLE_LEN]).then_some(&self.data)
    }

    /// The number of elements and of bytes, as this process counts.
    pub(super) fn lens_of<T: Pod>(&self) -> Result<(usize, usize)> {
        let beyond = Error::MalformedHandle("it is longer than this process can count");
        let (Ok(len), Ok(exported)) = (usize::try_from(self.len), usize::try_from(self.element)) else {
            return Err(beyond);
        };
        if exported != size_of::<T>() {
            return Err(Error::ElementSize { exported, imported: size_of::<T>() });
        }
        Ok((len, len.checked_mul(exported).ok_or(beyond)?))
    }
}

/// Without the driver's data, which says nothing to a reader.
impl fmt::Debug for ExportedPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportedPointer")
            .field("len", &self.len)
            .field("element_size", &self.element)
            .finish_non_exhaustive()
    }
}

impl<T: Pod, S: StreamHandle> Buffer<T, S> {
    /// Describes the buffer for another process, which must have imported its pool.
    ///
    /// Nothing holds the buffer back afterwards: it must not be freed before all that imported it have released it, and
    /// the other process must not touch it before its allocation has taken place on the home stream; see
    /// [`ImportedPool::import`](crate::ipc::ImportedPool::import).
    ///
    /// # Errors
    /// [`Error::NotShareable`] if the buffer's pool was not made to be exported, [`Error::LoanForgotten`]; else
    /// whatever the driver answers.
    #[doc(alias = "cuMemPoolExportPointer")]
    #[doc(alias = "cudaMemPoolExportPointer")]
    pub fn export(&self) -> Result<ExportedPointer> {
        let (len, element) = (self.len() as u64, size_of::<T>() as u64);
        if self.byte_len() == 0 {
            return Ok(ExportedPointer { data: [0; HANDLE_LEN], address: 0, len, element });
        }
        if self.as_raw() == 0 {
            return Err(Error::LoanForgotten);
        }
        let functions = self.home().driver().functions();
        let data = self.home().context().with_current(|| {
            // SAFETY: the buffer owns the allocation and is borrowed, so it is live.
            unsafe { raw::ipc::mem_pool_export_pointer(functions, self.as_raw()) }.map_err(not_shareable)
        });
        Ok(ExportedPointer { data: data?, address: self.as_raw(), len, element })
    }
}

/// The pool or pointer is live and all else in order, so that the driver can only mean the kind of the pool.
pub(super) fn not_shareable(error: Error) -> Error {
    match error.code() {
        Some(CUresult::CUDA_ERROR_INVALID_VALUE) => Error::NotShareable,
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTER: ExportedPointer =
        ExportedPointer { data: [7; HANDLE_LEN], address: 1 << 20, len: 0x0102_0304, element: 4 };

    #[test]
    fn what_is_written_is_read() {
        for pointer in [POINTER, ExportedPointer { data: [0; HANDLE_LEN], address: 0, len: 0, element: 4 }] {
            assert_eq!(ExportedPointer::from_bytes(&pointer.to_bytes()), Ok(pointer));
        }
        assert_eq!(POINTER.lens_of::<u32>(), Ok((0x0102_0304, 0x0408_0c10)));
        assert_eq!(POINTER.lens_of::<u16>(), Err(Error::ElementSize { exported: 4, imported: 2 }));
    }

    #[test]
    fn bytes_of_another_length_are_refused() {
        let bytes = POINTER.to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(ExportedPointer::from_bytes(&bytes[..len]), Err(Error::MalformedHandle("too short")));
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(ExportedPointer::from_bytes(&longer), Err(Error::MalformedHandle("too long")));
    }

    #[test]
    fn every_changed_bit_of_the_header_is_noticed() {
        for bit in 0..12 * 8 {
            let mut bytes = POINTER.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(ExportedPointer::from_bytes(&bytes), Err(Error::MalformedHandle(_))), "bit {bit}");
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let refused = |pointer: ExportedPointer| {
            assert!(matches!(ExportedPointer::from_bytes(&pointer.to_bytes()), Err(Error::MalformedHandle(_))));
        };
        refused(ExportedPointer { len: u64::MAX, element: 2, ..POINTER });
        refused(ExportedPointer { len: 0, ..POINTER });
        refused(ExportedPointer { data: [0; HANDLE_LEN], ..POINTER });
        refused(ExportedPointer { address: 0, ..POINTER });
    }
}
