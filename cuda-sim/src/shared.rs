//! Memory that several processes have: behind a file without a name, and mapped in each of them.
//!
//! Pools that can be exported keep their bytes in one, and so do events that can. The first page is a header.

/// What the header begins with: a mark, and words that say what the file is.
pub(crate) const WORDS: usize = 7;

const TAG: [u8; 8] = *b"cupoolIP";

/// The words behind the mark.
pub(crate) fn words(bytes: &[u8; 64]) -> Option<[u64; WORDS]> {
    let (tag, rest) = bytes.split_first_chunk::<8>()?;
    if *tag != TAG {
        return None;
    }
    let mut words = [0; WORDS];
    for (word, chunk) in words.iter_mut().zip(rest.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().ok()?);
    }
    Some(words)
}

/// The counterpart of [`words`].
pub(crate) fn pack(words: [u64; WORDS]) -> [u8; 64] {
    let mut bytes = [0; 64];
    let packed = TAG.into_iter().chain(words.into_iter().flat_map(u64::to_le_bytes));
    for (to, from) in bytes.iter_mut().zip(packed) {
        *to = from;
    }
    bytes
}

/// A number that this process draws once, and no other does.
pub(crate) fn process() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    static DRAWN: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *DRAWN.get_or_init(|| RandomState::new().hash_one(std::process::id()) | 1)
}

pub(crate) use map::SharedMemory;

#[cfg(unix)]
mod map {
    use std::{
        fs::File,
        os::{
            fd::{AsRawFd, BorrowedFd, IntoRawFd},
            unix::fs::FileExt,
        },
        ptr,
        sync::atomic::AtomicU64,
    };

    use super::{WORDS, pack, words};
    use crate::args::HostPointer;

    /// Bytes before the memory itself.
    const HEADER: u64 = 4096;

    /// One such file, mapped.
    #[derive(Debug)]
    pub(crate) struct SharedMemory {
        file: File,
        start: HostPointer,
        mapped: usize,
    }

    impl SharedMemory {
        /// Makes one, with room for that many bytes.
        pub(crate) fn new(header: [u64; WORDS], bytes: u64) -> Option<Self> {
            let file = anonymous()?;
            file.set_len(HEADER + bytes).ok()?;
            file.write_all_at(&pack(header), 0).ok()?;
            Self::map(file)
        }

        /// Maps the one behind a descriptor, which stays the caller's, and answers what its header says.
        pub(crate) fn of_descriptor(file: i32) -> Option<(Self, [u64; WORDS])> {
            if file < 0 {
                return None;
            }
            // SAFETY: the caller passes an open descriptor; one that is not open makes the call fail.
            let borrowed = unsafe { BorrowedFd::borrow_raw(file) };
            Self::of(File::from(borrowed.try_clone_to_owned().ok()?))
        }

        /// Maps the one that another process has open under that number.
        pub(crate) fn of_process(process: u32, file: u32) -> Option<(Self, [u64; WORDS])> {
            let path = format!("/proc/{process}/fd/{file}");
            Self::of(File::options().read(true).write(true).open(path).ok()?)
        }

        fn of(file: File) -> Option<(Self, [u64; WORDS])> {
            let mut bytes = [0; 64];
            file.read_exact_at(&mut bytes, 0).ok()?;
            let header = words(&bytes)?;
            Some((Self::map(file)?, header))
        }

