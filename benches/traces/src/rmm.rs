//! Reads what RMM's `logging_resource_adaptor` writes.
//!
//! `Thread,Time,Action,Pointer,Size,Stream`, one call a line. Depending on RMM's version addresses come with `0x` or
//! without, and a null pointer as `(nil)`. What was refused by the resource is told by `allocate failure` and did not
//! happen; so did requests of no bytes, for which there is no memory.

use crate::{Broken, Error, Trace, csv, recording::Recording};

/// The first line.
pub const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream";

/// What the log says that is no event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Allocations that failed.
    pub failures: usize,
    /// Allocations and frees of no bytes.
    pub empty: usize,
}

/// Reads a log.
///
/// # Errors
/// [`Error::Line`] for a line that cannot be understood, [`Error::LineEvent`] for what cannot have happened.
pub fn read(name: impl Into<String>, text: &str) -> Result<(Trace, Skipped), Error> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(Error::Line { line: 1, what: format!("should be `{HEADER}`") });
    }
    let mut recording = Recording::default();
    let mut skipped = Skipped::default();
    for (index, text) in lines.enumerate() {
        let line = index + 2;
        let call = call(text).map_err(|what| Error::Line { line, what })?;
        perform(call, &mut recording, &mut skipped).map_err(|broken| Error::LineEvent { line, broken })?;
    }
    let trace = recording.finish(name.into());
    trace.check()?;
    Ok((trace, skipped))
}

enum Action {
    Allocate,
    Fail,
    Free,
}

struct Call<'a> {
    action: Action,
    address: u64,
    bytes: u64,
    stream: &'a str,
}

fn call(line: &str) -> Result<Call<'_>, String> {
    let [_thread, _time, action, pointer, size, stream] = csv::fields(line)?;
    let action = match action {
        "allocate" => Action::Allocate,
        "allocate failure" => Action::Fail,
        "free" => Action::Free,
        _ => return Err(format!("`{action}` is no action of RMM's")),
    };
    Ok(Call { action, address: address(pointer)?, bytes: csv::number(size, "size")?, stream })
}

fn address(pointer: &str) -> Result<u64, String> {
    if pointer == "(nil)" {
        return Ok(0);
    }
    let digits = pointer.strip_prefix("0x").unwrap_or(pointer);
    u64::from_str_radix(digits, 16).map_err(|_| format!("pointer `{pointer}` is no address"))
}

fn perform(call: Call<'_>, recording: &mut Recording, skipped: &mut Skipped) -> Result<(), Broken> {
    match call.action {
        Action::Fail => skipped.failures += 1,
        Action::Allocate | Action::Free if call.bytes == 0 => skipped.empty += 1,
        Action::Allocate => recording.allocate(call.address, call.bytes, call.stream)?,
        Action::Free => recording.free(call.address, call.stream)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    #[test]
    fn a_log_becomes_a_trace() {
        let (trace, skipped) = read("rmm", include_str!("../tests/recordings/rmm.csv")).unwrap();
        let events = vec![
            Event::Allocate { id: 0, bytes: 1024, stream: 0 },
            Event::Allocate { id: 1, bytes: 2_097_152, stream: 1 },
            Event::Free { id: 0, stream: 1 },
            Event::Allocate { id: 2, bytes: 256, stream: 2 },
            Event::Free { id: 2, stream: 2 },
        ];
        assert_eq!(trace, Trace { name: "rmm".into(), streams: 3, events });
        assert_eq!(skipped, Skipped { failures: 1, empty: 2 });
    }

    #[test]
    fn older_logs_write_addresses_without_a_prefix() {
        let log = format!("{HEADER}\n1,00:00:00:000001,allocate,7f30,8,0\n1,00:00:00:000002,free,7f30,8,0\n");
        assert_eq!(read("", &log).unwrap().0.events.len(), 2);
    }

    #[test]
    fn lines_that_say_nothing_are_refused_by_number() {
        for (line, what) in [
            ("1,00:00:00.0,allocate,0x10,8", "5 fields where there should be 6"),
            ("1,00:00:00.0,reallocate,0x10,8,0", "`reallocate` is no action of RMM's"),
            ("1,00:00:00.0,allocate,0xg,8,0", "pointer `0xg` is no address"),
            ("1,00:00:00.0,allocate,0x10,many,0", "size `many` is no number that can stand there"),
        ] {
            let error = read("", &format!("{HEADER}\n{line}\n")).unwrap_err();
            assert_eq!(error.to_string(), format!("line 2: {what}"));
        }
        assert!(matches!(read("", ""), Err(Error::Line { line: 1, .. })));
    }

    #[test]
    fn what_cannot_have_happened_is_refused() {
        let broken = |lines: &[&str]| {
            let lines: String = lines.iter().map(|line| format!("1,00:00:00.0,{line},8,0x0\n")).collect();
            match read("", &format!("{HEADER}\n{lines}")) {
                Err(Error::LineEvent { line, broken }) => (line, broken),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(broken(&["free,0x10"]), (2, Broken::Unknown(0x10)));
        assert_eq!(broken(&["allocate,0x10", "free,0x10", "free,0x10"]), (4, Broken::DoubleFree(0x10)));
        assert_eq!(broken(&["allocate,0x10", "allocate,0x10"]), (3, Broken::Taken(0x10)));
    }
}
