//! The file format of traces.

use std::io::{Read, Write};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use crate::{Error, Event, Trace};

/// What a trace begins with, once it is unpacked; the digit is the format's version.
pub(crate) const MAGIC: &[u8] = b"trace1\n";

/// No trace is longer than this when it is unpacked: what claims to be is not read to its end.
const LONGEST: u64 = 1 << 30;

impl Trace {
    /// Reads a trace as [`write`](Self::write) writes it.
    ///
    /// # Errors
    /// Says what is wrong with the file, and at which event; a trace that is returned has passed
    /// [`check`](Self::check).
    pub fn read(name: impl Into<String>, file: impl Read) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        GzDecoder::new(file).take(LONGEST).read_to_end(&mut bytes).map_err(Error::Read)?;
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(Error::NotATrace)?;

        let number = |rest: &mut &[u8], event, what| number(rest).ok_or(Error::Number { event, what });
        let streams = number(&mut rest, 0, "the number of streams")?;
        let streams = u32::try_from(streams).map_err(|_| Error::Number { event: 0, what: "the number of streams" })?;
        let count = number(&mut rest, 0, "the number of events")?;

        // No more room is made than the file has bytes for: each event takes two at least.
        let mut events = Vec::with_capacity(usize::try_from(count).unwrap_or(usize::MAX).min(rest.len() / 2));
        let mut allocated = 0_u32;
        for event in 0.. {
            if event as u64 == count {
                break;
            }
            let head = number(&mut rest, event, "its stream")?;
            let stream = u32::try_from(head >> 1).map_err(|_| Error::Number { event, what: "its stream" })?;
            if head & 1 == 0 {
                let bytes = number(&mut rest, event, "its size")?;
                events.push(Event::Allocate { id: allocated, bytes, stream });
                allocated = allocated.checked_add(1).ok_or(Error::Number { event, what: "its id" })?;
            } else {
                let back = number(&mut rest, event, "its id")?;
                let id = u32::try_from(back).ok().and_then(|back| allocated.checked_sub(back));
                let id = id.filter(|id| *id < allocated).ok_or(Error::Number { event, what: "its id" })?;
                events.push(Event::Free { id, stream });
            }
        }
        if !rest.is_empty() {
            return Err(Error::Trailing);
        }
        let trace = Self { name: name.into(), streams, events };
        trace.check()?;
        Ok(trace)
    }

    /// Writes the trace, without its name. What is packed by gzip is `trace1` and a line feed, then numbers in LEB128:
    /// how many streams, how many events, and for each event twice its stream, plus 1 for a free; then for an
    /// allocation its bytes, and for a free how many allocations ago the one was made that ends, 1 being the last.
    ///
    /// # Errors
    /// The trace does not pass [`check`](Self::check), or the file cannot be written.
    pub fn write(&self, file: impl Write) -> Result<(), Error> {
        self.check()?;
        let mut bytes = MAGIC.to_vec();
        push(&mut bytes, self.streams.into());
        push(&mut bytes, self.events.len() as u64);
        let mut allocated = 0_u64;
        for event in &self.events {
            match *event {
                Event::Allocate { bytes: size, stream, .. } => {
                    push(&mut bytes, u64::from(stream) << 1);
                    push(&mut bytes, size);
                    allocated += 1;
                }
                Event::Free { id, stream } => {
                    push(&mut bytes, (u64::from(stream) << 1) | 1);
                    push(&mut bytes, allocated - u64::from(id));
                }
            }
        }
        let mut packed = GzEncoder::new(file, Compression::best());
        packed.write_all(&bytes).and_then(|()| packed.finish()?.flush()).map_err(Error::Write)
    }
}

/// Takes a number off the front.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        let bits = u64::from(byte & 0x7f);
        // A shift that loses bits would give another number.
        if shift >= 64 || (bits << shift) >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Puts a number on the end.
fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Broken;

    fn small() -> Trace {
        let events = vec![
            Event::Allocate { id: 0, bytes: 1, stream: 0 },
            Event::Allocate { id: 1, bytes: u64::MAX - 1, stream: 300 },
            Event::Free { id: 0, stream: 1 },
            Event::Allocate { id: 2, bytes: 1, stream: 0 },
            Event::Free { id: 2, stream: 0 },
        ];
        Trace { name: "small".into(), streams: 301, events }
    }

    fn written(trace: &Trace) -> Vec<u8> {
        let mut file = Vec::new();
        trace.write(&mut file).unwrap();
        file
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all(bytes).unwrap();
        file.finish().unwrap()
    }

    /// Reads one stream and the events that the numbers make.
    fn read(numbers: &[u64]) -> Result<Trace, Error> {
        let mut bytes = MAGIC.to_vec();
        numbers.iter().for_each(|number| push(&mut bytes, *number));
        Trace::read("numbers", &*packed(&bytes))
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Trace::read("small", &*written(&small())).unwrap(), small());
        let empty = Trace { name: String::new(), streams: 0, events: Vec::new() };
        assert_eq!(Trace::read("", &*written(&empty)).unwrap(), empty);
    }

    #[test]
    fn a_file_cut_short_anywhere_is_refused() {
        let file = written(&small());
        for len in 0..file.len() {
            assert!(matches!(Trace::read("", &file[..len]), Err(Error::Read(_))), "{len} bytes");
        }
        let whole = {
            let mut bytes = Vec::new();
            GzDecoder::new(&*file).read_to_end(&mut bytes).unwrap();
            bytes
        };
        for len in 0..whole.len() {
            let error = Trace::read("", &*packed(&whole[..len])).unwrap_err();
            assert!(matches!(error, Error::NotATrace | Error::Number { .. }), "{len} bytes: {error}");
        }
    }

    #[test]
    fn a_changed_bit_never_gives_another_trace() {
        let file = written(&small());
        let mut refused = 0;
        for bit in 0..file.len() * 8 {
            let mut changed = file.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            match Trace::read("small", &*changed) {
                // Some bits say nothing, as those of the time in gzip's header.
                Ok(trace) => assert_eq!(trace, small(), "bit {bit}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > file.len() * 5, "{refused} of {}", file.len() * 8);
    }

    #[test]
    fn garbage_is_refused() {
        assert!(matches!(Trace::read("", &b"time_us,op,id,bytes,stream\n"[..]), Err(Error::Read(_))));
        assert!(matches!(Trace::read("", &*packed(b"trace2\n\x01\x00")), Err(Error::NotATrace)));
        assert!(matches!(read(&[1, 1, 0, 8, 0]), Err(Error::Trailing)));
        // A claim of more events than there are makes no room for them.
        assert!(matches!(read(&[1, u64::MAX, 0, 8]), Err(Error::Number { event: 1, .. })));
        let mut endless = MAGIC.to_vec();
        endless.extend([0xff; 11]);
        assert!(matches!(Trace::read("", &*packed(&endless)), Err(Error::Number { event: 0, .. })));
    }

    #[test]
    fn impossible_events_are_refused() {
        let broken = |numbers: &[u64]| match read(numbers) {
            Err(Error::Event { event, broken }) => (event, broken),
            other => panic!("{other:?}"),
        };
        assert_eq!(broken(&[1, 3, 0, 8, 1, 1, 1, 1]), (2, Broken::DoubleFree(0)));
        assert_eq!(broken(&[1, 1, 0, 0]), (0, Broken::Empty));
        assert_eq!(broken(&[1, 1, 2, 8]), (0, Broken::Stream { stream: 1, streams: 1 }));
        assert_eq!(broken(&[1, 2, 0, u64::MAX, 0, 1]), (1, Broken::TooMuch));
        // A free of what is allocated later, of what is allocated never, and of nothing.
        for back in [0, 2, u64::MAX] {
            assert!(matches!(read(&[1, 2, 0, 8, 1, back]), Err(Error::Number { event: 1, what: "its id" })), "{back}");
        }
    }

    #[test]
    fn what_cannot_have_happened_is_not_written() {
        let refused = |events: Vec<Event>| {
            let trace = Trace { name: String::new(), streams: 1, events };
            match trace.write(Vec::new()) {
                Err(Error::Event { event, broken }) => (event, broken),
                other => panic!("{other:?}"),
            }
        };
        let allocate = |id| Event::Allocate { id, bytes: 1, stream: 0 };
        let free = |id| Event::Free { id, stream: 0 };
        assert_eq!(refused(vec![free(0), allocate(0)]), (0, Broken::Unknown(0)));
        assert_eq!(refused(vec![allocate(0), free(0), free(0)]), (2, Broken::DoubleFree(0)));
        assert_eq!(refused(vec![allocate(1)]), (0, Broken::Id { id: 1, expected: 0 }));
    }
}
