//! How what is exported is written as bytes: a mark of what it is, a version, and fields of fixed size.

use crate::{Error, Result};

/// Written first; another layout gets another version.
const VERSION: u32 = 1;

/// Fills an array from front to back, least significant byte first.
pub(super) struct Writer<'a>(pub(super) &'a mut [u8]);

impl Writer<'_> {
    pub(super) fn put(&mut self, bytes: &[u8]) {
        // The callers' arrays are as long as their fields; a test writes and reads each.
        if let Some((front, rest)) = core::mem::take(&mut self.0).split_at_mut_checked(bytes.len()) {
            front.copy_from_slice(bytes);
            self.0 = rest;
        }
    }

    pub(super) fn put_header(&mut self, magic: [u8; 8]) {
        self.put(&magic);
        self.put(&VERSION.to_le_bytes());
    }
}

/// Takes fields off the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(Error::MalformedHandle("too short"))?;
        self.0 = rest;
        Ok(*field)
    }

    /// The kind and the version.
    pub(super) fn take_header(&mut self, magic: [u8; 8]) -> Result<()> {
        if self.take()? != magic {
            return Err(Error::MalformedHandle("of another kind"));
        }
        if u32::from_le_bytes(self.take()?) != VERSION {
            return Err(Error::MalformedHandle("of another version of this crate"));
        }
        Ok(())
    }

    /// Nothing may be left.
    pub(super) const fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::MalformedHandle("too long")) }
    }
}