        fn map(file: File) -> Option<Self> {
            let mapped = usize::try_from(file.metadata().ok()?.len()).ok()?;
            let (read, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
            if (mapped as u64) < HEADER {
                return None;
            }
            // SAFETY: a new mapping of an open file, at a place of the system's choice.
            let start = unsafe { libc::mmap(ptr::null_mut(), mapped, read, flags, file.as_raw_fd(), 0) };
            (start != libc::MAP_FAILED).then(|| Self { file, start: HostPointer(start.cast()), mapped })
        }

        /// A descriptor for others, the caller's to close.
        pub(crate) fn descriptor(&self) -> Option<i32> {
            Some(self.file.try_clone().ok()?.into_raw_fd())
        }

        /// The number under which this process has it open.
        pub(crate) fn number(&self) -> u32 {
            self.file.as_raw_fd().cast_unsigned()
        }

        /// The memory from `offset` on, if it holds that many bytes there.
        pub(crate) fn at(&self, offset: u64, bytes: u64) -> Option<HostPointer> {
            let end = HEADER.checked_add(offset)?.checked_add(bytes)?;
            (end <= self.mapped as u64).then(|| self.start.add((HEADER + offset) as usize))
        }

        /// A counter that all processes have; the memory must be at least that long.
        pub(crate) fn counter(&self, index: u64) -> Option<&AtomicU64> {
            let pointer = self.at(8 * index, 8)?;
            // SAFETY: inside the mapping, which lives as long as `self`, aligned, and used as a counter by all.
            Some(unsafe { AtomicU64::from_ptr(pointer.0.cast()) })
        }
    }

    impl Drop for SharedMemory {
        fn drop(&mut self) {
            // SAFETY: mapped with this size, and unmapped only here.
            unsafe { libc::munmap(self.start.0.cast(), self.mapped) };
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn anonymous() -> Option<File> {
        use std::os::fd::FromRawFd;
        // SAFETY: the name is terminated.
        let file = unsafe { libc::memfd_create(c"cupool-sim".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: just opened, and owned by nobody else.
        (file >= 0).then(|| unsafe { File::from_raw_fd(file) })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn anonymous() -> Option<File> {
        use std::sync::atomic::Ordering::Relaxed;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("cupool-sim-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path).ok()?;
        std::fs::remove_file(&path).ok()?;
        Some(file)
    }
}

/// Only Unix has file descriptors: there is none to be had, and none is ever asked anything.
#[cfg(not(unix))]
mod map {
    use std::sync::atomic::AtomicU64;

    use super::WORDS;
    use crate::args::HostPointer;

    #[derive(Debug)]
    pub(crate) enum SharedMemory {}

    impl SharedMemory {
        pub(crate) fn new(_: [u64; WORDS], _: u64) -> Option<Self> {
            None
        }

        pub(crate) fn of_descriptor(_: i32) -> Option<(Self, [u64; WORDS])> {
            None
        }

        pub(crate) fn of_process(_: u32, _: u32) -> Option<(Self, [u64; WORDS])> {
            None
        }

        pub(crate) fn descriptor(&self) -> Option<i32> {
            match *self {}
        }

        pub(crate) fn number(&self) -> u32 {
            match *self {}
        }

        pub(crate) fn at(&self, _: u64, _: u64) -> Option<HostPointer> {
            match *self {}
        }

        pub(crate) fn counter(&self, _: u64) -> Option<&AtomicU64> {
            match *self {}
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn two_mappings_of_one_file_have_one_memory() {
        let header = [1, 2, 3, 4, 5, 6, 7];
        let first = SharedMemory::new(header, 64).unwrap();
        let (second, read) = SharedMemory::of_process(std::process::id(), first.number()).unwrap();
        assert_eq!(read, header);
        first.counter(1).unwrap().store(9, Relaxed);
        drop(first);
        assert_eq!(second.counter(1).unwrap().load(Relaxed), 9);
        assert!(second.counter(8).is_none() && second.at(0, 64).is_some() && second.at(u64::MAX, 1).is_none());
    }

    #[test]
    fn a_file_of_another_kind_is_none() {
        let file = std::fs::File::open("/dev/null").unwrap();
        use std::os::fd::AsRawFd;
        assert!(SharedMemory::of_descriptor(file.as_raw_fd()).is_none());
        assert!(SharedMemory::of_descriptor(-1).is_none());
    }
}
