//! The bytes of device memory, kept for as little of it as was ever written.

use std::{collections::BTreeMap, ops::Range, ptr};

use crate::{args::HostPointer, shared::SharedMemory};

const PAGE: u64 = 16 * 1024;

/// What memory holds after it was allocated or freed.
pub(crate) const POISON: u8 = 0xa5;

#[derive(Debug)]
enum Page {
    Uniform(u8),
    Bytes(Box<[u8]>),
}

impl Page {
    fn bytes(&mut self) -> &mut [u8] {
        if let Self::Uniform(value) = *self {
            *self = Self::Bytes(vec![value; PAGE as usize].into_boxed_slice());
        }
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Uniform(_) => &mut [],
        }
    }
}

/// Device memory by address. What was never written holds poison.
#[derive(Debug)]
pub(crate) struct Backing {
    pages: BTreeMap<u64, Page>,
    /// Memory that other processes have too, by its first address, with its length.
    windows: BTreeMap<u64, (u64, SharedMemory)>,
    scratch: Vec<u8>,
}

/// The part of a range that lies in one page.
struct Piece {
    page: u64,
    within: Range<usize>,
    /// Bytes of the range before this piece.
    done: usize,
}

fn pieces(address: u64, bytes: u64) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    core::iter::from_fn(move || {
        if done >= bytes {
            return None;
        }
        let at = address + done;
        let start = at % PAGE;
        let len = (PAGE - start).min(bytes - done);
        let piece = Piece { page: at / PAGE, within: start as usize..(start + len) as usize, done: done as usize };
        done += len;
        Some(piece)
    })
}

impl Backing {
    pub(crate) const fn new() -> Self {
        Self { pages: BTreeMap::new(), windows: BTreeMap::new(), scratch: Vec::new() }
    }

    /// From now on the addresses from `base` on are that memory.
    pub(crate) fn open_window(&mut self, base: u64, bytes: u64, memory: SharedMemory) {
        self.windows.insert(base, (bytes, memory));
    }

    pub(crate) fn close_window(&mut self, base: u64) {
        self.windows.remove(&base);
    }

    /// The memory whose first address that is.
    pub(crate) fn window(&self, base: u64) -> Option<&SharedMemory> {
        self.windows.get(&base).map(|(_, memory)| memory)
    }

    /// Where the range is, if it lies in memory that other processes have too.
    fn shared(&self, address: u64, bytes: u64) -> Option<HostPointer> {
        let (base, (length, memory)) = self.windows.range(..=address).next_back()?;
        let offset = address - base;
        if offset < *length { memory.at(offset, bytes) } else { None }
    }

    fn page(&mut self, page: u64) -> &mut Page {
        self.pages.entry(page).or_insert(Page::Uniform(POISON))
    }

    /// Copies device memory to the host.
    ///
    /// # Safety
    /// `target` must be valid for writes of `bytes` bytes.
    pub(crate) unsafe fn read(&self, address: u64, target: HostPointer, bytes: u64) {
        if let Some(source) = self.shared(address, bytes) {
            // SAFETY: the window is mapped for that many bytes, and the caller vouches for the target.
            return unsafe { ptr::copy_nonoverlapping(source.0, target.0, bytes as usize) };
        }
        for piece in pieces(address, bytes) {
            let target = target.add(piece.done).0;
            let len = piece.within.len();
            match self.pages.get(&piece.page) {
                Some(Page::Bytes(held)) => {
                    if let Some(held) = held.get(piece.within) {
                        // SAFETY: the piece lies in the range that the caller vouches for.
                        unsafe { ptr::copy_nonoverlapping(held.as_ptr(), target, len) }
                    }
                }
                Some(Page::Uniform(value)) => {
                    // SAFETY: as above.
                    unsafe { ptr::write_bytes(target, *value, len) }
                }
                None => {
                    // SAFETY: as above.
                    unsafe { ptr::write_bytes(target, POISON, len) }
                }
            }
        }
    }

