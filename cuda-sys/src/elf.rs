//! Flaws of a library file that the dynamic linker of Linux does not report.
//!
//! A file that ends before its last segment, such as one left by a download that broke off, is mapped all the same,
//! and kills the process with a bus error when the missing part is read. One for another processor is said not to
//! exist. Whatever else may be wrong the linker says itself.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

/// Where the fields lie in a 64-bit file, and how large the headers are.
const MACHINE: usize = 18;
const PROGRAM_HEADERS: usize = 32;
const PROGRAM_HEADER_SIZE: usize = 54;
const PROGRAM_HEADER_COUNT: usize = 56;
const HEADER: usize = 64;
const SEGMENT_OFFSET: usize = 8;
const SEGMENT_SIZE: usize = 32;
const SEGMENT_HEADER: usize = 56;

/// The bytes that every 64-bit file of this machine's byte order begins with.
const MAGIC: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, if cfg!(target_endian = "little") { 1 } else { 2 }];

/// What is wrong with `file`; `None` if nothing is, or nothing that the linker would not say.
pub(crate) fn flaw(file: &Path) -> Option<Box<str>> {
    let mut file = File::open(file).ok()?;
    let mut header = [0; HEADER];
    file.read_exact(&mut header).ok()?;
    if !header.starts_with(&MAGIC) {
        return None;
    }
    if let Some(own) = own_machine() {
        let machine = u16_at(&header, MACHINE)?;
        if machine != own {
            return Some(format!("built for another processor (ELF machine {machine}, not {own})").into());
        }
    }
    let (end, length) = (end_of_segments(&mut file, &header).ok()??, file.metadata().ok()?.len());
    (length < end).then(|| format!("the file is cut short: it has {length} of at least {end} bytes").into())
}

/// The machine that this program runs on, in the numbers of ELF.
fn own_machine() -> Option<u16> {
    let mut header = [0; HEADER];
    File::open("/proc/self/exe").ok()?.read_exact(&mut header).ok()?;
    u16_at(&header, MACHINE)
}

/// Where the last segment ends; `None` if the headers make no sense.
fn end_of_segments(file: &mut File, header: &[u8; HEADER]) -> io::Result<Option<u64>> {
    let (Some(offset), Some(size), Some(count)) =
        (u64_at(header, PROGRAM_HEADERS), u16_at(header, PROGRAM_HEADER_SIZE), u16_at(header, PROGRAM_HEADER_COUNT))
    else {
        return Ok(None);
    };
    if usize::from(size) != SEGMENT_HEADER {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut end = 0;
    for _ in 0..count {
        let mut segment = [0; SEGMENT_HEADER];
        file.read_exact(&mut segment)?;
        let bounds = u64_at(&segment, SEGMENT_OFFSET).zip(u64_at(&segment, SEGMENT_SIZE));
        let Some(this) = bounds.and_then(|(offset, size)| offset.checked_add(size)) else { return Ok(None) };
        end = end.max(this);
    }
    Ok(Some(end))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    /// What is said of this test program after `change`.
    fn flaw_after(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Option<Box<str>> {
        let mut bytes = fs::read(env::current_exe().unwrap()).unwrap();
        change(&mut bytes);
        let path = env::temp_dir().join(format!("cupool-elf-{}-{name}", std::process::id()));
        fs::write(&path, &bytes).unwrap();
        let said = flaw(&path);
        fs::remove_file(&path).unwrap();
        said
    }

    #[test]
    fn a_whole_file_for_this_machine_has_no_flaw() {
        assert_eq!(flaw_after("whole", |_| {}), None);
    }

    #[test]
    fn a_file_that_ends_within_a_segment_is_cut_short() {
        for length in [4096, 100_000] {
            let said = flaw_after("short", |bytes| bytes.truncate(length)).unwrap();
            assert!(said.starts_with(&format!("the file is cut short: it has {length} of at least ")), "{said}");
        }
    }

    #[test]
    fn a_file_for_another_machine_is_told_apart() {
        let said = flaw_after("machine", |bytes| bytes[MACHINE] ^= 1).unwrap();
        assert!(said.starts_with("built for another processor (ELF machine "), "{said}");
    }

    #[test]
    fn what_the_linker_reports_is_left_to_it() {
        assert_eq!(flaw_after("empty", Vec::clear), None);
        assert_eq!(flaw_after("start", |bytes| bytes.truncate(HEADER)), None);
        assert_eq!(flaw_after("text", |bytes| *bytes = b"no library".repeat(100)), None);
        assert_eq!(flaw_after("class", |bytes| bytes[4] = 1), None);
        assert_eq!(flaw_after("overflow", |bytes| bytes[HEADER + SEGMENT_OFFSET..][..8].fill(0xff)), None);
        assert_eq!(flaw(Path::new("/no such file")), None);
        assert_eq!(flaw(Path::new("/")), None);
    }
}