    /// Copies host memory to the device.
    ///
    /// # Safety
    /// `source` must be valid for reads of `bytes` bytes.
    pub(crate) unsafe fn write(&mut self, address: u64, source: HostPointer, bytes: u64) {
        if let Some(target) = self.shared(address, bytes) {
            // SAFETY: the window is mapped for that many bytes, and the caller vouches for the source.
            return unsafe { ptr::copy_nonoverlapping(source.0, target.0, bytes as usize) };
        }
        for piece in pieces(address, bytes) {
            let source = source.add(piece.done).0;
            if let Some(held) = self.page(piece.page).bytes().get_mut(piece.within) {
                // SAFETY: the piece lies in the range that the caller vouches for.
                unsafe { ptr::copy_nonoverlapping(source, held.as_mut_ptr(), held.len()) }
            }
        }
    }

    /// Copies within device memory.
    pub(crate) fn copy(&mut self, target: u64, source: u64, bytes: u64) {
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.resize(PAGE as usize, 0);
        let mut done = 0;
        while done < bytes {
            let len = PAGE.min(bytes - done);
            let chunk = HostPointer(scratch.as_mut_ptr());
            // SAFETY: the scratch space holds a page, and a chunk is no longer than that.
            unsafe {
                self.read(source + done, chunk, len);
                self.write(target + done, chunk, len);
            }
            done += len;
        }
        self.scratch = scratch;
    }

    /// Repeats `pattern`, of `width` bytes.
    pub(crate) fn fill(&mut self, address: u64, bytes: u64, pattern: u32, width: u8) {
        let unit = pattern.to_le_bytes();
        let unit = unit.get(..usize::from(width)).unwrap_or(&unit);
        let uniform = unit.iter().all(|byte| Some(byte) == unit.first());
        let value = unit.first().copied().unwrap_or(0);
        if let Some(target) = self.shared(address, bytes) {
            for (at, value) in (0..bytes as usize).zip(unit.iter().cycle()) {
                // SAFETY: the window is mapped for that many bytes.
                unsafe { target.add(at).0.write(*value) };
            }
            return;
        }
        for piece in pieces(address, bytes) {
            let page = self.page(piece.page);
            if uniform && piece.within.len() as u64 == PAGE {
                *page = Page::Uniform(value);
            } else if let Some(held) = page.bytes().get_mut(piece.within) {
                if uniform {
                    held.fill(value);
                } else {
                    for (byte, pattern) in held.iter_mut().zip(unit.iter().cycle().skip(piece.done % unit.len())) {
                        *byte = *pattern;
                    }
                }
            }
        }
    }

    /// Makes the range hold poison again.
    pub(crate) fn poison(&mut self, address: u64, bytes: u64) {
        if let Some(target) = self.shared(address, bytes) {
            // SAFETY: the window is mapped for that many bytes.
            return unsafe { target.0.write_bytes(POISON, bytes as usize) };
        }
        let whole = address.div_ceil(PAGE)..(address + bytes) / PAGE;
        while let Some(page) =
            (whole.start < whole.end).then(|| self.pages.range(whole.clone()).next().map(|(page, _)| *page)).flatten()
        {
            self.pages.remove(&page);
        }
        let mut edge = |page: u64| {
            let start = address.max(page * PAGE);
            let end = (address + bytes).min((page + 1) * PAGE);
            if start < end
                && !whole.contains(&page)
                && let Some(held) = self.pages.get_mut(&page)
                && let Some(held) = held.bytes().get_mut((start % PAGE) as usize..)
                && let Some(held) = held.get_mut(..(end - start) as usize)
            {
                held.fill(POISON);
            }
        };
        let (first, last) = (address / PAGE, (address + bytes) / PAGE);
        edge(first);
        if last != first {
            edge(last);
        }
    }
}
